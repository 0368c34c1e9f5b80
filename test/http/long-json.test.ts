import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type BodyShape, countJson, MAX_BYTES_PER_BYTE, parseCounted } from "../../src/http/long-json.js";
import { runs } from "../runs.js";

const SHAPE: BodyShape = { maxValues: 40_000, isImport: true };
/** Longer than a piece, so that the lists below are cut. */
const FILLER = "x".repeat(9_000);

let turns = 0;
const turn = () => {
  turns++;
  return Promise.resolve();
};
const parse = async (text: string, shape = SHAPE) => parseCounted(await countJson(text, shape, turn), turn);
const outcome = async (parsing: () => unknown): Promise<unknown> => {
  try {
    return { value: await parsing() };
  } catch (error) {
    return (error as Error).name;
  }
};

describe("countJson and parseCounted", () => {
  it.each(["1", "-", "true", '"b"', ",", "[]", "0.", "1e"])("%s before a long value is refused", async (before) => {
    const long = JSON.stringify([FILLER]);
    for (const text of [`{"a":${before}${long}}`, `[${before}${long}]`])
      expect(await outcome(() => parse(text))).toBe("SyntaxError");
  });

  it("returns what JSON.parse does, and refuses what it refuses (property)", async () => {
    const item = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constant(FILLER),
      fc.constant({ a: [FILLER], "]": '"},{' }),
    );
    const name = fc.constantFrom("keys", "\\u006beys", "__proto__", "meta", "x");
    const member = fc.tuple(name, fc.oneof(fc.array(item, { maxLength: 12 }), item));
    const whole = fc
      .array(member, { maxLength: 5 })
      .map((members) => `{${members.map(([key, value]) => `"${key}" : ${JSON.stringify(value)}`).join(" ,")}}`);
    const place = fc.tuple(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.constantFrom("", ",", "]", "}", '"', "[", " ", "1"),
    );
    await fc.assert(
      fc.asyncProperty(whole, fc.option(place), async (text, change) => {
        const at = Math.floor((change?.[0] ?? 0) * text.length);
        const given = change === null ? text : text.slice(0, at) + change[1] + text.slice(at + 1);
        expect(await outcome(() => parse(given))).toEqual(await outcome(() => JSON.parse(given)));
      }),
      { numRuns: runs(2_000) },
    );
  });

  it.each(["[,X]", "[X,]", "[X,,X]", "[X, ]", "[X}", "[X", "[X,1", "[X]]", "[X],", '[X]"'])(
    "refuses a list that is none, cut or not: %s",
    async (form) => {
      const items = Array.from({ length: 4 }, () => `"${FILLER}"`).join(",");
      for (const by of ["1", items]) {
        const text = `{"keys":${form.replaceAll("X", by)}}`;
        expect(() => JSON.parse(text) as unknown).toThrow(SyntaxError);
        await expect(parse(text)).rejects.toThrow(SyntaxError);
      }
    },
  );

  it("keeps `__proto__` a property, and of two with one name the last", async () => {
    const long = JSON.stringify([FILLER, FILLER, FILLER]);
    const proto = (await parse(`{"__proto__":${long}}`)) as object;
    expect([Object.keys(proto), Object.getPrototypeOf(proto)]).toEqual([["__proto__"], Object.prototype]);
    expect(await parse(`{"a":${long},"\\u0061":[1]}`)).toEqual({ a: [1] });
    expect(await parse(`{"a":[1],"a":${long}}`)).toEqual({ a: [FILLER, FILLER, FILLER] });
  });

  it("gives others their turn while it counts, and while it parses, 1 MiB of names that all differ", async () => {
    const keys = Array.from({ length: 100 }, (_, i) => ({
      hash: String(i).padStart(64, "0"),
      meta: Object.fromEntries(Array.from({ length: 800 }, (_, j) => [`n${i}_${j}`, 1])),
    }));
    turns = 0;
    const counted = await countJson(JSON.stringify({ keys }), SHAPE, turn);
    const whileCounting = turns;
    expect(await parseCounted(counted, turn)).toEqual({ keys });
    expect(whileCounting).toBeGreaterThan(0);
    expect(turns - whileCounting).toBeGreaterThan(0);
  });

  it("cuts lists and objects at any depth, and keeps the order of properties", async () => {
    const names = Object.fromEntries(
      Array.from({ length: 2_000 }, (_, i) => [`n${i}`, [i, { i: FILLER.slice(0, 9) }]]),
    );
    const value = {
      before: 1,
      meta: { a: { b: names }, list: [[FILLER, [FILLER, names]], 2], last: null },
      after: [1],
    };
    const parsed = await parse(JSON.stringify(value));
    expect(JSON.stringify(parsed)).toBe(JSON.stringify(value));
  });

  it.each(["[]", "{}", "1", '"a"', '{"":1}'])(
    "counts for a list of %s no more than for the worst body",
    async (one) => {
      const text = `[${Array.from({ length: 16_000 }, () => one).join(",")}]`;
      const { bytes } = await countJson(text, { maxValues: Infinity, isImport: false }, turn);
      expect(bytes).toBeGreaterThan(text.length * 2);
      expect(bytes).toBeLessThanOrEqual(text.length * MAX_BYTES_PER_BYTE);
    },
  );

  it("bounds levels, properties, items and values", async () => {
    const properties = (count: number) => `{${Array.from({ length: count }, (_, i) => `"${i}":1`).join(",")}}`;
    const repeated = (count: number, one = "1") => Array.from({ length: count }, () => one).join(",");
    const problem = async (text: string, shape = SHAPE) =>
      expect(parse(text, shape)).rejects.toMatchObject({ code: "BAD_REQUEST", errors: [{ location: "body" }] });
    await problem("[".repeat(65));
    await problem(`{"keys":[${properties(16_385)}]}`);
    await problem(`{"keys":[${repeated(75_002, "{}")}]}`);
    await problem(`{"keys":[[${repeated(40_002)}]]}`);
    await problem(repeated(40_002), { ...SHAPE, isImport: false });
    const two = `{"keys":[${properties(10_000)},${properties(10_000)}]}`;
    await problem(two, { ...SHAPE, isImport: false });
    expect(await parse(two)).toEqual(JSON.parse(two));
    const shortest = `{"keys":[${repeated(69_000, '{"hash":"abc"}')}]}`;
    expect(await parse(shortest)).toEqual(JSON.parse(shortest));
  });
});
