/**
 * Adds, removes and sets the permissions and roles of a key. Each operation returns all that the key has afterwards.
 */
import { badRequest } from "../../contracts/errors.js";
import type { Context } from "../context.js";
import { operation } from "../operation.js";
import { toPermissionResponses, toRoleResponsesOf } from "../rbac/rbac-responses.js";
import { ensurePermissions, idsOf, PERMISSIONS, requireIds, ROLES } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireKey } from "../rows.js";
import { body, explained, id, MAX_ROLES, roleNames, slugs } from "../schemas/primitives.js";
import type { V2KeysPermissionsRequestBody, V2KeysRolesRequestBody } from "../schemas/requests.js";
import type { Permission, Role } from "../schemas/responses.js";
import { writeKey } from "./update-key.js";

/** Combines the ids that a key has with those that the request names. */
type Merge = (has: readonly string[], given: readonly string[]) => readonly string[];
const difference: Merge = (has, given) => {
  const removed = new Set(given);
  return has.filter((id) => !removed.has(id));
};
/** Of permissions: what a key may have is bounded by its bytes, not by what one request may name. */
const union: Merge = (has, given) => [...new Set([...has, ...given])];
const replacement: Merge = (_has, given) => given;

/**
 * An operation on the direct grants of a key. Nothing is created for a key that is not there.
 * @param min of the permissions that a request names
 * @param toIds of the permissions that it names
 */
const onPermissions = (name: string, min: number, how: Merge, toIds: typeof ensured) =>
  operation(
    name,
    body<V2KeysPermissionsRequestBody>()({ keyId: id, permissions: slugs(min), ...explained }),
    async (context, { keyId, permissions }): Promise<readonly Permission[]> => {
      await requireKey(context, keyId);
      const ids = await toIds(context, permissions);
      return toPermissionResponses(context, await merge(context, { keyId, field: "permissions", ids }, how));
    },
  );

const ensured = async (context: Context, permissions: readonly string[]): Promise<readonly string[]> =>
  idsOf(permissions, await ensurePermissions(context, permissions));

/** Grants permissions directly; those that do not exist are created. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export const addPermissions = onPermissions("addPermissions", 1, union, ensured);

/**
 * Replaces the direct grants; permissions that do not exist are created.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export const setPermissions = onPermissions("setPermissions", 0, replacement, ensured);

/**
 * Removes direct grants; a permission that the key does not have changes nothing.
 * @throws KeystileError NOT_FOUND: no such key, or a permission that does not exist
 */
export const removePermissions = onPermissions("removePermissions", 1, difference, (context, permissions) =>
  requireIds(context, PERMISSIONS, permissions),
);

/** An operation on the roles of a key, which must exist. @param min of the roles that a request names */
const onRoles = (name: string, min: number, how: Merge) =>
  operation(
    name,
    body<V2KeysRolesRequestBody>()({ keyId: id, roles: roleNames(min), ...explained }),
    async (context, { keyId, roles }): Promise<readonly Role[]> => {
      await requireKey(context, keyId);
      const ids = await requireIds(context, ROLES, roles);
      return toRoleResponsesOf(context, await merge(context, { keyId, field: "roles", ids }, how));
    },
  );

/** Adds roles. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export const addRoles = onRoles("addRoles", 1, unionOfRoles);

/** Replaces the roles. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export const setRoles = onRoles("setRoles", 0, replacement);

/**
 * Removes roles; one that the key does not have changes nothing.
 * @throws KeystileError NOT_FOUND: no such key, or a role that does not exist
 */
export const removeRoles = onRoles("removeRoles", 1, difference);

interface Change {
  readonly keyId: string;
  readonly field: "permissions" | "roles";
  readonly ids: readonly string[];
}

/** Writes the key and returns all that it has in that field. */
async function merge(context: Context, { keyId, field, ids }: Change, how: Merge): Promise<readonly string[]> {
  let after: readonly string[] = [];
  await writeKey(context, keyId, async (row) => {
    after = how(row[field], ids);
    row[field] = after;
    if (how === difference) return undefined;
    if (field === "permissions") await requireShowable(context, after);
    await requireVerifiable(context, row.roles, row.permissions);
    return undefined;
  });
  return after;
}

/** Bounded by what one request may give, since each role may grow, and a verification reads them all. */
function unionOfRoles(has: readonly string[], given: readonly string[]): readonly string[] {
  const ids = union(has, given);
  if (ids.length <= MAX_ROLES) return ids;
  throw badRequest([{ location: "body.roles", message: `would give the key more than ${MAX_ROLES} roles` }]);
}
