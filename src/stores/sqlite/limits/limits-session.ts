/**
 * Token buckets inside one transaction: each bucket is read once, charged in memory and written once. What was read
 * stays valid from one transaction to the next until another connection writes to the file.
 *
 * Time is the latest of any take of any process, kept in the file: the clocks of several processes, and one that steps
 * back, grant nothing twice, not even where a full bucket was dropped in between.
 */
import type { LimitCheck, LimiterCounters, LimitVerdict } from "../../../contracts/limiter.js";
import { type Bucket, rateMemo, utilization } from "../../../ratelimit/memory/bucket.js";
import { createTaking, type KeptBuckets } from "../../../ratelimit/memory/taking.js";
import type { Connection } from "../connection/connection.js";
import { createBucketRows, ID_BOUND, type StoredBucket } from "./stored-buckets.js";
import { createEvictions } from "./evictions.js";
import { createTotals } from "./totals.js";

/** A check with the id of its bucket. */
export interface BucketCheck extends LimitCheck {
  readonly id: number;
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
  let dirty = new Set<number>();
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
  const drop = ({ id, holder, isAdHoc }: StoredBucket) => {
    dirty.delete(id);
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

  const buckets: KeptBuckets<BucketCheck> = {
    bound,
    get counters() {
      return counted;
    },
    find: ({ id }) => find(id)?.id,
    idOf: ({ id }) => id,
    read: (id) => find(id)!,
    write(id, { at, rate, used, next }) {
      Object.assign(find(id)!, { at, rate, used, next } satisfies Bucket);
      dirty.add(id);
    },
    held: (isAdHoc) => (isAdHoc ? totals.adHoc() : totals.all()).buckets,
    choose: createEvictions(rows, totals, find),
    drop: (id) => drop(find(id)!),
    add({ id, workspaceId = "", isAdHoc = false }, { at, rate, used, next }) {
      const stored = { id, holder: totals.add(workspaceId, isAdHoc), isAdHoc, at, rate, used, next };
      rows.add(stored);
      cache.set(id, stored);
      due += STEPS_PER_BUCKET;
    },
  };
  const takeAll = createTaking(buckets, rateOf);

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
      return takeAll(checks, totals.moveClock(Math.floor(time)));
    },
    /** Writes what has changed. Call last in a transaction. */
    save(): void {
      for (const id of dirty) rows.write(find(id)!);
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
