/**
 * Times and lengths of time in seconds where milliseconds are asked for. 0 is the same in both.
 *
 * Why these bounds: below the first, milliseconds mean a time before March 1973, and seconds any time up to the year
 * 5138. No stored limit has a shorter window than the second.
 */
export const MIN_TIME_MS = 100_000_000_000;
const MIN_LENGTH_MS = 1_000;
/** September 2001. */
const MIN_SECONDS = 1_000_000_000;

/** A problem, and how to mend it. */
export interface Seconds {
  readonly message: string;
  readonly fix: string;
}

/** What is wrong with a time that looks like seconds, and the same in milliseconds; `undefined`: nothing. */
export const explainSeconds = below(MIN_TIME_MS, "must be in milliseconds, not seconds");
/** The same of a time that may be any of the first days of 1970, as where a program's tests count from there. */
export const explainLate = (time: unknown) => (Number(time) < MIN_SECONDS ? undefined : explainSeconds(time));
/** The same of a length of time. */
export const explainShort = below(MIN_LENGTH_MS, `must be in milliseconds, ${MIN_LENGTH_MS} at least`);

function below(min: number, message: string) {
  return (value: unknown): Seconds | undefined => {
    if (typeof value !== "number" || !(value > 0 && value < min)) return undefined;
    return { message, fix: `did you mean ${value * 1_000}?` };
  };
}

/** Where the contract takes seconds, in a request or each of its `keys`: times, lengths, and lists with lengths. */
const TAKEN = {
  expires: explainSeconds,
  expiration: explainShort,
  ratelimits: (limits: unknown) =>
    Array.isArray(limits) ? limits.map((limit) => explainShort(property(limit, "duration"))).find(Boolean) : undefined,
} as const;

/** The first time or length of such a request that looks like seconds. */
export function secondsIn(body: unknown): (Seconds & { readonly name: string }) | undefined {
  const keys = property(body, "keys");
  for (const part of Array.isArray(keys) ? [body, ...(keys as unknown[])] : [body])
    for (const [name, explainField] of Object.entries(TAKEN)) {
      const fault = explainField(property(part, name));
      if (fault !== undefined) return { name, ...fault };
    }
  return undefined;
}

/** As milliseconds later than the year 5138, as microseconds any time from March 1973 on. */
const MIN_MICROSECONDS = 100_000_000_000_000;

function explainMicroseconds(time: unknown): Seconds | undefined {
  if (typeof time !== "number" || time < MIN_MICROSECONDS) return undefined;
  const message = "must be in milliseconds, not microseconds";
  return { message, fix: `did you mean ${Math.floor(time / 1_000)}?` };
}

/**
 * The times of a key to be imported that look like seconds, which would make it EXPIRED at once, or like microseconds,
 * with which it would never expire.
 */
export function wrongTimesInKey(key: unknown): readonly (Seconds & { readonly name: string })[] {
  return ["expires", "createdAt"].flatMap((name) => {
    const time = property(key, name);
    const fault = explainSeconds(time) ?? explainMicroseconds(time);
    return fault === undefined ? [] : [{ name, ...fault }];
  });
}

function property(value: unknown, name: string): unknown {
  return (value as Readonly<Record<string, unknown>> | null | undefined)?.[name];
}
