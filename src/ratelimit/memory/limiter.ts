/** Token buckets in the memory of this process. Port src/contracts/limiter.ts, rulings C2–C4, C6. Knows no keys; time is what each call says. */
import { KeystileError } from "../../contracts/errors.js";
import type { LimitCheck, Limiter, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import { type Check, checkOptions, integer } from "../../lib/check-options.js";
import { NONE } from "../../lib/fingerprint-index.js";
import type { BucketHint } from "./bucket-hint.js";
import { type BucketFingerprint, BucketTable } from "./bucket-table.js";
import { type Bucket, charge, firstOf, fits, type Rate, rateMemo, verdictOf } from "./bucket.js";

const DEFAULT_SIZE = 1_000_000;
/** Beyond it a table would double past what is wise to ask of one array. */
const LARGEST_SIZE = 10_000_000;
/** Checks of a call that are compared each with each. */
const MAX_PAIRWISE_CHECKS = 8;

/** Options of {@link memoryLimiter}. */
export interface MemoryLimiterOptions {
  /**
   * The most buckets kept, 1…10_000_000, default 1_000_000. One takes 53 to 97 bytes outside the heap, names not kept; up
   * to 240 with a limit that no other has, and 710 with overrides. Ad hoc limits (ruling C5) have half of them.
   */
  readonly size?: number;
}

const OPTIONS = { size: integer(1, LARGEST_SIZE) } as const satisfies Record<keyof MemoryLimiterOptions, Check>;

/** A limiter that answers at once. */
export interface MemoryLimiter extends Limiter {
  /**
   * Takes tokens as limiter clauses 1–8 say.
   * @throws RangeError when a number of a check is no integer from 0 to 2^53 − 1, a name has more than 2,048 UTF-16 units, or `now` is
   *   not finite
   * @throws KeystileError LIMITER_UNAVAILABLE after `close`
   */
  take(checks: readonly LimitCheck[], now: number): readonly LimitVerdict[];
  /** Forgets all buckets; `take` throws from then on. A second call does nothing. */
  close(): void;
  /** Buckets kept at the moment. */
  size(): number;
}

/** The same as verifications use it: they keep hints of where their buckets are. */
export interface HintedLimiter extends MemoryLimiter {
  /** {@link MemoryLimiter.take} of one token from one bucket, without arrays. */
  takeOne(hint: BucketHint, size: LimitSize, now: number): LimitVerdict;
  /** Reads a row just to have it in the processor's cache; any number may be given. */
  prefetch(row: number): number;
}

/** A bucket that the call under way touches. */
interface PendingBucket extends Bucket {
  /** Where the table keeps it; {@link NONE}: not there yet. */
  readonly row: number;
  readonly fingerprint: BucketFingerprint;
  readonly isAdHoc: boolean;
  /** Tokens that checks of the call are about to take. */
  pending: number;
}

/** What one check of a call asks, and whether it may have it. */
interface Reservation {
  /** The bucket's row, or its name if it has none. */
  readonly place: number | string;
  readonly rate: Rate;
  /** The pair of the limit itself; the same where nothing is overridden. */
  readonly configured: Rate;
  readonly cost: number;
  readonly exceeded: boolean;
}

/**
 * Token buckets in memory, exact within the process; nothing survives it. Names are known by 96-bit tags made with random numbers of
 * this process: two share a bucket with a chance ≤ 2^-51.
 *
 * Memory is bounded by `size` (ruling C6). Buckets that are full again are dropped as calls come in, without timers. At the bound
 * a newcomer displaces a full bucket, else the fullest of a few; a bucket with less than one whole token left is never displaced.
 * When all of those few refuse, the newcomer itself is refused (`remaining` 0, `reset` its duration): it fails closed. Half of the
 * room is not for ad hoc limits (ruling C5), so that whoever names a million that never come back locks out no key's own ones.
 *
 * Time is the latest `now` of any call: a clock that steps back counts as one that stands still (ruling A7).
 * @throws TypeError or RangeError naming the option
 * @see rulings C2–C4, C6 · a take is O(1) a check; one that doubles the table takes 25 to 60 ms near a million buckets
 */
export function memoryLimiter(options: MemoryLimiterOptions = {}): MemoryLimiter {
  const { take, close, size } = hintedLimiter(options);
  return { take, close, size };
}

/** {@link memoryLimiter} for verifiers. */
export function hintedLimiter(options: MemoryLimiterOptions = {}): HintedLimiter {
  checkOptions(options, OPTIONS);
  const { size = DEFAULT_SIZE } = options;
  const table = new BucketTable(size);
  const { rows } = table;
  const pairOf = rateMemo();
  /** Buckets of the call under way, by row, or by name while they have none. Cleared when a call begins: one may have thrown. */
  const held = new Map<number | string, PendingBucket>();
  /** Rows of the call under way. */
  const few = new Int32Array(MAX_PAIRWISE_CHECKS);
  let latest = -Infinity;
  let closed = false;

  const begin = (now: number): void => {
    if (closed) throw new KeystileError("LIMITER_UNAVAILABLE", "The limiter is closed.");
    if (!Number.isFinite(now)) throw new RangeError("now must be a finite number of milliseconds");
    if (now >= latest + 1) table.sweep((latest = Math.floor(now)));
    if (held.size > 0) held.clear();
  };

  /** The bucket in a row: all checks of one call share one object. */
  const holdRow = (row: number): PendingBucket => {
    let bucket = held.get(row);
    if (bucket === undefined) {
      const { at, rate, used, next } = rows.read(row);
      held.set(row, (bucket = { at, rate, used, next, row, fingerprint: NO_FINGERPRINT, isAdHoc: false, pending: 0 }));
    }
    return bucket;
  };

  /** First phase: whether the check may have its tokens. They are noted as pending, and nothing is taken. @param row or {@link NONE} */
  const claim = (
    { bucket: name, limit, duration, cost, configured: size, isAdHoc = false }: LimitCheck,
    row: number,
  ): Reservation => {
    const place = row === NONE ? name : row;
    const rate = pairOf(limit, duration);
    const own = size === undefined ? rate : pairOf(size.limit, size.duration);
    let bucket = row === NONE ? held.get(name) : holdRow(row);
    if (!fits(bucket, rate, cost, bucket === undefined ? 0 : bucket.pending, latest))
      return { place, rate, configured: own, cost, exceeded: true };
    if (cost > 0) {
      if (bucket === undefined) {
        const { h0, h1, h2 } = table.fingerprint;
        const first = firstOf(rate, own);
        held.set(
          name,
          (bucket = {
            at: latest,
            rate: first,
            used: 0,
            next: undefined,
            row,
            fingerprint: { h0, h1, h2 },
            isAdHoc,
            pending: 0,
          }),
        );
      } else if (bucket.rate.unitsPerToken === 0) bucket.rate = firstOf(rate, own);
      bucket.pending += cost;
    }
    return { place, rate, configured: own, cost, exceeded: false };
  };

  /** Makes room for the newcomers, all or none. One that is used with a duration of 0 only is always full: it needs no place. */
  const makeRoom = (): boolean => {
    let count = 0;
    let adHoc = 0;
    for (const bucket of held.values()) {
      if (!isNew(bucket)) continue;
      count++;
      if (bucket.isAdHoc) adHoc++;
    }
    return table.makeRoom(count, adHoc, held, latest);
  };

  /** Second phase: takes what is pending. Rows are written before newcomers come in, since these drop buckets that are full. */
  const takeClaims = (reservations: readonly Reservation[]): void => {
    for (const { place, rate, configured, cost } of reservations)
      if (cost > 0) charge(held.get(place) as PendingBucket, rate, cost, latest, configured);
    for (const bucket of held.values()) if (bucket.row !== NONE && bucket.pending > 0) rows.write(bucket.row, bucket);
    for (const bucket of held.values())
      if (isNew(bucket)) table.add(bucket.fingerprint, bucket, bucket.isAdHoc, latest);
  };

  const conclude = (reservations: readonly Reservation[]): LimitVerdict[] => {
    const fit = !reservations.some(isExceeded);
    const kept = !fit || makeRoom();
    if (fit && kept) takeClaims(reservations);
    const verdicts = new Array<LimitVerdict>(reservations.length);
    for (let i = 0; i < reservations.length; i++) {
      const { place, rate, cost, exceeded } = reservations[i] as Reservation;
      const bucket = held.get(place);
      const homeless = !kept && cost > 0 && bucket !== undefined && isNew(bucket);
      verdicts[i] = homeless
        ? { exceeded: true, remaining: 0, reset: rate.duration }
        : verdictOf(bucket, rate, exceeded, latest);
    }
    return verdicts;
  };

  const takeChecked = (check: LimitCheck): LimitVerdict => {
    const row = table.find(check);
    if (row !== NONE && check.configured === undefined && rows.isCommon(row, check))
      return rows.take(row, check.limit, check.cost, latest);
    return conclude([claim(check, row)])[0] as LimitVerdict;
  };

  /**
   * A few common checks, of different buckets that are there: 120 ns for two, against 820 by claims.
   * @returns undefined: they are not, and nothing was done
   */
  const takeFew = (checks: readonly LimitCheck[]): LimitVerdict[] | undefined => {
    const count = checks.length;
    let fit = true;
    for (let i = 0; i < count; i++) {
      const check = checks[i] as LimitCheck;
      const row = table.find(check);
      if (row === NONE || check.configured !== undefined || !rows.isCommon(row, check)) return undefined;
      for (let j = 0; j < i; j++) if (few[j] === row) return undefined;
      few[i] = row;
      if (!rows.fits(row, check.limit, check.cost, latest)) fit = false;
    }
    // An array of the right size: one that grows from empty makes room for 17.
    const verdicts = new Array<LimitVerdict>(count);
    for (let i = 0; i < count; i++) {
      const row = few[i] as number;
      const { limit, cost } = checks[i] as LimitCheck;
      verdicts[i] = fit ? rows.take(row, limit, cost, latest) : rows.peek(row, limit, cost, latest);
    }
    return verdicts;
  };

  return {
    takeOne(hint, size, now) {
      begin(now);
      const { limit, duration } = size;
      const row = table.findAt(hint);
      if (row !== NONE && rows.isCommon(row, size)) return rows.take(row, limit, 1, latest);
      const check = { bucket: hint.bucket, limit, duration, cost: 1, hint };
      assertNumbers(check);
      const verdict = takeChecked(check);
      // Where a new bucket went, for the next call.
      table.findAt(hint);
      return verdict;
    },
    take(checks, now) {
      checks.forEach(assertNumbers);
      begin(now);
      if (checks.length === 1) return [takeChecked(checks[0] as LimitCheck)];
      const verdicts = checks.length <= MAX_PAIRWISE_CHECKS ? takeFew(checks) : undefined;
      if (verdicts !== undefined) return verdicts;
      return conclude(checks.map((check) => claim(check, table.find(check))));
    },
    prefetch: (row) => rows.prefetch(row),
    close() {
      closed = true;
      held.clear();
      table.clear();
    },
    size: () => table.count,
  };
}

/** Of a bucket that is in a row. */
const NO_FINGERPRINT: BucketFingerprint = { h0: 0, h1: 0, h2: 0 };
const isExceeded = ({ exceeded }: { readonly exceeded: boolean }): boolean => exceeded;
const isNew = ({ row, rate }: PendingBucket): boolean => row === NONE && rate.unitsPerToken > 0;

/** Checks the numbers before anything changes: one NaN in a level would make it endless. */
function assertNumbers({ limit, duration, cost, configured }: LimitCheck): void {
  assertCount("limit", limit);
  assertCount("duration", duration);
  assertCount("cost", cost);
  if (configured === undefined) return;
  assertCount("configured.limit", configured.limit);
  assertCount("configured.duration", configured.duration);
}

function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be an integer from 0 to 2^53 - 1`);
}
