/** Buckets in rows of 64 bytes, outside the heap. Only this file knows the layout of a row. */
import type { LimitSize, LimitVerdict, LimitCheck } from "../../contracts/limiter.js";
import type { Mutable } from "../../lib/mutable.js";
import { widened } from "../../lib/typed-arrays.js";
import { type Bucket, drain, fits, tokensLeft, untilFull, utilization, utilizationOf } from "./bucket.js";

/*
 * Why rows: over many keys most of the time of a take is waiting for memory. A row is in one place; a bucket object is
 * in three, and the garbage collector walks all of them. Rows are in chunks, so that growing copies one chunk at most.
 *
 * The few buckets with several levels are objects beside their rows. The limit in such a row is LEVELLED, which equals
 * no limit, so `takeOne` does not use the row.
 */

/** Layout of a row: 64-bit numbers, then 32-bit numbers, two in the space of one, so at twice the row's index. */
const WIDTH = 8;
const AT = 0;
const USED = 1;
const LIMIT = 2;
const DURATION = 3;
const UNITS_PER_TOKEN = 4;
const DRAIN_PER_MS = 5;
/** In place of the limit: see above. */
const LEVELLED = -1;
/** Number of buckets that have left the row; wraps at 2^32, after more than an hour of nothing else. */
const VERSION = 12;
const RING = 13;
const INDEX = 14;

const CHUNK_BITS = 12;
const CHUNK_ROWS = 2 ** CHUNK_BITS;
const CHUNK_MASK = CHUNK_ROWS - 1;
/** The first chunk begins with this size and doubles, since most limiters stay small. */
const FIRST_ROWS = 16;

class Chunk {
  readonly rows: BucketRows;
  /** Its first row. */
  readonly first: number;
  numbers: Float64Array<ArrayBuffer>;
  /** A view of the same memory. */
  ints: Int32Array<ArrayBuffer>;
  /** Names of the buckets; undefined: the row is free. */
  readonly names: (string | undefined)[] = [];

  constructor(rows: BucketRows, first: number) {
    this.rows = rows;
    this.first = first;
    this.numbers = new Float64Array((first === 0 ? FIRST_ROWS : CHUNK_ROWS) * WIDTH);
    this.ints = new Int32Array(this.numbers.buffer);
  }

  /** Reads a number of a row, so that {@link BucketRows.takeOne} finds the row in the processor's cache. */
  prefetch(at: number): number {
    return this.ints[2 * at + VERSION] as number;
  }

  double(): void {
    this.numbers = widened(this.numbers, this.numbers.length * 2);
    this.ints = new Int32Array(this.numbers.buffer);
  }
}

export class BucketRows {
  readonly #chunks: Chunk[] = [];
  readonly #free: number[] = [];
  #high = 0;
  /** Buckets with several levels, by row. */
  readonly #levelled = new Map<number, Bucket>();
  /** Of the last {@link BucketRows.takeOne}. */
  readonly #verdict: Mutable<LimitVerdict> = { exceeded: false, remaining: 0, reset: 0 };

  /** Every row that was ever in use is below this. */
  get high(): number {
    return this.#high;
  }

  /** The name of the bucket in a row; undefined: there is none. */
  nameOf(row: number): string | undefined {
    return this.#chunkOf(row).names[row & CHUNK_MASK];
  }

  /** The number of the ring that the row is in, as given to {@link BucketRows.setRing}. */
  ringOf(row: number): number {
    return this.#chunkOf(row).ints[2 * numbersAt(row) + RING] as number;
  }

  /** The row's index in its ring. */
  indexOf(row: number): number {
    return this.#chunkOf(row).ints[2 * numbersAt(row) + INDEX] as number;
  }

  /** Records the row's ring and its index there. */
  setRing(row: number, ring: number, index: number): void {
    const { ints } = this.#chunkOf(row);
    const at = 2 * numbersAt(row);
    ints[at + RING] = ring;
    ints[at + INDEX] = index;
  }

  /** The row at a place, if that is in these rows, and the bucket of this name is still there. */
  rowAt({ bucketChunk: chunk, bucketAt: at, bucketVersion }: Place, name: string): number | undefined {
    if (chunk?.rows !== this || chunk.ints[2 * at + VERSION] !== bucketVersion) return undefined;
    return chunk.names[at / WIDTH] === name ? chunk.first + at / WIDTH : undefined;
  }

  /** Sets a place to the row of its bucket. */
  locate(place: Place, row: number): void {
    const chunk = this.#chunkOf(row);
    const at = numbersAt(row);
    place.bucketChunk = chunk;
    place.bucketAt = at;
    place.bucketVersion = chunk.ints[2 * at + VERSION] as number;
  }

  /** Puts a bucket in a free row. */
  add(name: string, bucket: Bucket): number {
    const row = this.#free.pop() ?? this.#newRow();
    this.#chunkOf(row).names[row & CHUNK_MASK] = name;
    this.write(row, bucket);
    return row;
  }

  /** Frees a row in use. */
  remove(row: number): void {
    const { ints, names } = this.#chunkOf(row);
    const version = 2 * numbersAt(row) + VERSION;
    ints[version] = (ints[version] as number) + 1;
    names[row & CHUNK_MASK] = undefined;
    this.#levelled.delete(row);
    this.#free.push(row);
  }

