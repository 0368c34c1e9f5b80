/** The levels of buckets beyond their first, as linked lists in rows. Only buckets used with overrides have any. */
import { widened } from "../../lib/typed-arrays.js";
import type { Level } from "./bucket.js";
import type { RateTable } from "./rate-table.js";

/**
 * Doubles per row: units used, and one that holds two int32: the rate, and the next row of the list (of a free row: the
 * next free row).
 */
const WIDTH = 2;
const RATE = 2;
const NEXT = 3;
const FIRST_ROWS = 16;

/** The end of a list; an empty list. */
export const NO_LEVEL = 0;

/** Rows of 16 bytes. */
export class LevelTable {
  #numbers = new Float64Array(FIRST_ROWS * WIDTH);
  /** The same memory as int32. */
  #ints = new Int32Array(this.#numbers.buffer);
  #free = NO_LEVEL;
  /** Row 0 is {@link NO_LEVEL}. */
  #high = 1;
  #count = 0;
  readonly #rates: RateTable;

  constructor(rates: RateTable) {
    this.#rates = rates;
  }

  /** Levels held. */
  get count(): number {
    return this.#count;
  }

  /** A list as new objects. */
  read(first: number): Level | undefined {
    if (first === NO_LEVEL) return undefined;
    const at = first * WIDTH;
    const rate = this.#rates.read(this.#ints[at * 2 + RATE] as number);
    return { rate, used: this.#numbers[at] as number, next: this.read(this.#ints[at * 2 + NEXT] as number) };
  }

  /**
   * Stores a list.
   * @returns its first row
   */
  add(level: Level | undefined): number {
    if (level === undefined) return NO_LEVEL;
    const next = this.add(level.next);
    const row = this.#newRow();
    this.#numbers[row * WIDTH] = level.used;
    this.#ints[row * WIDTH * 2 + RATE] = this.#rates.acquire(level.rate);
    this.#ints[row * WIDTH * 2 + NEXT] = next;
    this.#count++;
    return row;
  }

  /** Frees a list. */
  remove(first: number): void {
    for (let row = first; row !== NO_LEVEL;) {
      const at = row * WIDTH * 2;
      const next = this.#ints[at + NEXT] as number;
      this.#rates.release(this.#ints[at + RATE] as number);
      this.#ints[at + NEXT] = this.#free;
      this.#free = row;
      this.#count--;
      row = next;
    }
  }

  #newRow(): number {
    const free = this.#free;
    if (free !== NO_LEVEL) {
      this.#free = this.#ints[free * WIDTH * 2 + NEXT] as number;
      return free;
    }
    if (this.#high * WIDTH === this.#numbers.length) {
      this.#numbers = widened(this.#numbers, this.#numbers.length * 2);
      this.#ints = new Int32Array(this.#numbers.buffer);
    }
    return this.#high++;
  }
}
