/**
 * text → value, at most `size` of them, found by the text's tag; no text is kept. When full it forgets what was not asked for
 * lately; by name it forgets any time. Knows no keys. The obvious twin is a Map from text to value (`fingerprint-cache.test.ts`).
 */
import { FingerprintIndex, NONE } from "../lib/fingerprint-index.js";
import { Fingerprint } from "../lib/fingerprint.js";

/** Where a table keeps its values, by small numbers. */
export interface SlotStorage<T> {
  put(entry: number, value: T): void;
  /** Only of an entry that was put and not dropped since. */
  get(entry: number): T;
  drop(entry: number): void;
  clear(): void;
}

/** Keeps values by text; a table, or one with a faster one before it. */
export interface CacheBackend<T> {
  get(text: string): T | undefined;
  /** For a shelf that finds by name only; then {@link CacheBackend.get} finds nothing. */
  getByDigest?(digest: string): T | undefined;
  /** Keeps nothing for a text or name too long for a tag. @param digest what {@link CacheBackend.delete} calls the value by */
  set(text: string, digest: string, value: T): void;
  delete(digest: string): void;
  clear(): void;
}

/** What stands before a table: it holds some of the table's values too, by their tags. */
export interface UpperTier {
  /** Whether it was asked for there since the last such call. */
  wasUsed(h0: number, h1: number, h2: number): boolean;
  /** The table forgets it. */
  remove(h0: number, h1: number, h2: number): void;
}

/** @see {@link FingerprintIndex} for its cost; `set` is O(1) but for the calls that double the table */
export class FingerprintCache<T> implements CacheBackend<T> {
  readonly #size: number;
  readonly #storage: SlotStorage<T>;
  readonly #fingerprint: Fingerprint;
  readonly #upperTier: UpperTier | undefined;
  readonly #texts = new FingerprintIndex();
  /** Text and name come and go together: so both have the same entry. */
  readonly #digests = new FingerprintIndex();
  #used = new Uint8Array(this.#texts.capacity);
  #hand = 0;

  /**
   * @param size the most values kept, ≥ 1
   * @param upperTier told of each text that is forgotten, but not of {@link FingerprintCache.clear}; what is used there is not forgotten here
   */
  constructor(size: number, storage: SlotStorage<T>, fingerprint = new Fingerprint(), upperTier?: UpperTier) {
    this.#size = size;
    this.#storage = storage;
    this.#fingerprint = fingerprint;
    this.#upperTier = upperTier;
  }

  /** Values kept at the moment, at most `size`. */
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

  /** The entry of a tag, whose value is in the drawers, or {@link NONE}. */
  find(h0: number, h1: number, h2: number): number {
    return this.#texts.find(h0, h1, h2);
  }

  /** Notes that an entry was asked for. @param mark 1…255 @returns the mark before; 0: not asked for since its last turn */
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
      // No memory to grow in. A text without its name could not be forgotten, and would set all later entries apart.
      this.#texts.remove(entry);
      throw error;
    }
    if (entry >= this.#used.length) this.#used = new Uint8Array(this.#texts.capacity);
    this.#used[entry] = 0;
    this.#storage.put(entry, value);
  }

  delete(digest: string): void {
    const fingerprint = this.#fingerprint;
    if (fingerprint.read(digest)) this.#remove(this.#digests.find(fingerprint.h0, fingerprint.h1, fingerprint.h2));
  }

  clear(): void {
    this.#texts.clear();
    this.#digests.clear();
    this.#storage.clear();
    this.#hand = 0;
  }

  #remove(entry: number): void {
    if (entry === NONE) return;
    this.#upperTier?.remove(this.#texts.h0Of(entry), this.#texts.h1Of(entry), this.#texts.h2Of(entry));
    this.#digests.remove(entry);
    this.#texts.remove(entry);
    this.#storage.drop(entry);
  }

  /** Drops the first entry, going round, that was not asked for since its last turn. */
  #evict(): void {
    while (this.#texts.count > 0) {
      this.#hand = this.#hand + 1 < this.#used.length ? this.#hand + 1 : 0;
      if (!this.#texts.has(this.#hand)) continue;
      if (!this.#wasUsed(this.#hand)) return this.#remove(this.#hand);
      this.#used[this.#hand] = 0;
    }
  }

  #wasUsed(entry: number): boolean {
    if (this.#used[entry] !== 0) return true;
    return this.#upperTier?.wasUsed(this.#texts.h0Of(entry), this.#texts.h1Of(entry), this.#texts.h2Of(entry)) === true;
  }
}

/** SlotStorage that keep the values as they are. */
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
    clear() {
      values = [];
    },
  };
}
