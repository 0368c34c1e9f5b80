/**
 * Maps texts to at most `size` values, found by the text's fingerprint; no text is kept. When full it evicts a value
 * that was not used for one turn of the clock hand.
 */
import { ClockHand } from "../lib/clock-hand.js";
import { FingerprintIndex, NONE } from "../lib/fingerprint-index.js";
import { Fingerprint } from "../lib/fingerprint.js";
import { widened } from "../lib/typed-arrays.js";
import type { CacheBackend } from "./cache-backend.js";

/** Where the values are kept, by entry: a small integer. */
export interface SlotStorage<T> {
  put(entry: number, value: T): void;
  /** @param entry one that was put and not dropped since */
  get(entry: number): T;
  drop(entry: number): void;
  /** Tells which entries pass a test, as {@link CacheBackend.deleteWhere} describes it. Used at once, for one walk. */
  matcher(test: (value: T) => boolean): (entry: number) => boolean;
  clear(): void;
}

/** A faster cache above this one, which also holds some of the values, by their fingerprints. */
export interface UpperTier {
  /** Whether the value was used there since the last such call. */
  wasUsed(h0: number, h1: number, h2: number): boolean;
  /** The value was removed here. */
  remove(h0: number, h1: number, h2: number): void;
}

/**
 * A text or a digest too long for a fingerprint is not kept.
 * @see {@link FingerprintIndex} for its cost; `set` is O(1) except for the calls that double the table
 */
export class FingerprintCache<T> implements CacheBackend<T> {
  readonly #size: number;
  readonly #storage: SlotStorage<T>;
  readonly #fingerprint: Fingerprint;
  readonly #upperTier: UpperTier | undefined;
  readonly #texts = new FingerprintIndex();
  /** Text and digest are added and removed together, so both have the same entry. */
  readonly #digests = new FingerprintIndex();
  #used = new Uint8Array(this.#texts.capacity);
  readonly #hand = new ClockHand();

  /**
   * @param size maximum number of values, ≥ 1
   * @param upperTier notified of each removal, but not of {@link FingerprintCache.clear}; values used there are not
   *   evicted here
   */
  constructor(size: number, storage: SlotStorage<T>, fingerprint = new Fingerprint(), upperTier?: UpperTier) {
    this.#size = size;
    this.#storage = storage;
    this.#fingerprint = fingerprint;
    this.#upperTier = upperTier;
  }

  /** Values kept at present, at most `size`. */
  get count(): number {
    return this.#texts.count;
  }

  get(text: string): T | undefined {
    const fingerprint = this.#fingerprint;
    if (!fingerprint.read(text)) return undefined;
    const entry = this.find(fingerprint.h0, fingerprint.h1, fingerprint.h2);
    if (entry === NONE) return undefined;
    this.mark(entry, 1);
    return this.#storage.get(entry);
  }

  /** The entry of a fingerprint, whose value is in the storage, or {@link NONE}. */
  find(h0: number, h1: number, h2: number): number {
    return this.#texts.find(h0, h1, h2);
  }

  /** Notes that an entry was used. @param mark 1…255 @returns the mark before; 0: not used since its last turn */
  mark(entry: number, mark: number): number {
    const before = this.#used[entry] as number;
    if (before !== mark) this.#used[entry] = mark;
    return before;
  }

  set(text: string, digest: string, value: T): void {
    const fingerprint = this.#fingerprint;
    if (!fingerprint.read(digest)) return;
    const { h0, h1, h2 } = fingerprint;
    this.#remove(this.#digests.find(h0, h1, h2));
    if (!fingerprint.read(text)) return;
    this.#remove(this.#texts.find(fingerprint.h0, fingerprint.h1, fingerprint.h2));
    if (this.#texts.count >= this.#size) this.#evict();
    const entry = this.#texts.add(fingerprint.h0, fingerprint.h1, fingerprint.h2);
    try {
      this.#digests.add(h0, h1, h2);
    } catch (error) {
      // There is no memory to grow. A text without its digest could not be deleted, and would shift all later entries.
      this.#texts.remove(entry);
      throw error;
    }
    if (entry >= this.#used.length) this.#used = widened(this.#used, this.#texts.capacity);
    this.#used[entry] = 0;
    this.#storage.put(entry, value);
  }

  delete(digest: string): void {
    const fingerprint = this.#fingerprint;
    if (fingerprint.read(digest)) this.#remove(this.#digests.find(fingerprint.h0, fingerprint.h1, fingerprint.h2));
  }

  deleteWhere(test: (value: T) => boolean): number {
    const kept = this.count;
    const matches = this.#storage.matcher(test);
    // Removing an entry moves no other.
    for (let entry = 0; entry < this.#used.length; entry++)
      if (this.#texts.has(entry) && matches(entry)) this.#remove(entry);
    return kept;
  }

  clear(): void {
    this.#texts.clear();
    this.#digests.clear();
    this.#storage.clear();
    this.#hand.reset();
  }

  #remove(entry: number): void {
    if (entry === NONE) return;
    this.#upperTier?.remove(this.#texts.h0Of(entry), this.#texts.h1Of(entry), this.#texts.h2Of(entry));
    this.#digests.remove(entry);
    this.#texts.remove(entry);
    this.#storage.drop(entry);
  }

  #evict(): void {
    if (this.#texts.count === 0) return;
    this.#remove(this.#hand.nextUnused(this.#used.length, (entry) => !this.#texts.has(entry) || this.#takeUse(entry)));
  }

  /** Whether the entry was used since its last turn, here or in the upper tier; clears the marks. */
  #takeUse(entry: number): boolean {
    const texts = this.#texts;
    const usedAbove = this.#upperTier?.wasUsed(texts.h0Of(entry), texts.h1Of(entry), texts.h2Of(entry)) === true;
    const used = this.#used[entry] !== 0;
    this.#used[entry] = 0;
    return used || usedAbove;
  }
}

/** Keeps the values as objects. @param size maximum number of values, ≥ 1 */
export function objectBackend<T>(size: number): CacheBackend<T> {
  return new FingerprintCache<T>(size, objectSlots());
}

/** Storage of the values themselves. Exported for its tests. */
export function objectSlots<T>(): SlotStorage<T> {
  let values: (T | undefined)[] = [];
  return {
    put(entry, value) {
      values[entry] = value;
    },
    get: (entry) => values[entry] as T,
    drop(entry) {
      values[entry] = undefined;
    },
    matcher: (test) => (entry) => test(values[entry] as T),
    clear() {
      values = [];
    },
  };
}
