/**
 * Bounds what long values of a cache take together, by their bytes, where the cache itself counts values.
 *
 * Why apart from the cache: with one bound for all, the long values of one workspace would push out the short ones of
 * others. Here they push out each other, the least recently used first. Metadata of 64 KB takes up to 240 KB in memory.
 */

/** A long value in a cache. */
export class Heavy<T> {
  /** `undefined`: it was pushed out, and is as one that is not cached. */
  value: T | undefined;
  readonly bytes: number;

  constructor(value: T, bytes: number) {
    this.value = value;
    this.bytes = bytes;
  }
}

/** Bytes up to which a value is not counted. */
export const LIGHT_BYTES = 1_024;

/** The long values of one cache, bounded together. */
export class HeavyValues<T> {
  readonly #max: number;
  #bytes = 0;
  /** The least recently used first; those that left the cache stay until they are pushed out. */
  readonly #held = new Set<Heavy<T>>();

  /** @param max bytes of all values together */
  constructor(max: number) {
    this.#max = max;
  }

  /** What to put into the cache for a value. @param bytes of the value, about */
  hold(value: T, bytes: number): T | Heavy<T> {
    if (bytes <= LIGHT_BYTES) return value;
    const heavy = new Heavy(value, bytes);
    this.#held.add(heavy);
    this.#bytes += bytes;
    for (const oldest of this.#held) {
      if (this.#bytes <= this.#max) break;
      this.#held.delete(oldest);
      this.#bytes -= oldest.bytes;
      oldest.value = undefined;
    }
    return heavy;
  }

  /** The value, which counts as used; `undefined`: it was pushed out. */
  use(heavy: Heavy<T>): T | undefined {
    if (this.#held.delete(heavy)) this.#held.add(heavy);
    return heavy.value;
  }

  clear(): void {
    this.#held.clear();
    this.#bytes = 0;
  }
}
