/**
 * The header fields `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10: lists of quoted names
 * with parameters (RFC 9651), and the older `X-RateLimit-*`.
 */
import type { VerifyKeyRatelimitData } from "../contracts/types.js";

/** Header names and values. */
export type Headers = Readonly<Record<string, string>>;

/**
 * @param limits as in a result; of several with one name the last counts, since a name may stand in a field once
 * @param legacy also `X-RateLimit-Limit`, `-Remaining` and `-Reset` (Unix time, seconds) of the tightest limit
 * @param now Unix time, milliseconds
 */
export function ratelimitFields(
  limits: readonly VerifyKeyRatelimitData[] | undefined,
  legacy: boolean,
  now: () => number,
): Headers {
  if (limits === undefined || limits.length === 0) return {};
  const byName = new Map(limits.map((limit) => [quote(limit.name), limit]));
  const field = (item: (name: string, limit: VerifyKeyRatelimitData) => string) =>
    [...byName].map(([name, limit]) => item(name, limit)).join(", ");
  return {
    "RateLimit-Policy": field((name, { limit, duration }) => `${name};q=${limit};w=${toSeconds(duration)}`),
    RateLimit: field((name, { remaining, reset }) => `${name};r=${remaining};t=${toSeconds(reset)}`),
    ...(legacy && legacyFields(limits, now())),
  };
}

function legacyFields(limits: readonly VerifyKeyRatelimitData[], now: number): Headers {
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

/** A structured-field string holds printable ASCII alone: other characters, and `%`, are percent-encoded. */
function quote(name: string): string {
  const ascii = name.toWellFormed().replace(/[^ -~]|%/gu, (character) => encodeURIComponent(character));
  return `"${ascii.replace(/["\\]/g, "\\$&")}"`;
}
