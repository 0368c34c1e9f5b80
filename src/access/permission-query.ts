/** Permission queries: parsing, and evaluation against a key's grants. Contract 2.1, 2.3. */
import type { QueryNode } from "../../grammar/permission-query-ast.js";
import { type Expectation, SyntaxError as GrammarError, parse } from "../../grammar/permission-query.js";
import { badRequest } from "../contracts/errors.js";
import { GrowingLru } from "../lib/growing-lru.js";
import { explainQuery } from "./query-error.js";
import { coversAmong } from "./wildcards.js";

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

/** Most bytes of permissions, as JSON, that a result lists: the most that a key may have when it is written. */
const MAX_LISTED_BYTES = 1_048_576;

/** The permissions and roles of keys, with the answer to the last query. */
export class GrantSet {
  readonly #grants: Grants;
  /**
   * The mark of the last query, not the query itself: a compiled query of a thousand characters takes 20 kB, which the
   * key would keep alive.
   */
  #asked: symbol | undefined;
  #satisfied = false;
  /**
   * All permission names; `undefined`: they take more than 1 MiB of JSON, because the key's roles grew after it got
   * them. Results get copies. Not frozen: `slice` of a frozen array takes 310 ns, of this one 9 ns.
   */
  readonly permissions: readonly string[] | undefined;
  /** All role names; as the permissions. */
  readonly roles: readonly string[];

  constructor({ permissions, roles }: Record<"permissions" | "roles", readonly string[]>) {
    this.#grants = createGrants(permissions);
    this.permissions = isListed(permissions) ? [...permissions] : undefined;
    this.roles = [...roles];
  }

  /**
   * Whether the grants satisfy a query. The last result is cached: an application uses few queries, and results never
   * change.
   */
  satisfies(query: Query): boolean {
    if (this.#asked !== query.mark) {
      this.#satisfied = query.satisfiedBy(this.#grants);
      this.#asked = query.mark;
    }
    return this.#satisfied;
  }

  /** Whether a grant covers the permission of this name. */
  covers(name: string): boolean {
    return this.#grants.covers(name);
  }
}

/** Slugs are ASCII without characters that JSON escapes: each takes its length plus two quotes and a comma. */
function isListed(permissions: readonly string[]): boolean {
  let bytes = 0;
  for (const { length } of permissions) bytes += length + 3;
  return bytes <= MAX_LISTED_BYTES;
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
