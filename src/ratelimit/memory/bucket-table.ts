/** A bounded table of buckets that drops the full ones as it is used. Limiter clause 8. */
import { ClockHand } from "../../lib/clock-hand.js";
import { FingerprintIndex, NONE } from "../../lib/fingerprint-index.js";
import { Fingerprint, MAX_UNITS } from "../../lib/fingerprint.js";
import { widened } from "../../lib/typed-arrays.js";
import type { BucketHint, HintedCheck } from "./bucket-hint.js";
import { BucketRows } from "./bucket-rows.js";
import type { Bucket } from "./bucket.js";

/*
 * Why so. A full bucket is worth nothing: dropping it changes no answer. A cursor walks the table and drops those it meets: some
 * steps in each millisecond in which time moves, two for each newcomer, so that idle ones never outnumber the others for long.
 * No timers, no pass over everything. Only at the bound may a bucket that is not full give way, and never one that refuses.
 *
 * A bucket is found by the tag of its name; the name is not kept. Two names share a tag, and so a bucket, with at most
 * 2^-51. A caller may remember where its bucket was, and two thirds of the tag, so that the name need not be tagged again (81 ns) nor
 * searched for. The row still holds its bucket if that tag is there: another name that came since has it
 * with a chance of 2^-64, or at most 2^-34 if both were chosen. The tags of another limiter match with about 2^-64.
 */

/** Rows visited when time moves. 32 take about 0.5 µs in a table of 1,000,000. */
const STEPS_PER_MOMENT = 32;
const STEPS_PER_NEWCOMER = 2;
/**
 * Milliseconds without a take after which a full bucket is idle. Dropping one that is in use only to make it anew takes 1.3 µs: with 1 s,
 * a call over any of 1,000,000 keys took 3.7 µs, by a limit that gives a token back every 2.6 s; with 60 s it takes 2.2.
 */
const IDLE = 60_000;
/** Rows looked at to find one that gives way. */
const PROBES = 32;

/** The tag of a bucket's name. */
export type BucketFingerprint = Pick<Fingerprint, "h0" | "h1" | "h2">;

/** Rows by number, each with the tokens that the call under way is about to take. */
export type CallRows = ReadonlyMap<number | string, { readonly pending: number }>;

export class BucketTable {
  /** Its buckets, each in the row that {@link BucketTable.find} gives. */
  readonly rows = new BucketRows();
  /** Tags names. After a search in vain: the tag of the name that is not there. */
  readonly fingerprint = new Fingerprint();
  readonly #bound: number;
  readonly #index = new FingerprintIndex();
  /** By row: 1 for the bucket of an ad hoc limit. */
  #marks = new Uint8Array(this.rows.capacity);
  #adHoc = 0;
  /** Rows ever in use: the walk is over these. */
  #high = 0;
  readonly #hand = new ClockHand();

  /** @param bound the most buckets held, ≥ 1 */
  constructor(bound: number) {
    this.#bound = bound;
  }

  /** Buckets held. */
  get count(): number {
    return this.#index.count;
  }

  /**
   * The row of a check's bucket, or {@link NONE}.
   * @throws RangeError for a name too long for a tag
   */
  find({ bucket, hint }: HintedCheck): number {
    // Object.is compares addresses first, where === would look into both texts.
    return hint !== undefined && Object.is(hint.bucket, bucket) ? this.findAt(hint) : this.#search(bucket);
  }

  /** The row of the bucket that a hint tells of: where it was found last, or else by its name. */
  findAt(hint: BucketHint): number {
    if (this.rows.hasFingerprint(hint.row, hint.h0, hint.h1)) return hint.row;
    const row = this.#search(hint.bucket);
    if (row !== NONE) hint.foundAt(row, this.fingerprint.h0, this.fingerprint.h1);
    return row;
  }

  #search(bucket: string): number {
    const { fingerprint } = this;
    if (!fingerprint.read(bucket)) throw new RangeError(`bucket must be a text of at most ${MAX_UNITS} UTF-16 units`);
    return this.#index.find(fingerprint.h0, fingerprint.h1, fingerprint.h2);
  }

  /** Time has moved: visits a few rows and drops the buckets that are full. */
  sweep(now: number): void {
    this.#visit(STEPS_PER_MOMENT, now);
  }

  /**
   * Makes room for `count` more, `adHoc` of them of ad hoc limits, which may hold half of it. At its bound each displaces a full bucket,
   * else the least strained of a few that do not refuse.
   * @param call the rows of the call under way: those with pending tokens never give way
   * @returns false: that many cannot give way, and none did
   */
  makeRoom(count: number, adHoc: number, call: CallRows, now: number): boolean {
    const excess = this.count + count - this.#bound;
    const adHocExcess = adHoc === 0 ? 0 : this.#adHoc + adHoc - Math.ceil(this.#bound / 2);
    if (excess <= 0 && adHocExcess <= 0) return true;
    const chosen = new Set<number>();
    while (chosen.size < adHocExcess || chosen.size < excess) {
      const row = this.#probe(chosen, chosen.size < adHocExcess, call, now);
      if (row === NONE) return false;
      chosen.add(row);
    }
    for (const row of chosen) this.#drop(row);
    return true;
  }

  /** Puts in a bucket by the tag of its name, which has none. Only after {@link BucketTable.makeRoom}. */
  add({ h0, h1, h2 }: BucketFingerprint, bucket: Bucket, isAdHoc: boolean, now: number): void {
    this.#visit(STEPS_PER_NEWCOMER, now);
    // Before it has a row, since this may throw where memory is short. A row is new only when none is free: then it is the count.
    const { count } = this;
    if (count === this.rows.capacity) {
      const capacity = Math.min(count * 2, Math.max(count + 1, this.#bound));
      this.#marks = widened(this.#marks, capacity);
      this.rows.widen(capacity);
    }
    const row = this.#index.add(h0, h1, h2);
    if (row === this.#high) this.#high++;
    this.rows.add(row, h0, h1, bucket);
    if (!isAdHoc) return;
    this.#marks[row] = 1;
    this.#adHoc++;
  }

  clear(): void {
    this.#index.clear();
    this.rows.clear();
    this.#marks = new Uint8Array(this.rows.capacity);
    this.#adHoc = 0;
    this.#high = 0;
    this.#hand.reset();
  }

  #drop(row: number): void {
    this.#index.remove(row);
    this.rows.remove(row);
    this.#adHoc -= this.#marks[row] as number;
    this.#marks[row] = 0;
  }

  #visit(steps: number, now: number): void {
    const { rows } = this;
    for (let step = Math.min(steps, this.#high); step > 0; step--) {
      const row = this.#hand.next(this.#high);
      if (rows.has(row) && now - rows.time(row) >= IDLE && rows.utilization(row, now) === 0) this.#drop(row);
    }
  }

  /** Of the next few rows the best to drop, or {@link NONE}. */
  #probe(chosen: ReadonlySet<number>, mustBeAdHoc: boolean, call: CallRows, now: number): number {
    let best = NONE;
    let lowest = Infinity;
    for (let step = Math.min(PROBES, this.#high); step > 0; step--) {
      const row = this.#hand.next(this.#high);
      if (!this.rows.has(row) || (mustBeAdHoc && this.#marks[row] === 0)) continue;
      const utilization = this.rows.utilization(row, now);
      if (utilization >= lowest || chosen.has(row) || (call.get(row)?.pending ?? 0) > 0) continue;
      best = row;
      lowest = utilization;
      if (utilization === 0) break;
    }
    return best;
  }
}