  /** The bucket in a row. To change it, change the returned object and {@link BucketRows.write} it. */
  read(row: number): Bucket {
    const levelled = this.#levelled.get(row);
    if (levelled !== undefined) return levelled;
    const { numbers } = this.#chunkOf(row);
    const at = numbersAt(row);
    const [limit, unitsPerToken] = [numbers[at + LIMIT] as number, numbers[at + UNITS_PER_TOKEN] as number];
    const [duration, drainPerMs] = [numbers[at + DURATION] as number, numbers[at + DRAIN_PER_MS] as number];
    const rate = { limit, duration, unitsPerToken, drainPerMs, capacity: limit * unitsPerToken };
    return { at: numbers[at + AT] as number, rate, used: numbers[at + USED] as number, next: undefined };
  }

  write(row: number, bucket: Bucket): void {
    const { numbers } = this.#chunkOf(row);
    const at = numbersAt(row);
    const { rate } = bucket;
    numbers[at + AT] = bucket.at;
    numbers[at + USED] = bucket.used;
    numbers[at + LIMIT] = bucket.next === undefined ? rate.limit : LEVELLED;
    numbers[at + DURATION] = rate.duration;
    numbers[at + UNITS_PER_TOKEN] = rate.unitsPerToken;
    numbers[at + DRAIN_PER_MS] = rate.drainPerMs;
    const { at: time, used, next } = bucket;
    if (next !== undefined) this.#levelled.set(row, { at: time, rate, used, next });
    else if (this.#levelled.size > 0) this.#levelled.delete(row);
  }

  /** Whether a row has a bucket that is full, and from which nothing was taken for `idle` milliseconds. */
  isIdle(row: number, idle: number, now: number): boolean {
    if (this.nameOf(row) === undefined) return false;
    const at = this.#chunkOf(row).numbers[numbersAt(row) + AT] as number;
    return now - at >= idle && this.utilization(row, now) === 0;
  }

  /** {@link utilization} of the bucket in a row. */
  utilization(row: number, now: number): number {
    const { numbers } = this.#chunkOf(row);
    const at = numbersAt(row);
    const limit = numbers[at + LIMIT] as number;
    if (limit === LEVELLED) return utilization(this.read(row), now);
    const elapsed = Math.max(0, now - (numbers[at + AT] as number));
    return utilizationOf(
      drain(numbers[at + USED] as number, numbers[at + DRAIN_PER_MS] as number, elapsed),
      limit,
      numbers[at + UNITS_PER_TOKEN] as number,
    );
  }

  /**
   * Takes one token, if it fits, from a bucket of the usual kind: one level, at this rate, which is not one of 0 units.
   * @returns an object that the next take overwrites: one for each would be a twentieth of what a verification
   *   allocates. undefined: the place is in other rows, or the bucket is gone or of another kind; nothing was taken
   */
  takeOne(place: Place, { limit, duration }: LimitSize, now: number): LimitVerdict | undefined {
    const { bucketChunk: chunk, bucketAt: at } = place;
    if (chunk?.rows !== this || chunk.ints[2 * at + VERSION] !== place.bucketVersion) return undefined;
    const { numbers } = chunk;
    if (numbers[at + LIMIT] !== limit || numbers[at + DURATION] !== duration) return undefined;
    const unitsPerToken = numbers[at + UNITS_PER_TOKEN] as number;
    if (unitsPerToken === 0) return undefined;
    const elapsed = Math.max(0, now - (numbers[at + AT] as number));
    const drainPerMs = numbers[at + DRAIN_PER_MS] as number;
    let used = drain(numbers[at + USED] as number, drainPerMs, elapsed);
    const exceeded = !fits(used, { limit, unitsPerToken }, 1);
    if (!exceeded) {
      used += unitsPerToken;
      numbers[at + AT] = (numbers[at + AT] as number) + elapsed;
      numbers[at + USED] = used;
    }
    const verdict = this.#verdict;
    verdict.exceeded = exceeded;
    verdict.remaining = tokensLeft(used, limit, unitsPerToken);
    verdict.reset = untilFull(used, drainPerMs);
    return verdict;
  }

  #chunkOf(row: number): Chunk {
    return this.#chunks[row >>> CHUNK_BITS] as Chunk;
  }

  #newRow(): number {
    const row = this.#high;
    const last = this.#chunks.at(-1);
    if (last === undefined || row === last.first + CHUNK_ROWS) this.#chunks.push(new Chunk(this, row));
    else if (numbersAt(row) === last.numbers.length) last.double();
    return this.#high++;
  }
}

function numbersAt(row: number): number {
  return (row & CHUNK_MASK) * WIDTH;
}

/**
 * Names the place where the memory limiter last found the bucket of a check; kept with the key between calls.
 *
 * Why a symbol: only the memory limiter reads it, and limiters that send checks as JSON leave it out.
 */
export const PLACE: unique symbol = Symbol("place");

/** The place of a bucket, written by the limiter. */
export interface Place {
  /** The chunk of rows that holds the bucket; undefined: not found yet. */
  bucketChunk: Chunk | undefined;
  /** Index of the row's first number in the chunk. */
  bucketAt: number;
  /** Number of buckets that had left the row: if more have left since, the row holds another bucket. */
  bucketVersion: number;
}

/** A check whose place is kept. */
export interface KeptCheck extends LimitCheck {
  readonly [PLACE]: Place;
}

/** The place of a bucket that was not looked up yet. */
export function newPlace(): Place {
  return { bucketChunk: undefined, bucketAt: 0, bucketVersion: 0 };
}
