/** Validates permission queries when a program starts, so that a mistake is found before the first call. */
import { namesInQuery, parseQuery, type Grants, type QueryCompiler } from "../access/permission-query.js";
import { readRequest } from "./request.js";

/** A node of a parsed query: one permission by its `name`, or two nodes joined by `and` or `or`. */
export type PermissionQueryNode = ReturnType<typeof parseQuery>;

/** A permission query that parses. */
export interface PermissionQuery {
  /** The query as given. */
  readonly text: string;
  /** The permissions that the query names, in order, each once. */
  readonly permissions: readonly string[];
  /** The parsed query: AND binds tighter than OR, both are left-associative. */
  readonly tree: PermissionQueryNode;
}

/**
 * Validates a permission query by the rules of a verification, so that a program can do it when it starts.
 * @param text names with `AND`, `OR` and parentheses, 1–1_000 code points
 * @throws KeystileError PERMISSIONS_QUERY_SYNTAX with what was found, what was expected and the position; BAD_REQUEST
 *   for a query that is not text or is too long. Both at `body.permissions`
 * @example
 * parsePermissionQuery("documents.read AND (admin OR editor)").permissions; // ["documents.read", "admin", "editor"]
 */
export function parsePermissionQuery(text: string): PermissionQuery {
  const tree = parseQuery(readPermissionQuery(text));
  return { text, permissions: namesInQuery(tree), tree };
}

/** Validates the text of a query by the rules of a verification request. @throws KeystileError BAD_REQUEST */
export function readPermissionQuery(text: unknown): string {
  // A request may leave its query out, so an absent text is passed as null, which is refused.
  const { permissions } = readRequest({ key: "-", permissions: text ?? null });
  return permissions as string;
}

/* Checks further permissions of a key after its verification: takes nothing and reads no store. */

/**
 * Whether a key's permissions satisfy a permission query.
 * @throws KeystileError PERMISSIONS_QUERY_SYNTAX; BAD_REQUEST for a query that is not text or is too long
 */
export type PermissionCheck = (query: string) => boolean;

/**
 * Names a function in the context of a verification. It is called with a {@link PermissionCheck} of the key found.
 *
 * Why through the context: a result has exactly the specified properties, and most calls never ask. Wrappers of a
 * verifier already pass the context on, for `apiId`.
 */
export const TELL_PERMISSIONS = Symbol.for("keystile.verifier.tellPermissions");

/** What a context may have besides its public properties. */
export interface TellingContext {
  readonly [TELL_PERMISSIONS]?: (check: PermissionCheck, listed: ListedPermissions) => void;
}

/** The permissions themselves, for a check elsewhere. */
interface ListedPermissions {
  /** `undefined`: they are too long to list. */
  readonly permissions: readonly string[] | undefined;
}

/** @param grants of the key; wildcards are as in a verification */
export function createPermissionCheck(compile: QueryCompiler, grants: Grants): PermissionCheck {
  return (query) => compile(readPermissionQuery(query)).satisfiedBy(grants);
}
