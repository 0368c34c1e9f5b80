/** The Limiter port: token buckets. Types only. */
import type { MaybePromise } from "./types.js";

/** The size of a rate limit. */
export interface LimitSize {
  /** Capacity in tokens, ≥ 0; as configured or requested, not clamped to the bounds of responses. */
  readonly limit: number;
  /** Milliseconds in which an empty bucket fills, ≥ 0; 0: the bucket is always full. */
  readonly duration: number;
}

/** One check of one bucket. */
export interface LimitCheck extends LimitSize {
  /** The bucket's name: its owner's id and the limit's name. */
  readonly bucket: string;
  /** Tokens to take, ≥ 0. */
  readonly cost: number;
  /**
   * The workspace of the bucket: where workspaces share bounded memory, each has its share. Absent: all such buckets
   * count as those of one more workspace.
   */
  readonly workspaceId?: string | undefined;
  /**
   * What keeps buckets together that one call may take from: the id of the key's identity, or else of the key that the
   * buckets are named after. A limiter that spreads over several servers keeps a shard on one of them, and takes checks
   * of one shard in one step; others ignore it. The same for every check of a bucket. Absent: the bucket is by itself.
   */
  readonly shard?: string | undefined;
  /** The limit exists only in this request. Ad hoc limits together must leave space for the others. */
  readonly isAdHoc?: boolean | undefined;
  /**
   * The configured size of the limit, of which `limit` and `duration` may be overrides. Absent: none is configured, and
   * they are the request's own. The same for all checks of a bucket in one call.
   */
  readonly configured?: LimitSize | undefined;
}

/** The result of one check. */
export interface LimitVerdict {
  readonly exceeded: boolean;
  /** Whole tokens left after the call, ≥ 0. When any check of the call was exceeded, the tokens as they are. */
  readonly remaining: number;
  /** Milliseconds until the bucket is full, ≥ 0, not rounded: the wait after a refusal is made of it. */
  readonly reset: number;
  /**
   * Refusing buckets of another workspace that were dropped to make space for new buckets of this call. Absent: none.
   */
  readonly displaced?: number | undefined;
}

/** What happened when the limiter's memory was full, since the limiter was created. */
export interface LimiterCounters {
  /** New buckets that were refused: their workspace's share was full of buckets that still refuse. */
  readonly newcomersRefused: number;
  /** Refusing buckets that were dropped to make space for a workspace below its share. */
  readonly bucketsDisplaced: number;
}

/**
 * Token buckets. The contract (`limiterSuite` of `keystile/testing` tests each clause on any limiter):
 *  1. All or nothing: if any check of a call is exceeded, no bucket changes. Also of calls that are in flight at once.
 *  2. A new bucket is full and refills continuously at `limit / duration`.
 *  3. Any period grants at most `limit` plus the refill of that period, however many calls are in flight at once; a
 *     cost above `limit` is always refused.
 *  4. A cost of 0 takes nothing and passes.
 *  5. Using a different `limit` or `duration` for a bucket keeps the tokens already used. What is used drains at the
 *     `configured` rate. A rate that was configured anew drains it from the first call on that brings it, whatever
 *     becomes of that call. An override, and a rate where none is configured, count for their own checks alone: what
 *     is used drains for these at their own rate, from the first such check on. What is taken with an override is also
 *     used up for `configured`, down to an empty bucket, and refills there at the configured rate.
 *  6. Two checks of one bucket in a call must fit together.
 *  7. A clock that steps back grants nothing.
 *  8. Memory is bounded, and no flood of names evicts a bucket of its own workspace that still refuses; ad hoc limits
 *     alone cannot use all of it. A workspace that holds less than its equal share is let in, whatever the others hold.
 *  9. The wait is known: `reset − (limit − cost) × duration / limit` milliseconds after a refusal, rounded up, at least
 *     0, the same call passes, if no other was made on its buckets; a millisecond earlier it does not. It is the
 *     longest such wait of the checks that were exceeded. `cost` includes what earlier checks of the call cost the same
 *     bucket. Where it is above `limit`, no wait helps.
 */
export interface Limiter {
  /**
   * One verdict per check, in order.
   * @param now Unix time, milliseconds
   */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<readonly LimitVerdict[]>;
  /** For `counters()` of a verifier and for metrics; absent: the limiter counts nothing. */
  counters?(): LimiterCounters;
  /** Closes the limiter. For the program that created it: keystile never closes a limiter that it was given. */
  close?(): MaybePromise<void>;
}
