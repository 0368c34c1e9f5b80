/** A bounded table of buckets that forgets the full ones as it is used. Ruling C6, port clause 8. Knows no limits and takes no tokens. */
import { strain, type Bucket, type Pair } from "./bucket.js";

/*
 * Why so. A full bucket is worth nothing: dropping it changes no answer. A cursor walks the table and drops those it meets: some
 * steps in each millisecond in which time moves, two for each newcomer, so that full buckets never outnumber the others for long.
 * No timers, no pass over everything. Only at the bound may a bucket that is not full give way, and never one that refuses.
 */

/** Buckets visited when time moves. 32 take about 5 µs in a table of 1,000,000. */
const STEPS_PER_MOMENT = 32;
const STEPS_PER_NEWCOMER = 2;
/** Milliseconds without a take after which a full bucket is idle. Dropping those in use only to make them anew took 1.3 µs a call. */
const IDLE = 1_000;
/** Buckets looked at to find one that gives way. */
const PROBES = 32;

/** The slot of a bucket that no table holds. */
export const NOWHERE = -1;

/** A bucket of the table, or about to be put there. */
export interface NamedBucket extends Bucket {
  readonly name: string;
  /** Where the table keeps it, or {@link NOWHERE}. */
  slot: number;
  /** The table that holds it. Asked before a memo is trusted, without touching the table itself. */
  home: unknown;
  /** Tokens that checks of the call under way are about to take; 0 between calls. A bucket with any never gives way. */
  pending: number;
}

/** A full bucket that no table holds yet. */
export function newBucket(name: string, pair: Pair, now: number): NamedBucket {
  return { name, slot: NOWHERE, home: undefined, pending: 0, at: now, pair, used: 0, next: undefined };
}

export interface BucketTable {
  get(name: string): NamedBucket | undefined;
  /** Whether this table holds this very bucket, under this name. Spares a look-up to who remembers a bucket. */
  holds(bucket: NamedBucket, name: string): boolean;
  /** Time has moved: visits a few buckets and drops the full ones. */
  sweep(now: number): void;
  /**
   * Makes room for `count` more. At the bound each displaces a full bucket, else the least strained of a few that do not refuse.
   * @returns false: that many cannot give way, and none did
   */
  makeRoom(count: number, now: number): boolean;
  /** Puts a bucket in. Only after {@link BucketTable.makeRoom}. */
  add(bucket: NamedBucket, now: number): void;
  size(): number;
  clear(): void;
}

/** @param bound the most buckets held, ≥ 1 */
export function bucketTable(bound: number): BucketTable {
  const names = new Map<string, NamedBucket>();
  /** The same buckets without gaps, to walk. */
  const slots: NamedBucket[] = [];
  let cursor = 0;

  /** The next bucket in turn. Only while there is one. */
  const next = (): NamedBucket => {
    if (cursor >= slots.length) cursor = 0;
    return slots[cursor] as NamedBucket;
  };

  const drop = (bucket: NamedBucket): void => {
    names.delete(bucket.name);
    const last = slots.pop() as NamedBucket;
    if (last !== bucket) {
      slots[bucket.slot] = last;
      last.slot = bucket.slot;
    }
    bucket.slot = NOWHERE;
    bucket.home = undefined;
  };

  const visit = (steps: number, now: number): void => {
    for (let step = Math.min(steps, slots.length); step > 0; step--) {
      const bucket = next();
      if (bucket.pending === 0 && now - bucket.at >= IDLE && strain(bucket, now) === 0) drop(bucket);
      else cursor++;
    }
  };

  /** The one among the next few that gives way best. */
  const probe = (chosen: ReadonlySet<NamedBucket>, now: number): NamedBucket | undefined => {
    let best: NamedBucket | undefined;
    let least = Infinity;
    for (let step = Math.min(PROBES, slots.length); step > 0; step--) {
      const bucket = next();
      cursor++;
      if (bucket.pending > 0 || chosen.has(bucket)) continue;
      const own = strain(bucket, now);
      if (own >= least) continue;
      best = bucket;
      least = own;
      if (own === 0) break;
    }
    return best;
  };

  return {
    get: (name) => names.get(name),
    holds: (bucket, name) => bucket.home === slots && bucket.name === name,
    sweep: (now) => visit(STEPS_PER_MOMENT, now),
    makeRoom(count, now) {
      const chosen = new Set<NamedBucket>();
      while (slots.length - chosen.size + count > bound) {
        const bucket = probe(chosen, now);
        if (bucket === undefined) return false;
        chosen.add(bucket);
      }
      for (const bucket of chosen) drop(bucket);
      return true;
    },
    add(bucket, now) {
      visit(STEPS_PER_NEWCOMER, now);
      bucket.slot = slots.length;
      bucket.home = slots;
      slots.push(bucket);
      names.set(bucket.name, bucket);
    },
    size: () => slots.length,
    clear() {
      for (const bucket of slots) bucket.home = undefined;
      names.clear();
      slots.length = 0;
    },
  };
}
