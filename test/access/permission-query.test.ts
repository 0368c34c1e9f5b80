/** Permission queries against grants: the wildcard rule, precedence. Contract 2.1, 2.3, rulings B1–B5, B7. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { QueryNode } from "../../grammar/permission-query-ast.js";
import { compileQuery, createGrants, type Grants } from "../../src/access/permission-query.js";
import { coversAmong } from "../../src/access/wildcards.js";
import { runs } from "../runs.js";
import { dice, permissionName, print, trees } from "./queries.js";

const satisfies = (permissions: readonly string[], query: string): boolean =>
  compileQuery(query).satisfiedBy(createGrants(permissions));

/** The wildcard rule as ruling B3 says it, segment by segment; the twin of `covers`. */
function naiveCovers(permissions: readonly string[], asked: string): boolean {
  const fits = ([grant, ...grants]: readonly string[], [segment, ...segments]: readonly string[]): boolean => {
    if (grant === undefined || segment === undefined) return grant === segment;
    if (grant === "*" && grants.length === 0) return true;
    return (grant === "*" || grant === segment) && fits(grants, segments);
  };
  return permissions.some((permission) => permission === asked || fits(permission.split("."), asked.split(".")));
}

/** The truth table of a tree, walked without shortcuts; the twin of `satisfiedBy`. */
function naiveSatisfies(node: QueryNode, permissions: readonly string[]): boolean {
  if (node.kind === "permission") return naiveCovers(permissions, node.name);
  const sides = [naiveSatisfies(node.left, permissions), naiveSatisfies(node.right, permissions)];
  return node.kind === "and" ? !sides.includes(false) : sides.includes(true);
}

/** Names that meet each other often: few segments, few words. */
const segment = fc.constantFrom("a", "b", "*", "**", "a*", "");
const dotted = fc
  .array(segment, { minLength: 1, maxLength: 4 })
  .map((segments) => segments.join("."))
  .filter((text) => text !== "");

