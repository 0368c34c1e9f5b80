/**
 * Maps texts to at most `size` values by the text's fingerprint, without keeping texts. When full it evicts a value
 * that was not used since the clock hand last passed. Reference implementation: `test/cache/reference-cache.ts`.
 */
import { ClockHand } from "../lib/clock-hand.js";
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

/** Numbers per fingerprint. */
const WIDTH = 3;
const FIRST_SLOTS = 64;
const FIRST_ENTRIES = 32;
const LOAD = 3 / 4;
/** A slot: entry + 1 (0: free), and above it eight bits of the fingerprint. */
const ENTRY = 0xffffff;
const BITS = ~ENTRY;

/** No entry. */
export const NONE = -1;

/**
 * Fingerprint → entry: a small number under which the cache keeps, in its arrays, what belongs to the fingerprint. It
 * holds at most 2^24 − 2 fingerprints. Exported for its tests.
 *
 * Why not a Map: with 1,000,000 texts in random order a Map takes 1,100 ns and 100 bytes each, because its objects are
 * scattered over memory. This takes 20 to 32 bytes each, outside the heap that the garbage collector walks. It is an
 * open-addressing table, at most three quarters full, that closes gaps on removal. A slot has 4 bytes, so that the
 * slots of a million entries fit the processor's cache; it holds eight bits of the fingerprint, which rule out most
 * others without reading theirs.
 */
export class FingerprintIndex {
  #slots = new Int32Array(FIRST_SLOTS);
  #mask = FIRST_SLOTS - 1;
  /** By entry. In a free entry the second number is the next free entry. */
  #fingerprints = new Int32Array(FIRST_ENTRIES * WIDTH);
  #free = NONE;
  /** Entries that have ever been in use. */
  #high = 0;
  #count = 0;

  /** Fingerprints held. */
  get count(): number {
    return this.#count;
  }

  /** Every entry is below this; it grows by doubling. */
  get capacity(): number {
    return this.#fingerprints.length / WIDTH;
  }

  /** The entry of a fingerprint, or {@link NONE}. */
  find(h0: number, h1: number, h2: number): number {
    const slots = this.#slots;
    const mask = this.#mask;
    const fingerprints = this.#fingerprints;
    for (let slot = h0 & mask; ; slot = (slot + 1) & mask) {
      const mark = slots[slot] as number;
      if (mark === 0) return NONE;
      if (((mark ^ h0) & BITS) !== 0) continue;
      const at = ((mark & ENTRY) - 1) * WIDTH;
      if (fingerprints[at] === h0 && fingerprints[at + 1] === h1 && fingerprints[at + 2] === h2)
        return (mark & ENTRY) - 1;
    }
  }

  /**
   * Adds a fingerprint that has no entry. Entries that were removed are reused, the most recent first.
   * @throws RangeError if no memory is left to grow; then nothing has changed
   */
  add(h0: number, h1: number, h2: number): number {
    if (this.#count + 1 > (this.#mask + 1) * LOAD) this.#widen();
    const entry = this.#newEntry();
    this.#count++;
    const at = entry * WIDTH;
    this.#fingerprints[at] = h0;
    this.#fingerprints[at + 1] = h1;
    this.#fingerprints[at + 2] = h2;
    this.#place(entry, h0);
    return entry;
  }

  /** The first number of the fingerprint of an entry in use. */
  h0Of(entry: number): number {
    return this.#fingerprints[entry * WIDTH] as number;
  }

  /** The second number of the fingerprint of an entry in use. */
  h1Of(entry: number): number {
    return this.#fingerprints[entry * WIDTH + 1] as number;
  }

  /** Whether an entry is in use. */
  has(entry: number): boolean {
    return entry < this.#high && this.#slotOf(entry) !== NONE;
  }

  /** Frees an entry in use. */
  remove(entry: number): void {
    const slots = this.#slots;
    const mask = this.#mask;
    let gap = this.#slotOf(entry);
    for (let slot = (gap + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const mark = slots[slot] as number;
      const preferred = this.h0Of((mark & ENTRY) - 1) & mask;
      // It may fill the gap unless its preferred slot lies after the gap.
      if (((slot - preferred) & mask) < ((slot - gap) & mask)) continue;
      slots[gap] = mark;
      gap = slot;
    }
    slots[gap] = 0;
    this.#fingerprints[entry * WIDTH + 1] = this.#free;
    this.#free = entry;
    this.#count--;
  }

  /** Removes every entry. */
  clear(): void {
    this.#slots = new Int32Array(FIRST_SLOTS);
    this.#mask = FIRST_SLOTS - 1;
    this.#fingerprints = new Int32Array(FIRST_ENTRIES * WIDTH);
    this.#free = NONE;
    this.#high = 0;
    this.#count = 0;
  }

  #newEntry(): number {
    const free = this.#free;
    if (free !== NONE) {
      this.#free = this.h1Of(free);
      return free;
    }
    if (this.#high === this.capacity) this.#fingerprints = widened(this.#fingerprints, this.#fingerprints.length * 2);
    return this.#high++;
  }

  /** The slot of an entry below {@link FingerprintIndex.#high}, or {@link NONE} if the entry is free. */
  #slotOf(entry: number): number {
    const slots = this.#slots;
    const mask = this.#mask;
    for (let slot = this.h0Of(entry) & mask; ; slot = (slot + 1) & mask) {
      const mark = slots[slot] as number;
      if (mark === 0) return NONE;
      if ((mark & ENTRY) === entry + 1) return slot;
    }
  }

  #place(entry: number, h0: number): void {
    const slots = this.#slots;
    let slot = h0 & this.#mask;
    while (slots[slot] !== 0) slot = (slot + 1) & this.#mask;
    slots[slot] = (h0 & BITS) | (entry + 1);
  }

  #widen(): void {
    const old = this.#slots;
    // Allocate first: if it throws for lack of memory, nothing has changed.
    this.#slots = new Int32Array(old.length * 2);
    this.#mask = this.#slots.length - 1;
    for (const mark of old) if (mark !== 0) this.#place((mark & ENTRY) - 1, this.h0Of((mark & ENTRY) - 1));
  }
}
