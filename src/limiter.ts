/** The Limiter port: who may take how many tokens now. Types only. Rulings C2–C4. */
import type { MaybePromise } from "./types.js";

/** One check of one bucket. */
export interface LimitCheck {
  /** Names the bucket: its owner's id and the limit's name. */
  readonly bucket: string;
  /** Tokens that fit, ≥ 0; as given, not brought into the schema's bounds. */
  readonly limit: number;
  /** Milliseconds in which an empty bucket fills, ≥ 0; 0: always full. */
  readonly duration: number;
  /** Tokens to take, ≥ 0. */
  readonly cost: number;
  /**
   * These four are the limiter's own, for a caller that keeps the check: what spares it the look-up when the check comes again.
   * −1, two zeros and no bucket to begin with; without `memo` nothing is written. They cost no objects. Several limiters may see one
   * check, and a check may be copied for another bucket: each limiter must judge what it finds before it trusts it.
   */
  memo?: number | undefined;
  /** The bucket that the memo tells of. */
  memoOf?: string | undefined;
  memoOne?: number | undefined;
  memoTwo?: number | undefined;
}

/** The answer to one check. */
export interface LimitVerdict {
  readonly exceeded: boolean;
  /** Whole tokens left after the call, ≥ 0; as they stand when anything was exceeded. */
  readonly remaining: number;
  /** Milliseconds until the bucket is full, ≥ 0. */
  readonly reset: number;
}

/**
 * Token buckets. The contract (`test/limiters/suite.ts` tries each clause on every limiter):
 *  1. All or nothing: if any check of a call is exceeded, no bucket changes.
 *  2. A bucket is full at first sight and refills continuously at `limit / duration`.
 *  3. Never more than `limit` plus the refill in any stretch of time; cost above `limit` is always refused.
 *  4. Cost 0 takes nothing and passes.
 *  5. A different `limit` or `duration` for a bucket leaves the tokens already used in place.
 *  6. Two checks of one bucket in a call must fit together.
 *  7. A clock that steps back mints nothing.
 *  8. Memory is bounded, and no flood makes it forget a bucket that still refuses.
 */
export interface Limiter {
  /** One verdict a check, in order. */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<readonly LimitVerdict[]>;
  close(): MaybePromise<void>;
}
