/** A bounded table of buckets that drops the full ones as it is used. Limiter clause 8. */
import type { LimitCheck } from "../../contracts/limiter.js";
import { ClockHand } from "../../lib/clock-hand.js";
import type { Bucket } from "./bucket.js";
import { BucketRows, type KeptCheck, PLACE } from "./bucket-rows.js";
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
export const NONE = -1;

/** A bucket to be added. */
export interface NewBucket {
  readonly name: string;
  readonly workspaceId: string;
  readonly isAdHoc: boolean;
}

export class BucketTable {
  readonly #bound: number;
  /** The rows of this table; places in any others are outdated. */
  rows = new BucketRows();
  /** The row of each bucket, by its name. */
  readonly #names = new Map<string, number>();
  #workspaces = new Workspaces(this.rows);
  /** Goes round the rows to drop idle ones. */
  readonly #hand = new ClockHand();
  #bucketsDisplaced = 0;
  #newcomersRefused = 0;

  /** @param bound the most buckets held, ≥ 1 */
  constructor(bound: number) {
    this.#bound = bound;
  }

  /** Buckets held. */
  get count(): number {
    return this.#names.size;
  }

  /** Refusing buckets evicted for another workspace's, since the table was made. */
  get bucketsDisplaced(): number {
    return this.#bucketsDisplaced;
  }

  /** New buckets that found no space, since the table was made. */
  get newcomersRefused(): number {
    return this.#newcomersRefused;
  }

  /**
   * The row of a check's bucket, or {@link NONE}: looks at the place where it was last found, then by name.
   * @throws RangeError if the name is too long
   */
  find({ bucket: name, [PLACE]: place }: LimitCheck & Partial<KeptCheck>): number {
    if (place?.rows === this.rows && this.rows.isAt(place, name)) return place.row;
    assertName(name);
    const row = this.#names.get(name) ?? NONE;
    if (place !== undefined && row !== NONE) this.rows.locate(place, row);
    return row;
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

  /**
   * Makes space for new buckets. Ad hoc limits may use half of the table. At the bound each new bucket evicts one: a
   * full bucket, or else the least used of a few. See above for whose, and whether it may refuse.
   * @param isPending whether the call is about to take from the bucket in a row: such a bucket is never evicted
   * @returns false: not enough buckets can be evicted, and none was
   */
  makeSpace(added: readonly NewBucket[], isPending: (row: number) => boolean, now: number): boolean {
    let space = this.#bound - this.count;
    let adHocSpace = this.#adHocBound - this.#workspaces.adHoc.total;
    const chosen = new Map<number, boolean>();
    const isTaken = (row: number): boolean => isPending(row) || chosen.has(row);
    for (const [i, bucket] of added.entries()) {
      const mustBeAdHoc = bucket.isAdHoc && adHocSpace <= 0;
      if (mustBeAdHoc || space <= 0) {
        const choice = this.#choose(bucket, i, mustBeAdHoc, isTaken, now);
        if (choice === undefined) {
          this.#newcomersRefused += added.length;
          return false;
        }
        chosen.set(choice.row, choice.refuses);
        space++;
        if (this.#workspaces.isAdHoc(choice.row)) adHocSpace++;
      }
      space--;
      if (bucket.isAdHoc) adHocSpace--;
    }
    for (const [row, refuses] of chosen) {
      this.#drop(row);
      if (refuses) this.#bucketsDisplaced++;
    }
    return true;
  }

  /** Adds a bucket with a new name. Only after {@link BucketTable.makeSpace}. */
  add({ name, workspaceId, isAdHoc }: NewBucket, bucket: Bucket, now: number): void {
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

  get #adHocBound(): number {
    return Math.ceil(this.#bound / 2);
  }

  #drop(row: number): void {
    this.#names.delete(this.rows.nameOf(row) as string);
    this.#workspaces.remove(row);
    this.rows.remove(row);
  }

  #visit(steps: number, now: number): void {
    for (let step = Math.min(steps, this.rows.high); step > 0; step--) {
      const row = this.#hand.next(this.rows.high);
      if (this.rows.isIdle(row, IDLE, now)) this.#drop(row);
    }
  }

  /**
   * The row that a new bucket evicts, and whether its bucket refuses.
   * @param earlier number of new buckets of this call before this one; all are of one workspace
   */
  #choose(
    { workspaceId }: NewBucket,
    earlier: number,
    mustBeAdHoc: boolean,
    isTaken: (row: number) => boolean,
    now: number,
  ): { readonly row: number; readonly refuses: boolean } | undefined {
    const { all, adHoc } = this.#workspaces;
    const ranking = mustBeAdHoc ? adHoc : all;
    const workspace = this.#workspaces.find(workspaceId);
    const held = (workspace === undefined ? 0 : ranking.countOf(workspace)) + earlier;
    const bound = mustBeAdHoc ? this.#adHocBound : this.#bound;
    const share = Math.floor(bound / (ranking.holders + (held === earlier ? 1 : 0)));
    const isBelowShare = held < Math.max(share, 1);
    const giver = isBelowShare ? ranking.largest() : workspace;
    if (giver === undefined) return undefined;
    const rings = mustBeAdHoc ? [giver.adHoc] : [giver.lasting, giver.adHoc];
    const probes = isBelowShare ? PROBES_BEFORE_REFUSING : PROBES;
    const { best, refusing } = this.#leastUsed(rings, probes, isTaken, now);
    if (best !== NONE) return { row: best, refuses: false };
    return isBelowShare && refusing !== NONE ? { row: refusing, refuses: true } : undefined;
  }

  /** Of a few buckets, the least used that does not refuse, and one that refuses. Stops at a full one. */
  #leastUsed(
    rings: readonly Ring[],
    probes: number,
    isTaken: (row: number) => boolean,
    now: number,
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

function assertName(name: unknown): void {
  if (typeof name !== "string" || name.length > MAX_NAME_LENGTH)
    throw new RangeError(`bucket must be a text of at most ${MAX_NAME_LENGTH} UTF-16 units`);
}
