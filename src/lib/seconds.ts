/**
 * Times in seconds where milliseconds are asked for. 0 is the same instant in both.
 *
 * Why this bound: below it milliseconds mean a time before March 1973, and seconds any time up to the year 5138.
 */
export const MIN_TIME_MS = 100_000_000_000;

/** What is wrong with a time that looks like seconds, and the same in milliseconds; `undefined`: nothing. */
export function explainSeconds(time: unknown): { readonly message: string; readonly fix: string } | undefined {
  if (typeof time !== "number" || !(time > 0 && time < MIN_TIME_MS)) return undefined;
  return { message: "must be in milliseconds, not seconds", fix: `did you mean ${time * 1_000}?` };
}
