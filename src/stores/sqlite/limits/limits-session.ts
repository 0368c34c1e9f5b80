/**
 * Token buckets inside one transaction: each bucket is read once, charged in memory and written once. What was read
 * stays valid from one transaction to the next until another connection writes to the file.
 *
 * Time is the latest of any take of any process, kept in the file: the clocks of several processes, and one that steps
 * back, grant nothing twice, not even where a full bucket was dropped in between.
 */
import type { LimitCheck, LimiterCounters, LimitVerdict } from "../../../contracts/limiter.js";
import {
  adopt,
  type Bucket,
  charge,
  firstOf,
  fits,
  type Rate,
  rateMemo,
  utilization,
  verdictOf,
} from "../../../ratelimit/memory/bucket.js";
import type { Connection } from "../connection/connection.js";
import { createBucketRows, ID_BOUND, type StoredBucket } from "./stored-buckets.js";
import { createEvictions } from "./evictions.js";
import { createTotals } from "./totals.js";

/** A check with the id of its bucket. */
export interface BucketCheck extends LimitCheck {
  readonly id: number;
}

/** A bucket of the current call. */
interface PendingBucket {
  readonly bucket: Bucket;
  /** `undefined`: it is new. */
  readonly stored: StoredBucket | undefined;
  readonly id: number;
  readonly workspaceId: string;
  readonly isAdHoc: boolean;
  /** Tokens that checks of this call are about to take. */
  tokens: number;
}

/** What one check of a call takes, and whether it is exceeded. */
interface Reservation {
  readonly pending: PendingBucket;
  readonly rate: Rate;
  readonly configured: Rate | undefined;
  readonly cost: number;
  readonly exceeded: boolean;
}

/** With more cached buckets than this, the next transaction starts with an empty cache. */
const MAX_CACHED_BUCKETS = 4_096;
/** Milliseconds without a take after which a full bucket counts as idle, and may be dropped. */
const IDLE = 60_000;
/** Buckets examined at once for idle ones: when so many of two for each new bucket are due, or after so many ms. */
const SWEEP = 64;
const SWEEP_INTERVAL = 100;
const STEPS_PER_BUCKET = 2;

