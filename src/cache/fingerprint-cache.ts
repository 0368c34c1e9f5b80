/**
 * text → value, at most `size` of them, found by the text's tag; no text is kept. When full it forgets what was not asked for
 * lately; by name it forgets any time. Knows no keys. The obvious twin is a Map from text to value (`fingerprint-cache.test.ts`).
 */
import { NONE, TagIndex } from "../lib/fingerprint-index.js";
import { TextTag } from "../lib/fingerprint.js";

/** Where a table keeps its values, by small numbers. */
export interface Drawers<T> {
  put(entry: number, value: T): void;
  /** Only of an entry that was put and not dropped since. */
  get(entry: number): T;
  drop(entry: number): void;
  clear(): void;
}

/** Keeps values by text; a table, or one with a faster one before it. */
export interface Shelf<T> {
  get(text: string): T | undefined;
  /** For a shelf that finds by name only; then {@link Shelf.get} finds nothing. */
  getNamed?(name: string): T | undefined;
  /** Keeps nothing for a text or name too long for a tag. @param name what {@link Shelf.delete} calls the value by */
  set(text: string, name: string, value: T): void;
  delete(name: string): void;
  clear(): void;
}

/** What stands before a table: it holds some of the table's values too, by their tags. */
export interface Front {
  /** Whether it was asked for there since the last such call. */
  wasUsed(one: number, two: number, three: number): boolean;
  /** The table forgets it. */
  remove(one: number, two: number, three: number): void;
}

/** @see {@link TagIndex} for its cost; `set` is O(1) but for the calls that double the table */
export class TagTable<T> implements Shelf<T> {
  readonly #size: number;
  readonly #drawers: Drawers<T>;
  readonly #tag: TextTag;
  readonly #front: Front | undefined;
  readonly #texts = new TagIndex();
  /** Text and name come and go together: so both have the same entry. */
  readonly #names = new TagIndex();
  #used = new Uint8Array(this.#texts.capacity);
  #hand = 0;

  /**
   * @param size the most values kept, ≥ 1
   * @param front told of each text that is forgotten, but not of {@link TagTable.clear}; what is used there is not forgotten here
   */
  constructor(size: number, drawers: Drawers<T>, tag = new TextTag(), front?: Front) {
    this.#size = size;
    this.#drawers = drawers;
    this.#tag = tag;
    this.#front = front;
  }

  /** Values kept at the moment, at most `size`. */
  get count(): number {
    return this.#texts.count;
  }

  get(text: string): T | undefined {
    const tag = this.#tag;
    if (!tag.read(text)) return undefined;
    const entry = this.find(tag.one, tag.two, tag.three);
    if (entry === NONE) return undefined;
    this.mark(entry, 1);
    return this.#drawers.get(entry);
  }

  /** The entry of a tag, whose value is in the drawers, or {@link NONE}. */
  find(one: number, two: number, three: number): number {
    return this.#texts.find(one, two, three);
  }

  /** Notes that an entry was asked for. @param mark 1…255 @returns the mark before; 0: not asked for since its last turn */
  mark(entry: number, mark: number): number {
    const before = this.#used[entry] as number;
    if (before !== mark) this.#used[entry] = mark;
    return before;
  }

  set(text: string, name: string, value: T): void {
    const tag = this.#tag;
    if (!tag.read(name)) return;
    const { one, two, three } = tag;
    this.#remove(this.#names.find(one, two, three));
    if (!tag.read(text)) return;
    this.#remove(this.#texts.find(tag.one, tag.two, tag.three));
    if (this.#texts.count >= this.#size) this.#evict();
    const entry = this.#texts.add(tag.one, tag.two, tag.three);
    try {
      this.#names.add(one, two, three);
    } catch (error) {
      // No memory to grow in. A text without its name could not be forgotten, and would set all later entries apart.
      this.#texts.remove(entry);
      throw error;
    }
    if (entry >= this.#used.length) this.#used = new Uint8Array(this.#texts.capacity);
    this.#used[entry] = 0;
    this.#drawers.put(entry, value);
  }

  delete(name: string): void {
    const tag = this.#tag;
    if (tag.read(name)) this.#remove(this.#names.find(tag.one, tag.two, tag.three));
  }

  clear(): void {
    this.#texts.clear();
    this.#names.clear();
    this.#drawers.clear();
    this.#hand = 0;
  }

  #remove(entry: number): void {
    if (entry === NONE) return;
    this.#front?.remove(this.#texts.oneOf(entry), this.#texts.twoOf(entry), this.#texts.threeOf(entry));
    this.#names.remove(entry);
    this.#texts.remove(entry);
    this.#drawers.drop(entry);
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
    return this.#front?.wasUsed(this.#texts.oneOf(entry), this.#texts.twoOf(entry), this.#texts.threeOf(entry)) === true;
  }
}

/** Drawers that keep the values as they are. */
export function objectDrawers<T>(): Drawers<T> {
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
