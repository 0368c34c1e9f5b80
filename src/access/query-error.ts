/** Error messages for permission queries: found, expected, position, fix. */
import type { ValidationProblem } from "../contracts/errors.js";

const LOCATION = "body.permissions";
/** Longer words are not shown, because they might be a secret. */
const SHOWN_WORD = 20;
const ALLOWED = 'names of A-Z a-z 0-9 . _ - * : /, AND, OR, "(", ")" and spaces';
const PERMISSION_NAME = "permission name";

/** What the grammar expected at the first position where the query is invalid. */
export interface QueryFault {
  /** UTF-16 units from 0; everything before it is ASCII, so it counts characters too. */
  readonly position: number;
  /** The grammar's own names, such as `permission name`, `AND`, `)`; unordered, possibly with duplicates. */
  readonly expected: readonly string[];
}

/** A token, as a message shows it, and the kind that decides the fix. */
interface Found {
  readonly kind: "end" | "open" | "close" | "word";
  readonly position: number;
  readonly shown: string;
}

/**
 * Describes why a query is invalid. A character that no query may contain is reported before any structural error.
 * @param text the query
 * @param fault where the grammar stopped
 * @returns one problem at `body.permissions`, in ASCII; it shows at most one character, or one word of at most 20
 *   characters
 * @remarks O(length)
 */
export function explainQuery(text: string, fault: QueryFault): ValidationProblem {
  const stray = findStray(text);
  if (stray >= 0)
    return problem({ position: stray, shown: showCharacter(text, stray) }, ALLOWED, fixStray(text.charAt(stray)));
  const found = findToken(text, fault.position);
  const expected = listExpected(fault.expected);
  if (fault.expected.includes(PERMISSION_NAME))
    return problem(found, expected, fixOperand(lastSolid(text, fault.position), found));
  return problem(found, expected, fixOperator(found));
}

function problem(
  { position, shown }: Omit<Found, "kind">,
  expected: string,
  fix: string | undefined,
): ValidationProblem {
  const message = `found ${shown} at position ${position}, expected ${expected}`;
  const found: ValidationProblem = { location: LOCATION, message, ...(fix !== undefined && { fix }) };
  // Not enumerable: what a client of the interface is sent has three properties.
  return Object.defineProperty(found, "position", { value: position });
}

/** Position of the first character that no query may contain, or -1. */
function findStray(text: string): number {
  return text.search(/[^A-Za-z0-9._\-*:/() \t\r\n]/);
}

/**
 * Printable ASCII as it is; anything else by its number, so that no invisible or look-alike character reaches a log.
 */
function showCharacter(text: string, position: number): string {
  // The position is inside the text, so there is a code point.
  const code = text.codePointAt(position) as number;
  return code > 0x20 && code < 0x7f
    ? `"${String.fromCharCode(code)}"`
    : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function fixStray(character: string): string | undefined {
  if (character === "&") return "write AND";
  if (character === "|") return "write OR";
  if (character === ",") return "put AND or OR between two names";
  if ("\"'`".includes(character)) return "write names without quotes";
  if (/\s/.test(character)) return "use a space";
  return undefined;
}

function findToken(text: string, position: number): Found {
  const first = text.charAt(position);
  if (first === "") return { kind: "end", position, shown: "the end of the query" };
  if (first === "(") return { kind: "open", position, shown: '"("' };
  if (first === ")") return { kind: "close", position, shown: '")"' };
  let end = position + 1;
  while (end < text.length && !"() \t\r\n".includes(text.charAt(end))) end++;
  const word = text.slice(position, end);
  return {
    kind: "word",
    position,
    shown: word.length <= SHOWN_WORD ? `"${word}"` : `a word of ${word.length} characters`,
  };
}

/** The last character before `position` that is not white space; empty at the start. */
function lastSolid(text: string, position: number): string {
  return text.slice(0, position).trimEnd().slice(-1);
}

/** The three things that the grammar can expect, in words. */
function listExpected(expected: readonly string[]): string {
  const wants = (one: string): boolean => expected.includes(one);
  if (wants(PERMISSION_NAME)) return 'a permission name or "("';
  return wants(")") ? 'AND, OR or ")"' : "AND, OR or the end of the query";
}

/** The fix where a name or a parenthesis was expected, after `last`. */
function fixOperand(last: string, found: Found): string {
  if (found.kind === "end") {
    if (last === "") return "name a permission, or leave the query out";
    return last === "("
      ? 'complete what the last "(" opens, or remove it'
      : "put a permission name after the last operator, or remove the operator";
  }
  // Any other word would be a name, so this one is AND or OR.
  if (found.kind === "word") return "put a permission name before it, or remove it";
  if (last === "(") return 'put a permission name between "(" and ")", or remove both';
  return last === "" ? 'remove the ")"' : 'put a permission name before the ")", or remove the operator';
}

/** The fix where an operator, a closing parenthesis or the end was expected. */
function fixOperator(found: Found): string {
  if (found.kind === "end") return 'add the missing ")"';
  if (found.kind === "close") return 'remove the ")", or add the "(" that it closes';
  return "put AND or OR before it";
}
