/**
 * Cached keys, packed: one text and a row of numbers each instead of objects.
 *
 * Why: a million keys as objects were a heap of 800 MB, where each young collection took 2.6 ms instead of 0.3. A row
 * also keeps the hints of a key: where its bucket and lease were found last. A key with metadata, an identity or an
 * allow-list stays an object. The reference implementation is an array of the keys themselves (`packed-keys.test.ts`).
 */
import { widened } from "../lib/typed-arrays.js";
import { CachedKey, type PackedSlot } from "./cached-key.js";
import type { SlotStorage } from "./fingerprint-cache.js";
import { createInternTable } from "./intern-table.js";
import type { KeyPolicy } from "./key-policy.js";

/** Bits of a length. */
const LENGTH_BITS = 10;
const LONGEST = (1 << LENGTH_BITS) - 1;
/** One exact number holds, from its high bits, the generation, the policy's number and two lengths. */
const POLICY_UNIT = 2 ** (2 * LENGTH_BITS);
const POLICIES = 2 ** 18;
const MAX_GENERATION = 2 ** 15 - 1;
/** Separates the ids of several limits; no id contains it (spec §8). */
const BETWEEN = "\n";

/**
 * Float64 numbers per row: ref; expiry, NaN for none; generation, policy, and the lengths of the id and of the name + 1
 * (0: none); three hints of 32 bits; the minute of its last use, and whether its start is unknown.
 */
const WIDTH = 6;
const EXPIRES = 1;
const MIXED = 2;
/** 32-bit numbers per row, and which are the hints. */
const INTS = 2 * WIDTH;
const ROW = 6;
const H0 = 7;
const H1 = 8;
const USED = 10;
const START_UNKNOWN = 11;
const FIRST = 32;

/**
 * Storage for a FingerprintCache of keys. `get` returns a new object at each call, or the object that was put, if it is
 * not packed.
 */
export function packedKeys(): SlotStorage<CachedKey> {
  const policies = createInternTable<KeyPolicy>(POLICIES - 1);
  /** Key id, name and limit ids in one text, or the whole key where it has more than that. */
  let parts = new Array<string | CachedKey | undefined>(FIRST);
  let numbers = new Float64Array(FIRST * WIDTH);
  /** The same memory as 32-bit integers. */
  let ints = new Int32Array(numbers.buffer);

  /** Sets both sizes: an array that grows by itself adds half, and is a quarter empty. Blocks were no faster. */
  const widen = (entries: number): void => {
    parts.length = entries;
    numbers = widened(numbers, entries * WIDTH);
    ints = new Int32Array(numbers.buffer);
  };
  const writeHints = (entry: number, { row, h0, h1, usedMinute }: CachedKey): void => {
    const at = entry * INTS;
    ints[at + ROW] = row;
    ints[at + H0] = h0;
    ints[at + H1] = h1;
    ints[at + USED] = usedMinute;
  };
  const slot: PackedSlot = {
    // The entry may belong to another key by now: the ref identifies the key, and the policy its bucket's name.
    writeBack(entry, key) {
      if (
        numbers[entry * WIDTH] === key.ref &&
        policies.get(policyNumberOf(numbers[entry * WIDTH + MIXED] as number)) === key.policy
      )
        writeHints(entry, key);
    },
  };

  return {
    put(entry, key) {
      const { keyId, name = "", policy, expires = NaN, generation, limitIds } = key;
      if (entry * WIDTH >= numbers.length) widen(entry * 2);
      const at = entry * WIDTH;
      const policyNumber = isPackable(key) ? policies.take(policy) : undefined;
      if (policyNumber === undefined) {
        parts[entry] = key;
        numbers[at] = NaN;
        return;
      }
      // Joined, not `+`: V8 would keep the parts, and their memory, until the text is read.
      parts[entry] = [keyId, name, typeof limitIds === "string" ? limitIds : limitIds.join(BETWEEN)].join("");
      numbers[at] = key.ref as number;
      numbers[at + EXPIRES] = expires;
      const nameMark = key.name === undefined ? 0 : name.length + 1;
      numbers[at + MIXED] =
        (generation * POLICIES + policyNumber) * POLICY_UNIT + (nameMark << LENGTH_BITS) + keyId.length;
      ints[entry * INTS + START_UNKNOWN] = key.startUnknown === true ? 1 : 0;
      writeHints(entry, key);
      key.attach(slot, entry);
    },
    get(entry) {
      const small = entry * INTS;
      const text = parts[entry] as string | CachedKey;
      if (typeof text !== "string") return text;
      const at = entry * WIDTH;
      // Not by `%`, which compiles to a call.
      const mixed = numbers[at + MIXED] as number;
      const upper = Math.floor(mixed / POLICY_UNIT);
      const lengths = mixed - upper * POLICY_UNIT;
      const generation = Math.floor(upper / POLICIES);
      const policy = policies.get(upper - generation * POLICIES) as KeyPolicy;
      const idEnd = lengths & LONGEST;
      const nameMark = lengths >>> LENGTH_BITS;
      const nameEnd = nameMark === 0 ? idEnd : idEnd + nameMark - 1;
      const expires = numbers[at + EXPIRES] as number;
      const ids = text.slice(nameEnd);
      const core = {
        ref: numbers[at] as number,
        keyId: text.slice(0, idEnd),
        name: nameMark === 0 ? undefined : text.slice(idEnd, nameEnd),
        expires: Number.isNaN(expires) ? undefined : expires,
        generation,
        startUnknown: ints[small + START_UNKNOWN] === 1 ? (true as const) : undefined,
        limitIds: policy.limits.length === 1 ? ids : policy.limits.length === 0 ? [] : ids.split(BETWEEN),
        rare: undefined,
      };
      const key = new CachedKey(policy, core, slot, entry);
      key.row = ints[small + ROW] as number;
      key.h0 = ints[small + H0] as number;
      key.h1 = ints[small + H1] as number;
      key.usedMinute = ints[small + USED] as number;
      return key;
    },
    matcher(test) {
      const byPolicy = new Map<number, boolean>();
      return (entry) => {
        const part = parts[entry];
        if (typeof part !== "string") return test(part as CachedKey);
        const policyNumber = policyNumberOf(numbers[entry * WIDTH + MIXED] as number);
        let passes = byPolicy.get(policyNumber);
        if (passes === undefined) byPolicy.set(policyNumber, (passes = test(this.get(entry))));
        return passes;
      };
    },
    drop(entry) {
      if (typeof parts[entry] === "string") policies.release(policyNumberOf(numbers[entry * WIDTH + MIXED] as number));
      parts[entry] = undefined;
      numbers[entry * WIDTH] = NaN;
    },
    clear() {
      policies.clear();
      parts = new Array<string | CachedKey | undefined>(FIRST);
      numbers = new Float64Array(FIRST * WIDTH);
      ints = new Int32Array(numbers.buffer);
    },
  };
}

function policyNumberOf(mixed: number): number {
  return Math.floor(mixed / POLICY_UNIT) % POLICIES;
}

function isPackable({ rare, ref, generation, keyId, name = "", limitIds }: CachedKey): boolean {
  if (rare !== undefined || typeof ref !== "number" || generation > MAX_GENERATION) return false;
  if (keyId.length > LONGEST || name.length >= LONGEST) return false;
  return typeof limitIds === "string" || limitIds.every((id) => !id.includes(BETWEEN));
}
