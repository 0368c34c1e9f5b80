import { afterEach, describe, expect, it, vi } from "vitest";
import { FingerprintCache, objectSlots } from "../../src/cache/fingerprint-cache.js";
import { tieredCache } from "../../src/cache/tiered-cache.js";
import { FingerprintIndex } from "../../src/lib/fingerprint-index.js";

interface Value {
  readonly of: string;
}

describe.each([
  ["FingerprintCache", (size: number) => new FingerprintCache<Value>(size, objectSlots())],
  ["tieredCache", (size: number) => tieredCache<Value>(size, objectSlots())],
])("%s", (_, make) => {
  it("a text or a digest too long for a fingerprint is not kept", () => {
    const backend = make(10);
    backend.set("k".repeat(3_000), "name", { of: "k" });
    expect(backend.get("k".repeat(3_000))).toBeUndefined();
    backend.set("k", "n".repeat(3_000), { of: "k" });
    backend.delete("n".repeat(3_000));
    expect(backend.get("k")).toBeUndefined();
  });
});

describe("FingerprintCache", () => {
  it("bounds: it never holds more than its size, and what is in use stays", () => {
    const table = new FingerprintCache<Value>(1_000, objectSlots());
    const add = (n: number) => table.set(`key ${n}`, `name ${n}`, { of: `${n}` });
    for (let n = 0; n < 1_000; n++) add(n);
    for (let n = 1_000; n < 21_000; n++) {
      for (let hot = 0; hot < 10; hot++)
        if (table.get(`key ${hot}`)?.of !== `${hot}`) throw new Error(`key ${hot} was lost`);
      add(n);
      expect(table.count).toBe(1_000);
    }
  });

  it("makes space where there is none to make, and does not look for it without end", () => {
    const has = vi.spyOn(FingerprintIndex.prototype, "has").mockImplementation(() => {
      throw new Error("nothing is in the table");
    });
    const table = new FingerprintCache<Value>(0, objectSlots());
    table.set("a", "name", { of: "a" });
    has.mockRestore();
    table.set("b", "other", { of: "b" });
    expect(table.count).toBe(1);
  });

  it("tells the upper tier of each removal, once", () => {
    const told: string[] = [];
    const table = new FingerprintCache<Value>(2, objectSlots(), undefined, {
      wasUsed: () => false,
      remove: (...tag) => void told.push(tag.join()),
    });
    for (const name of ["a", "b", "c"]) table.set(name, name, { of: name });
    table.set("c", "c", { of: "c" });
    table.delete("c");
    table.delete("c");
    expect(told).toHaveLength(3);
    expect(new Set(told).size).toBe(2);
  });
});

describe("tieredCache", () => {
  it("after the second use in short time it returns the object itself, until it is deleted", () => {
    let unpacked = 0;
    const storage = objectSlots<Value>();
    const backend = tieredCache<Value>(100, { ...storage, get: (entry) => (unpacked++, { ...storage.get(entry) }) });
    backend.set("a", "name", { of: "a" });
    const [first, second, third, fourth] = [1, 2, 3, 4].map(() => backend.get("a"));
    expect(first).not.toBe(second);
    expect([third, fourth]).toEqual([second, second]);
    expect(third).toBe(second);
    expect(unpacked).toBe(2);
    backend.delete("name");
    expect(backend.get("a")).toBeUndefined();
    backend.set("a", "name", { of: "new" });
    expect(backend.get("a")).toEqual({ of: "new" });
  });

  it("full, what the hot tier returns over and over is not evicted below it", () => {
    const backend = tieredCache<Value>(100, objectSlots());
    const add = (n: number) => backend.set(`key ${n}`, `name ${n}`, { of: `${n}` });
    for (let n = 0; n < 100; n++) add(n);
    for (let hot = 0; hot < 5; hot++) for (let i = 0; i < 4; i++) backend.get(`key ${hot}`);
    for (let n = 100; n < 5_000; n++) {
      add(n);
      for (let hot = 0; hot < 5; hot++) expect(backend.get(`key ${hot}`)).toEqual({ of: `${hot}` });
    }
  });

  it("a value set anew is never the old one, whichever tier held it", () => {
    const backend = tieredCache<Value>(100, objectSlots());
    for (const of of ["one", "two", "three"]) {
      backend.set("a", "name", { of });
      for (let i = 0; i < 4; i++) expect(backend.get("a")).toEqual({ of });
    }
    backend.clear();
    expect(backend.get("a")).toBeUndefined();
  });

  it("more in use at once than fit the hot tier: each value is right", () => {
    const backend = tieredCache<Value>(40_000, objectSlots());
    for (let n = 0; n < 40_000; n++) backend.set(`key ${n}`, `name ${n}`, { of: `${n}` });
    for (let turn = 0; turn < 3; turn++)
      for (let n = 0; n < 40_000; n++) expect(backend.get(`key ${n}`)?.of).toBe(`${n}`);
  });
});

describe("where memory is short", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("what could not be kept is not kept, and all else can be deleted by digest as before", () => {
    // 49 are more than the first slots take: first those of the texts are doubled, then those of the names.
    for (const failing of [1, 2]) {
      const table = new FingerprintCache<Value>(1_000, objectSlots());
      const set = (n: number) => table.set(`text ${n}`, `name ${n}`, { of: `text ${n}` });
      for (let n = 0; n < 48; n++) set(n);
      let made = 0;
      const Short = new Proxy(Int32Array, {
        construct(target, given) {
          if (++made === failing) throw new RangeError("Array buffer allocation failed");
          return Reflect.construct(target, given) as Int32Array;
        },
      });
      vi.stubGlobal("Int32Array", Short);
      expect(() => set(48)).toThrow(RangeError);
      expect(table.get("text 48")).toBeUndefined();
      for (let n = 49; n < 60; n++) set(n);
      vi.unstubAllGlobals();
      const left = [...Array(48).keys(), ...Array.from({ length: 11 }, (_, i) => 49 + i)];
      expect(table.count).toBe(left.length);
      for (const n of left) {
        expect(table.get(`text ${n}`)).toEqual({ of: `text ${n}` });
        table.delete(`name ${n}`);
        expect(table.get(`text ${n}`)).toBeUndefined();
      }
      expect(table.count).toBe(0);
    }
  });
});
