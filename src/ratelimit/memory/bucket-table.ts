/** A bounded table of buckets that drops the full ones as it is used. Limiter clause 8. */
import type { LimitCheck } from "../../contracts/limiter.js";
import { ClockHand } from "../../lib/clock-hand.js";
import type { Bucket } from "./bucket.js";
import { BucketRows, type KeptCheck, PLACE } from "./bucket-rows.js";
import { type Eviction, type EvictionSearch, isBelowShare, type KeptBuckets } from "./taking.js";
import { type Ring, Workspaces } from "./workspaces.js";

/*
 * Eviction. Dropping a full bucket changes no result. A clock hand goes round the table and drops the idle full buckets
 * that it visits: a few whenever time has moved on by a millisecond, and two for each new bucket, so that idle buckets
 * never outnumber the others for long. There are no timers and no full passes. A bucket that is not full is evicted
 * only when the table is at its bound.
 *
 * Fairness. A workspace that holds its equal share of the table, or more, evicts its own buckets, but never a refusing
 * one (one with less than a whole token left): if it finds no other, the new bucket is refused. A workspace below its
 * share evicts a bucket of the workspace that holds most, which then holds more than its share: even a refusing one, if
 * all those examined refuse. So no workspace can keep another's limits from being counted. A workspace that is alone
 * has the whole table.
 */

/** Buckets visited when time has moved on, and for each new bucket. */
const STEPS_PER_MOMENT = 32;
const STEPS_PER_BUCKET = 2;
/**
 * Milliseconds without a take after which a full bucket counts as idle. Dropping a bucket that is soon used again costs
 * 1.3 µs: a call over any of 1,000,000 keys, with a limit that refills a token every 2.6 s, took 3.7 µs with 1 s and
 * 2.2 µs with 60 s.
 */
const IDLE = 60_000;
/** Buckets examined to find one to evict. */
const PROBES = 32;
/**
 * Buckets examined before a refusing one may be evicted: if one in ten does not refuse, one search in 700,000 finds
 * none of these.
 */
const PROBES_BEFORE_REFUSING = 128;
/** Most UTF-16 units of a bucket's name. */
const MAX_NAME_LENGTH = 2_048;

/** No row. */
const NONE = -1;

export class BucketTable implements KeptBuckets<LimitCheck> {
  /** Since the table was made. */
  readonly counters = { newcomersRefused: 0, bucketsDisplaced: 0 };
  /** The rows of this table; places in any others are outdated. */
  rows = new BucketRows();
  /** The row of each bucket, by its name. */
  readonly #names = new Map<string, number>();
  #workspaces = new Workspaces(this.rows);
  /** Goes round the rows to drop idle ones. */
  readonly #hand = new ClockHand();

  /** @param bound the most buckets held, ≥ 1 */
  constructor(readonly bound: number) {}

  held(isAdHoc: boolean): number {
    return isAdHoc ? this.#workspaces.adHoc.total : this.#names.size;
  }

  /**
   * The row of a check's bucket, if it has one: looks at the place where it was last found, then by name.
   * @throws RangeError if the name is too long
   */
  find({ bucket: name, [PLACE]: place }: LimitCheck & Partial<KeptCheck>): number | undefined {
    const known = place && this.rows.rowAt(place, name);
    if (known !== undefined) return known;
    if (typeof name !== "string" || name.length > MAX_NAME_LENGTH)
      throw new RangeError(`bucket must be a text of at most ${MAX_NAME_LENGTH} UTF-16 units`);
    const row = this.#names.get(name);
    if (place !== undefined && row !== undefined) this.rows.locate(place, row);
    return row;
  }

  idOf({ bucket }: LimitCheck): string {
    return bucket;
  }

  /** The bucket in a row. To change it, change the returned object and {@link BucketTable.write} it. */
  read(row: number): Bucket {
    return this.rows.read(row);
  }

  write(row: number, bucket: Bucket): void {
    this.rows.write(row, bucket);
  }

  /** Visits a few buckets and drops the full ones. Call it when time has moved on. */
  sweep(now: number): void {
    this.#visit(STEPS_PER_MOMENT, now);
  }

  /** Adds a bucket with a new name, once there is space. */
  add({ bucket: name, workspaceId = "", isAdHoc = false }: LimitCheck, bucket: Bucket, now: number): void {
    this.#visit(STEPS_PER_BUCKET, now);
    const row = this.rows.add(name, bucket);
    this.#names.set(name, row);
    this.#workspaces.add(row, workspaceId, isAdHoc);
  }

  /** Drops all buckets. Creates new rows, since checks may still hold places in the old ones. */
  clear(): void {
    this.#names.clear();
    this.rows = new BucketRows();
    this.#workspaces = new Workspaces(this.rows);
  }

  drop(row: number): void {
    this.#names.delete(this.rows.nameOf(row) as string);
    this.#workspaces.remove(row);
    this.rows.remove(row);
  }

  #visit(steps: number, now: number): void {
    for (let step = Math.min(steps, this.rows.high); step > 0; step--) {
      const row = this.#hand.next(this.rows.high);
      if (this.rows.isIdle(row, IDLE, now)) this.drop(row);
    }
  }

  /** See above for whose bucket goes, and whether it may refuse. */
  choose(search: EvictionSearch): Eviction | undefined {
    const { workspaceId, mustBeAdHoc } = search;
    const { all, adHoc } = this.#workspaces;
    const ranking = mustBeAdHoc ? adHoc : all;
    const workspace = this.#workspaces.find(workspaceId);
    const held = workspace === undefined ? 0 : ranking.countOf(workspace);
    const isBelow = isBelowShare(held, ranking.holders, search);
    const giver = isBelow ? ranking.largest() : workspace;
    if (giver === undefined) return undefined;
    const rings = mustBeAdHoc ? [giver.adHoc] : [giver.lasting, giver.adHoc];
    const probes = isBelow ? PROBES_BEFORE_REFUSING : PROBES;
    const { best, refusing } = this.#leastUsed(rings, probes, search);
    const place = best !== NONE || !isBelow ? best : refusing;
    return place === NONE ? undefined : { place, isAdHoc: this.#workspaces.isAdHoc(place), refuses: best === NONE };
  }

  /** Of a few buckets, the least used that does not refuse, and one that refuses. Stops at a full one. */
  #leastUsed(
    rings: readonly Ring[],
    probes: number,
    { isTaken, now }: EvictionSearch,
  ): { readonly best: number; readonly refusing: number } {
    let best = NONE;
    let refusing = NONE;
    let lowest = Infinity;
    for (const ring of rings) {
      for (let step = Math.min(probes, ring.size); step > 0 && lowest > 0; step--) {
        const row = ring.next();
        if (isTaken(row)) continue;
        const used = this.rows.utilization(row, now);
        if (used < lowest) [best, lowest] = [row, used];
        else if (used === Infinity && refusing === NONE) refusing = row;
      }
    }
    return { best, refusing };
  }
}