describe("grants: wildcards", () => {
  it.each([
    ["documents.*", "documents.read", true],
    ["documents.*", "documents.a.b", true],
    ["documents.*", "documents.a.b.c.d", true],
    ["documents.*", "documents", false],
    ["documents.*", "documentsX.read", false],
    ["documents.*", "docs.read", false],
    ["documents.*", "Documents.read", false],
    ["a.*.c", "a.b.c", true],
    ["a.*.c", "a.c", false],
    ["a.*.c", "a.b.b.c", false],
    ["a.*.c", "a.b.c.d", false],
    ["a.*.c", "a.b.cc", false],
    ["a.*.c", "a.b.xc", false],
    ["a.*.c", "ab.b.c", false],
    ["*.read", "documents.read", true],
    ["*.read", "read", false],
    ["*.read", "a.documents.read", false],
    ["*.*", "a.b", true],
    ["*.*", "a.b.c", true],
    ["*.*", "a", false],
    ["a.*.*", "a.b", false],
    ["a.*.*", "a.b.c.d", true],
  ])("ruling B3: %s, asked for %s: %s", (grant, asked, expected) => {
    expect(satisfies([grant], asked)).toBe(expected);
  });

  it.each(["a", "a.b.c", "documents.*", "*", "**", "x:y/z", "."])("ruling B3: * alone covers %s", (asked) => {
    expect(satisfies(["*"], asked)).toBe(true);
  });

  it("A055, ruling B3: documents.* covers what lies below it and nothing beside it", () => {
    const asked = ["documents.read", "documents.a.b", "documents", "documentsX.read", "docs.read"];
    expect(asked.map((query) => satisfies(["documents.*"], query))).toEqual([true, true, false, false, false]);
  });

  it("A057, ruling B3: doc*, ** and documents.** are plain, *.read is a wildcard", () => {
    for (const plain of ["doc*", "**", "documents.**", "documents*", "*documents.read", "documents.r*"]) {
      expect(satisfies([plain], "documents.read"), plain).toBe(false);
      expect(satisfies([plain], plain), plain).toBe(true);
    }
    expect(satisfies(["*.read"], "documents.read")).toBe(true);
  });

  it("ruling B4: in a query, * is a plain character that a grant may cover", () => {
    expect(satisfies(["documents.read", "documents.list"], "documents.*")).toBe(false);
    expect(satisfies(["documents.*"], "documents.*")).toBe(true);
    expect(satisfies(["*"], "documents.*")).toBe(true);
    expect(satisfies(["*.*"], "documents.*")).toBe(true);
    expect(satisfies(["documents.*.read"], "documents.*.read")).toBe(true);
    expect(satisfies(["documents.*.read"], "documents.*")).toBe(false);
    expect(satisfies(["documents.*"], "*")).toBe(false);
    expect(satisfies(["documents.*"], "documents")).toBe(false);
  });

  it("ruling B5: names compare exactly, case-sensitively, without Unicode normalisation", () => {
    expect(satisfies(["documents.read"], "documents.READ")).toBe(false);
    expect(satisfies(["documents.read "], "documents.read")).toBe(false);
    expect(createGrants(["caf\u00e9.*"]).covers("cafe\u0301.x")).toBe(false);
    expect(createGrants(["cafe\u0301"]).covers("caf\u00e9")).toBe(false);
    expect(createGrants(["caf\u00e9.*"]).covers("caf\u00e9.x")).toBe(true);
  });

  it("ruling B7: a tuple grant takes * as its resource id", () => {
    expect(satisfies(["api.*.verify_key"], "api.api_1.verify_key")).toBe(true);
    expect(satisfies(["api.api_1.verify_key"], "api.api_1.verify_key")).toBe(true);
    expect(satisfies(["api.api_1.verify_key"], "api.api_2.verify_key")).toBe(false);
    expect(satisfies(["api.*.verify_key"], "api.api_1.create_key")).toBe(false);
    expect(satisfies(["api.*.verify_key"], "ratelimit.api_1.verify_key")).toBe(false);
    expect(satisfies(["api.*.verify_key"], "api.*.verify_key")).toBe(true);
  });

  it("ruling B3: segments may be empty, and dots are only boundaries", () => {
    expect(satisfies(["a..*"], "a..b")).toBe(true);
    expect(satisfies(["a.*"], "a.")).toBe(true);
    expect(satisfies(["a.*.c"], "a..c")).toBe(true);
    expect(satisfies(["a.*.c"], "aXbXc")).toBe(false);
    expect(satisfies(["*."], "a.")).toBe(true);
    expect(satisfies(["*."], "a.b")).toBe(false);
  });

  it("ruling B3: no grants cover nothing; names of Object's own properties are names", () => {
    expect(satisfies([], "a")).toBe(false);
    for (const odd of ["__proto__", "constructor", "toString", "hasOwnProperty", "0", "17"]) {
      expect(satisfies([], odd), odd).toBe(false);
      expect(satisfies(["a"], odd), odd).toBe(false);
      expect(satisfies([odd], odd), odd).toBe(true);
      expect(satisfies([`${odd}.*`], `${odd}.x`), odd).toBe(true);
    }
  });

  it("grants: changing the list afterwards changes nothing", () => {
    const permissions = ["a", "b.*"];
    const grants = createGrants(permissions);
    permissions.push("c", "*");
    expect(["a", "b.x", "c"].map((asked) => grants.covers(asked))).toEqual([true, true, false]);
  });

  it("rulings B3, B4: covers answers as the naive matcher", () => {
    fc.assert(
      fc.property(fc.array(dotted, { maxLength: 5 }), dotted, (permissions, asked) => {
        expect(createGrants(permissions).covers(asked)).toBe(naiveCovers(permissions, asked));
      }),
      { numRuns: runs(3_000) },
    );
  });

  it.each([
    ["so many others that it has to search", 0],
    ["too many others for a set", 4_096],
  ])("rulings B3, B4: covers answers as the naive matcher, among %s", (_, more) => {
    // They cover nothing that is asked, and lie on every way to those that may.
    const words = ["a", "b", "*"];
    const ways = words.flatMap((one) => words.flatMap((two) => words.map((three) => `${one}.${two}.${three}.`)));
    const plain = Array.from({ length: more }, (_, i) => `plain${i}.a`);
    const others = [...plain, ...ways.flatMap((way) => Array.from({ length: 60 }, (_, i) => `${way}other${i}`))];
    const word = fc.constantFrom("a", "b", "*", "*", "**", "a*", "", "-", "a/", "a-", "!", "\u00e9", "\u{1F511}");
    const usual = fc.constantFrom("a", "b", "*");
    const long = fc
      .tuple(fc.array(usual, { maxLength: 3 }), fc.array(word, { minLength: 1, maxLength: 2 }))
      .map(([first, rest]) => [...first, ...rest].join("."));
    fc.assert(
      fc.property(
        fc.array(long, { maxLength: 3 }),
        fc.array(long, { minLength: 1, maxLength: 20 }),
        (permissions, names) => {
          const all = [...others, ...permissions];
          for (const grants of [createGrants(all), createGrants(Object.freeze(all.sort()))])
            for (const asked of names) expect(grants.covers(asked), asked).toBe(naiveCovers(permissions, asked));
        },
      ),
      { numRuns: runs(500) },
    );
  });

  it.each([
    ["a segment that no grant has", (i: number) => `*.r${i}.${"a.".repeat(40)}x`, "a.r.b"],
    ["a name shorter than all", (i: number) => `*.r${i}.${"a.".repeat(40)}x`, "a"],
    ["a last segment that no grant has", (i: number) => `${"*.".repeat(30)}r${i}`, `${"a.".repeat(30)}r`],
    ["the plain way and the wildcard's both", (i: number) => `${i % 2 === 0 ? "a" : "*"}.r${i}.*`, "a.r17.b"],
  ])("ruling B2: a name is not tried on every grant: %s", (_, grantOf, asked) => {
    const readsAmong = (count: number): number => {
      const patterns = Array.from({ length: count }, (_, i) => grantOf(i)).sort();
      let reads = 0;
      const watched = new Proxy(patterns, { get: (list, at) => (reads++, Reflect.get(list, at) as unknown) });
      coversAmong(watched, asked);
      return reads;
    };
    // A search reads 17 of 100,000, and 10 of 1,000; there are some four at each segment.
    expect(readsAmong(100_000)).toBeLessThan(3 * readsAmong(1_000));
    expect(readsAmong(100_000)).toBeLessThan(4_000);
  });

  it("ruling B3: 1,000 long wildcard grants and a long name end at once", () => {
    const permissions = Array.from({ length: 1_000 }, (_, i) => `${"*.".repeat(63)}x${i}`);
    expect(createGrants(permissions).covers(`${"a.".repeat(63)}x`)).toBe(false);
    expect(createGrants(permissions).covers(`${"a.".repeat(63)}x999`)).toBe(true);
    expect(createGrants(["*.".repeat(499) + "a"]).covers("a".repeat(1_000))).toBe(false);
  });
});

