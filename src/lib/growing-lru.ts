/**
 * A cache of the values used most recently, which takes memory for what it holds. `lru-cache` alone makes its tables
 * for the most that it may hold: a verifier with four of them took 6 ms and 1.1 MB before its first key, and to empty
 * one of 10,000 took 100 µs.
 */
import { LRUCache } from "lru-cache";

type Options<V extends object | true> = LRUCache.Options<string, V, unknown> & { readonly max: number };

const FIRST = 32;
const GROWTH = 4;

export class GrowingLru<V extends object | true> {
  readonly #options: Options<V>;
  #max: number;
  #cache: LRUCache<string, V>;

  /** @param options those of `lru-cache`; `max` is the most values held, ≥ 1 */
  constructor(options: Options<V>) {
    this.#options = options;
    this.#max = Math.min(FIRST, options.max);
    this.#cache = this.#create();
  }

  get size(): number {
    return this.#cache.size;
  }

  get(key: string): V | undefined {
    return this.#cache.get(key);
  }

  /** O(1), except for the calls that enlarge the tables, each to the fourfold. */
  set(key: string, value: V): void {
    if (this.#cache.size === this.#max && this.#max < this.#options.max && !this.#cache.has(key)) this.#grow();
    this.#cache.set(key, value);
  }

  delete(key: string): boolean {
    return this.#cache.delete(key);
  }

  /** All that is held, in a new list, without counting as use. */
  entries(): [string, V][] {
    return [...this.#cache.entries()];
  }

  clear(): void {
    if (this.#cache.size === 0) return;
    this.#max = Math.min(FIRST, this.#options.max);
    this.#cache = this.#create();
  }

  #grow(): void {
    const values = this.#cache.dump();
    this.#max = Math.min(this.#max * GROWTH, this.#options.max);
    this.#cache = this.#create();
    this.#cache.load(values);
  }

  #create(): LRUCache<string, V> {
    return new LRUCache<string, V>({ ...this.#options, max: this.#max });
  }
}
