/** The permission-query grammar: what it accepts, the tree it answers, where it stops. Contract 2.1, rulings B1, B2. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse, StartRules, SyntaxError as GrammarError } from "../grammar/permission-query.js";
import { and, dice, name, NAME_LETTERS, or, print, trees } from "./access/queries.js";
import { runs } from "./runs.js";

const [a, b, c] = [name("a"), name("b"), name("c")];

/** Where the parser stops, or -1 if it does not. */
function stopAt(text: string): number {
  try {
    parse(text);
    return -1;
  } catch (error) {
    if (error instanceof GrammarError) return error.location.start.offset;
    throw error;
  }
}

describe("grammar: trees", () => {
  it.each([
    ["a", a],
    ["documents.*", name("documents.*")],
    ["a AND b", and(a, b)],
    ["a OR b", or(a, b)],
    ["(a)", a],
    [" \t\r\n( \t\r\na \t\r\n) \t\r\n", a],
  ])("ruling B1: %j", (text, expected) => {
    expect(parse(text)).toEqual(expected);
  });

  it.each([
    ["a OR b AND c", or(a, and(b, c))],
    ["a AND b OR c", or(and(a, b), c)],
    ["(a OR b) AND c", and(or(a, b), c)],
    ["a AND (b OR c)", and(a, or(b, c))],
  ])("ruling B1: AND binds tighter than OR: %j", (text, expected) => {
    expect(parse(text)).toEqual(expected);
  });

  it.each([
    ["a AND b AND c", and(and(a, b), c)],
    ["a OR b OR c", or(or(a, b), c)],
    ["a AND (b AND c)", and(a, and(b, c))],
    ["a OR (b OR c)", or(a, or(b, c))],
  ])("ruling B1: operators associate to the left: %j", (text, expected) => {
    expect(parse(text)).toEqual(expected);
  });

  it.each(["AND", "and", "And", "aNd", "anD", "OR", "or", "Or", "oR"])(
    "ruling B1: %s is an operator in any case",
    (operator) => {
      expect(parse(`a ${operator} b`)).toEqual(operator.toLowerCase() === "and" ? and(a, b) : or(a, b));
      expect(parse(`(a)${operator}(b)`)).toEqual(parse(`a ${operator} b`));
      expect(stopAt(operator)).toBe(0);
      expect(stopAt(`(${operator})`)).toBe(1);
    },
  );

  it.each([
    "ANDROID",
    "and.x",
    "x.or",
    "or1",
    "AND-",
    "and_",
    "or*",
    "or:or",
    "and/and",
    "band",
    "for",
    "a-OR-b",
    "0",
    "*",
    "..",
    "/",
  ])("ruling B1: %s is a name, since operators are whole words", (text) => {
    expect(parse(text)).toEqual(name(text));
    expect(parse(`${text} and ${text} or ${text}`)).toEqual(or(and(name(text), name(text)), name(text)));
    expect(stopAt(`a ${text} b`)).toBe(2);
  });

  it("ruling B1: a printed tree parses to itself, whatever its case, blanks and needless parentheses", () => {
    fc.assert(
      fc.property(trees(), dice, (node, rolls) => {
        expect(parse(print(node, rolls))).toEqual(node);
      }),
      { numRuns: runs(500) },
    );
  });
});

describe("grammar: characters", () => {
  it("ruling B1: of all 65,536 UTF-16 units, exactly the letters of names make a name", () => {
    let accepted = "";
    for (let unit = 0; unit < 0x10000; unit++)
      if (stopAt(String.fromCharCode(unit)) < 0) accepted += String.fromCharCode(unit);
    expect(accepted).toBe(Array.from(NAME_LETTERS).sort().join(""));
  });

  it("ruling B1: exactly space, tab, CR and LF are blank", () => {
    let blank = "";
    for (let unit = 0; unit < 0x10000; unit++)
      if (stopAt(`a${String.fromCharCode(unit)}AND b`) < 0) blank += String.fromCharCode(unit);
    expect(blank).toBe("\t\n\r ");
  });

  it("ruling B1: nothing but ASCII letters spells an operator, long s and dotless letters included", () => {
    let first = "";
    for (let unit = 0; unit < 0x10000; unit++)
      if (stopAt(`a ${String.fromCharCode(unit)}ND b`) < 0) first += String.fromCharCode(unit);
    expect(first).toBe("Aa");
  });
});

describe("grammar: bounds", () => {
  it("ruling B2: 1,000 opening parentheses stop at the end like any other query", () => {
    expect(stopAt("(".repeat(1_000))).toBe(1_000);
    expect(stopAt(")".repeat(1_000))).toBe(0);
    expect(stopAt("(a OR ".repeat(166) + "a")).toBe(166 * 6 + 1);
  });

  it("ruling B2: 1,000 characters of any well-formed kind are accepted", () => {
    expect(parse("a".repeat(1_000))).toEqual(name("a".repeat(1_000)));
    expect(parse(`${"(".repeat(499)}ab${")".repeat(499)}`)).toEqual(name("ab"));
    expect(parse(`${" ".repeat(998)}ab`)).toEqual(name("ab"));
    expect(parse("a OR ".repeat(199) + "a").kind).toBe("or");
    expect(parse("a or(".repeat(166) + "a" + ")".repeat(166)).kind).toBe("or");
    expect(parse("(".repeat(166) + "a" + " OR b)".repeat(166)).kind).toBe("or");
  });

  it("ruling B2: work grows with the length and no faster", () => {
    // Counts how often the parser looks at the text: a measure that no clock disturbs.
    const work = (text: string): number => {
      let looks = 0;
      const count = <T>(value: T): T => (looks++, value);
      const spy = {
        length: text.length,
        charAt: (at: number) => count(text.charAt(at)),
        charCodeAt: (at: number) => count(text.charCodeAt(at)),
        codePointAt: (at: number) => count(text.codePointAt(at)),
        substr: (at: number, length: number) => count(text.slice(at, at + length)),
        substring: (from: number, to: number) => count(text.slice(from, to)),
      };
      stopAt(spy as unknown as string);
      return looks;
    };
    const shapes = [
      (n: number) => "(".repeat(n),
      (n: number) => "(".repeat(n) + "a" + ")".repeat(n),
      (n: number) => "(a OR b AND ".repeat(n),
      (n: number) => "a ".repeat(n),
      (n: number) => "a" + " ".repeat(n) + "!",
      (n: number) => "(".repeat(n) + "a" + " ".repeat(n) + ")".repeat(n - 1),
      (n: number) => "a.".repeat(n) + "!!",
      (n: number) => "and ".repeat(n),
      (n: number) => "a and ".repeat(n),
    ];
    for (const shape of shapes) expect(work(shape(400)), shape(3)).toBeLessThanOrEqual(2 * work(shape(200)) + 20);
  });
});

describe("grammar: the generated parser", () => {
  it("grammar: the committed declarations answer the typed tree", () => {
    const declarations = readFileSync("grammar/permission-query.d.ts", "utf8");
    expect(declarations.match(/\): import\('\.\/permission-query-ast\.js'\)\.QueryNode;/g)).toHaveLength(2);
    expect(StartRules).toEqual(["query"]);
  });
});
