/** Permissions: compiles a query, holds a key's grants, the wildcard rule. Spec §2.1, §2.3, rulings B1–B5, B7. Knows no keys or roles. */
import { LRUCache } from "lru-cache";
import { type Expectation, parse, SyntaxError as GrammarError } from "../grammar/permission-query.js";
import type { QueryNode } from "../grammar/permission-query-ast.js";
import { badRequest } from "./errors.js";
import { explainQuery } from "./query-problem.js";

const WILDCARD = "*";
const MAX_QUERIES = 1_000_000;

/** What a key may do. Immutable. */
export interface Grants {
  /**
   * Whether one grant equals `name` or covers it segment by segment; `*` in `name` is a plain character.
   * @see rulings B3, B4, B5 · one look-up, then O(length) a grant with a wildcard
   */
  covers(name: string): boolean;
}

/** A compiled permission query. Immutable, fit to be shared by any number of keys. */
export interface Query {
  /** Whether `grants` satisfy the query. Asks for each name at most once a mention, left to right, and no more than it must. */
  satisfiedBy(grants: Grants): boolean;
}

/**
 * Holds the permissions of a key, direct ones and those through roles.
 * @param permissions names as granted, any order; a segment that is exactly `*` stands for one segment, as the last for one or
 *   more. Segments are split at `.` and may be empty; `doc*` and `**` are plain. The list is read once
 * @see spec §2.3, rulings B3, B7 · O(total length)
 */
export function createGrants(permissions: readonly string[]): Grants {
  const exact = new Set(permissions);
  const patterns = permissions.map(readPattern).filter((pattern) => pattern !== undefined);
  return {
    covers(name) {
      if (exact.has(name)) return true;
      for (const pattern of patterns) if (matches(pattern, name)) return true;
      return false;
    },
  };
}

/** A grant with a wildcard: its last segment, and those before it; a plain one there carries the dot that must follow it. */
interface Pattern {
  readonly leading: readonly string[];
  readonly last: string;
}

function readPattern(permission: string): Pattern | undefined {
  const segments = permission.split(".");
  if (!segments.includes(WILDCARD)) return undefined;
  const leading = segments.slice(0, -1).map((segment) => (segment === WILDCARD ? WILDCARD : `${segment}.`));
  return { leading, last: permission.slice(permission.lastIndexOf(".") + 1) };
}

/** Walks the name once, without cutting it up. */
function matches(pattern: Pattern, name: string): boolean {
  let position = 0;
  for (const segment of pattern.leading) {
    if (segment === WILDCARD) {
      const dot = name.indexOf(".", position);
      if (dot < 0) return false;
      position = dot + 1;
    } else {
      if (!name.startsWith(segment, position)) return false;
      position += segment.length;
    }
  }
  const { last } = pattern;
  return last === WILDCARD || (name.length === position + last.length && name.endsWith(last));
}

/**
 * Compiles a permission query.
 * @param text 1–1_000 characters; the caller has checked that
 * @throws VerifierError PERMISSIONS_QUERY_SYNTAX with one problem at `body.permissions`
 * @see spec §2.1, §4.1-5, rulings B1, B2 · O(length), about 2.5 µs for three names: see {@link createQueryCompiler}
 */
export function compileQuery(text: string): Query {
  const first = link(parseQuery(text), true, false);
  return {
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
  /** The query of a text that it remembers: one that was judged, and compiled, before. */
  remembered(text: string): Query | undefined;
}

/**
 * {@link compileQuery} that remembers the queries used last. Errors are not remembered.
 * @param size queries remembered, 1…1_000_000, default 1_000
 * @throws RangeError for another size
 * @see ruling B2 · O(1) for a query that it remembers, about 40 ns
 */
export function createQueryCompiler(size = 1_000): QueryCompiler {
  if (!Number.isInteger(size) || size < 1 || size > MAX_QUERIES) throw new RangeError(`size must be an integer from 1 to ${MAX_QUERIES}`);
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
  const [own] = Object.keys({ [name]: 0 });
  return own as string;
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
