/**
 * A map of bounded size that drops what was used longest ago. The reference implementation is a list in the order of
 * use (`lru-map.test.ts`).
 *
 * Why not a library: lru-cache, with all that it can do besides, was a sixth of a bundle of `createVerifier`.
 */

/** A place in the ring that goes from the entry used longest ago to the last one used. */
interface Link {
  older: Link;
  newer: Link;
}

interface Entry<V> extends Link {
  readonly key: string;
  readonly value: V;
  readonly weight: number;
}

/** O(1) in all it does. */
export class LruMap<V> {
  readonly #max: number;
  readonly #entries = new Map<string, Entry<V>>();
  /** Closes the ring: `newer` is the entry used longest ago, `older` the last one used. */
  readonly #ends: Link = newRing();
  #weight = 0;

  /** @param max the most that its entries may weigh together, ≥ 1: how many they are, unless `set` is told otherwise */
  constructor(max: number) {
    this.#max = max;
  }

  /** Entries held. */
  get size(): number {
    return this.#entries.size;
  }

  /** The value of a key, which counts as a use. */
  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry !== this.#ends.older) {
      unlink(entry);
      this.#linkAsNewest(entry);
    }
    return entry.value;
  }

  /** Replaces the value of a key, which counts as a use. @param weight ≥ 1; what weighs more than `max` is not kept */
  set(key: string, value: V, weight = 1): void {
    this.delete(key);
    if (weight > this.#max) return;
    while (this.#weight + weight > this.#max) this.delete((this.#ends.newer as Entry<V>).key);
    const entry = { key, value, weight, older: this.#ends, newer: this.#ends };
    this.#linkAsNewest(entry);
    this.#entries.set(key, entry);
    this.#weight += weight;
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#weight -= entry.weight;
    unlink(entry);
  }

  clear(): void {
    this.#entries.clear();
    this.#weight = 0;
    this.#ends.newer = this.#ends.older = this.#ends;
  }

  #linkAsNewest(entry: Link): void {
    const ends = this.#ends;
    entry.older = ends.older;
    entry.newer = ends;
    ends.older.newer = entry;
    ends.older = entry;
  }
}

function newRing(): Link {
  const ends = {} as Link;
  ends.older = ends.newer = ends;
  return ends;
}

function unlink({ older, newer }: Link): void {
  older.newer = newer;
  newer.older = older;
}
