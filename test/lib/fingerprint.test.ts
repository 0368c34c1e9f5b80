import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Fingerprint, MAX_UNITS } from "../../src/lib/fingerprint.js";

const read = (tag: Fingerprint, text: string) => (tag.read(text) ? `${tag.h0} ${tag.h1} ${tag.h2}` : undefined);

/** The same sums in big integers, one step after the other. */
function twin(table: Int32Array, text: string): string {
  const ascii = /^[\0-\x7f]*$/.test(text);
  const units = [...Array(text.length).keys()].map((i) => BigInt(text.charCodeAt(i)));
  const start = ascii ? 0 : 6;
  const sum = (lane: number) => {
    let total = BigInt(table[start + lane * 2]!) + BigInt(table[start + lane * 2 + 1]!) * BigInt(text.length);
    // Four characters are two pairs with a factor each; the others have one each, as all units have.
    const rounds = ascii ? Math.floor(text.length / 4) : 0;
    const factor = (place: number) => BigInt(table[12 + place + lane]!);
    for (let round = 0; round < rounds; round++) {
      const [first, second, third, fourth] = units.slice(round * 4);
      total += factor(round * 2) * (first! + second! * 128n);
      total += factor(round * 2 + 1) * (third! + fourth! * 128n);
    }
    units.slice(rounds * 4).forEach((unit, i) => (total += factor(rounds * 2 + i) * unit));
    return BigInt.asIntN(32, total);
  };
  return [0, 1, 2].map(sum).join(" ");
}

describe("TextTag", () => {
  it("is the sum that its header names, in 32-bit arithmetic", () => {
    let table = new Int32Array();
    const tag = new Fingerprint((array) => {
      globalThis.crypto.getRandomValues(array.subarray(0, 4_000));
      table = array.slice();
    });
    const text = fc.oneof(fc.string({ maxLength: 60 }), fc.string({ unit: "binary", maxLength: 60 }));
    fc.assert(
      fc.property(text, (any) => {
        expect(read(tag, any)).toBe(twin(table, any));
      }),
    );
  });

  it("tells texts apart that differ in one character, its place, the length, or in NULs", () => {
    const tag = new Fingerprint();
    const texts = [
      "",
      "\0",
      "\0\0",
      "sk_abc",
      "sk_abd",
      "sk_ab",
      "sk_abc\0",
      "\0sk_abc",
      "sk_acb",
      "ks_abc",
      "Sk_abc",
      "sk_abѣ",
      "sk_ab\u8063",
      "Ł",
      "A",
    ];
    expect(new Set(texts.map((text) => read(tag, text))).size).toBe(texts.length);
    // One bit of one character, at every place.
    const near = [...Array(64).keys()].flatMap((i) =>
      [1, 2, 4, 8, 16, 32, 64].map((bit) => "a".repeat(i) + String.fromCharCode(97 ^ bit) + "a".repeat(63 - i)),
    );
    expect(new Set([...near, "a".repeat(64)].map((text) => read(tag, text))).size).toBe(near.length + 1);
  });

  it("two instances agree on nothing: a tag cannot be foretold", () => {
    expect(read(new Fingerprint(), "sk_abc")).not.toBe(read(new Fingerprint(), "sk_abc"));
  });

  it("gives none to a text longer than any key", () => {
    const tag = new Fingerprint();
    expect(tag.read("k".repeat(MAX_UNITS))).toBe(true);
    expect(tag.read("k".repeat(MAX_UNITS + 1))).toBe(false);
  });
});