/** @param bound most buckets in the file, ≥ 1 */
export function createLimitsSession(
  { handle, dataVersion }: Pick<Connection, "handle" | "dataVersion">,
  bound: number,
) {
  const rateOf = rateMemo();
  const rows = createBucketRows(handle, rateOf);
  const totals = createTotals(handle);
  let version: number | undefined;
  let isLoaded = false;
  let cache = new Map<number, StoredBucket>();
  let dirty = new Set<StoredBucket>();
  let committed: LimiterCounters = { newcomersRefused: 0, bucketsDisplaced: 0 };
  let counted = { ...committed };
  const current = (bucket: StoredBucket) => cache.get(bucket.id) ?? bucket;
  /** Where the next sweep starts, how many buckets it owes, and when the last was. */
  let hand = Math.floor(Math.random() * ID_BOUND);
  let due = 0;
  let sweptAt = -Infinity;

  const forget = () => {
    isLoaded = false;
    cache = new Map();
    dirty = new Set();
    counted = { ...committed };
  };
  const find = (id: number): StoredBucket | undefined => {
    const cached = cache.get(id);
    if (cached !== undefined) return cached;
    const found = rows.find(id);
    if (found !== undefined) cache.set(id, found);
    return found;
  };
  const evictions = createEvictions(rows, totals, bound, find);
  const drop = ({ id, holder, isAdHoc }: StoredBucket) => {
    const cached = cache.get(id);
    if (cached !== undefined) dirty.delete(cached);
    cache.delete(id);
    rows.remove(id);
    totals.remove(holder, isAdHoc);
  };
  /** Drops idle buckets that are full: they are equal to new ones. */
  const sweep = (now: number) => {
    if (due < SWEEP && Math.abs(now - sweptAt) < SWEEP_INTERVAL) return;
    due = 0;
    sweptAt = now;
    const found = rows.list(hand, SWEEP);
    hand = found.length < SWEEP ? 0 : (found.at(-1) as StoredBucket).id + 1;
    for (const bucket of found.map(current))
      if (now - bucket.at >= IDLE && utilization(bucket, now) === 0) drop(bucket);
  };

  /** First phase: decides whether a check fits. Its tokens become pending, but nothing is taken. */
  const reserve = (check: BucketCheck, call: Map<number, PendingBucket>, now: number): Reservation => {
    const { id, limit, duration, cost, configured: size, workspaceId = "", isAdHoc = false } = check;
    const rate = rateOf(limit, duration);
    const configured = size && rateOf(size.limit, size.duration);
    let pending = call.get(id);
    if (pending === undefined) {
      const stored = find(id);
      const bucket = stored ?? { at: now, rate: firstOf(rate, configured), used: 0, next: undefined };
      call.set(id, (pending = { bucket, stored, id, workspaceId, isAdHoc, tokens: 0 }));
    }
    const { bucket, stored } = pending;
    if (adopt(bucket, rate, configured, now) && stored !== undefined) dirty.add(stored);
    const exceeded = !fits(bucket, rate, cost, pending.tokens, now);
    if (!exceeded && cost > 0) {
      // A duration of 0 keeps nothing used: the first other rate of the call makes it a bucket.
      if (bucket.rate.unitsPerToken === 0) bucket.rate = firstOf(rate, configured);
      pending.tokens += cost;
    }
    return { pending, rate, configured, cost, exceeded };
  };

  /** Makes space for new buckets, all or none. @returns how many of another workspace's refused and went */
  const makeSpace = (added: readonly PendingBucket[], call: ReadonlyMap<number, PendingBucket>, now: number) => {
    const [first] = added;
    if (first === undefined) return 0;
    const isInUse = ({ id }: StoredBucket) => (call.get(id)?.tokens ?? 0) > 0;
    const kinds = added.map(({ isAdHoc }) => isAdHoc);
    const chosen = evictions.choose({ workspaceId: first.workspaceId, kinds }, isInUse, now);
    if (chosen === undefined) {
      counted.newcomersRefused += added.length;
      return undefined;
    }
    let displaced = 0;
    for (const { bucket, refuses } of chosen) {
      drop(bucket);
      if (refuses) displaced++;
    }
    counted.bucketsDisplaced += displaced;
    return displaced;
  };

  const add = ({ id, bucket, workspaceId, isAdHoc }: PendingBucket) => {
    const { at, rate, used, next } = bucket;
    const stored = { id, holder: totals.add(workspaceId, isAdHoc), isAdHoc, at, rate, used, next };
    rows.add(stored);
    cache.set(id, stored);
    due += STEPS_PER_BUCKET;
  };

  /** Second phase: takes what is pending. */
  const commit = (reservations: readonly Reservation[], call: ReadonlyMap<number, PendingBucket>, now: number) => {
    for (const { pending, rate, configured, cost } of reservations)
      if (cost > 0) charge(pending.bucket, rate, cost, now, configured);
    for (const pending of call.values()) {
      if (pending.stored !== undefined && pending.tokens > 0) dirty.add(pending.stored);
      if (isNew(pending)) add(pending);
    }
  };

  return {
    /** Call first in a transaction: drops what other connections may have changed. @throws KeystileError STORE_… */
    begin(): void {
      // Inside the transaction no other connection can write: an unchanged version means that all is as it was read.
      const found = dataVersion();
      if (found !== version || cache.size > MAX_CACHED_BUCKETS) forget();
      version = found;
      if (!isLoaded) totals.load();
      isLoaded = true;
    },
    /** One verdict per check, by limiter clauses 1–9. */
    take(checks: readonly BucketCheck[], time: number): LimitVerdict[] {
      const now = totals.moveClock(Math.floor(time));
      const call = new Map<number, PendingBucket>();
      const reservations = checks.map((check) => reserve(check, call, now));
      const fit = !reservations.some(({ exceeded }) => exceeded);
      const displaced = fit ? makeSpace([...call.values()].filter(isNew), call, now) : 0;
      if (fit && displaced !== undefined) commit(reservations, call, now);
      const verdicts = reservations.map(({ pending, rate, cost, exceeded }): LimitVerdict => {
        // Without space for its bucket a check fails closed.
        if (displaced === undefined && cost > 0 && isNew(pending))
          return { exceeded: true, remaining: 0, reset: rate.duration };
        return verdictOf(pending.bucket, rate, exceeded, now);
      });
      if (displaced !== undefined && displaced > 0) verdicts[0] = { ...(verdicts[0] as LimitVerdict), displaced };
      return verdicts;
    },
    /** Writes what has changed. Call last in a transaction. */
    save(): void {
      for (const bucket of dirty) rows.write(bucket);
      dirty = new Set();
      sweep(totals.clock());
      totals.save();
    },
    /** Call after the commit: what was counted holds. */
    committed(): void {
      committed = { ...counted };
    },
    /** Drops what was read, and what was counted since the last commit. Call after a rollback. */
    forget,
    /** Buckets in the file, as of the last transaction. */
    size: (): number => totals.all().buckets,
    counters: (): LimiterCounters => committed,
  };
}

/** A bucket used only with a duration of 0 is always full and needs no row. */
function isNew({ stored, bucket, tokens }: PendingBucket): boolean {
  return stored === undefined && tokens > 0 && bucket.rate.unitsPerToken > 0;
}
