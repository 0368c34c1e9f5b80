/** Checks further permissions of a key after its verification: takes nothing and reads no store. */
import type { Grants, QueryCompiler } from "../access/permission-query.js";
import { readPermissionQuery } from "./parse-permission-query.js";

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
export interface ListedPermissions {
  /** `undefined`: they are too long to list. */
  copyPermissions(): string[] | undefined;
}

/** @param grants of the key; wildcards are as in a verification */
export function createPermissionCheck(compile: QueryCompiler, grants: Grants): PermissionCheck {
  return (query) => compile(readPermissionQuery(query)).satisfiedBy(grants);
}
