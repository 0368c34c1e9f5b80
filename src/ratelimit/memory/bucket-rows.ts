/** Buckets in rows of 32 bytes, outside the heap. */
import type { LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import { widened } from "../../lib/typed-arrays.js";
import type { BucketHint } from "./bucket-hint.js";
import { type Bucket, drain, tokensLeft, untilFull, utilization, utilizationOf } from "./bucket.js";
import { LevelTable, NO_LEVEL } from "./level-table.js";
import {
  CAPACITY,
  DRAIN_PER_MS,
  DURATION,
  LIMIT,
  NO_RATE,
  RATE_WIDTH,
  RateTable,
  UNITS_PER_TOKEN,
} from "./rate-table.js";

/*
 * Why: a bucket as objects took 140 bytes of heap in several places; a row is in one place. A take over 1,000,000
 * buckets in random order went from 1,000 ns to 640. Nearly every check is of a bucket with one level, at the rate of
 * that level: `take` and `peek` handle those on the row itself. All others read the row into objects, use the
 * arithmetic of bucket.ts, and write it back. That is also the reference implementation of `take`.
 */

/** Doubles per row: time, units used, and two that hold four int32. */
const WIDTH = 4;
const AT = 0;
const USED = 1;
/** Int32 per row. */
const INTS = 8;
/** Rate of the first level; {@link NO_RATE}: the row is free. */
const RATE = 4;
/** First of the further levels. */
const NEXT = 5;
/** Two of the three numbers of the name's fingerprint. */
const H0 = 6;
const H1 = 7;
const FIRST_ROWS = 32;

export class BucketRows {
  #numbers = new Float64Array(FIRST_ROWS * WIDTH);
  /** The same memory as int32. */
  #ints = new Int32Array(this.#numbers.buffer);
  #capacity = FIRST_ROWS;
  #rates = new RateTable();
  #levels = new LevelTable(this.#rates);

  /** Rows allocated. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Rates that levels use at the moment. */
  get rateCount(): number {
    return this.#rates.count;
  }

  /** Levels beyond the first, of all buckets. */
  get levelCount(): number {
    return this.#levels.count;
  }

  /** Grows to `capacity` rows. */
  widen(capacity: number): void {
    this.#numbers = widened(this.#numbers, capacity * WIDTH);
    this.#ints = new Int32Array(this.#numbers.buffer);
    this.#capacity = capacity;
  }

  /** Whether a row is in use. */
  has(row: number): boolean {
    return this.#ints[row * INTS + RATE] !== NO_RATE;
  }

  /** Whether a row is in use and has this fingerprint. `row` may be any number. */
  hasFingerprint(row: number, h0: number, h1: number): boolean {
    if (!(row >= 0 && row < this.#capacity)) return false;
    const ints = this.#ints;
    const at = row * INTS;
    return ints[at + H0] === h0 && ints[at + H1] === h1 && ints[at + RATE] !== NO_RATE;
  }

  /** When the row's levels were last brought up to date. */
  time(row: number): number {
    return this.#numbers[row * WIDTH + AT] as number;
  }

  /** Fills a free row. */
  add(row: number, h0: number, h1: number, bucket: Bucket): void {
    this.#ints[row * INTS + H0] = h0;
    this.#ints[row * INTS + H1] = h1;
    this.write(row, bucket);
  }

  /** A bucket as a new object. */
  read(row: number): Bucket {
    const at = row * WIDTH;
    return {
      at: this.#numbers[at + AT] as number,
      rate: this.#rates.read(this.#ints[row * INTS + RATE] as number),
      used: this.#numbers[at + USED] as number,
      next: this.#levels.read(this.#ints[row * INTS + NEXT] as number),
    };
  }

  /** Stores a bucket in a row; the inverse of {@link BucketRows.read}. */
  write(row: number, bucket: Bucket): void {
    this.#numbers[row * WIDTH + AT] = bucket.at;
    this.#numbers[row * WIDTH + USED] = bucket.used;
    const rate = this.#ints[row * INTS + RATE] as number;
    if (!this.#rates.is(rate, bucket.rate)) {
      this.#ints[row * INTS + RATE] = this.#rates.acquire(bucket.rate);
      if (rate !== NO_RATE) this.#rates.release(rate);
    }
    const next = this.#ints[row * INTS + NEXT] as number;
    if (next === NO_LEVEL && bucket.next === undefined) return;
    this.#ints[row * INTS + NEXT] = this.#levels.add(bucket.next);
    this.#levels.remove(next);
  }

  /** Frees a row. */
  remove(row: number): void {
    const at = row * INTS;
    this.#rates.release(this.#ints[at + RATE] as number);
    this.#levels.remove(this.#ints[at + NEXT] as number);
    this.#ints.fill(0, at, at + INTS);
  }

  clear(): void {
    this.#numbers = new Float64Array(FIRST_ROWS * WIDTH);
    this.#ints = new Int32Array(this.#numbers.buffer);
    this.#capacity = FIRST_ROWS;
    this.#rates = new RateTable();
    this.#levels = new LevelTable(this.#rates);
  }

  /** {@link utilization} of a row. */
  utilization(row: number, now: number): number {
    if (this.#ints[row * INTS + NEXT] !== NO_LEVEL) return utilization(this.read(row), now);
    const rate = this.#rateAt(row);
    const { rows } = this.#rates;
    return utilizationOf(
      this.#used(row, rate, now),
      rows[rate + CAPACITY] as number,
      rows[rate + UNITS_PER_TOKEN] as number,
    );
  }

  /**
   * Whether a check is common: its bucket has a single level, at the check's rate. {@link BucketRows.fits}, `take` and
   * `peek` handle only these.
   */
  isCommon(row: number, { limit, duration }: LimitSize): boolean {
    const rate = this.#rateAt(row);
    const { rows } = this.#rates;
    if (rows[rate + LIMIT] !== limit || rows[rate + DURATION] !== duration || rows[rate + UNITS_PER_TOKEN] === 0)
      return false;
    return this.#ints[row * INTS + NEXT] === NO_LEVEL;
  }

  /**
   * Takes one token of a common check from the bucket where the hint says. Written out: every verification of a key
   * with one limit calls it, and the compiler inlines only so much of what is called.
   * @returns undefined: the bucket is not there, or the check is not common; nothing was taken
   */
  takeAt({ row, h0, h1 }: BucketHint, { limit, duration }: LimitSize, now: number): LimitVerdict | undefined {
    if (!(row >= 0 && row < this.#capacity)) return undefined;
    const ints = this.#ints;
    const at = row * INTS;
    if (ints[at + H0] !== h0 || ints[at + H1] !== h1 || ints[at + NEXT] !== NO_LEVEL) return undefined;
    const rate = (ints[at + RATE] as number) * RATE_WIDTH;
    const { rows } = this.#rates;
    // A free row has the rate of 0 units.
    if (rows[rate + LIMIT] !== limit || rows[rate + DURATION] !== duration || rows[rate + UNITS_PER_TOKEN] === 0)
      return undefined;
    return this.take(row, limit, 1, now);
  }

  /**
   * Whether a common check fits.
   * @param now here and below: not before the row's time
   */
  fits(row: number, limit: number, cost: number, now: number): boolean {
    if (cost === 0) return true;
    const rate = this.#rateAt(row);
    const { rows } = this.#rates;
    return (
      cost <= limit &&
      this.#used(row, rate, now) <= (rows[rate + CAPACITY] as number) - cost * (rows[rate + UNITS_PER_TOKEN] as number)
    );
  }

  /**
   * Takes the tokens of a common check, if it fits. Written out: two in a call take 120 ns, and 148 with the helpers
   * below.
   */
  take(row: number, limit: number, cost: number, now: number): LimitVerdict {
    const numbers = this.#numbers;
    const at = row * WIDTH;
    const rate = this.#rateAt(row);
    const { rows } = this.#rates;
    const unitsPerToken = rows[rate + UNITS_PER_TOKEN] as number;
    const drainPerMs = rows[rate + DRAIN_PER_MS] as number;
    const capacity = rows[rate + CAPACITY] as number;
    let used = drain(numbers[at + USED] as number, drainPerMs, now - (numbers[at + AT] as number));
    const exceeded = cost > 0 && (cost > limit || used > capacity - cost * unitsPerToken);
    if (cost > 0 && !exceeded) {
      used += cost * unitsPerToken;
      numbers[at + AT] = now;
      numbers[at + USED] = used;
    }
    return { exceeded, remaining: tokensLeft(used, capacity, unitsPerToken), reset: untilFull(used, drainPerMs) };
  }

  /** The verdict of a common check where nothing is taken. */
  peek(row: number, limit: number, cost: number, now: number): LimitVerdict {
    return this.#verdict(row, !this.fits(row, limit, cost, now), now);
  }

  #verdict(row: number, exceeded: boolean, now: number): LimitVerdict {
    const rate = this.#rateAt(row);
    const { rows } = this.#rates;
    const used = this.#used(row, rate, now);
    const remaining = tokensLeft(used, rows[rate + CAPACITY] as number, rows[rate + UNITS_PER_TOKEN] as number);
    return { exceeded, remaining, reset: untilFull(used, rows[rate + DRAIN_PER_MS] as number) };
  }

  /** The offset of the first level's rate in the rows of {@link RateTable}. */
  #rateAt(row: number): number {
    return (this.#ints[row * INTS + RATE] as number) * RATE_WIDTH;
  }

  /** Units used on the first level at `now`. */
  #used(row: number, rate: number, now: number): number {
    const at = row * WIDTH;
    return drain(
      this.#numbers[at + USED] as number,
      this.#rates.rows[rate + DRAIN_PER_MS] as number,
      now - (this.#numbers[at + AT] as number),
    );
  }
}
