import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FingerprintIndex, NONE } from "../../src/cache/fingerprint-cache.js";

/** Few homes, so that tags crowd each other, wrap round the end, and leave gaps. */
const tag = fc.record({
  one: fc.integer({ min: -3, max: 70 }),
  two: fc.integer({ min: 0, max: 1 }),
  three: fc.integer({ min: 0, max: 1 }),
});

describe("TagIndex", () => {
  it("answers what its obvious twin, a Map, answers, and gives each tag an entry of its own", () => {
    const step = fc.record({ act: fc.constantFrom("add", "add", "remove", "clear"), tag });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const index = new FingerprintIndex();
        const twin = new Map<string, number>();
        for (const { act, tag: one } of steps) {
          const name = `${one.one} ${one.two} ${one.three}`;
          const known = twin.get(name);
          expect(index.find(one.one, one.two, one.three)).toBe(known ?? NONE);
          if (act === "clear" && twin.size > 150) {
            index.clear();
            twin.clear();
          } else if (act === "remove" && known !== undefined) {
            index.remove(known);
            twin.delete(name);
          } else if (act === "add" && known === undefined) {
            const entry = index.add(one.one, one.two, one.three);
            expect([...twin.values()]).not.toContain(entry);
            expect(entry).toBeLessThan(index.capacity);
            twin.set(name, entry);
          }
          expect(index.count).toBe(twin.size);
        }
        for (const [name, entry] of twin) {
          expect(index.has(entry)).toBe(true);
          expect(`${index.h0Of(entry)} ${index.h1Of(entry)}`).toBe(name.slice(0, name.lastIndexOf(" ")));
          expect(index.find(...(name.split(" ").map(Number) as [number, number, number]))).toBe(entry);
        }
      }),
    );
  });

  it("entries of removed tags are used again, so that a million come and go in the memory of a few", () => {
    const index = new FingerprintIndex();
    for (let n = 0; n < 100_000; n++) {
      index.add(n, 0, 0);
      if (n >= 10) index.remove(index.find(n - 10, 0, 0));
    }
    expect(index.count).toBe(10);
    expect(index.capacity).toBeLessThanOrEqual(32);
    expect(index.has(31)).toBe(false);
    const last = index.find(99_999, 0, 0);
    index.remove(last);
    expect(index.has(last)).toBe(false);
  });

  it("holds 200,000 tags and finds each", () => {
    const index = new FingerprintIndex();
    const entries = Array.from({ length: 200_000 }, (_, n) => index.add(Math.imul(n, 0x9e3779b1), n, -n));
    for (let n = 0; n < 200_000; n += 37) expect(index.find(Math.imul(n, 0x9e3779b1), n, -n)).toBe(entries[n]);
    expect(index.find(1, 1, 1)).toBe(NONE);
  });
});
