/** The Limiter port: who may take how many tokens now. Types only. Rulings C2–C4. */
import type { MaybePromise } from "./types.js";

/** How much a limit lets through. */
export interface LimitSize {
  /** Tokens that fit, ≥ 0; as given, not brought into the schema's bounds. */
  readonly limit: number;
  /** Milliseconds in which an empty bucket fills, ≥ 0; 0: always full. */
  readonly duration: number;
}

/** One check of one bucket. */
export interface LimitCheck extends LimitSize {
  /** Names the bucket: its owner's id and the limit's name. */
  readonly bucket: string;
  /** Tokens to take, ≥ 0. */
  readonly cost: number;
  /** Its limit is known by the request alone (ruling C5): together these leave room for the others. */
  readonly isAdHoc?: boolean | undefined;
  /** If `limit` and `duration` are overrides: the size that the limit itself has. */
  readonly configured?: LimitSize | undefined;
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
 * Token buckets. The contract (`test/ratelimit/suite.ts` tries each clause on every limiter):
 *  1. All or nothing: if any check of a call is exceeded, no bucket changes.
 *  2. A bucket is full at first sight and refills continuously at `limit / duration`.
 *  3. Never more than `limit` plus the refill in any stretch of time; cost above `limit` is always refused.
 *  4. Cost 0 takes nothing and passes.
 *  5. A different `limit` or `duration` for a bucket leaves the tokens already used in place; what is taken with it is used up for
 *     `own` too, and comes back there at that speed.
 *  6. Two checks of one bucket in a call must fit together.
 *  7. A clock that steps back mints nothing.
 *  8. Memory is bounded, and no flood makes it forget a bucket that still refuses; ad hoc limits alone cannot use it up.
 */
export interface Limiter {
  /** One verdict a check, in order. */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<readonly LimitVerdict[]>;
  /** Ends it. For the program that made it: keystile never closes a limiter it was given. */
  close?(): MaybePromise<void>;
}
