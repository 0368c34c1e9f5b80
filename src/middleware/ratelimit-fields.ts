/**
 * The header fields `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10: lists of quoted
 * names with parameters (RFC 9651), and the older `X-RateLimit-*`.
 */
import type { VerifyKeyRatelimitData } from "../contracts/types.js";

/** Header names and values. */
export type HeaderFields = Readonly<Record<string, string>>;

/**
 * Fields besides others, which come first.
 * @param limits as in a result; of several with one name the last counts, since a name may stand in a field once
 * @param legacy also `X-RateLimit-Limit`, `-Remaining` and `-Reset` (Unix time, seconds) of the tightest limit
 * @param now Unix time, milliseconds
 */
export function withRatelimitFields(
  others: HeaderFields,
  limits: readonly VerifyKeyRatelimitData[] | undefined,
  legacy: boolean,
  now: () => number,
): HeaderFields {
  if (limits === undefined || limits.length === 0) return others;
  const byName = new Map(limits.map((limit) => [limit.name, limit]));
  let [policies, states] = ["", ""];
  for (const { name, limit, duration, remaining, reset } of byName.values()) {
    const [item, comma] = [quote(name), policies === "" ? "" : ", "];
    policies += `${comma}${item};q=${limit};w=${toSeconds(duration)}`;
    states += `${comma}${item};r=${remaining};t=${toSeconds(reset)}`;
  }
  const fields = { ...others, "RateLimit-Policy": policies, RateLimit: states };
  return legacy ? { ...fields, ...legacyFields(limits, now()) } : fields;
}

function legacyFields(limits: readonly VerifyKeyRatelimitData[], now: number): HeaderFields {
  const [tightest] = limits.toSorted(
    (a, b) => Number(b.exceeded) - Number(a.exceeded) || a.remaining - b.remaining || b.reset - a.reset,
  );
  const { limit, remaining, reset } = tightest as VerifyKeyRatelimitData;
  return {
    "X-RateLimit-Limit": `${limit}`,
    "X-RateLimit-Remaining": `${remaining}`,
    "X-RateLimit-Reset": `${toSeconds(now + reset)}`,
  };
}

/** Seconds, rounded up, as `Retry-After` counts them. */
export function toSeconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** Printable ASCII without quotes, backslashes and `%`. */
const PLAIN = /^[ !#$&-[\]-~]*$/;

/** A structured-field string holds printable ASCII alone: other characters, and `%`, are percent-encoded. */
function quote(name: string): string {
  if (PLAIN.test(name)) return `"${name}"`;
  const ascii = name.toWellFormed().replace(/[^ -~]|%/gu, (character) => encodeURIComponent(character));
  return `"${ascii.replace(/["\\]/g, "\\$&")}"`;
}
