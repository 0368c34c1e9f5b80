/** Token buckets in memory: the limiter that verifiers use by default. Port: src/contracts/limiter.ts. */
import { KeystileError } from "../../contracts/errors.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import { type Check, checkOptions, integer } from "../../lib/check-options.js";
import { assertCheck, rateMemo } from "./bucket.js";
import { BucketTable } from "./bucket-table.js";
import type { Place } from "./bucket-rows.js";
import { createTaking } from "./taking.js";

const DEFAULT_SIZE = 1_000_000;
/** A Map holds at most 2^24 entries. */
const MAX_SIZE = 10_000_000;

/** Options of {@link memoryLimiter}. */
export interface MemoryLimiterOptions {
  /**
   * Most buckets kept, 1…10_000_000, default 1_000_000. A bucket takes 150 bytes beside its name, and 150 more with an
   * override. At most half of the buckets may be of ad hoc limits.
   */
  readonly size?: number;
}

const OPTIONS = { size: integer(1, MAX_SIZE) } as const satisfies Record<keyof MemoryLimiterOptions, Check>;

/** A limiter with synchronous results. */
export interface MemoryLimiter extends Limiter {
  /**
   * Takes tokens according to limiter clauses 1–9.
   * @throws RangeError if a number of a check is not an integer from 0 to 2^53 − 1, a name has more than 2,048 UTF-16
   *   units, or `now` is not finite
   * @throws KeystileError LIMITER_UNAVAILABLE after `close`
   */
  take(checks: readonly LimitCheck[], now: number): readonly LimitVerdict[];
  /** Drops all buckets; `take` throws afterwards. A second call does nothing. */
  close(): void;
  /** Number of buckets kept. */
  size(): number;
  /** Counts since the limiter was created. */
  counters(): LimiterCounters;
}

/** The limiter as verifications use it. */
export interface PlacedLimiter extends MemoryLimiter {
  /**
   * Takes one token from the bucket at a place, without the arrays and the check of {@link MemoryLimiter.take}: over
   * 4,096 keys in use a verification takes a sixth less.
   * @returns an object that the next take overwrites; undefined: the place has no bucket of this size, and nothing was
   *   taken
   */
  takeAt(place: Place, size: LimitSize, now: number): LimitVerdict | undefined;
}

/**
 * Token buckets in memory, exact within the process and lost with it: n processes grant n times a limit, and a restart
 * starts with full buckets (`sqliteLimiter` of `keystile/sqlite` shares them).
 *
 * Memory is bounded by `size`. Full buckets that were unused for a minute are dropped as calls come in, without timers.
 * At the bound a new bucket replaces a full one, or else the least used of a few; a refusing bucket, with less than one
 * whole token left, is not evicted. If all of those few refuse, the new check is refused (`remaining` 0, `reset` its
 * duration): it fails closed. Ad hoc limits may use only half of the buckets, so that a flood of them cannot lock out
 * the limits of keys.
 *
 * Workspaces share the buckets fairly. A workspace below its equal share replaces a bucket of the workspace that holds
 * most, even a refusing one if all those examined refuse. A workspace that holds its share, or more, replaces its own.
 *
 * Time is the latest `now` of any call: if the clock steps back, time stands still.
 * @throws TypeError or RangeError naming the option
 * @remarks a take is O(1) per check; a take that doubles the table takes up to 100 ms near a million buckets
 */
export function memoryLimiter(options: MemoryLimiterOptions = {}): MemoryLimiter {
  const { take, close, size, counters } = placedLimiter(options);
  return { take, close, size, counters };
}

/** {@link memoryLimiter} for verifiers. */
export function placedLimiter(options: MemoryLimiterOptions = {}): PlacedLimiter {
  checkOptions(options, OPTIONS);
  const { size = DEFAULT_SIZE } = options;
  const table = new BucketTable(size);
  const takeAll = createTaking(table, rateMemo());
  let latest = -Infinity;
  let closed = false;

  const begin = (now: number): void => {
    if (closed) throw new KeystileError("LIMITER_UNAVAILABLE", "The limiter is closed.");
    if (!Number.isFinite(now)) throw new RangeError("now must be a finite number of milliseconds");
    if (now >= latest + 1) table.sweep((latest = Math.floor(now)));
  };

  return {
    takeAt(place, limit, now) {
      begin(now);
      return table.rows.takeOne(place, limit, latest);
    },
    take(checks, now) {
      for (const check of checks) assertCheck(check);
      begin(now);
      return takeAll(checks, latest);
    },
    close() {
      closed = true;
      table.clear();
    },
    size: () => table.held(false),
    counters: () => ({ ...table.counters }),
  };
}
