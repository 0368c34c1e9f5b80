/** Validates permission queries for programs, so that a mistake in one is found when the program starts. */
import { namesInQuery, parseQuery } from "../access/permission-query.js";
import { readRequest } from "./request.js";

/** A node of a parsed query: one permission by its `name`, or two nodes joined by `and` or `or`. */
export type PermissionQueryNode = ReturnType<typeof parseQuery>;

/** A permission query that parses. */
export interface PermissionQuery {
  /** The query as it was given. */
  readonly text: string;
  /** The permissions that it names, in its order, each once. */
  readonly permissions: readonly string[];
  /** How it is read: AND binds tighter than OR, and chains lean to the left. */
  readonly tree: PermissionQueryNode;
}

/**
 * Validates a permission query as a verification does, at the start of a program rather than at its first call.
 * @param text names with `AND`, `OR` and parentheses, 1–1_000 code points
 * @throws KeystileError PERMISSIONS_QUERY_SYNTAX with what was found, what was expected and the position; BAD_REQUEST
 *   for what is not text, or too long. Both at `body.permissions`
 * @example
 * parsePermissionQuery("documents.read AND (admin OR editor)").permissions; // ["documents.read", "admin", "editor"]
 */
export function parsePermissionQuery(text: string): PermissionQuery {
  const tree = parseQuery(readPermissionQuery(text));
  return { text, permissions: namesInQuery(tree), tree };
}

/** The text of a query, by the rules of a verification request. @throws KeystileError BAD_REQUEST */
export function readPermissionQuery(text: unknown): string {
  // `null` stands for what was not given, which a request may leave out.
  const { permissions } = readRequest({ key: "-", permissions: text ?? null });
  return permissions as string;
}
