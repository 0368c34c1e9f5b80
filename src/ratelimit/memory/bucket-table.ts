/** A bounded table of buckets that drops the full ones as it is used. Limiter clause 8. */
import { ClockHand } from "../../lib/clock-hand.js";
import { FingerprintIndex, NONE } from "../../lib/fingerprint-index.js";
import { Fingerprint, MAX_UNITS } from "../../lib/fingerprint.js";
import { widened } from "../../lib/typed-arrays.js";
import type { BucketHint, HintedCheck } from "./bucket-hint.js";
import { BucketRows } from "./bucket-rows.js";
import type { Bucket } from "./bucket.js";

/*
 * Eviction. Dropping a full bucket changes no result. A cursor walks the table and drops the full buckets that it
 * visits: a few rows whenever time has moved on by a millisecond, and two for each new bucket, so that idle buckets
 * never outnumber the others for long. There are no timers and no full passes. Only at the bound is a bucket evicted
 * that is not full, and never one that refuses.
 *
 * Look-up. A bucket is found by the fingerprint of its name; the name is not kept. Two names share a fingerprint, and
 * so a bucket, with probability at most 2^-51. A hint holds the bucket's last row and two of the three fingerprint
 * numbers, which saves hashing the name (81 ns) and searching. It is valid if the row still has these numbers: another
 * name in that row has them with probability 2^-64, or at most 2^-34 if both names were chosen. Fingerprints of another
 * limiter match with about 2^-64.
 */

/** Rows visited when time has moved on. 32 take about 0.5 µs in a table of 1,000,000. */
const STEPS_PER_MOMENT = 32;
const STEPS_PER_NEWCOMER = 2;
/**
 * Milliseconds without a take after which a full bucket counts as idle. Dropping a bucket that is soon used again costs
 * 1.3 µs: a call over any of 1,000,000 keys, with a limit that refills a token every 2.6 s, took 3.7 µs with 1 s and
 * takes 2.2 µs with 60 s.
 */
const IDLE = 60_000;
/** Rows examined to find one to evict. */
const PROBES = 32;

/** The fingerprint of a bucket's name. */
export type BucketFingerprint = Pick<Fingerprint, "h0" | "h1" | "h2">;

/** The buckets of the current call by row, or by name if new, each with the tokens that the call is about to take. */
export type CallRows = ReadonlyMap<number | string, { readonly pending: number }>;

export class BucketTable {
  /** The buckets, by the row that {@link BucketTable.find} returns. */
  readonly rows = new BucketRows();
  /** Hashes names. After a failed search it holds the fingerprint of the missing name. */
  readonly fingerprint = new Fingerprint();
  readonly #bound: number;
  readonly #index = new FingerprintIndex();
  /** By row: 1 for the bucket of an ad hoc limit. */
  #adHocFlags = new Uint8Array(this.rows.capacity);
  #adHoc = 0;
  /** Rows that have ever been in use: the cursor walks these. */
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
   * @throws RangeError if the name is too long for a fingerprint
   */
  find({ bucket, hint }: HintedCheck): number {
    // Object.is compares addresses first; === would compare the texts.
    return hint !== undefined && Object.is(hint.bucket, bucket) ? this.findAt(hint) : this.#search(bucket);
  }

  /** The row of a hint's bucket: where it was found last, or else by its name. */
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

  /** Visits a few rows and drops full buckets. Call it when time has moved on. */
  sweep(now: number): void {
    this.#visit(STEPS_PER_MOMENT, now);
  }

  /**
   * Makes room for `count` new buckets, `adHoc` of them of ad hoc limits, which may use half of the table. At the bound
   * each evicts a full bucket, or else the least used of a few that do not refuse.
   * @param call the buckets of the current call: those with pending tokens are never evicted
   * @returns false: not enough buckets can be evicted, and none was
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

  /** Adds a bucket under the fingerprint of its name, which must be new. Only after {@link BucketTable.makeRoom}. */
  add({ h0, h1, h2 }: BucketFingerprint, bucket: Bucket, isAdHoc: boolean, now: number): void {
    this.#visit(STEPS_PER_NEWCOMER, now);
    // Grow first: this may throw for lack of memory. A new row is only needed when none is free; its number is then the
    // count.
    const { count } = this;
    if (count === this.rows.capacity) {
      const capacity = Math.min(count * 2, Math.max(count + 1, this.#bound));
      this.#adHocFlags = widened(this.#adHocFlags, capacity);
      this.rows.widen(capacity);
    }
    const row = this.#index.add(h0, h1, h2);
    if (row === this.#high) this.#high++;
    this.rows.add(row, h0, h1, bucket);
    if (!isAdHoc) return;
    this.#adHocFlags[row] = 1;
    this.#adHoc++;
  }

  clear(): void {
    this.#index.clear();
    this.rows.clear();
    this.#adHocFlags = new Uint8Array(this.rows.capacity);
    this.#adHoc = 0;
    this.#high = 0;
    this.#hand.reset();
  }

  #drop(row: number): void {
    this.#index.remove(row);
    this.rows.remove(row);
    this.#adHoc -= this.#adHocFlags[row] as number;
    this.#adHocFlags[row] = 0;
  }

  #visit(steps: number, now: number): void {
    const { rows } = this;
    for (let step = Math.min(steps, this.#high); step > 0; step--) {
      const row = this.#hand.next(this.#high);
      if (rows.has(row) && now - rows.time(row) >= IDLE && rows.utilization(row, now) === 0) this.#drop(row);
    }
  }

  /** The best of the next few rows to evict, or {@link NONE}. */
  #probe(chosen: ReadonlySet<number>, mustBeAdHoc: boolean, call: CallRows, now: number): number {
    let best = NONE;
    let lowest = Infinity;
    for (let step = Math.min(PROBES, this.#high); step > 0; step--) {
      const row = this.#hand.next(this.#high);
      if (!this.rows.has(row) || (mustBeAdHoc && this.#adHocFlags[row] === 0)) continue;
      const utilization = this.rows.utilization(row, now);
      if (utilization >= lowest || chosen.has(row) || (call.get(row)?.pending ?? 0) > 0) continue;
      best = row;
      lowest = utilization;
      if (utilization === 0) break;
    }
    return best;
  }
}
