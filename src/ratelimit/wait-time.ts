/** How long a refused call must wait until its rate limits let the same call pass. */
import type { LimitSize } from "../contracts/limiter.js";
import { toRate } from "./memory/bucket.js";

/** One check of a refused call, with the limiter's own numbers, not those of a response. */
export interface RefusedCheck extends LimitSize {
  /** Checks of one bucket must fit together. */
  readonly bucket: string;
  /** Tokens that the call asks for. */
  readonly cost: number;
  readonly exceeded: boolean;
  /** Milliseconds until the bucket is full. */
  readonly reset: number;
}

/**
 * Milliseconds until a bucket holds `cost` tokens: `reset − (limit − cost) × duration / limit`, rounded up, ≥ 0. Exact,
 * since it counts in the units of the bucket.
 * @param reset milliseconds until it is full; of a rounded one the wait is up to 1 ms too long
 * @returns undefined: it never holds that many
 */
export function waitFor({ limit, duration }: LimitSize, cost: number, reset: number): number | undefined {
  if (cost > limit) return undefined;
  const { unitsPerToken, drainPerMs } = toRate(limit, duration);
  if (cost === 0 || unitsPerToken === 0) return 0;
  const used = Math.round(reset * drainPerMs);
  return Math.max(0, Math.ceil((used - (limit - cost) * unitsPerToken) / drainPerMs));
}

/**
 * Milliseconds until the same call could pass: the longest wait among the buckets that refused, where each check needs
 * its own cost and those of the checks of this bucket before it.
 * @returns undefined: waiting does not help, because a cost exceeds its limit
 */
export function retryAfterOf(checks: readonly RefusedCheck[]): number | undefined {
  const pending = new Map<string, number>();
  for (const { bucket, exceeded } of checks) if (exceeded) pending.set(bucket, 0);
  let longest = 0;
  for (const check of checks) {
    const before = pending.get(check.bucket);
    if (before === undefined || check.cost === 0) continue;
    const cost = before + check.cost;
    pending.set(check.bucket, cost);
    const wait = waitFor(check, cost, check.reset);
    if (wait === undefined) return undefined;
    longest = Math.max(longest, wait);
  }
  return longest;
}
