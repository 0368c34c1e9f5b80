/** The rates that buckets use, each under a small number and kept while a level uses it. */
import { widened } from "../../lib/typed-arrays.js";
import type { Rate } from "./bucket.js";

/*
 * Why: most buckets share a few rates, so a level stores its rate as a number of 4 bytes. Any request may bring a new
 * rate, so uses are counted and the last release frees it. There are never more rates than levels. They are in rows of
 * 64 bytes: as objects they could be a million for the garbage collector to walk, where each bucket has its own rate.
 */

/** Doubles per row; the names below are offsets in it. */
export const RATE_WIDTH = 8;
export const LIMIT = 0;
export const DURATION = 1;
export const UNITS_PER_TOKEN = 2;
export const DRAIN_PER_MS = 3;
export const CAPACITY = 4;
const USES = 5;
/** The next rate with the same hash; of a free row, the next free row. */
const NEXT = 6;

const FIRST_ROWS = 16;
const TWO_32 = 2 ** 32;
const LOW_16 = 2 ** 16 - 1;
/** 16-bit parts per number. */
const PARTS = 4;

/** No rate. */
export const NO_RATE = 0;

export class RateTable {
  /**
   * For reading; replaced when the table grows.
   * @see {@link LIMIT} and the other offsets
   */
  rows = new Float64Array(FIRST_ROWS * RATE_WIDTH);
  #heads = new Int32Array(FIRST_ROWS);
  #shift = 32 - Math.log2(FIRST_ROWS);
  #free = NO_RATE;
  /** Row 0 is {@link NO_RATE}. */
  #high = 1;
  #count = 0;
  /**
   * Random, so that nobody can choose rates that all share a hash. Drawn at the first rate, because Cloudflare Workers
   * do not allow random numbers where limiters are created.
   */
  #factors: Int32Array | undefined;

  /** Rates held. */
  get count(): number {
    return this.#count;
  }

  /** The number of a rate, with one more use counted. */
  acquire(rate: Rate): number {
    const known = this.#find(rate);
    const id = known === NO_RATE ? this.#add(rate) : known;
    const at = id * RATE_WIDTH + USES;
    this.rows[at] = (this.rows[at] as number) + 1;
    return id;
  }

  /** Counts one use less; the last one frees the number. */
  release(id: number): void {
    const at = id * RATE_WIDTH + USES;
    const uses = (this.rows[at] as number) - 1;
    this.rows[at] = uses;
    if (uses === 0) this.#remove(id);
  }

  /** Whether this number stands for this rate. */
  is(id: number, { limit, duration }: Rate): boolean {
    const at = id * RATE_WIDTH;
    return id !== NO_RATE && this.rows[at + LIMIT] === limit && this.rows[at + DURATION] === duration;
  }

  /** The rate of a number. */
  read(id: number): Rate {
    const { rows } = this;
    const at = id * RATE_WIDTH;
    return {
      limit: rows[at + LIMIT] as number,
      duration: rows[at + DURATION] as number,
      unitsPerToken: rows[at + UNITS_PER_TOKEN] as number,
      drainPerMs: rows[at + DRAIN_PER_MS] as number,
      capacity: rows[at + CAPACITY] as number,
    };
  }

  #find(rate: Rate): number {
    let id = this.#heads[this.#hash(rate.limit, rate.duration)] as number;
    while (id !== NO_RATE && !this.is(id, rate)) id = this.rows[id * RATE_WIDTH + NEXT] as number;
    return id;
  }

  #add({ limit, duration, unitsPerToken, drainPerMs, capacity }: Rate): number {
    const id = this.#newRow();
    this.rows.set([limit, duration, unitsPerToken, drainPerMs, capacity, 0, NO_RATE], id * RATE_WIDTH);
    this.#link(id);
    this.#count++;
    return id;
  }

  #remove(id: number): void {
    const { rows } = this;
    const after = id * RATE_WIDTH + NEXT;
    const head = this.#hash(rows[id * RATE_WIDTH + LIMIT] as number, rows[id * RATE_WIDTH + DURATION] as number);
    const first = this.#heads[head] as number;
    if (first === id) this.#heads[head] = rows[after] as number;
    else {
      let before = first * RATE_WIDTH + NEXT;
      while (rows[before] !== id) before = (rows[before] as number) * RATE_WIDTH + NEXT;
      rows[before] = rows[after] as number;
    }
    rows[after] = this.#free;
    this.#free = id;
    this.#count--;
  }

  #newRow(): number {
    const free = this.#free;
    if (free !== NO_RATE) {
      this.#free = this.rows[free * RATE_WIDTH + NEXT] as number;
      return free;
    }
    if (this.#high === this.#heads.length) this.#widen();
    return this.#high++;
  }

  #widen(): void {
    this.rows = widened(this.rows, this.rows.length * 2);
    this.#heads = new Int32Array(this.#heads.length * 2);
    this.#shift--;
    // No row is free when a table has to grow.
    for (let id = 1; id < this.#high; id++) this.#link(id);
  }

  #link(id: number): void {
    const at = id * RATE_WIDTH;
    const head = this.#hash(this.rows[at + LIMIT] as number, this.rows[at + DURATION] as number);
    this.rows[at + NEXT] = this.#heads[head] as number;
    this.#heads[head] = id;
  }

  #hash(limit: number, duration: number): number {
    const factors = (this.#factors ??= globalThis.crypto.getRandomValues(new Int32Array(2 * PARTS)));
    return (mix(limit, factors, 0) + mix(duration, factors, PARTS)) >>> this.#shift;
  }
}

/**
 * Multilinear hashing of 16-bit parts. With larger parts, numbers that end in many zero bits would share a few hashes.
 */
function mix(value: number, factors: Int32Array, from: number): number {
  const high = value / TWO_32;
  return (
    Math.imul(value & LOW_16, factors[from] as number) +
    Math.imul(value >>> 16, factors[from + 1] as number) +
    Math.imul(high & LOW_16, factors[from + 2] as number) +
    Math.imul(high >>> 16, factors[from + 3] as number)
  );
}
