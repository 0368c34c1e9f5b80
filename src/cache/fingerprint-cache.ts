/**
 * Maps texts to at most `size` values by the text's fingerprint, without keeping texts. When full it evicts a value
 * that was not used since the clock hand last passed. Reference implementation: `test/cache/reference-cache.ts`.
 */
import { ClockHand } from "../lib/clock-hand.js";
import { FingerprintIndex, NONE } from "../lib/fingerprint-index.js";
import { Fingerprint } from "../lib/fingerprint.js";
import { widened } from "../lib/typed-arrays.js";
import type { CacheBackend } from "./cache-backend.js";

/**
 * A value whose text or digest is too long for a fingerprint is not kept.
 * @see {@link FingerprintIndex} for its cost; `set` is O(1) except for the calls that double the table
 */
export class FingerprintCache<T extends object> implements CacheBackend<T> {
  readonly #size: number;
  readonly #fingerprint = new Fingerprint();
  readonly #texts = new FingerprintIndex();
  /** Text and digest are added and removed together, so both have the same entry. */
  readonly #digests = new FingerprintIndex();
  /** Values by entry; `undefined`: the entry is free. */
  #values: (T | undefined)[] = [];
  /** By entry: 1 if it was used since the hand last passed. */
  #used = new Uint8Array(this.#texts.capacity);
  readonly #hand = new ClockHand();

  /** @param size maximum number of values, ≥ 1 */
  constructor(size: number) {
    this.#size = size;
  }

  /** Number of values, at most `size`. */
  get count(): number {
    return this.#texts.count;
  }

  get(text: string): T | undefined {
    const fingerprint = this.#fingerprint;
    if (!fingerprint.read(text)) return undefined;
    const entry = this.#texts.find(fingerprint.h0, fingerprint.h1, fingerprint.h2);
    if (entry === NONE) return undefined;
    if (this.#used[entry] === 0) this.#used[entry] = 1;
    return this.#values[entry];
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
      if (entry >= this.#used.length) this.#used = widened(this.#used, this.#texts.capacity);
      this.#digests.add(h0, h1, h2);
    } catch (error) {
      // No memory to grow: remove the text, which without its digest could not be deleted, and would shift later
      // entries.
      this.#texts.remove(entry);
      throw error;
    }
    this.#used[entry] = 0;
    this.#values[entry] = value;
  }

  delete(digest: string): void {
    const fingerprint = this.#fingerprint;
    if (fingerprint.read(digest)) this.#remove(this.#digests.find(fingerprint.h0, fingerprint.h1, fingerprint.h2));
  }

  deleteWhere(test: (value: T) => boolean): number {
    const kept = this.count;
    // Removing an entry moves no other.
    this.#values.forEach((value, entry) => {
      if (value !== undefined && test(value)) this.#remove(entry);
    });
    return kept;
  }

  clear(): void {
    this.#texts.clear();
    this.#digests.clear();
    this.#values = [];
    this.#hand.reset();
  }

  #remove(entry: number): void {
    if (entry === NONE) return;
    this.#digests.remove(entry);
    this.#texts.remove(entry);
    this.#values[entry] = undefined;
  }

  #evict(): void {
    if (this.#texts.count === 0) return;
    this.#remove(
      this.#hand.nextUnused(this.#used.length, (entry) => this.#values[entry] === undefined || this.#takeUse(entry)),
    );
  }

  /** Whether the entry was used since the hand last passed; clears the mark. */
  #takeUse(entry: number): boolean {
    const used = this.#used[entry] !== 0;
    this.#used[entry] = 0;
    return used;
  }
}
