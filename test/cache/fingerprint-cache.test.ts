import { afterEach, describe, expect, it, vi } from "vitest";
import { FingerprintCache } from "../../src/cache/fingerprint-cache.js";
import { ClockHand } from "../../src/lib/clock-hand.js";

interface Value {
  readonly of: string;
}

describe("FingerprintCache", () => {
  it("a text or a digest too long for a fingerprint is not kept", () => {
    const table = new FingerprintCache<Value>(10);
    table.set("k".repeat(3_000), "name", { of: "k" });
    expect(table.get("k".repeat(3_000))).toBeUndefined();
    table.set("k", "n".repeat(3_000), { of: "k" });
    table.delete("n".repeat(3_000));
    expect(table.get("k")).toBeUndefined();
  });

  it("bounds: it never holds more than its size, and what is in use stays", () => {
    const table = new FingerprintCache<Value>(1_000);
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
    const turn = vi.spyOn(ClockHand.prototype, "next").mockImplementation(() => {
      throw new Error("nothing is in the table");
    });
    const table = new FingerprintCache<Value>(0);
    table.set("a", "name", { of: "a" });
    turn.mockRestore();
    table.set("b", "other", { of: "b" });
    expect(table.count).toBe(1);
  });
});

describe("where memory is short", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("what could not be kept is not kept, and all else can be deleted by digest as before", () => {
    // 49 are more than the first slots take: first those of the texts are doubled, then those of the names.
    for (const failing of [1, 2]) {
      const table = new FingerprintCache<Value>(1_000);
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
