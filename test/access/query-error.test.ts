/** What a refused permission query is told: found, expected, position, fix. Rulings B1, B2, G4. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileQuery } from "../../src/access/permission-query.js";
import { isKeystileError, type ValidationProblem } from "../../src/contracts/errors.js";
import { runs } from "../runs.js";
import { dice, NAME_LETTERS, print, trees } from "./queries.js";

const OPERAND = 'a permission name or "("';
const OPERATOR = "AND, OR or the end of the query";
const CLOSE = 'AND, OR or ")"';
const ALLOWED = 'names of A-Z a-z 0-9 . _ - * : /, AND, OR, "(", ")" and spaces';
const END = "the end of the query";

/** The one problem of a refused query. */
function problemOf(query: string): ValidationProblem {
  try {
    compileQuery(query);
  } catch (error) {
    if (!isKeystileError(error) || error.code !== "PERMISSIONS_QUERY_SYNTAX") throw error;
    expect(error.errors).toHaveLength(1);
    return error.errors[0] as ValidationProblem;
  }
  throw new Error(`compiled: ${query.slice(0, 50)}`);
}

type Row = [query: string, found: string, position: number, expected: string, fix: string | undefined];

/** Tells the whole problem, so that a missing or surplus `fix` shows. */
function expectRow([query, found, position, expected, fix]: Row): void {
  const message = `found ${found} at position ${position}, expected ${expected}`;
  const problem = problemOf(query);
  expect(problem).toStrictEqual({ location: "body.permissions", message, ...(fix === undefined ? {} : { fix }) });
  expect(problem.position).toBe(position);
}

describe("query problems: structure", () => {
  const rows: Row[] = [
    // empty query
    ["", END, 0, OPERAND, "name a permission, or leave the query out"],
    [" \t\r\n", END, 4, OPERAND, "name a permission, or leave the query out"],
    // operand missing
    ["a AND", END, 5, OPERAND, "put a permission name after the last operator, or remove the operator"],
    ["a OR  ", END, 6, OPERAND, "put a permission name after the last operator, or remove the operator"],
    ["a and (b OR", END, 11, OPERAND, "put a permission name after the last operator, or remove the operator"],
    ["AND", '"AND"', 0, OPERAND, "put a permission name before it, or remove it"],
    ["or a", '"or"', 0, OPERAND, "put a permission name before it, or remove it"],
    ["a AND oR b", '"oR"', 6, OPERAND, "put a permission name before it, or remove it"],
    ["a AND (OR(b))", '"OR"', 7, OPERAND, "put a permission name before it, or remove it"],
    ["(a OR ) AND b", '")"', 6, OPERAND, 'put a permission name before the ")", or remove the operator'],
    // ()
    ["()", '")"', 1, OPERAND, 'put a permission name between "(" and ")", or remove both'],
    ["a AND ( )", '")"', 8, OPERAND, 'put a permission name between "(" and ")", or remove both'],
    // ) missing
    ["(a", END, 2, CLOSE, 'add the missing ")"'],
    ["((a) OR b ", END, 10, CLOSE, 'add the missing ")"'],
    ["(", END, 1, OPERAND, 'complete what the last "(" opens, or remove it'],
    ["(".repeat(1_000), END, 1_000, OPERAND, 'complete what the last "(" opens, or remove it'],
    // trailing content
    [")", '")"', 0, OPERAND, 'remove the ")"'],
    ["a)", '")"', 1, OPERATOR, 'remove the ")", or add the "(" that it closes'],
    ["(a) b", '"b"', 4, OPERATOR, "put AND or OR before it"],
    ["a b", '"b"', 2, OPERATOR, "put AND or OR before it"],
    ["a\n\tb)", '"b"', 3, OPERATOR, "put AND or OR before it"],
    ["a (b)", '"("', 2, OPERATOR, "put AND or OR before it"],
    ["(a b)", '"b"', 3, CLOSE, "put AND or OR before it"],
    ["(a(b))", '"("', 2, CLOSE, "put AND or OR before it"],
    ["a ANDROID b", '"ANDROID"', 2, OPERATOR, "put AND or OR before it"],
    ["a orb(c)", '"orb"', 2, OPERATOR, "put AND or OR before it"],
    ["a xor b", '"xor"', 2, OPERATOR, "put AND or OR before it"],
    ["NOT a", '"a"', 4, OPERATOR, "put AND or OR before it"],
  ];
  it.each(rows)("ruling B2: %j", (...row) => expectRow(row));

  it("ruling G4: a word of up to 20 characters is shown, of a longer one only its length", () => {
    const word = "abcdefghijklmnopqrst";
    expectRow([`a ${word}`, `"${word}"`, 2, OPERATOR, "put AND or OR before it"]);
    expectRow([`a ${word}u`, "a word of 21 characters", 2, OPERATOR, "put AND or OR before it"]);
    expectRow([`a ${"x".repeat(998)}`, "a word of 998 characters", 2, OPERATOR, "put AND or OR before it"]);
  });
});

