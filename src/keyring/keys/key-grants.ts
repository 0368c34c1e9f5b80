/**
 * Adds, removes and sets the permissions and roles of a key. Each operation returns all that the key has afterwards.
 */
import { badRequest } from "../../contracts/errors.js";
import type { Context } from "../context.js";
import { toPermissionResponses, toRoleResponsesOf } from "../rbac/rbac-responses.js";
import { ensurePermissions, idsOf, requirePermissions, requireRoles } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireKey } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse, type Schema } from "../schemas/parse.js";
import * as atom from "../schemas/primitives.js";
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

/** Grants permissions directly; those that do not exist are created. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export function addPermissions(context: Context, body: V2KeysPermissionsRequestBody): Promise<readonly Permission[]> {
  return grant(context, body, schemas.changePermissions, union);
}

/**
 * Replaces the direct grants; permissions that do not exist are created.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND
 */
export function setPermissions(context: Context, body: V2KeysPermissionsRequestBody): Promise<readonly Permission[]> {
  return grant(context, body, schemas.setPermissions, replacement);
}

/**
 * Removes direct grants; a permission that the key does not have changes nothing.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such key, or a permission that does not exist
 */
export async function removePermissions(
  context: Context,
  body: V2KeysPermissionsRequestBody,
): Promise<readonly Permission[]> {
  const { keyId, permissions } = parse(schemas.changePermissions, body);
  const now = context.clock();
  await requireKey(context, keyId);
  const ids = await requirePermissions(context, permissions);
  return toPermissionResponses(context, await merge(context, { keyId, field: "permissions", ids, now }, difference));
}

/** Adds roles, which must exist. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export function addRoles(context: Context, body: V2KeysRolesRequestBody): Promise<readonly Role[]> {
  return assign(context, body, schemas.changeRoles, unionOfRoles);
}

/** Replaces the roles. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export function setRoles(context: Context, body: V2KeysRolesRequestBody): Promise<readonly Role[]> {
  return assign(context, body, schemas.setRoles, replacement);
}

/**
 * Removes roles; one that the key does not have changes nothing.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such key, or a role that does not exist
 */
export function removeRoles(context: Context, body: V2KeysRolesRequestBody): Promise<readonly Role[]> {
  return assign(context, body, schemas.changeRoles, difference);
}

async function grant(
  context: Context,
  body: unknown,
  schema: Schema<V2KeysPermissionsRequestBody>,
  how: Merge,
): Promise<readonly Permission[]> {
  const { keyId, permissions } = parse(schema, body);
  const now = context.clock();
  // Checked first: nothing is created for a missing key.
  await requireKey(context, keyId);
  const ids = idsOf(permissions, await ensurePermissions(context, permissions, now));
  return toPermissionResponses(context, await merge(context, { keyId, field: "permissions", ids, now }, how));
}

async function assign(
  context: Context,
  body: unknown,
  schema: Schema<V2KeysRolesRequestBody>,
  how: Merge,
): Promise<readonly Role[]> {
  const { keyId, roles } = parse(schema, body);
  const now = context.clock();
  await requireKey(context, keyId);
  const ids = await requireRoles(context, roles);
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
  if (ids.length <= atom.MAX_ROLES) return ids;
  throw badRequest([{ location: "body.roles", message: `would give the key more than ${atom.MAX_ROLES} roles` }]);
}
