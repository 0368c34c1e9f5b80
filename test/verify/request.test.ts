import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isKeystileError, KeystileError, type ValidationProblem } from "../../src/contracts/errors.js";
import { newKey } from "../../src/lib/hash.js";
import { readRequest } from "../../src/verify/request.js";

function problemsOf(body: unknown): readonly ValidationProblem[] {
  try {
    readRequest(body);
  } catch (error) {
    if (isKeystileError(error) && error.status === 400) return error.errors;
    throw error;
  }
  return [];
}
const locations = (body: unknown) => problemsOf(body).map(({ location }) => location);
const text = (length: number) => "k".repeat(length);

describe("readRequest", () => {
  it("contract 2.1: a key alone is a request of cost 1 and nothing else", () => {
    expect(readRequest({ key: "k" })).toEqual({
      key: "k",
      tags: [],
      permissions: undefined,
      cost: 1,
      ratelimits: [],
      migrationId: undefined,
    });
  });

  it("contract 2.1: every property is read", () => {
    const body = {
      key: "k",
      tags: ["a=b"],
      permissions: "a",
      credits: { cost: 0 },
      ratelimits: [{ name: "abc" }, { name: "def", cost: 0, limit: 0, duration: 0 }],
      migrationId: "",
    };
    expect(readRequest(body)).toEqual({
      key: "k",
      tags: ["a=b"],
      permissions: "a",
      cost: 0,
      ratelimits: [
        { name: "abc", cost: 1, limit: undefined, duration: undefined },
        { name: "def", cost: 0, limit: 0, duration: 0 },
      ],
      migrationId: "",
    });
  });

  it.each([
    ["A001", null, ["body"]],
    ["A001", [], ["body"]],
    ["A001", "x", ["body"]],
    ["A001", 1, ["body"]],
    ["A001", undefined, ["body"]],
    ["A003", { key: "k", apiId: "api_1" }, ["body.apiId"]],
    ["A005", {}, ["body.key"]],
    ["A005", { key: null }, ["body.key"]],
    ["A005", { key: 123 }, ["body.key"]],
    ["A005", { key: ["k"] }, ["body.key"]],
    ["A005", { key: {} }, ["body.key"]],
    ["A005", { key: new String("k") }, ["body.key"]],
    ["A007", { key: "😀".repeat(513) }, ["body.key"]],
    ["A007", { key: text(1025) }, ["body.key"]],
    ["A013", { key: "k", constructor: { prototype: { valid: true } } }, ["body.constructor"]],
    ["A013", JSON.parse('{"key":"k","__proto__":{"key":"x"}}'), ["body.__proto__"]],
    ["A029", { key: "k", credits: null }, ["body.credits"]],
    ["A029", { key: "k", credits: [] }, ["body.credits"]],
    ["A029", { key: "k", credits: {} }, ["body.credits.cost"]],
    ["A047", { key: "k", permissions: "" }, ["body.permissions"]],
    ["A047", { key: "k", permissions: text(1001) }, ["body.permissions"]],
    ["A047", { key: "k", permissions: 5 }, ["body.permissions"]],
    ["A047", { key: "k", permissions: null }, ["body.permissions"]],
    ["A179", { key: "k", migrationId: text(257) }, ["body.migrationId"]],
    ["contract 8", { key: "" }, ["body.key"]],
    ["contract 8", { key: text(513) }, ["body.key"]],
    ["contract 8", { key: "k", tags: Array(21).fill("t") }, ["body.tags"]],
    ["contract 8", { key: "k", tags: "t" }, ["body.tags"]],
    ["contract 8", { key: "k", tags: ["t", "", 5, text(513)] }, ["body.tags[1]", "body.tags[2]", "body.tags[3]"]],
    ["contract 8", { key: "k", ratelimits: {} }, ["body.ratelimits"]],
    ["contract 8", { key: "k", ratelimits: [null, { name: "ab" }] }, ["body.ratelimits[0]", "body.ratelimits[1].name"]],
    ["contract 8", { key: "k", ratelimits: [{ name: "😀😀" }] }, ["body.ratelimits[0].name"]],
    ["contract 8", { key: "k", ratelimits: [{ name: text(256) }] }, ["body.ratelimits[0].name"]],
    [
      "contract 8",
      { key: "k", ratelimits: [{ name: "abc", cost: -1, limit: 1.5, duration: "1", x: 1 }] },
      ["body.ratelimits[0].x", "body.ratelimits[0].cost", "body.ratelimits[0].limit", "body.ratelimits[0].duration"],
    ],
    ["bounded", { key: "k", ratelimits: Array(1001).fill({ name: "abc" }) }, ["body.ratelimits"]],
    ["contract 2.1", { key: "k", credits: { cost: 1, price: 2 } }, ["body.credits.price"]],
    ["ruling G6", { key: "k\ud800" }, ["body.key"]],
    ["ruling G6", { key: "k", migrationId: "\udc00" }, ["body.migrationId"]],
  ])("%s: %j is refused where it is wrong", (_rule, body, expected) => {
    expect(locations(body)).toEqual(expected);
  });

  it.each([
    1.5,
    "1",
    true,
    null,
    [1],
    Infinity,
    9007199254740993,
    -1,
    1_000_000_000_001,
    NaN,
    -Infinity,
    5n,
    new Number(5),
    "5",
    { valueOf: () => -5 },
  ])("A031, A033: a cost of %s is refused at body.credits.cost", (cost) => {
    expect(locations({ key: "k", credits: { cost } })).toEqual(["body.credits.cost"]);
  });

  it("ruling G6: integers are judged by value", () => {
    expect(readRequest(JSON.parse('{"key":"k","credits":{"cost":1.0}}')).cost).toBe(1);
    expect(Object.is(readRequest({ key: "k", credits: { cost: -0 } }).cost, 0)).toBe(true);
    expect(readRequest({ key: "k", credits: { cost: 1_000_000_000_000 } }).cost).toBe(10 ** 12);
  });

  it("A007: lengths count code points", () => {
    expect(locations({ key: "😀".repeat(512), tags: ["😀".repeat(512)] })).toEqual([]);
    expect(locations({ key: "k", ratelimits: [{ name: "😀😀😀" }] })).toEqual([]);
  });

  it("contract 8: each bound itself is accepted", () => {
    const most = {
      key: text(512),
      tags: Array(20).fill(text(512)),
      permissions: text(1_000),
      credits: { cost: 1_000_000_000_000 },
      migrationId: text(256),
      ratelimits: Array(1_000).fill({
        name: text(255),
        cost: Number.MAX_SAFE_INTEGER,
        limit: Number.MAX_SAFE_INTEGER,
        duration: Number.MAX_SAFE_INTEGER,
      }),
    };
    expect(problemsOf(most)).toEqual([]);
    const least = { key: "k", tags: ["t"], permissions: "p", migrationId: "", ratelimits: [{ name: "abc", cost: 0 }] };
    expect(problemsOf(least)).toEqual([]);
  });

  it.each<[unknown, ValidationProblem]>([
    [null, { location: "body", message: "must be an object" }],
    [{}, { location: "body.key", message: "is required" }],
    [{ key: 1 }, { location: "body.key", message: "must be a string" }],
    [{ key: "" }, { location: "body.key", message: "must have 1 to 512 characters" }],
    [
      { key: "\ud800" },
      { location: "body.key", message: "must be well-formed text", fix: "remove the lone surrogate" },
    ],
    [
      { key: "k", tags: "t" },
      { location: "body.tags", message: "must be an array" },
    ],
    [
      { key: "k", tags: Array(21).fill("t") },
      { location: "body.tags", message: "must have at most 20 items" },
    ],
    [
      { key: "k", credits: 1 },
      {
        location: "body.credits",
        message: "must be an object",
        fix: "send { cost }, or leave it out for a cost of 1",
      },
    ],
    [
      { key: "k", credits: {} },
      { location: "body.credits.cost", message: "is required" },
    ],
    [
      { key: "k", credits: { cost: -1 } },
      { location: "body.credits.cost", message: "must be an integer from 0 to 1000000000000" },
    ],
    [
      { key: "k", ratelimits: ["requests"] },
      { location: "body.ratelimits[0]", message: "must be an object", fix: "send { name }" },
    ],
    [
      { key: "k", ratelimits: [{ name: "ab" }] },
      { location: "body.ratelimits[0].name", message: "must have 3 to 255 characters" },
    ],
    [
      { key: "k", apiId: "api_1" },
      { location: "body.apiId", message: "is not a property of this object", fix: "remove it" },
    ],
    [
      { key: "k", "a b": 1 },
      {
        location: "body",
        message: "has a property that is not allowed",
        fix: "send only the properties of the interface",
      },
    ],
  ])("%j: the problem says what is wrong, and how to put it right", (body, problem) => {
    expect(problemsOf(body)).toStrictEqual([problem]);
  });

  it("all problems are reported at once", () => {
    expect(locations({ permissions: 1, credits: { cost: -1 }, nope: 1 })).toEqual([
      "body.nope",
      "body.key",
      "body.permissions",
      "body.credits.cost",
    ]);
  });

  it("ruling G4: names that may be secrets, and values, are not repeated", () => {
    const secret = "sk_live_0123456789 abcdefghijklmnop";
    const [problem] = problemsOf({ key: "k", [secret]: secret });
    expect(problem?.location).toBe("body");
    expect(
      JSON.stringify(problemsOf({ key: [secret], tags: secret, permissions: { secret }, [secret]: 1 })),
    ).not.toContain("sk_live");
  });

  it("ruling G4: a key that stands where a property's name should, as a form parser puts it, is not repeated", () => {
    const { key } = newKey("sk", 16);
    expect(problemsOf({ [key]: "" }).map(({ location }) => location)).toEqual(["body", "body.key"]);
    expect(problemsOf({ [newKey(undefined, 16).key]: "" })[0]?.location).toBe("body");
    expect(locations({ key: "k", a_name_as_people_write: 1 })).toEqual(["body.a_name_as_people_write"]);
  });

  it("ruling G4: so with one of another maker, which may be as short as a name of ours: they have no digits", () => {
    expect(locations({ key: "k", sk_live_4eC39HqLyjWD: 1, credits: { cost: 1, k1: 1 } })).toEqual([
      "body",
      "body.credits",
    ]);
    expect(locations({ key: "k", externalId: 1, ratelimits: [{ name: "abc", refill_Day$: 1 }] })).toEqual([
      "body.externalId",
      "body.ratelimits[0].refill_Day$",
    ]);
  });

  it.each([NaN, -1, 1.5, "1", Infinity, 2 ** 53, undefined, { valueOf: () => 1 }])(
    "A015, ruling G7: a list whose length a proxy says is %s is refused, and its length read once",
    (length) => {
      let reads = 0;
      const get = (items: unknown[], name: string | symbol) =>
        name === "length" ? (reads++, length) : Reflect.get(items, name);
      expect(locations({ key: "k", tags: new Proxy(["a"], { get }) })).toEqual(["body.tags"]);
      expect(reads).toBe(1);
    },
  );

  it("T12: what a getter or a trap of a proxy throws is a 400 that repeats nothing of it", () => {
    const fail = (): never => {
      throw new Error("sk_secret");
    };
    const bodies = [
      new Proxy({ key: "k" }, { ownKeys: fail }),
      new Proxy({ key: "k" }, { get: fail }),
      new Proxy({ key: "k" }, { getOwnPropertyDescriptor: fail }),
      Object.defineProperty({}, "key", { enumerable: true, get: fail }),
      { key: "k", credits: new Proxy({}, { ownKeys: fail }) },
      { key: "k", ratelimits: new Proxy([{ name: "abc" }], { get: fail }) },
    ];
    for (const body of bodies) {
      const problem = { location: "body", message: "cannot be read", fix: "send a plain object" };
      expect(problemsOf(body)).toStrictEqual([problem]);
      expect(inspect(problemsOf(body), { depth: 9, showHidden: true })).not.toContain("sk_secret");
    }
  });

  it("A015, ruling G7: each property is read exactly once, own ones only", () => {
    let reads = 0;
    const body = Object.defineProperty({ credits: {} }, "key", { enumerable: true, get: () => `k${++reads}` });
    Object.defineProperty(body.credits, "cost", { enumerable: true, get: () => ++reads });
    expect(readRequest(body)).toMatchObject({ key: "k1", cost: 2 });
    expect(reads).toBe(2);
    expect(locations(Object.create({ key: "inherited" }))).toEqual(["body.key"]);
    expect(readRequest(Object.assign(Object.create(null), { key: "k" })).key).toBe("k");
  });

  it("undefined counts as absent, but for what narrows a request", () => {
    const body = { key: "k", tags: undefined, credits: undefined, migrationId: undefined };
    expect(readRequest(body)).toEqual(readRequest({ key: "k" }));
    const lost = { key: "k", permissions: undefined, ratelimits: undefined };
    expect(locations(lost)).toEqual(["body.permissions", "body.ratelimits"]);
  });

  it("a flood of unknown properties is reported in bounded length", () => {
    const body = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`p${i}`, 1]));
    expect(problemsOf({ key: "k", ...body })).toHaveLength(100);
  });

  it("property: any JSON is either read or refused with locations under body", () => {
    const field = fc.oneof(fc.jsonValue(), fc.string(), fc.integer(), fc.constant(undefined));
    const bodies = fc.record(
      { key: field, tags: field, permissions: field, credits: field, ratelimits: field, migrationId: field },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(bodies, fc.jsonValue()), (body) => {
        for (const { location, message } of problemsOf(body)) {
          expect(location).toMatch(/^body($|[.[])/);
          expect(message).not.toBe("");
        }
      }),
    );
  });
});

describe("KeystileError", () => {
  it("contract 2.4: carries the problem's fields, and is recognised across copies of the package", () => {
    const error = new KeystileError("NOT_FOUND", "there is no such API", { cause: new Error("why") });
    expect(error).toMatchObject({
      code: "NOT_FOUND",
      status: 404,
      title: "Not Found",
      detail: "there is no such API",
      errors: [],
    });
    expect(error.message).toBe(error.detail);
    expect(isKeystileError(error)).toBe(true);
    const copy = Object.assign(Object.create(null), { code: "NOT_FOUND" });
    expect(isKeystileError(copy)).toBe(false);
    Object.defineProperty(copy, Symbol.for("keystile.KeystileError"), { value: true });
    expect(isKeystileError(copy)).toBe(true);
    for (const other of [null, undefined, "NOT_FOUND", new Error("x")]) expect(isKeystileError(other)).toBe(false);
  });
});
