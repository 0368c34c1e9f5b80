import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { frontRow } from "../../src/stores/front-row.js";

const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 6 }),
  fc.constantFrom("a", "b", "a\0", "\0", "\0\0", "aa", "Ł", "A", "😀", "k".repeat(1_024)),
);

describe("frontRow", () => {
  it("answers what its obvious twin answers, or nothing", () => {
    const step = fc.oneof(
      fc.record({ act: fc.constant("set" as const), text }),
      fc.record({ act: fc.constant("get" as const), text }),
      fc.record({ act: fc.constant("delete" as const), text }),
      fc.record({ act: fc.constant("clear" as const) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const row = frontRow<object>();
        const twin = new Map<string, object>();
        for (const one of steps) {
          if (one.act === "set") {
            const value = { of: one.text };
            row.set(one.text, `name ${one.text}`, value);
            twin.set(one.text, value);
          } else if (one.act === "delete") {
            row.delete(`name ${one.text}`);
            twin.delete(one.text);
          } else if (one.act === "clear") {
            row.clear();
            twin.clear();
          } else {
            const answer = row.get(one.text);
            if (answer !== undefined) expect(answer).toBe(twin.get(one.text));
          }
        }
        // So few texts all fit: none is forgotten.
        for (const [known, value] of twin) if (twin.size <= 2 && /^[\0-\x7f]*$/.test(known)) expect(row.get(known)).toBe(value);
      }),
    );
  });

  it("of texts that fall on one set the two set last stay, and deleting one leaves the other", () => {
    // A table of zeros puts every text on the first set, with tags that tell the length only.
    const row = frontRow<number>((array) => void (array[3] = 1));
    for (const [value, name] of ["a", "bb", "ccc"].entries()) row.set(name, name, value);
    expect([row.get("a"), row.get("bb"), row.get("ccc")]).toEqual([undefined, 1, 2]);
    row.delete("bb");
    expect([row.get("bb"), row.get("ccc")]).toEqual([undefined, 2]);
    row.set("ccc", "ccc", 7);
    row.set("bb", "bb", 8);
    expect([row.get("bb"), row.get("ccc")]).toEqual([8, 7]);
    row.delete("unknown");
    row.delete("ccc");
    row.set("ccc", "ccc", 9);
    expect([row.get("bb"), row.get("ccc")]).toEqual([8, 9]);
  });

  it("keeps most of 4,096 keys, never answers for another, and a flood changes its size by nothing", () => {
    const row = frontRow<number>();
    const key = (n: number) => `sk_${(n * 2_654_435_761).toString(36)}${n}`;
    for (let n = 0; n < 4_096; n++) row.set(key(n), String(n), n);
    let kept = 0;
    for (let n = 0; n < 4_096; n++) {
      const answer = row.get(key(n));
      if (answer !== undefined) {
        expect(answer).toBe(n);
        kept++;
      }
    }
    expect(kept).toBeGreaterThan(3_880);
    for (let n = 10_000; n < 210_000; n++) expect(row.get(key(n))).toBeUndefined();
  });

  it("texts that differ in one unit, in length, or in NULs have different tags", () => {
    const row = frontRow<string>();
    row.set("sk_abc", "x", "x");
    for (const other of ["sk_abd", "sk_ab", "sk_abc\0", "\0sk_abc", "sk_acb", "Sk_abc", "sk_ab\u0463", "sk_ab\u8063"])
      expect(row.get(other)).toBeUndefined();
  });

  it("texts past the longest key, and others than ASCII, are not remembered", () => {
    const row = frontRow<number>();
    row.set("ключ", "x", 1);
    expect(row.get("ключ")).toBeUndefined();
    row.set("k".repeat(1_025), "x", 1);
    expect(row.get("k".repeat(1_025))).toBeUndefined();
  });
});
