/**
 * The keys presented last, found without hashing them: text → value, for 16,384 of them. Stands before a cache and forgets freely.
 *
 * Why: SHA-256 and the look-ups behind it take half of a hot verification: 1,390 ns fell to 840 over 4,096 keys (1,100 to 540 over
 * 64). No text is kept: of each a tag of 64 bits stays, made by multilinear hashing with a table of random numbers of this process.
 * A guess passes for one of the 16,384 keys with about 2^-63 a try, as long as the table is secret. Of two ASCII texts that one
 * person chose the tags agree with at most 2^-52; who knows a valid key gains nothing by a second text for it. Others than ASCII
 * would agree more often, and are not remembered.
 * The obvious twin is a Map from text to value (`front-row.test.ts`).
 */

/** Two slots a set: of keys that fall on one set the two presented last stay. */
const SET_BITS = 13;
const SETS = 1 << SET_BITS;
/** UTF-16 units of the longest text: 512 code points (spec §2.1). */
const MAX_UNITS = 1_024;
/** Random numbers a unit: two for the tag, one for the place. */
const LANES = 3;
const ASCII = 127;
const NONE = -1;
/** A start and a factor for the length stand before those of the units. */
const HEAD = 2;

/** @see the header · bounded: 16,384 values, about 0.5 MB when full */
export interface FrontRow<T> {
  get(text: string): T | undefined;
  /** @param name what {@link FrontRow.delete} calls the value by */
  set(text: string, name: string, value: T): void;
  delete(name: string): void;
  clear(): void;
}

/** @param random fills an array with random bits; the system's source */
export function frontRow<T>(random: (array: Int32Array) => void = (array) => void globalThis.crypto.getRandomValues(array)): FrontRow<T> {
  const table = new Int32Array((MAX_UNITS + HEAD) * LANES);
  random(table);
  const tags = new Int32Array(SETS * 4);
  const values = new Array<T | undefined>(SETS * 2).fill(undefined);
  const names = new Array<string | undefined>(SETS * 2).fill(undefined);
  const slots = new Map<string, number>();
  // The tag of the text hashed last: returning three numbers as an object would cost more than the hash.
  let one = 0;
  let two = 0;

  /** Hashes `text` into `one` and `two`. @returns the first slot of its set, or NONE for a text that is not ASCII */
  const hash = (text: string): number => {
    const { length } = text;
    let bits = 0;
    let place = (table[2] as number) + Math.imul(table[5] as number, length);
    one = (table[0] as number) + Math.imul(table[3] as number, length);
    two = (table[1] as number) + Math.imul(table[4] as number, length);
    for (let i = 0, at = HEAD * LANES; i < length; i++, at += LANES) {
      const unit = text.charCodeAt(i);
      bits |= unit;
      one = (one + Math.imul(table[at] as number, unit)) | 0;
      two = (two + Math.imul(table[at + 1] as number, unit)) | 0;
      place = (place + Math.imul(table[at + 2] as number, unit)) | 0;
    }
    return bits > ASCII ? NONE : (place >>> (32 - SET_BITS)) << 1;
  };
  const put = (slot: number, name: string | undefined, value: T | undefined, first: number, second: number): void => {
    values[slot] = value;
    names[slot] = name;
    tags[slot * 2] = first;
    tags[slot * 2 + 1] = second;
    if (name !== undefined) slots.set(name, slot);
  };
  const empty = (slot: number): void => {
    const name = names[slot];
    if (name !== undefined && slots.get(name) === slot) slots.delete(name);
    put(slot, undefined, undefined, 0, 0);
  };
  return {
    get(text) {
      if (text.length > MAX_UNITS) return undefined;
      const slot = hash(text);
      if (slot === NONE) return undefined;
      if (tags[slot * 2] === one && tags[slot * 2 + 1] === two) return values[slot];
      if (tags[slot * 2 + 2] === one && tags[slot * 2 + 3] === two) return values[slot + 1];
      return undefined;
    },
    set(text, name, value) {
      const slot = text.length > MAX_UNITS ? NONE : hash(text);
      if (slot === NONE) return;
      const known = slots.get(name);
      if (known !== undefined) empty(known);
      empty(slot + 1);
      put(slot + 1, names[slot], values[slot], tags[slot * 2] as number, tags[slot * 2 + 1] as number);
      put(slot, name, value, one, two);
    },
    delete(name) {
      const slot = slots.get(name);
      if (slot !== undefined) empty(slot);
    },
    clear() {
      tags.fill(0);
      values.fill(undefined);
      names.fill(undefined);
      slots.clear();
    },
  };
}
