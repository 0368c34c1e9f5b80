import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LruMap } from "../../src/lib/lru-map.js";

/** Entries in the order of use, the last one used last. */
class ReferenceMap {
  #entries: { key: string; value: number; weight: number }[] = [];

  constructor(readonly max: number) {}

  get size(): number {
    return this.#entries.length;
  }

  get(key: string): number | undefined {
    const entry = this.#entries.find((other) => other.key === key);
    if (entry === undefined) return undefined;
    this.#entries = [...this.#entries.filter((other) => other !== entry), entry];
    return entry.value;
  }

  set(key: string, value: number, weight: number): void {
    this.delete(key);
    if (weight > this.max) return;
    this.#entries.push({ key, value, weight });
    while (this.#entries.reduce((sum, entry) => sum + entry.weight, 0) > this.max) this.#entries.shift();
  }

  delete(key: string): void {
    this.#entries = this.#entries.filter((other) => other.key !== key);
  }

  clear(): void {
    this.#entries = [];
  }
}

describe("LruMap", () => {
  it("drops what was used longest ago: a get is a use", () => {
    const map = new LruMap<number>(2);
    map.set("a", 1);
    map.set("b", 2);
    expect(map.get("a")).toBe(1);
    map.set("c", 3);
    expect([map.get("a"), map.get("b"), map.get("c"), map.size]).toEqual([1, undefined, 3, 2]);
  });

  it("does not keep what weighs more than all may, nor what that replaces", () => {
    const map = new LruMap<number>(3);
    map.set("a", 1);
    map.set("b", 1);
    map.set("a", 2, 4);
    expect([map.get("a"), map.get("b"), map.size]).toEqual([undefined, 1, 1]);
  });

  it("equals a list in the order of use, whatever happens", () => {
    const key = fc.constantFrom("a", "b", "c", "d", "e", "f");
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.tuple(fc.constant("set" as const), key, fc.nat(99), fc.integer({ min: 1, max: 7 })) },
      { weight: 5, arbitrary: fc.tuple(fc.constant("get" as const), key) },
      { weight: 1, arbitrary: fc.tuple(fc.constant("delete" as const), key) },
      { weight: 1, arbitrary: fc.tuple(fc.constant("clear" as const)) },
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.array(step, { maxLength: 60 }), (max, steps) => {
        const map = new LruMap<number>(max);
        const reference = new ReferenceMap(max);
        for (const [what, ...given] of steps) {
          const [name = "", value = 0, weight = 1] = given;
          if (what === "get") expect(map.get(name)).toBe(reference.get(name));
          else for (const each of [map, reference]) each[what](name, value, weight);
          expect(map.size).toBe(reference.size);
        }
        for (const name of "abcdef") expect(map.get(name)).toBe(reference.get(name));
      }),
    );
  });
});
