/** Creates, reads, lists and deletes roles, and sets their permissions: the operations `permissions.*Role*`. */
import type { PermissionRow, RoleRow } from "../../contracts/store.js";
import { hasIdForm } from "../../lib/hash.js";
import type { Mutable } from "../../lib/mutable.js";
import { type Context, updateWithRetry } from "../context.js";
import { insertNamed, taken, writeRows } from "../create-row.js";
import { readPage } from "../list-page.js";
import { ownedRow, requireNamed, setField } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type * as R from "../schemas/requests.js";
import type {
  EmptyResponse,
  Page,
  Permission,
  Role,
  V2PermissionsCreateRoleResponseData,
} from "../schemas/responses.js";
import { createSearch } from "../search.js";
import { toPermissionResponses, toRoleResponses } from "./rbac-responses.js";
import { ensurePermissions, idsOf, readRoles, ROLE } from "./resolve-names.js";
import { requireShowable } from "./showable.js";

const WHAT = "A role with this name";

/** Permissions that do not exist are created. @throws KeystileError BAD_REQUEST · CONFLICT: the name exists */
export async function createRole(
  context: Context,
  body: R.V2PermissionsCreateRoleRequestBody,
): Promise<V2PermissionsCreateRoleResponseData> {
  const { name, description, permissions = [] } = parse(schemas.createRole, body);
  const now = context.clock();
  // No permission is created for a role that is refused; of two concurrent requests the write refuses one.
  if ((permissions.length > 0 || hasIdForm(ROLE, name)) && (await readRoles(context, [name])).size > 0)
    throw taken(WHAT);
  const ids = idsOf(permissions, await ensurePermissions(context, permissions, now));
  await requireShowable(context, ids);
  const row: Mutable<RoleRow> = { ...ownedRow(context, context.newId(ROLE, now)), name, permissions: ids };
  setField(row, "description", description);
  await insertNamed(context, { table: "roles", row }, WHAT);
  return { roleId: row.id };
}

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getRole(context: Context, body: R.V2PermissionsGetRoleRequestBody): Promise<Role> {
  const { role } = parse(schemas.getRole, body);
  const [response] = await toRoleResponses(context, [await requireNamed(context, "roles", role)]);
  return response as Role;
}

/** By id. @throws KeystileError BAD_REQUEST */
export async function listRoles(context: Context, body: R.SearchRequestBody = {}): Promise<Page<Role>> {
  const { search, ...page } = parse(schemas.listRoles, body);
  const known = new Map<string, PermissionRow>();
  return readPage(context, page, {
    table: "roles",
    search: createSearch("roles", search),
    refersTo: (row) => row.permissions.length,
    toResponses: (rows) => toRoleResponses(context, rows, known),
  });
}

/** Keys that had it lose it at once. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function deleteRole(context: Context, body: R.V2PermissionsGetRoleRequestBody): Promise<EmptyResponse> {
  const { role } = parse(schemas.getRole, body);
  return updateWithRetry(context, role, async () => {
    const { id, version } = await requireNamed(context, "roles", role);
    return (await writeRows(context, [{ table: "roles", remove: id, version }])) ? {} : undefined;
  });
}

/** Replaces a role's permissions; those that do not exist are created. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function setRolePermissions(
  context: Context,
  body: R.V2PermissionsSetRolePermissionsRequestBody,
): Promise<readonly Permission[]> {
  const { roleId, permissions } = parse(schemas.setRolePermissions, body);
  await requireNamed(context, "roles", roleId);
  const ids = idsOf(permissions, await ensurePermissions(context, permissions, context.clock()));
  await requireShowable(context, ids);
  return updateWithRetry(context, roleId, async () => {
    const row = { ...(await requireNamed(context, "roles", roleId)), permissions: ids };
    return (await writeRows(context, [{ table: "roles", row }])) ? toPermissionResponses(context, ids) : undefined;
  });
}
