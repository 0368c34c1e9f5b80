/** Random permission queries for tests: trees, and texts that mean them. Ruling B1. */
import fc from "fast-check";
import type { QueryNode } from "../../grammar/permission-query-ast.js";

export const NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-*:/";

export const name = (text: string): QueryNode => ({ kind: "permission", name: text });
export const and = (left: QueryNode, right: QueryNode): QueryNode => ({ kind: "and", left, right });
export const or = (left: QueryNode, right: QueryNode): QueryNode => ({ kind: "or", left, right });

/** Any name that a query may hold. */
export const permissionName: fc.Arbitrary<string> = fc
  .string({ unit: fc.constantFrom(...Array.from(NAME_LETTERS)), minLength: 1, maxLength: 12 })
  .filter((text) => !/^(and|or)$/i.test(text));

/** Trees over `names`. */
export const trees = (names: fc.Arbitrary<string> = permissionName): fc.Arbitrary<QueryNode> =>
  fc.letrec<{ node: QueryNode }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 6, withCrossShrink: true },
      names.map(name),
      fc
        .tuple(fc.constantFrom("and", "or"), tie("node"), tie("node"))
        .map(([kind, left, right]) => (kind === "and" ? and(left, right) : or(left, right))),
    ),
  })).node;

/** Chances for the printer: consumed one by one, round and round. */
export const dice = fc.array(fc.nat(255), { minLength: 8, maxLength: 64 });

/** Writes a tree with random letter case, blanks and parentheses that change nothing. */
export function print(node: QueryNode, rolls: readonly number[]): string {
  let turn = 0;
  const roll = (sides: number): number => (rolls[turn++ % rolls.length] ?? 0) % sides;
  const blanks = (least: number): string =>
    Array.from({ length: Math.max(least, roll(3)) }, () => [" ", "\t", "\r", "\n"][roll(4)]).join("");
  const anyCase = (word: string): string =>
    Array.from(word, (letter) => (roll(2) === 0 ? letter : letter.toUpperCase())).join("");
  const wrap = (text: string): string => `(${blanks(0)}${text}${blanks(0)})`;
  const side = (child: QueryNode, mustWrap: boolean): string =>
    mustWrap || roll(4) === 0 ? wrap(write(child)) : write(child);
  function write(at: QueryNode): string {
    if (at.kind === "permission") return at.name;
    const left = side(at.left, at.kind === "and" && at.left.kind === "or");
    // Operators associate to the left, so that the same operator on the right needs parentheses.
    const right = side(at.right, at.right.kind === at.kind || (at.kind === "and" && at.right.kind === "or"));
    return left + blanks(left.endsWith(")") ? 0 : 1) + anyCase(at.kind) + blanks(right.startsWith("(") ? 0 : 1) + right;
  }
  return blanks(0) + write(node) + blanks(0);
}
