/** Permissions: compiles a query, holds a key's grants, the wildcard rule. Spec §2.1, §2.3, rulings B1–B5, B7. Knows no keys or roles. */
import { LRUCache } from "lru-cache";
import type { QueryNode } from "../../grammar/permission-query-ast.js";
import { type Expectation, SyntaxError as GrammarError, parse } from "../../grammar/permission-query.js";
import { badRequest } from "../contracts/errors.js";
import { explainQuery } from "./query-error.js";

const WILDCARD = "*";
const STAR = 42;
const DOT = 46;

/** What a key may do. Immutable. */
export interface Grants {
  /**
   * Whether one grant equals `name` or covers it segment by segment; `*` in `name` is a plain character.
   * @see rulings B3, B4, B5 · one look-up, then {@link coversAmong} the grants that have a wildcard
   */
  covers(name: string): boolean;
}

/** A compiled permission query. Immutable, fit to be shared by any number of keys. */
export interface Query {
  /** No other query has it, the same text compiled anew included: whoever remembers an answer keeps this, and keeps no query alive. */
  readonly mark: symbol;
  /** Whether `grants` satisfy the query. Asks left to right, for each mention at most once, and stops when it knows. */
  satisfiedBy(grants: Grants): boolean;
}

/**
 * Holds the permissions of a key, direct ones and those through roles.
 * @param permissions names as granted, any order; a segment that is exactly `*` stands for one segment, as the last for one or
 *   more. Segments are split at `.` and may be empty; `doc*` and `**` are plain. The list is read once
 * @see spec §2.3, rulings B3, B7 · O(total length); those with wildcards are sorted when a name is first looked for among them
 */
export function createGrants(permissions: readonly string[]): Grants {
  const exact = new Set(permissions);
  let patterns: readonly string[] | undefined;
  return {
    covers(name) {
      if (exact.has(name)) return true;
      patterns ??= [...exact].filter(hasWildcard).sort();
      return coversAmong(patterns, name);
    },
  };
}

function hasWildcard(permission: string): boolean {
  return /(^|\.)\*(\.|$)/.test(permission);
}

/** So few patterns are tried one by one: that costs less than two searches. */
const MAX_SCANNED_PATTERNS = 32;

/**
 * Whether one of the patterns covers a name.
 *
 * Why sorted, and no tree of objects: patterns that begin alike lie together, so the order itself is a tree by segment. From each range
 * two ways lead on, by the name's next segment and by `*`. Trying 100,000 patterns for each of 199 names took half a second, and
 * reading them into segments beforehand another half and 200 MB.
 * @param patterns with a wildcard, in the order of their UTF-16 code units
 * @see ruling B3 · O(log patterns) for each range that matches the name so far; at worst, crafted patterns make it try each
 */
export function coversAmong(patterns: readonly string[], name: string): boolean {
  return search(patterns, name, { from: 0, to: patterns.length, prefix: "" }, 0);
}

/** The patterns that begin with `prefix`, which is empty or ends with a dot. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly prefix: string;
}

/** @param position where the name's next segment begins; all before it matches the range's prefix */
function search(patterns: readonly string[], name: string, range: Range, position: number): boolean {
  const { from, to, prefix } = range;
  if (to - from <= MAX_SCANNED_PATTERNS) {
    for (let i = from; i < to; i++) if (matches(patterns[i] as string, prefix.length, name, position)) return true;
    return false;
  }
  if (holds(patterns, range, prefix + WILDCARD)) return true;
  const dot = name.indexOf(".", position);
  if (dot < 0) return holds(patterns, range, prefix + name.slice(position));
  const segment = name.slice(position, dot);
  if (search(patterns, name, narrow(patterns, range, segment), dot + 1)) return true;
  return segment !== WILDCARD && search(patterns, name, narrow(patterns, range, WILDCARD), dot + 1);
}

function holds(patterns: readonly string[], { from, to }: Range, pattern: string): boolean {
  return patterns[lowerBound(patterns, from, to, pattern)] === pattern;
}

/** Patterns of a range with this next segment and more after it. */
function narrow(patterns: readonly string[], { from, to, prefix }: Range, segment: string): Range {
  const longer = `${prefix}${segment}.`;
  const first = lowerBound(patterns, from, to, longer);
  // `/` is the code unit after `.`.
  return { from: first, to: lowerBound(patterns, first, to, `${prefix}${segment}/`), prefix: longer };
}

