/**
 * The two phases of a call of a limiter, wherever its buckets are kept: whether all checks fit, and then what they
 * take. Limiter clauses 1, 3 and 8.
 */
import type { LimitCheck, LimiterCounters, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import type { Mutable } from "../../lib/mutable.js";
import {
  adopt,
  type Bucket,
  charge,
  type CheckRates,
  firstOf,
  fits,
  type Rate,
  rateIn,
  toVerdict,
  unitsUsed,
} from "./bucket.js";

/** Where buckets are kept, each at a place: a number. */
export interface KeptBuckets<Check extends LimitCheck> {
  /** Most buckets kept, ≥ 1; half of them, rounded up, may be of ad hoc limits. */
  readonly bound: number;
  readonly counters: Mutable<LimiterCounters>;
  /** The place of a check's bucket; `undefined`: the bucket is full, and kept nowhere. */
  find(check: Check): number | undefined;
  /** What tells a bucket without a place from others of a call. */
  idOf(check: Check): number | string;
  /** The bucket at a place. To change it, change the returned object and {@link KeptBuckets.write} it. */
  read(place: number): Bucket;
  write(place: number, bucket: Bucket): void;
  /** Number of buckets kept, or only of those of ad hoc limits. */
  held(isAdHoc: boolean): number;
  /** Chooses a bucket to evict; `undefined`: none may go. Changes nothing. */
  choose(search: EvictionSearch): Eviction | undefined;
  drop(place: number): void;
  /** Adds the bucket of a check, once there is space. */
  add(check: Check, bucket: Bucket, now: number): void;
}

/** For whose new bucket another is to go. */
export interface EvictionSearch {
  readonly workspaceId: string;
  /** New buckets of the same call and workspace before this one. */
  readonly earlier: number;
  /** Whether only buckets of ad hoc limits may go. */
  readonly mustBeAdHoc: boolean;
  /** Most buckets of the kind that may go. */
  readonly bound: number;
  /** Whether the bucket at a place must stay: the call is about to take from it, or it goes already. */
  isTaken(place: number): boolean;
  readonly now: number;
}

/** A bucket to evict. */
export interface Eviction {
  readonly place: number;
  readonly isAdHoc: boolean;
  readonly refuses: boolean;
}

/**
 * Whether a workspace with so many buckets of a kind is below its equal share.
 * @param holders workspaces that hold some
 */
export function isBelowShare(held: number, holders: number, { earlier, bound }: EvictionSearch): boolean {
  const share = Math.floor(bound / (holders + (held === 0 ? 1 : 0)));
  return held + earlier < Math.max(share, 1);
}

/**
 * Makes space for new buckets of one workspace, all or none. Ad hoc limits may use half of it. At the bound each new
 * bucket evicts one.
 * @param isPending whether the call is about to take from the bucket at a place: such a bucket stays
 * @returns how many of the evicted ones refused; `undefined`: not enough may go, and none went
 */
export function makeSpace<Check extends LimitCheck>(
  buckets: KeptBuckets<Check>,
  added: readonly Check[],
  { isPending, now }: { readonly isPending: (place: number) => boolean; readonly now: number },
): number | undefined {
  const { bound, counters } = buckets;
  const adHocBound = Math.ceil(bound / 2);
  let space = bound - buckets.held(false);
  let adHocSpace = adHocBound - buckets.held(true);
  const chosen = new Map<number, Eviction>();
  const isTaken = (place: number): boolean => isPending(place) || chosen.has(place);
  for (const [earlier, { workspaceId = "", isAdHoc = false }] of added.entries()) {
    const mustBeAdHoc = isAdHoc && adHocSpace <= 0;
    if (mustBeAdHoc || space <= 0) {
      const kind = { mustBeAdHoc, bound: mustBeAdHoc ? adHocBound : bound };
      const one = buckets.choose({ workspaceId, earlier, ...kind, isTaken, now });
      if (one === undefined) {
        counters.newcomersRefused += added.length;
        return undefined;
      }
      chosen.set(one.place, one);
      space++;
      if (one.isAdHoc) adHocSpace++;
    }
    space--;
    if (isAdHoc) adHocSpace--;
  }
  let displaced = 0;
  for (const { place, refuses } of chosen.values()) {
    buckets.drop(place);
    if (refuses) displaced++;
  }
  counters.bucketsDisplaced += displaced;
  return displaced;
}

/** A bucket of the current call. */
interface CalledBucket<Check> extends Bucket {
  readonly place: number | undefined;
  /** The first check of it. */
  readonly check: Check;
  /** Tokens that the call's checks are about to take. */
  pending: number;
}

/** The tokens that one check of a call takes, and whether its limit is exceeded. */
interface Reservation<Check> extends CheckRates {
  readonly bucket: CalledBucket<Check>;
  readonly cost: number;
  exceeded: boolean;
}

/** @returns takes the tokens of all checks of a call, or of none: one verdict for each */
export function createTaking<Check extends LimitCheck>(
  buckets: KeptBuckets<Check>,
  rateOf: (limit: number, duration: number) => Rate,
) {
  type Called = CalledBucket<Check>;
  /** The buckets of the current call. */
  const called = new Map<number | string, Called>();
  const isPending = (place: number): boolean => (called.get(place)?.pending ?? 0) > 0;
  /** A bucket used only with a duration of 0 is always full, and need not be kept. */
  const isNew = ({ place, pending, rate }: Called): boolean =>
    place === undefined && pending > 0 && rate.unitsPerToken > 0;
  /** The rate of a limit: most buckets already have it. */
  const rateFor = (bucket: Bucket, { limit, duration }: LimitSize): Rate =>
    rateIn(bucket, limit, duration) ?? rateOf(limit, duration);

  const bucketOf = (check: Check, now: number): Called => {
    const place = buckets.find(check);
    const id = place ?? buckets.idOf(check);
    const known = called.get(id);
    if (known !== undefined) return known;
    const { at, rate, used, next } =
      place === undefined
        ? { at: now, rate: rateOf(check.limit, check.duration), used: 0, next: undefined }
        : buckets.read(place);
    const bucket: Called = { at, rate, used, next, place, check, pending: 0 };
    called.set(id, bucket);
    return bucket;
  };

  /** First phase: decides whether a check fits. Its tokens become pending, but are not taken yet. */
  const reserve = (check: Check, now: number): Reservation<Check> => {
    const { cost } = check;
    const bucket = bucketOf(check, now);
    const { place } = bucket;
    const rate = rateFor(bucket, check);
    const configured = check.configured && rateFor(bucket, check.configured);
    const reservation: Reservation<Check> = { bucket, rate, configured, cost, exceeded: false };
    if (adopt(bucket, reservation, now) && place !== undefined) buckets.write(place, bucket);
    reservation.exceeded = cost > 0 && !fits(unitsUsed(bucket, rate, now), rate, bucket.pending + cost);
    if (cost > 0 && !reservation.exceeded) {
      // With a duration of 0 nothing stays used: only another rate of the call makes this a bucket to keep.
      const isOpen = place === undefined && (bucket.pending === 0 || bucket.rate.unitsPerToken === 0);
      if (isOpen) bucket.rate = firstOf(rate, configured);
      bucket.pending += cost;
    }
    return reservation;
  };

  /** Second phase: takes the pending tokens, if there is space for the new buckets. @returns as `makeSpace` */
  const commit = (reservations: readonly Reservation<Check>[], now: number): number | undefined => {
    const added: Called[] = [];
    for (const bucket of called.values()) if (isNew(bucket)) added.push(bucket);
    const checks = added.map(({ check }) => check);
    const displaced = checks.length === 0 ? 0 : makeSpace(buckets, checks, { isPending, now });
    if (displaced === undefined) return undefined;
    for (const reservation of reservations) if (reservation.cost > 0) charge(reservation.bucket, reservation, now);
    // Written before new buckets are added: adding drops full buckets, and these are no longer full.
    for (const bucket of called.values())
      if (bucket.place !== undefined && bucket.pending > 0) buckets.write(bucket.place, bucket);
    for (const bucket of added) buckets.add(bucket.check, bucket, now);
    return displaced;
  };

  return (checks: readonly Check[], now: number): LimitVerdict[] => {
    // Created with their length: an array that grows from empty allocates 17 elements.
    const reservations = new Array<Reservation<Check>>(checks.length);
    const verdicts = new Array<LimitVerdict>(checks.length);
    try {
      let fit = true;
      for (let i = 0; i < checks.length; i++) {
        const reservation = reserve(checks[i] as Check, now);
        reservations[i] = reservation;
        if (reservation.exceeded) fit = false;
      }
      const displaced = fit ? commit(reservations, now) : 0;
      for (let i = 0; i < verdicts.length; i++) {
        const { bucket, rate, cost, exceeded } = reservations[i] as Reservation<Check>;
        // Without space for its bucket a check fails closed.
        verdicts[i] =
          displaced === undefined && cost > 0 && isNew(bucket)
            ? { exceeded: true, remaining: 0, reset: rate.duration }
            : toVerdict(unitsUsed(bucket, rate, now), rate, exceeded);
      }
      if (displaced !== undefined && displaced > 0) verdicts[0] = { ...(verdicts[0] as LimitVerdict), displaced };
      return verdicts;
    } finally {
      called.clear();
    }
  };
}
