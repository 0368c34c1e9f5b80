import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { copyBody, copyPlain, readOwnProperties, Refusal } from "../../src/lib/copy-json.js";

/** Text as meta may hold it: well formed, without U+0000. */
const text = fc.string({ unit: "grapheme" }).filter((value) => !value.includes("\0"));
const names = fc.oneof(
  text,
  fc.constantFrom("__proto__", "constructor", "prototype", "toJSON", "toString", "hasOwnProperty"),
);
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean(), fc.constant(null)),
    fc.array(tie("value"), { maxLength: 5 }),
    fc
      .array(fc.tuple(names, tie("value")), { maxLength: 5 })
      .map(
        (entries) =>
          JSON.parse(
            `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`,
          ) as unknown,
      ),
  ),
})).value;

const refused = (value: unknown): string => {
  const result = copyPlain(value);
  return result instanceof Refusal ? result.message : `accepted ${JSON.stringify(result)}`;
};
const nested = (levels: number): unknown => (levels === 1 ? {} : { a: nested(levels - 1) });

/** Values that a copy holds. */
const count = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Object.values(value).reduce<number>((sum, part) => sum + count(part), 1)
    : 1;

describe("copyPlain: a copy that means the same JSON", () => {
  it("ruling G7: any JSON survives, __proto__ and the like included, and changes no prototype", () => {
    fc.assert(
      fc.property(json, (value) => {
        const copy = copyPlain(value);
        expect(JSON.stringify(copy)).toBe(JSON.stringify(value));
        expect(copyPlain(copy)).toEqual(copy);
        if (typeof copy === "object" && copy !== null) expect(copy).not.toBe(value);
      }),
    );
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  it("ruling G7: __proto__ is an own property of the copy, and its prototype is untouched", () => {
    const copy = copyPlain(JSON.parse('{"__proto__":{"admin":true},"constructor":{"prototype":{"x":1}}}')) as Record<
      string,
      unknown
    >;
    expect(Object.keys(copy)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
    expect(copy["admin"]).toBeUndefined();
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
  });

  it("ruling G7: reads every property once", () => {
    let reads = 0;
    const value = {
      get note() {
        return `read ${++reads}`;
      },
      list: [1, { deep: true }],
    };
    expect(copyPlain(value)).toEqual({ note: "read 1", list: [1, { deep: true }] });
    expect(reads).toBe(1);
  });

  it("leaves undefined properties, inherited ones and symbols out; makes −0 a 0", () => {
    const value = Object.assign(Object.create(null) as object, { a: undefined, b: -0, [Symbol("c")]: 1 });
    const copy = copyPlain(value) as { b: number };
    expect(Object.keys(copy)).toEqual(["b"]);
    expect(Object.is(copy.b, 0)).toBe(true);
  });

  it("hostile A171, ruling G7: 32 levels pass, 33 and 10,000 are refused", () => {
    expect(copyPlain(nested(32))).toEqual(nested(32));
    expect(refused(nested(33))).toMatch(/32 levels/);
    expect(refused(JSON.parse('{"a":'.repeat(9_999) + "{}" + "}".repeat(9_999)))).toMatch(/32 levels/);
  });

  it("refuses what refers to itself, however often", () => {
    const loop: Record<string, unknown> = {};
    loop["a"] = loop;
    loop["b"] = [loop, loop];
    expect(refused(loop)).toMatch(/32 levels|64 KB/);
    let wide: unknown = 1;
    for (let i = 0; i < 30; i++) wide = [wide, wide];
    expect(refused(wide)).toMatch(/64 KB/);
  });

  it("ruling G7: 64 KB of UTF-8 JSON pass, one byte more is refused, whatever the characters weigh", () => {
    const frame = '{"a":""}'.length;
    for (const [unit, bytes] of [
      ["x", 1],
      ["é", 2],
      ["語", 3],
      ["🔑", 4],
      ['"', 2],
      ["\u0001", 6],
    ] as const) {
      const most = Math.floor((65_536 - frame) / bytes);
      expect(refused({ a: unit.repeat(most) }), unit).toMatch(/^accepted/);
      expect(refused({ a: unit.repeat(most + 1) }), unit).toMatch(/64 KB/);
    }
    expect(refused({ a: Array.from({ length: 40_000 }, () => true) })).toMatch(/64 KB/);
    expect(refused({ a: Array.from({ length: 20_000 }, () => null) })).toMatch(/64 KB/);
    expect(refused({ a: Array.from({ length: 70_000 }, () => 1) })).toMatch(/64 KB/);
    expect(refused({ a: Array.from({ length: 40_000 }, () => []) })).toMatch(/64 KB/);
    expect(refused(Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [i, 1])))).toMatch(/64 KB/);
  });

  it("hostile A009, ruling G6: U+0000 and lone surrogates are refused in values and in names", () => {
    for (const bad of ["a\0b", "\ud800", "x\udc00"]) {
      expect(refused({ note: bad })).toMatch(/well-formed text/);
      expect(refused({ [bad]: 1 })).toMatch(/well-formed text/);
    }
  });

  it("refuses what JSON cannot hold instead of losing it", () => {
    const values = [
      1n,
      () => 1,
      Symbol("s"),
      NaN,
      Infinity,
      new Date(0),
      new Map(),
      new Number(5),
      [undefined],
      new Array(2),
      /x/,
    ];
    for (const value of values) expect(refused({ value })).toMatch(/only what JSON can/);
    expect(refused(undefined)).toMatch(/only what JSON can/);
  });
});

describe("copyBody: the private copy of a request", () => {
  it("ruling G7, hostile A015: every property is read exactly once, own ones only", () => {
    const reads: Record<string, number> = {};
    const tracked = (object: object): object =>
      new Proxy(object, {
        get: (target, name) => {
          reads[String(name)] = (reads[String(name)] ?? 0) + 1;
          return Reflect.get(target, name) as unknown;
        },
      });
    const body = tracked({ name: "x", credits: tracked({ remaining: 1 }), gone: undefined, meta: { a: 1 } });
    expect(copyBody(body)).toEqual({ name: "x", credits: { remaining: 1 }, meta: { a: 1 } });
    expect(reads).toEqual({ name: 1, credits: 1, remaining: 1, gone: 1, meta: 1 });
    expect(copyBody(Object.create({ apiId: "api_1" }))).toEqual({});
  });

  it("keeps scalars, makes −0 a 0, leaves what is no object as it is", () => {
    const copy = copyBody({ zero: -0, list: [-0, "x", null, { deep: undefined }] }) as {
      zero: number;
      list: unknown[];
    };
    expect(Object.is(copy.zero, 0)).toBe(true);
    expect(copy.list).toEqual([0, "x", null, {}]);
    for (const value of [null, undefined, 1, "x", true]) expect(copyBody(value)).toBe(value);
    const list = [{ cost: -0, skip: undefined }, 1];
    expect(copyBody(list)).toEqual([{ cost: 0 }, 1]);
    expect(copyBody(list)).not.toBe(list);
    expect(copyBody(new Array(5_000_000))).toHaveLength(1_001);
  });

  it("bounds what it copies: long lists, deep nesting, objects that multiply", () => {
    const { list } = copyBody({ list: new Array(5_000_000) }) as { list: unknown[] };
    expect(list).toHaveLength(1_001);
    let deepest = copyBody({ a: { b: { c: { d: { e: { f: {} } } } } } });
    for (const name of "abcdef") deepest = (deepest as Record<string, unknown>)[name];
    expect(typeof deepest).toBe("symbol");
    let wide: unknown = 1;
    for (let i = 0; i < 5; i++) wide = Array.from({ length: 1_000 }, () => wide);
    const hundred = (value: unknown) => Object.fromEntries(Array.from({ length: 100 }, (_, i) => [i, value]));
    const objects = hundred(hundred(hundred(1)));
    for (const body of [
      { wide },
      { objects },
      { wide: Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [i, {}])) },
    ]) {
      expect(count(copyBody(body))).toBeLessThanOrEqual(20_001);
    }
  });

  it("free-form data is the body's own `meta` only; null stays null", () => {
    const copy = copyBody({ meta: { when: new Date(0) }, nested: { meta: 1 } }) as Record<string, unknown>;
    expect(copy["meta"]).toBeInstanceOf(Refusal);
    expect(copy["nested"]).toEqual({ meta: 1 });
    expect(copyBody({ meta: null })).toEqual({ meta: null });
  });

  it("readOwn: own enumerable properties, each once; nothing for what is no object", () => {
    expect(readOwnProperties({ a: 1, b: undefined })).toEqual({ a: 1 });
    const hostile = readOwnProperties(JSON.parse('{"__proto__":{"a":1}}')) as object;
    expect(Object.keys(hostile)).toEqual(["__proto__"]);
    for (const value of [null, undefined, [], "x"]) expect(readOwnProperties(value)).toBeUndefined();
  });
});