describe("queries: meaning", () => {
  it.each([
    ["a OR b AND c", ["a"], true],
    ["a OR b AND c", ["b"], false],
    ["a OR b AND c", ["b", "c"], true],
    ["(a OR b) AND c", ["a"], false],
    ["(a OR b) AND c", ["b", "c"], true],
    ["a AND b", ["a"], false],
    ["a AND b", ["b"], false],
    ["a and b Or c", ["c"], true],
  ])("A053, ruling B1: %s with %j: %s", (query, permissions, expected) => {
    expect(satisfies(permissions, query)).toBe(expected);
  });

  it("rulings B1, B3: a compiled query answers as the truth table of its tree", () => {
    const askable = fc.oneof(dotted, permissionName);
    fc.assert(
      fc.property(trees(askable), fc.array(askable, { maxLength: 6 }), dice, (tree, permissions, rolls) => {
        expect(satisfies(permissions, print(tree, rolls))).toBe(naiveSatisfies(tree, permissions));
      }),
      { numRuns: runs(2_000) },
    );
  });

  it("ruling B1: names are asked from left to right, at most once a mention, and only while they matter", () => {
    const asked: string[] = [];
    const grants: Grants = { covers: (one) => (asked.push(one), one === "yes") };
    expect(compileQuery("no AND a OR (yes OR b) AND no OR yes AND c.d").satisfiedBy(grants)).toBe(false);
    expect(asked).toEqual(["no", "yes", "no", "yes", "c.d"]);
  });

  it("ruling B2: 499 nested parentheses and chains of 500 names compile and answer", () => {
    expect(satisfies(["ab"], `${"(".repeat(499)}ab${")".repeat(499)}`)).toBe(true);
    const chain = (operator: string): string => Array.from({ length: 500 }, (_, i) => `p${i}`).join(` ${operator} `);
    const every = Array.from({ length: 500 }, (_, i) => `p${i}`);
    expect(satisfies(every, chain("AND"))).toBe(true);
    expect(satisfies(every.slice(1), chain("AND"))).toBe(false);
    expect(satisfies(every.slice(0, -1), chain("AND"))).toBe(false);
    expect(satisfies(["p499"], chain("OR"))).toBe(true);
    expect(satisfies(["p500"], chain("OR"))).toBe(false);
    expect(satisfies(["a"], "b or(".repeat(166) + "a" + ")".repeat(166))).toBe(true);
  });

  it("A047, ruling B1: 1,000 well-formed characters are accepted", () => {
    const long = "a".repeat(1_000);
    expect(satisfies([long], long)).toBe(true);
    expect(satisfies([long.slice(1)], long)).toBe(false);
    expect(satisfies(["x.*"], `x.${"a".repeat(998)}`)).toBe(true);
  });
});
