/** Creates, reads, lists and deletes roles, and sets their permissions: the operations `permissions.*Role*`. */
import type { PermissionRow, RoleRow } from "../../contracts/store.js";
import { hasIdForm } from "../../lib/hash.js";
import type { Mutable } from "../../lib/mutable.js";
import { updateWithRetry } from "../context.js";
import { readMatches } from "../list-page.js";
import { operation } from "../operation.js";
import { ownedRow, removeNamed, requireNamed, setField } from "../rows.js";
import { search } from "../schemas/page.js";
import { body, description, label, optional, roleId, roleName, slugs } from "../schemas/primitives.js";
import type * as R from "../schemas/requests.js";
import type { Role } from "../schemas/responses.js";
import { insertNamed, taken, writeRows } from "../write.js";
import { toPermissionResponses, toRoleResponses } from "./rbac-responses.js";
import { ensurePermissions, idsOf, readIds, ROLES } from "./resolve-names.js";
import { requireShowable } from "./showable.js";

const WHAT = "A role with this name";
const given = body<R.V2PermissionsGetRoleRequestBody>()({ role: roleName });

/** Permissions that do not exist are created. @throws KeystileError CONFLICT: the name exists */
export const createRole = operation(
  "createRole",
  body<R.V2PermissionsCreateRoleRequestBody>()({
    name: label(1, 128),
    description: optional(description),
    permissions: optional(slugs(0)),
  }),
  async (context, { name, description, permissions = [] }) => {
    // No permission is created for a role that is refused; of two concurrent requests the write refuses one.
    if ((permissions.length > 0 || hasIdForm(ROLES.prefix, name)) && (await readIds(context, ROLES, [name])).size > 0)
      throw taken(WHAT);
    const ids = idsOf(permissions, await ensurePermissions(context, permissions));
    await requireShowable(context, ids);
    const row: Mutable<RoleRow> = {
      ...ownedRow(context, context.newId(ROLES.prefix, context.now)),
      name,
      permissions: ids,
    };
    setField(row, "description", description);
    await insertNamed(context, { table: "roles", row }, WHAT);
    return { roleId: row.id };
  },
);

/** @throws KeystileError NOT_FOUND */
export const getRole = operation("getRole", given, async (context, { role }) => {
  const [response] = await toRoleResponses(context, [await requireNamed(context, "roles", role)]);
  return response as Role;
});

/** By id. */
export const listRoles = operation("listRoles", search("roles"), (context, request) => {
  const known = new Map<string, PermissionRow>();
  return readMatches(context, request, {
    table: "roles",
    refersTo: (row) => row.permissions.length,
    toResponses: (rows) => toRoleResponses(context, rows, known),
  });
});

/** Keys that had it lose it at once. @throws KeystileError NOT_FOUND */
export const deleteRole = operation("deleteRole", given, (context, { role }) => removeNamed(context, "roles", role));

/** Replaces a role's permissions; those that do not exist are created. @throws KeystileError NOT_FOUND */
export const setRolePermissions = operation(
  "setRolePermissions",
  body<R.V2PermissionsSetRolePermissionsRequestBody>()({ roleId, permissions: slugs(0) }),
  async (context, { roleId, permissions }) => {
    await requireNamed(context, "roles", roleId);
    const ids = idsOf(permissions, await ensurePermissions(context, permissions));
    await requireShowable(context, ids);
    return updateWithRetry(context, roleId, async () => {
      const row = { ...(await requireNamed(context, "roles", roleId)), permissions: ids };
      return (await writeRows(context, [{ table: "roles", row }])) ? toPermissionResponses(context, ids) : undefined;
    });
  },
);
