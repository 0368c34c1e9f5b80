/** Token buckets in memory: the limiter that verifiers use by default. Port: src/contracts/limiter.ts. */
import { KeystileError } from "../../contracts/errors.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import { type Check, checkOptions, integer } from "../../lib/check-options.js";
import {
  assertCheck,
  adopt,
  type Bucket,
  charge,
  firstOf,
  fits,
  type Rate,
  rateIn,
  rateMemo,
  verdictOf,
} from "./bucket.js";
import { BucketTable, type NewBucket, NONE } from "./bucket-table.js";
import type { Place } from "./bucket-rows.js";

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
   * @returns undefined: the place has no bucket of this size, and nothing was taken
   */
  takeAt(place: Place, size: LimitSize, now: number): LimitVerdict | undefined;
}

/** A bucket of the current call. */
interface CalledBucket extends NewBucket, Bucket {
  /** {@link NONE}: the bucket is full, and not in the table. */
  readonly row: number;
  /** Tokens that the call's checks are about to take. */
  pending: number;
}

/** The tokens that one check of a call takes, and whether its limit is exceeded. */
interface Reservation {
  readonly bucket: CalledBucket;
  readonly rate: Rate;
  /** The limit's configured rate; equal to `rate` without an override. */
  readonly configured: Rate | undefined;
  readonly cost: number;
  readonly exceeded: boolean;
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
  const rateOf = rateMemo();
  /** The buckets of the current call, by row, or by name if they have no row. */
  const called = new Map<number | string, CalledBucket>();
  const isPending = (row: number): boolean => (called.get(row)?.pending ?? 0) > 0;
  let latest = -Infinity;
  let closed = false;

  const begin = (now: number): void => {
    if (closed) throw new KeystileError("LIMITER_UNAVAILABLE", "The limiter is closed.");
    if (!Number.isFinite(now)) throw new RangeError("now must be a finite number of milliseconds");
    if (now >= latest + 1) table.sweep((latest = Math.floor(now)));
  };

  const bucketOf = (check: LimitCheck): CalledBucket => {
    const { bucket: name, limit, duration, workspaceId = "", isAdHoc = false } = check;
    const row = table.find(check);
    const id = row === NONE ? name : row;
    const known = called.get(id);
    if (known !== undefined) return known;
    const { at, rate, used, next } =
      row === NONE ? { at: latest, rate: rateOf(limit, duration), used: 0, next: undefined } : table.read(row);
    const bucket: CalledBucket = { at, rate, used, next, row, pending: 0, name, workspaceId, isAdHoc };
    called.set(id, bucket);
    return bucket;
  };

  /** The rate of a limit: most buckets already have it. */
  const rateFor = (bucket: Bucket, { limit, duration }: LimitSize): Rate =>
    rateIn(bucket, limit, duration) ?? rateOf(limit, duration);

  /** First phase: decides whether a check fits. Its tokens become pending, but are not taken yet. */
  const reserve = (check: LimitCheck): Reservation => {
    const { cost } = check;
    const bucket = bucketOf(check);
    const rate = rateFor(bucket, check);
    const configured = check.configured && rateFor(bucket, check.configured);
    if (adopt(bucket, rate, configured, latest) && bucket.row !== NONE) table.write(bucket.row, bucket);
    const exceeded = !fits(bucket, rate, cost, bucket.pending, latest);
    if (cost > 0 && !exceeded) {
      // With a duration of 0 nothing stays used: only another rate of the call makes this a bucket to keep.
      const isOpen = bucket.row === NONE && (bucket.pending === 0 || bucket.rate.unitsPerToken === 0);
      if (isOpen) bucket.rate = firstOf(rate, configured);
      bucket.pending += cost;
    }
    return { bucket, rate, configured, cost, exceeded };
  };

  /** Second phase: takes the pending tokens, if there is space for the new buckets. */
  const commit = (reservations: readonly Reservation[]): boolean => {
    const added: CalledBucket[] = [];
    for (const bucket of called.values()) if (isNew(bucket)) added.push(bucket);
    if (added.length > 0 && !table.makeSpace(added, isPending, latest)) return false;
    for (const { bucket, rate, configured, cost } of reservations)
      if (cost > 0) charge(bucket, rate, cost, latest, configured);
    // Written before new buckets are added: adding drops full buckets, and these are no longer full.
    for (const bucket of called.values())
      if (bucket.row !== NONE && bucket.pending > 0) table.write(bucket.row, bucket);
    for (const bucket of added) table.add(bucket, bucket, latest);
    return true;
  };

  /** The verdict of a check. If there is no space for new buckets, their checks fail closed. */
  const toVerdict = ({ bucket, rate, cost, exceeded }: Reservation, hasSpace: boolean): LimitVerdict =>
    !hasSpace && cost > 0 && isNew(bucket)
      ? { exceeded: true, remaining: 0, reset: rate.duration }
      : verdictOf(bucket, rate, exceeded, latest);

  return {
    takeAt(place, limit, now) {
      begin(now);
      return table.rows.takeOne(place, limit, latest);
    },
    take(checks, now) {
      for (const check of checks) assertCheck(check);
      begin(now);
      // Created with their length: an array that grows from empty allocates 17 elements.
      const reservations = new Array<Reservation>(checks.length);
      const verdicts = new Array<LimitVerdict>(checks.length);
      const before = table.bucketsDisplaced;
      try {
        let fit = true;
        for (let i = 0; i < checks.length; i++) {
          const reservation = reserve(checks[i] as LimitCheck);
          reservations[i] = reservation;
          if (reservation.exceeded) fit = false;
        }
        const hasSpace = !fit || commit(reservations);
        for (let i = 0; i < verdicts.length; i++) verdicts[i] = toVerdict(reservations[i] as Reservation, hasSpace);
      } finally {
        called.clear();
      }
      const displaced = table.bucketsDisplaced - before;
      if (displaced > 0) verdicts[0] = { ...(verdicts[0] as LimitVerdict), displaced };
      return verdicts;
    },
    close() {
      closed = true;
      table.clear();
    },
    size: () => table.count,
    counters: () => ({ newcomersRefused: table.newcomersRefused, bucketsDisplaced: table.bucketsDisplaced }),
  };
}

/** Whether a bucket must be added. A bucket used only with a duration of 0 is always full, and need not be. */
const isNew = ({ row, pending, rate }: CalledBucket): boolean => row === NONE && pending > 0 && rate.unitsPerToken > 0;
