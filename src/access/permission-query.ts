/** Permission queries: parsing, evaluation against a key's grants, and wildcards. Contract 2.1, 2.3. */
import type { QueryNode } from "../../grammar/permission-query-ast.js";
import { type Expectation, SyntaxError as GrammarError, parse } from "../../grammar/permission-query.js";
import { badRequest } from "../contracts/errors.js";
import { GrowingLru } from "../lib/growing-lru.js";
import { explainQuery } from "./query-error.js";

const WILDCARD = "*";
const STAR = 42;
const DOT = 46;

/** The permissions of a key. Immutable. */
export interface Grants {
  /**
   * Whether a grant equals `name` or covers it segment by segment; `*` in `name` is an ordinary character.
   * @remarks one look-up, then {@link coversAmong} the grants with a wildcard; of very many grants that alone
   */
  covers(name: string): boolean;
}

/** A compiled permission query. Immutable, can be shared by any number of keys. */
export interface Query {
  /**
   * Unique to this query, even if the same text is compiled again. A cache of results keeps this, not the query itself.
   */
  readonly mark: symbol;
  /** Whether `grants` satisfy the query. Evaluates left to right, stops as soon as the result is known. */
  satisfiedBy(grants: Grants): boolean;
}

/**
 * Holds the permissions of a key, direct ones and those of its roles.
 * @param permissions names as granted, in any order. A segment that is exactly `*` stands for one segment, or for one
 *   or more if it is the last. Segments are separated by `.` and may be empty; `doc*` and `**` are ordinary text. The
 *   list is read once; one that is frozen and has more than 4,096 names must be sorted by UTF-16 code units
 * @see contract 2.3 · O(total length); permissions with wildcards are sorted at the first look-up that needs them
 */
export function createGrants(permissions: readonly string[]): Grants {
  if (permissions.length > MAX_IN_SET) {
    const all = Object.isFrozen(permissions) ? permissions : [...permissions].sort();
    return { covers: (name) => coversAmong(all, name) };
  }
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

/** Most permissions that are put into a set: one of 100,000 took 15 ms to make, in one turn of the event loop. */
const MAX_IN_SET = 4_096;

function hasWildcard(permission: string): boolean {
  return /(^|\.)\*(\.|$)/.test(permission);
}

/** Up to this many patterns are tried one by one, which costs less than two binary searches. */
const MAX_SCANNED_PATTERNS = 32;

/**
 * Whether one of the patterns covers a name.
 *
 * Why sorted, not a tree of objects: patterns with a common prefix are adjacent, so the sorted list is a tree by
 * segment. Each range splits in two, by the name's next segment and by `*`. Trying 100,000 patterns for each of 199
 * names took half a second, and splitting them into segments beforehand another half and 200 MB.
 * Exported for its tests.
 * @param patterns sorted by UTF-16 code units; one without a wildcard covers itself
 * @remarks O(log patterns) for each range that matches the name so far; crafted patterns can make it try each one
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

/** @param position where the name's next segment begins; everything before it matches the range's prefix */
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

/** The patterns of a range with this next segment and more after it. */
function narrow(patterns: readonly string[], { from, to, prefix }: Range, segment: string): Range {
  const longer = `${prefix}${segment}.`;
  const first = lowerBound(patterns, from, to, longer);
  // `/` is the code unit after `.`.
  return { from: first, to: lowerBound(patterns, first, to, `${prefix}${segment}/`), prefix: longer };
}

/** The first position in a range whose pattern is not less than `text`. */
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

/**
 * Whether the rest of a pattern, from the start of a segment, covers the rest of a name. Scans both once, without
 * splitting.
 */
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
 * @param text 1–1_000 characters, checked by the caller
 * @throws KeystileError PERMISSIONS_QUERY_SYNTAX with one problem at `body.permissions`
 * @see contract 2.1, 4.1-5 · O(length), about 2.5 µs for three names; {@link createQueryCompiler} caches
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

/** The permissions that a query names, in its order, each once. */
export function namesInQuery(tree: QueryNode): readonly string[] {
  const names = new Set<string>();
  const collect = (node: QueryNode): void => {
    if (node.kind === "permission") return void names.add(node.name);
    collect(node.left);
    collect(node.right);
  };
  collect(tree);
  return [...names];
}

/** {@link compileQuery} with a cache. */
export type QueryCompiler = (text: string) => Query;

/**
 * {@link compileQuery} with an LRU cache. Errors are not cached.
 * @param size queries to cache: the default, except in tests
 * @remarks O(1) for a cached query, about 40 ns
 */
export function createQueryCompiler(size = 1_000): QueryCompiler {
  const queries = new GrowingLru<Query>({ max: size });
  // Applications repeat the same query: comparing it with the last text saves the 90 ns of a look-up.
  let lastText: string | undefined;
  let lastQuery: Query | undefined;
  return (text) => {
    if (text === lastText && lastQuery !== undefined) return lastQuery;
    let query = queries.get(text);
    if (query === undefined) {
      query = compileQuery(text);
      queries.set(text, query);
    }
    lastText = text;
    lastQuery = query;
    return query;
  };
}

/**
 * One name of a query, and the step that follows each result: the next name that matters, or the final result.
 *
 * Why not walk the tree: a loop over steps checks only the names that still matter, and deep queries need no stack.
 */
interface Step {
  readonly name: string;
  readonly yes: Step | boolean;
  readonly no: Step | boolean;
}

/**
 * Turns a tree into steps, from right to left, because a step needs those that follow it. The recursion depth is at
 * most a fifth of the text's length.
 */
function link(node: QueryNode, yes: Step | boolean, no: Step | boolean): Step {
  if (node.kind === "permission") return { name: flatten(node.name), yes, no };
  const right = link(node.right, yes, no);
  return node.kind === "and" ? link(node.left, right, no) : link(node.left, yes, right);
}

/**
 * A copy of a text with its own storage. The parser slices names out of the query, and V8 keeps slices of 13 characters
 * or more as views of it: looking three of those up in a `Set` took 104 ns, and takes 47 ns with copies.
 */
function flatten(name: string): string {
  const [copy] = Object.keys({ [name]: 0 });
  return copy as string;
}

/**
 * The tree of a query.
 * @throws KeystileError PERMISSIONS_QUERY_SYNTAX with one problem at `body.permissions`
 */
export function parseQuery(text: string): QueryNode {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const fault = { position: error.location.start.offset, expected: error.expected.map(describe) };
    throw badRequest([explainQuery(text, fault)], "PERMISSIONS_QUERY_SYNTAX");
  }
}

/** The grammar's name for what it expected. */
function describe(expectation: Expectation): string {
  if (expectation.type === "literal") return expectation.text;
  return expectation.type === "other" ? expectation.description : expectation.type;
}
