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

/** @param min of the permissions that a request names */
const keyPermissions = (min: number) =>
  body<V2KeysPermissionsRequestBody>()({ keyId: id, permissions: slugs(min), ...explained });
const keyRoles = (min: number) => body<V2KeysRolesRequestBody>()({ keyId: id, roles: roleNames(min), ...explained });

/** Grants permissions directly; those that do not exist are created. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export const addPermissions = operation("addPermissions", keyPermissions(1), (context, request) =>
  grant(context, request, union),
);

/**
 * Replaces the direct grants; permissions that do not exist are created.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export const setPermissions = operation("setPermissions", keyPermissions(0), (context, request) =>
  grant(context, request, replacement),
);

/**
 * Removes direct grants; a permission that the key does not have changes nothing.
 * @throws KeystileError NOT_FOUND: no such key, or a permission that does not exist
 */
export const removePermissions = operation(
  "removePermissions",
  keyPermissions(1),
  async (context, { keyId, permissions }) => {
    const now = context.clock();
    await requireKey(context, keyId);
    const ids = await requireIds(context, PERMISSIONS, permissions);
    return toPermissionResponses(context, await merge(context, { keyId, field: "permissions", ids, now }, difference));
  },
);

/** Adds roles, which must exist. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export const addRoles = operation("addRoles", keyRoles(1), (context, request) =>
  assign(context, request, unionOfRoles),
);

/** Replaces the roles. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export const setRoles = operation("setRoles", keyRoles(0), (context, request) => assign(context, request, replacement));

/**
 * Removes roles; one that the key does not have changes nothing.
 * @throws KeystileError NOT_FOUND: no such key, or a role that does not exist
 */
export const removeRoles = operation("removeRoles", keyRoles(1), (context, request) =>
  assign(context, request, difference),
);

async function grant(
  context: Context,
  { keyId, permissions }: V2KeysPermissionsRequestBody,
  how: Merge,
): Promise<readonly Permission[]> {
  const now = context.clock();
  // Checked first: nothing is created for a missing key.
  await requireKey(context, keyId);
  const ids = idsOf(permissions, await ensurePermissions(context, permissions, now));
  return toPermissionResponses(context, await merge(context, { keyId, field: "permissions", ids, now }, how));
}

async function assign(
  context: Context,
  { keyId, roles }: V2KeysRolesRequestBody,
  how: Merge,
): Promise<readonly Role[]> {
  const now = context.clock();
  await requireKey(context, keyId);
  const ids = await requireIds(context, ROLES, roles);
  return toRoleResponsesOf(context, await merge(context, { keyId, field: "roles", ids, now }, how));
}

interface Change {
  readonly keyId: string;
  readonly field: "permissions" | "roles";
  readonly ids: readonly string[];
  readonly now: number;
}

/** Writes the key and returns all that it has in that field. */
async function merge(context: Context, { keyId, field, ids, now }: Change, how: Merge): Promise<readonly string[]> {
  let after: readonly string[] = [];
  await writeKey(context, keyId, now, async (row) => {
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