/** The first place in a range whose text is not below `text`. */
function lowerBound(patterns: readonly string[], from: number, to: number, text: string): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((patterns[middle] as string) < text) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether the rest of a pattern, from the start of a segment, covers the rest of a name. Walks both once, without cutting them up. */
function matches(pattern: string, from: number, name: string, position: number): boolean {
  let at = from;
  let here = position;
  for (;;) {
    if (pattern.charCodeAt(at) === STAR) {
      if (at + 1 === pattern.length) return true;
      if (pattern.charCodeAt(at + 1) === DOT) {
        here = name.indexOf(".", here) + 1;
        if (here === 0) return false;
        at += 2;
        continue;
      }
    }
    for (let code = 0; code !== DOT;) {
      if (at === pattern.length) return here === name.length;
      code = pattern.charCodeAt(at++);
      if (code !== name.charCodeAt(here++)) return false;
    }
  }
}

/**
 * Compiles a permission query.
 * @param text 1–1_000 characters; the caller has checked that
 * @throws KeystileError PERMISSIONS_QUERY_SYNTAX with one problem at `body.permissions`
 * @see spec §2.1, §4.1-5, rulings B1, B2 · O(length), about 2.5 µs for three names: see {@link createQueryCompiler}
 */
export function compileQuery(text: string): Query {
  const first = link(parseQuery(text), true, false);
  return {
    mark: Symbol(),
    satisfiedBy(grants) {
      let step: Step | boolean = first;
      while (typeof step !== "boolean") step = grants.covers(step.name) ? step.yes : step.no;
      return step;
    },
  };
}

/** {@link compileQuery} with a memory. */
export interface QueryCompiler {
  (text: string): Query;
  /** The query of this text, if it was compiled before and is still remembered. */
  remembered(text: string): Query | undefined;
}

/**
 * {@link compileQuery} that remembers the queries used last. Errors are not remembered.
 * @param size queries remembered
 * @see ruling B2 · O(1) for a query that it remembers, about 40 ns
 */
export function createQueryCompiler(size = 1_000): QueryCompiler {
  const queries = new LRUCache<string, Query>({ max: size });
  // An application asks the same query again and again: comparing one text spares the look-up, 90 ns of it.
  let lastText: string | undefined;
  let lastQuery: Query | undefined;
  const remembered = (text: string): Query | undefined => {
    if (text === lastText) return lastQuery;
    const query = queries.get(text);
    if (query !== undefined) {
      lastText = text;
      lastQuery = query;
    }
    return query;
  };
  const compile = (text: string): Query => {
    const known = remembered(text);
    if (known !== undefined) return known;
    const query = compileQuery(text);
    queries.set(text, query);
    lastText = text;
    lastQuery = query;
    return query;
  };
  return Object.assign(compile, { remembered });
}

/**
 * One name of a query, and where each answer leads: to the next name that matters, or to the verdict.
 * Why not walk the tree: a loop over steps asks only for what still matters, and no depth of a query costs it stack.
 */
interface Step {
  readonly name: string;
  readonly yes: Step | boolean;
  readonly no: Step | boolean;
}

/** Turns a tree into steps, from right to left: a name must know what follows it. Recurses at most once every five characters of the text. */
function link(node: QueryNode, yes: Step | boolean, no: Step | boolean): Step {
  if (node.kind === "permission") return { name: flatten(node.name), yes, no };
  const right = link(node.right, yes, no);
  return node.kind === "and" ? link(node.left, right, no) : link(node.left, yes, right);
}

/**
 * The same text with storage of its own. The parser cuts names out of the query, and the engine keeps names of 13 characters or
 * more as windows into it: looking three of those up in a `Set` took 104 ns, and takes 47 ns this way.
 */
function flatten(name: string): string {
  const [copy] = Object.keys({ [name]: 0 });
  return copy as string;
}

function parseQuery(text: string): QueryNode {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const fault = { position: error.location.start.offset, expected: error.expected.map(describe) };
    throw badRequest([explainQuery(text, fault)], "PERMISSIONS_QUERY_SYNTAX");
  }
}

/** The grammar's word for something that it expected. */
function describe(expectation: Expectation): string {
  if (expectation.type === "literal") return expectation.text;
  return expectation.type === "other" ? expectation.description : expectation.type;
}
