/**
 * A table of packed values behind a hot tier: the 16,384 values used most recently, as objects.
 *
 * Why: a packed value must be unpacked, which takes 90 ns and creates garbage; and these few lie close together, while
 * 4,096 rows out of 1,000,000 lie on as many pages of memory, whose addresses the processor must look up first.
 */
import { ClockHand } from "../lib/clock-hand.js";
import { FingerprintIndex, NONE } from "../lib/fingerprint-index.js";
import { Fingerprint } from "../lib/fingerprint.js";
import { widened } from "../lib/typed-arrays.js";
import type { CacheBackend } from "./cache-backend.js";
import { FingerprintCache, type SlotStorage, type UpperTier } from "./fingerprint-cache.js";

const HOT_SIZE = 16_384;
/**
 * A value is promoted when it is used twice within this many unpackings. With a million keys in random order almost
 * none is: promoting each one, and evicting another, would be wasted work.
 */
const PROMOTION_WINDOW = 65_536;
const EPOCHS = 255;

/** @param size the most values kept, ≥ 1 */
export function tieredCache<T>(
  size: number,
  storage: SlotStorage<T>,
  fingerprint = new Fingerprint(),
): CacheBackend<T> {
  const hot = new HotTier<T>();
  const table = new FingerprintCache<T>(size, storage, fingerprint, hot);
  let unpacked = 0;
  let epoch = 1;

  const seenRecently = (entry: number): boolean => {
    const recently = table.mark(entry, epoch) === epoch;
    if (++unpacked % PROMOTION_WINDOW === 0) epoch = (epoch % EPOCHS) + 1;
    return recently;
  };
  return {
    get(text) {
      if (!fingerprint.read(text)) return undefined;
      const { h0, h1, h2 } = fingerprint;
      const promoted = hot.get(h0, h1, h2);
      if (promoted !== undefined) return promoted;
      const entry = table.find(h0, h1, h2);
      if (entry === NONE) return undefined;
      const value = storage.get(entry);
      if (seenRecently(entry)) hot.add(h0, h1, h2, value);
      return value;
    },
    set: (text, digest, value) => table.set(text, digest, value),
    delete: (digest) => table.delete(digest),
    deleteWhere: (test) => table.deleteWhere(test),
    clear() {
      table.clear();
      hot.clear();
    },
  };
}

/** Maps fingerprints to values. The reference implementation is a Map. */
class HotTier<T> implements UpperTier {
  readonly #fingerprints = new FingerprintIndex();
  #values: (T | undefined)[] = [];
  #used = new Uint8Array(this.#fingerprints.capacity);
  readonly #hand = new ClockHand();

  get(h0: number, h1: number, h2: number): T | undefined {
    const entry = this.#fingerprints.find(h0, h1, h2);
    if (entry === NONE) return undefined;
    this.#used[entry] = 1;
    return this.#values[entry];
  }

  /** Adds a value for a fingerprint that has none here. */
  add(h0: number, h1: number, h2: number, value: T): void {
    if (this.#fingerprints.count === HOT_SIZE) this.#evict();
    const entry = this.#fingerprints.add(h0, h1, h2);
    if (entry >= this.#used.length) this.#used = widened(this.#used, this.#fingerprints.capacity);
    this.#values[entry] = value;
    this.#used[entry] = 0;
  }

  wasUsed(h0: number, h1: number, h2: number): boolean {
    const entry = this.#fingerprints.find(h0, h1, h2);
    return entry !== NONE && this.#takeUse(entry);
  }

  remove(h0: number, h1: number, h2: number): void {
    const entry = this.#fingerprints.find(h0, h1, h2);
    if (entry !== NONE) this.#drop(entry);
  }

  clear(): void {
    this.#fingerprints.clear();
    this.#values = [];
    this.#hand.reset();
  }

  #drop(entry: number): void {
    this.#fingerprints.remove(entry);
    this.#values[entry] = undefined;
  }

  /** Only when full: every entry is in use. */
  #evict(): void {
    this.#drop(this.#hand.nextUnused(HOT_SIZE, (entry) => this.#takeUse(entry)));
  }

  #takeUse(entry: number): boolean {
    if (this.#used[entry] === 0) return false;
    this.#used[entry] = 0;
    return true;
  }
}
