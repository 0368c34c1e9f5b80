/** Rulings B1–B5 once more, as plainly as can be: a query is a tree, and is written down only to be sent. */
import type { Dice } from "./dice.js";

export type Ask =
  | { readonly name: string }
  | { readonly operator: "AND" | "OR"; readonly left: Ask; readonly right: Ask };

/** Whether the grants satisfy the query. */
export function holds(ask: Ask, grants: readonly string[]): boolean {
  if ("name" in ask) return grants.some((grant) => covers(grant, ask.name));
  const left = holds(ask.left, grants);
  const right = holds(ask.right, grants);
  return ask.operator === "AND" ? left && right : left || right;
}

/** Ruling B3: `*` is one segment, as the last one or more. Ruling B4: in the name asked for it is a plain character. */
export function covers(grant: string, name: string): boolean {
  return grant === name || segmentsCover(grant.split("."), name.split("."));
}

function segmentsCover([first, ...others]: string[], [asked, ...rest]: string[]): boolean {
  if (first === undefined || asked === undefined) return first === asked;
  if (first === "*" && others.length === 0) return true;
  return (first === "*" || first === asked) && segmentsCover(others, rest);
}

export function rollAsk(dice: Dice, names: readonly string[], depth = 3): Ask {
  if (depth === 0 || dice.chance(0.45)) return { name: dice.pick(names) };
  return {
    operator: dice.chance(0.5) ? "AND" : "OR",
    left: rollAsk(dice, names, depth - 1),
    right: rollAsk(dice, names, depth - 1),
  };
}

/**
 * The query as text: parentheses where they must be and sometimes where they need not, operators in any case, blanks at
 * random.
 */
export function write(ask: Ask, dice: Dice, within?: "AND" | "OR"): string {
  const bracket = (text: string): string => `(${blank(dice, 0)}${text}${blank(dice, 0)})`;
  if ("name" in ask) return dice.chance(0.1) ? bracket(ask.name) : ask.name;
  const { operator, left, right } = ask;
  const word = dice.pick([operator, operator.toLowerCase(), operator.charAt(0) + operator.slice(1).toLowerCase()]);
  const text = write(left, dice, operator) + blank(dice, 1) + word + blank(dice, 1) + write(right, dice, operator);
  return (within === "AND" && operator === "OR") || dice.chance(0.1) ? bracket(text) : text;
}

function blank(dice: Dice, least: number): string {
  return dice.chance(0.9) ? " ".repeat(least) : dice.pick([" ", "  ", "\t", "\r\n", " \n\t "]);
}
