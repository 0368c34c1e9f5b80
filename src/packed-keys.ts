/**
 * Prepared keys, packed: one text, one mould and four numbers each instead of seven objects. Knows the parts of a key, no rule of it.
 *
 * Why: a million keys as objects were a heap of 800 MB, whose every young collection took 2.6 ms instead of 0.3 ms. Packed, all
 * of it is 200 MB (140 bytes a key beyond its text, with what finds it), and unpacking takes 150 ns and three places of memory. A key with metadata, an identity or an allow-list stays an object.
 * The obvious twin is an array of the keys themselves (`packed-keys.test.ts`).
 */
import type { Mould } from "./mould.js";
import { PreparedKey } from "./prepared-key.js";
import { ownLimits } from "./ratelimit.js";
import type { Drawers } from "./stores/tag-table.js";
import { widened } from "./tags/widened.js";

/** Bits of a length. */
const LENGTH_BITS = 10;
const LONGEST = (1 << LENGTH_BITS) - 1;
/** A generation stands above two lengths, in one exact number. */
const GENERATION_UNIT = 1 << (2 * LENGTH_BITS);
const MAX_GENERATION = 0x7fffffff;
/** Stands between the ids of several limits; no id holds it (spec §8). */
const BETWEEN = "\n";
/** Numbers an entry: ref; expiry, NaN for none; generation, and the lengths of the id and of the name + 1 (0: none). */
const WIDTH = 3;
const FIRST = 1_024;

/** Drawers for a {@link TagTable} of prepared keys. What they answer is made anew at each call, or is the very object that was put. */
export function packedKeys(): Drawers<PreparedKey> {
  /** Two an entry: key id, name and limit ids in one text, or the whole key where it has more than that; its mould. */
  let parts: (string | PreparedKey | Mould | undefined)[] = [];
  let numbers = new Float64Array(FIRST * WIDTH);

  return {
    put(entry, key) {
      const { keyId, name = "", mould, expires = NaN, generation, named } = key;
      parts[entry * 2 + 1] = mould;
      if (!isPackable(key)) {
        parts[entry * 2] = key;
        return;
      }
      // Joined, not added up: a sum keeps its parts, and their memory, until someone reads it.
      parts[entry * 2] = [keyId, name, named.map(({ id }) => id).join(BETWEEN)].join("");
      if (entry * WIDTH >= numbers.length) numbers = widened(numbers, entry * WIDTH * 2);
      const at = entry * WIDTH;
      numbers[at] = key.ref as number;
      numbers[at + 1] = expires;
      const nameMark = key.name === undefined ? 0 : name.length + 1;
      numbers[at + 2] = generation * GENERATION_UNIT + (nameMark << LENGTH_BITS) + keyId.length;
    },
    get(entry) {
      const text = parts[entry * 2] as string | PreparedKey;
      if (typeof text !== "string") return text;
      const mould = parts[entry * 2 + 1] as Mould;
      const at = entry * WIDTH;
      const packed = numbers[at + 2] as number;
      const generation = Math.floor(packed / GENERATION_UNIT);
      const lengths = packed - generation * GENERATION_UNIT;
      const idEnd = lengths & LONGEST;
      const nameMark = lengths >>> LENGTH_BITS;
      const nameEnd = nameMark === 0 ? idEnd : idEnd + nameMark - 1;
      const keyId = text.slice(0, idEnd);
      const expires = numbers[at + 1] as number;
      return new PreparedKey(mould, {
        ref: numbers[at] as number,
        keyId,
        name: nameMark === 0 ? undefined : text.slice(idEnd, nameEnd),
        expires: Number.isNaN(expires) ? undefined : expires,
        generation,
        limits: ownLimits(keyId, mould.limits, readIds(text.slice(nameEnd), mould.limits.length)),
        extra: undefined,
      });
    },
    drop(entry) {
      parts[entry * 2] = undefined;
      parts[entry * 2 + 1] = undefined;
    },
    clear() {
      parts = [];
      numbers = new Float64Array(FIRST * WIDTH);
    },
  };
}

function readIds(text: string, count: number): readonly string[] {
  return count === 1 ? [text] : text.split(BETWEEN);
}

function isPackable({ extra, ref, generation, keyId, name = "", named }: PreparedKey): boolean {
  if (extra !== undefined || typeof ref !== "number" || generation > MAX_GENERATION) return false;
  return keyId.length <= LONGEST && name.length < LONGEST && named.every(({ id }) => !id.includes(BETWEEN));
}