describe("query problems: characters", () => {
  const rows: Row[] = [
    ["a && b", '"&"', 2, ALLOWED, "write AND"],
    ["a||b", '"|"', 1, ALLOWED, "write OR"],
    ["a, b", '","', 1, ALLOWED, "put AND or OR between two names"],
    ['"a"', '"""', 0, ALLOWED, "write names without quotes"],
    ["a AND 'b'", '"\'"', 6, ALLOWED, "write names without quotes"],
    ["`a`", '"`"', 0, ALLOWED, "write names without quotes"],
    ["a\u00a0AND b", "U+00A0", 1, ALLOWED, "use a space"],
    ["a\u000bb", "U+000B", 1, ALLOWED, "use a space"],
    ["\ufeffa", "U+FEFF", 0, ALLOWED, "use a space"],
    ["!a", '"!"', 0, ALLOWED, undefined],
    ["svc:v1:ws:keys/*#read", '"#"', 16, ALLOWED, undefined],
    ["a~", '"~"', 1, ALLOWED, undefined],
    ["\0", "U+0000", 0, ALLOWED, undefined],
    ["a\u001b[31m", "U+001B", 1, ALLOWED, undefined],
    ["a\u007f", "U+007F", 1, ALLOWED, undefined],
    ["caf\u00e9", "U+00E9", 3, ALLOWED, undefined],
    ["\u0430dmin", "U+0430", 0, ALLOWED, undefined],
    ["a\u202eb", "U+202E", 1, ALLOWED, undefined],
    ["a \u{1f511}", "U+1F511", 2, ALLOWED, undefined],
    ["a\ud800", "U+D800", 1, ALLOWED, undefined],
    ["\u017fa or b", "U+017F", 0, ALLOWED, undefined],
  ];
  it.each(rows)("ruling B1: %j", (...row) => expectRow(row));

  it("ruling B2: a character that is not allowed comes before a fault of structure, the first such character first", () => {
    expectRow(["a b (c & d!", '"&"', 7, ALLOWED, "write AND"]);
    expectRow(["a AN\u00e9 b", "U+00E9", 4, ALLOWED, undefined]);
  });

  it("ruling B2: junk at any position of any query is reported at that position, in plain ASCII", () => {
    const junk = fc
      .string({ unit: "binary", minLength: 1, maxLength: 1 })
      .filter((unit) => !`${NAME_LETTERS}() \t\r\n`.includes(unit));
    fc.assert(
      fc.property(trees(), dice, junk, fc.nat(), (tree, rolls, unit, place) => {
        const text = print(tree, rolls);
        const at = place % (text.length + 1);
        const { location, message } = problemOf(text.slice(0, at) + unit + text.slice(at));
        expect(location).toBe("body.permissions");
        expect(message).toMatch(/^found ("[!-~]"|U\+[0-9A-F]{4,6}) at position \d+, expected names of A-Z/);
        expect(message).toContain(` at position ${at}, `);
      }),
      { numRuns: runs(1_000) },
    );
  });

  it("ruling B2: of any text, either a query or one problem whose words are bounded", () => {
    const units = fc.constantFrom("(", ")", " ", "a", "b.c", "AND", "OR", "and", "&", "\0", "x".repeat(30));
    fc.assert(
      fc.property(fc.array(units, { maxLength: 30 }), (parts) => {
        const text = parts.join("");
        try {
          compileQuery(text);
        } catch {
          const { message } = problemOf(text);
          expect(message).toMatch(/^found [ -~]+ at position \d+, expected [ -~]+$/);
          expect(message.length).toBeLessThan(140);
          expect(Number(/position (\d+)/.exec(message)?.[1])).toBeLessThanOrEqual(text.length);
        }
      }),
      { numRuns: runs(2_000) },
    );
  });
});
