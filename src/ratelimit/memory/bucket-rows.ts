/** Buckets in rows of 32 bytes, outside the heap. Rulings C2, C4. Knows no names but by their tags, and no bounds. */
import type { LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import type { Touchable } from "../../lib/prefetch.js";
import { widened } from "../../lib/typed-arrays.js";
import { type Bucket, drain, strain, strainOf, tokensLeft, untilFull } from "./bucket.js";
import { LevelTable, NO_LEVEL } from "./level-table.js";
import { CAPACITY, DURATION, LIMIT, NO_PAIR, PAIR_WIDTH, PairTable, SPEED, TOKEN } from "./rate-table.js";

/*
 * Why. A bucket as an object took 140 bytes of heap and lay in several places; a row is one place. Over 1,000,000 at random, each
 * check an object too, a take went from 1,000 ns to 640. Nearly every check is of a bucket with one level, by the pair it has: `take`
 * and `look` do that on the row itself. Everything else reads the row into objects, works as bucket.ts says, and writes it back: the
 * same arithmetic, and the twin of `take`.
 */

/** Doubles a row: time, units used, two that hold four ints. */
const WIDTH = 4;
const AT = 0;
const USED = 1;
/** Small numbers a row. */
const INTS = 8;
/** Of the first level; {@link NO_PAIR}: the row is free. */
const PAIR = 4;
/** Further levels. */
const NEXT = 5;
/** Two thirds of the tag of its name. */
const ONE = 6;
const TWO = 7;
const FIRST_ROWS = 32;

export class BucketRows implements Touchable {
  #numbers = new Float64Array(FIRST_ROWS * WIDTH);
  /** The same memory, in halves. */
  #ints = new Int32Array(this.#numbers.buffer);
  #capacity = FIRST_ROWS;
  #pairs = new PairTable();
  #levels = new LevelTable(this.#pairs);

  /** Rows there is room for. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Pairs that levels use at the moment. */
  get pairCount(): number {
    return this.#pairs.count;
  }

  /** Levels beyond the first of a bucket. */
  get levelCount(): number {
    return this.#levels.count;
  }

  /** Makes room for so many rows. */
  widen(capacity: number): void {
    this.#numbers = widened(this.#numbers, capacity * WIDTH);
    this.#ints = new Int32Array(this.#numbers.buffer);
    this.#capacity = capacity;
  }

  /** Whether a row is there. */
  has(row: number): boolean {
    return this.#ints[row * INTS + PAIR] !== NO_PAIR;
  }

  /** Whether a row is there and has this tag. `row` may be any number. */
  isTagged(row: number, one: number, two: number): boolean {
    if (!(row >= 0 && row < this.#capacity)) return false;
    const ints = this.#ints;
    const at = row * INTS;
    return ints[at + ONE] === one && ints[at + TWO] === two && ints[at + PAIR] !== NO_PAIR;
  }

  /** `src/lib/prefetch.ts` */
  touch(row: number): number {
    return row >= 0 && row < this.#capacity ? (this.#ints[row * INTS] as number) : 0;
  }

  /** The time at which the row's levels were brought up to date. */
  time(row: number): number {
    return this.#numbers[row * WIDTH + AT] as number;
  }

  /** Fills a free row. */
  add(row: number, one: number, two: number, bucket: Bucket): void {
    this.#ints[row * INTS + ONE] = one;
    this.#ints[row * INTS + TWO] = two;
    this.write(row, bucket);
  }

  /** A bucket as an object of its reader's own. */
  read(row: number): Bucket {
    const at = row * WIDTH;
    return {
      at: this.#numbers[at + AT] as number,
      pair: this.#pairs.read(this.#ints[row * INTS + PAIR] as number),
      used: this.#numbers[at + USED] as number,
      next: this.#levels.read(this.#ints[row * INTS + NEXT] as number),
    };
  }

  /** Sets a row to what {@link BucketRows.read} would give. */
  write(row: number, bucket: Bucket): void {
    this.#numbers[row * WIDTH + AT] = bucket.at;
    this.#numbers[row * WIDTH + USED] = bucket.used;
    const pair = this.#ints[row * INTS + PAIR] as number;
    if (!this.#pairs.is(pair, bucket.pair)) {
      this.#ints[row * INTS + PAIR] = this.#pairs.acquire(bucket.pair);
      if (pair !== NO_PAIR) this.#pairs.release(pair);
    }
    const next = this.#ints[row * INTS + NEXT] as number;
    if (next === NO_LEVEL && bucket.next === undefined) return;
    this.#ints[row * INTS + NEXT] = this.#levels.add(bucket.next);
    this.#levels.remove(next);
  }

  /** Frees a row. */
  remove(row: number): void {
    const at = row * INTS;
    this.#pairs.release(this.#ints[at + PAIR] as number);
    this.#levels.remove(this.#ints[at + NEXT] as number);
    this.#ints.fill(0, at, at + INTS);
  }

  clear(): void {
    this.#numbers = new Float64Array(FIRST_ROWS * WIDTH);
    this.#ints = new Int32Array(this.#numbers.buffer);
    this.#capacity = FIRST_ROWS;
    this.#pairs = new PairTable();
    this.#levels = new LevelTable(this.#pairs);
  }

  /** {@link strain} of a row. */
  strain(row: number, now: number): number {
    if (this.#ints[row * INTS + NEXT] !== NO_LEVEL) return strain(this.read(row), now);
    const pair = this.#pairAt(row);
    const { rows } = this.#pairs;
    return strainOf(this.#used(row, pair, now), rows[pair + CAPACITY] as number, rows[pair + TOKEN] as number);
  }

  /** Whether a check is a common one: its bucket has one level, by its own pair. {@link BucketRows.take} and `look` serve these only. */
  isCommon(row: number, { limit, duration }: LimitSize): boolean {
    const pair = this.#pairAt(row);
    const { rows } = this.#pairs;
    if (rows[pair + LIMIT] !== limit || rows[pair + DURATION] !== duration || rows[pair + TOKEN] === 0) return false;
    return this.#ints[row * INTS + NEXT] === NO_LEVEL;
  }

  /** Whether a common check may have its tokens. @param now here and below: not before the row's time */
  fits(row: number, limit: number, cost: number, now: number): boolean {
    if (cost === 0) return true;
    const pair = this.#pairAt(row);
    const { rows } = this.#pairs;
    return cost <= limit && this.#used(row, pair, now) <= (rows[pair + CAPACITY] as number) - cost * (rows[pair + TOKEN] as number);
  }

  /** Takes what a common check asks, if it may have it. Written out: two in a call take 120 ns, with the parts below 148. */
  take(row: number, limit: number, cost: number, now: number): LimitVerdict {
    const numbers = this.#numbers;
    const at = row * WIDTH;
    const pair = this.#pairAt(row);
    const { rows } = this.#pairs;
    const token = rows[pair + TOKEN] as number;
    const speed = rows[pair + SPEED] as number;
    const capacity = rows[pair + CAPACITY] as number;
    let used = drain(numbers[at + USED] as number, speed, now - (numbers[at + AT] as number));
    const exceeded = cost > 0 && (cost > limit || used > capacity - cost * token);
    if (cost > 0 && !exceeded) {
      used += cost * token;
      numbers[at + AT] = now;
      numbers[at + USED] = used;
    }
    return { exceeded, remaining: tokensLeft(used, capacity, token), reset: untilFull(used, speed) };
  }

  /** What a common check sees where nothing is taken. */
  look(row: number, limit: number, cost: number, now: number): LimitVerdict {
    return this.#verdict(row, !this.fits(row, limit, cost, now), now);
  }

  #verdict(row: number, exceeded: boolean, now: number): LimitVerdict {
    const pair = this.#pairAt(row);
    const { rows } = this.#pairs;
    const used = this.#used(row, pair, now);
    const remaining = tokensLeft(used, rows[pair + CAPACITY] as number, rows[pair + TOKEN] as number);
    return { exceeded, remaining, reset: untilFull(used, rows[pair + SPEED] as number) };
  }

  /** Where the pair of the first level starts among the pairs' numbers. */
  #pairAt(row: number): number {
    return (this.#ints[row * INTS + PAIR] as number) * PAIR_WIDTH;
  }

  /** Units used on the first level. */
  #used(row: number, pair: number, now: number): number {
    const at = row * WIDTH;
    return drain(this.#numbers[at + USED] as number, this.#pairs.rows[pair + SPEED] as number, now - (this.#numbers[at + AT] as number));
  }
}
