/** Client addresses against allow-lists, with Node's own BlockList and isIP as the second opinion. Ruling A4. */
import { BlockList, isIP } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createAllowlist, isAddressOrRange } from "../../src/lib/ip-ranges.js";
import { runs } from "../runs.js";

/** Eight groups, with the shapes that matter: runs of zeros, IPv4 at `::ffff:`, and anything. */
const group = fc.oneof(fc.constant(0), fc.constant(0xffff), fc.nat(0xffff));
const groups = fc.oneof(
  fc.array(group, { minLength: 8, maxLength: 8 }),
  fc.tuple(group, group).map((low) => [0, 0, 0, 0, 0, 0xffff, ...low]),
);

/** One way to write an address among many. `style` chooses letter case, padding, a dotted end and where `::` stands. */
function write(address: readonly number[], style: number): string {
  const octets = address.slice(6).flatMap((one) => [one >> 8, one & 255]);
  const mapped = address.slice(0, 6).every((one, i) => one === (i < 5 ? 0 : 0xffff));
  if (mapped && style % 2 === 0) return octets.join(".");
  const padding = style & 2 ? 4 : 1;
  const words = address.map((one) => one.toString(16).padStart(padding, "0"));
  if (style & 4) words.splice(6, 2, octets.join("."));
  const from = (style >> 4) & 7;
  let to = from;
  while (to < words.length && address[to] === 0 && !(words[to] ?? "").includes(".")) to++;
  const text =
    to > from && style & 8 ? `${words.slice(0, from).join(":")}::${words.slice(to).join(":")}` : words.join(":");
  return style & 128 ? text.toUpperCase() : text;
}

const family = (text: string): "ipv4" | "ipv6" => (text.includes(":") ? "ipv6" : "ipv4");

describe("addresses: against Node", () => {
  it("ruling A4: membership is what Node's BlockList says, for any two addresses in any way of writing", () => {
    const style = fc.nat(255);
    const flip = fc.option(fc.nat(127), { freq: 5 });
    fc.assert(
      fc.property(
        groups,
        fc.nat(128),
        flip,
        fc.option(groups, { freq: 3 }),
        style,
        style,
        (base, length, bit, other, one, two) => {
          const entry = write(base, one);
          // Most addresses differ from the entry in one bit: near the end of the prefix is where mistakes live.
          const near = base.map((value, i) =>
            bit !== null && bit >> 4 === i ? value ^ (0x8000 >> (bit & 15)) : value,
          );
          const address = write(other ?? near, two);
          const bits = family(entry) === "ipv4" ? length % 33 : length;
          const oracle = new BlockList();
          oracle.addSubnet(entry, bits, family(entry));
          expect(createAllowlist([[`${entry}/${bits}`]])(address), `${address} in ${entry}/${bits}`).toBe(
            oracle.check(address, family(address)),
          );
        },
      ),
      { numRuns: runs(5_000) },
    );
  });

  it("ruling A4: two ways to write one address are one address", () => {
    const style = fc.nat(255);
    fc.assert(
      fc.property(groups, style, style, (address, one, two) => {
        expect(isAddressOrRange(write(address, one))).toBe(true);
        expect(createAllowlist([[write(address, two)]])(write(address, one))).toBe(true);
      }),
      { numRuns: runs(2_000) },
    );
  });

  it("ruling A4: a text is an address exactly when Node says so", () => {
    const parts = fc.constantFrom(
      "0",
      "1",
      "9",
      "25",
      "255",
      "256",
      "01",
      "a",
      "ffff",
      "10000",
      ".",
      ".",
      ".",
      ":",
      ":",
      "::",
      "1.2.3.4",
      "g",
      "/",
      "%",
      " ",
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 16 }), (pieces) => {
        const text = pieces.join("");
        fc.pre(!text.includes("/") && !text.includes("%"));
        expect(isAddressOrRange(text), text).toBe(isIP(text) !== 0);
      }),
      { numRuns: runs(20_000) },
    );
  });
});
