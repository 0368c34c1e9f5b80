import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CacheBackend, digestBackend, withTtl } from "../../src/cache/cache-backend.js";
import { FingerprintCache } from "../../src/cache/fingerprint-cache.js";
import { referenceCache } from "./reference-cache.js";

/** Version `serial` of what a text stands for. */
interface Value {
  readonly text: number;
  readonly serial: number;
}

const BACKENDS: readonly [string, (size: number) => CacheBackend<Value>][] = [
  ["fingerprints", (size) => new FingerprintCache(size)],
  ["digests", digestBackend],
  ["fingerprints with a ttl", (size) => withTtl(new FingerprintCache(size), 1e9)],
  ["digests with a ttl", (size) => withTtl(digestBackend(size), 1e9)],
];

const TEXTS = 8;
const step = fc.record({
  act: fc.constantFrom("set", "set", "get", "get", "get", "delete", "deleteWhere", "clear"),
  text: fc.nat(TEXTS - 1),
  digest: fc.nat(TEXTS - 1),
  pick: fc.nat(),
});
const histories = fc.array(step, { maxLength: 150, size: "max" });
type History = readonly { act: string; text: number; digest: number; pick: number }[];

/** Plays a history on a backend and on the reference. @returns how many of the texts the backend has in the end */
function play(backend: CacheBackend<Value>, size: number, history: History): number {
  const reference = referenceCache<Value>();
  // Where values are found by digests, a text has one digest, as keys have.
  const isByDigest = backend.getByDigest !== undefined;
  const get = (text: number) => {
    const found = isByDigest ? backend.getByDigest?.(`digest ${text}`) : backend.get(`text ${text}`);
    const right = isByDigest ? reference.getByDigest(`digest ${text}`) : reference.get(`text ${text}`);
    if (found !== undefined || size >= TEXTS) expect(found).toBe(right);
    return found;
  };
  history.forEach(({ act, text, digest: picked, pick }, serial) => {
    const digest = `digest ${isByDigest ? text : picked}`;
    if (act === "set") {
      const value = { text, serial };
      backend.set(`text ${text}`, digest, value);
      reference.set(`text ${text}`, digest, value);
    } else if (act === "delete") {
      backend.delete(digest);
      reference.delete(digest);
    } else if (act === "deleteWhere") {
      const isPicked = (value: Value) => (value.text + value.serial) % 3 === pick % 3;
      const kept = backend.deleteWhere(isPicked);
      const right = reference.deleteWhere(isPicked);
      if (size >= TEXTS) expect(kept).toBe(right);
    } else if (act === "clear" && pick % 4 === 0) {
      backend.clear();
      reference.clear();
    } else get(text);
  });
  return Array.from({ length: TEXTS }, (_, text) => get(text)).filter((found) => found !== undefined).length;
}

describe.each(BACKENDS)("cache backend: %s", (_name, make) => {
  it("below its bound, returns what the reference returns", () => {
    fc.assert(fc.property(histories, (history) => void play(make(TEXTS), TEXTS, history)));
  });

  it("at its bound, returns that or nothing, and holds no more than its size", () => {
    fc.assert(
      fc.property(histories, fc.integer({ min: 1, max: 4 }), (history, size) => {
        expect(play(make(size), size, history)).toBeLessThanOrEqual(size);
      }),
    );
  });
});
