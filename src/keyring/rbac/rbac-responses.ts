/** Maps rows of permissions and roles to the responses `Permission` and `Role`. */
import type { PermissionRow, RoleRow } from "../../contracts/store.js";
import { type Context, pause } from "../context.js";
import { MAX_BATCH, readRows } from "../rows.js";
import type { Permission, Role } from "../schemas/responses.js";

export function toPermissionResponse({ id, name, slug, description }: PermissionRow): Permission {
  return description === undefined ? { id, name, slug } : { id, name, slug, description };
}

/** Sorted by slug; rows deleted since count as absent. One call of the store for each thousand. */
export async function toPermissionResponses(context: Context, ids: readonly string[]): Promise<readonly Permission[]> {
  return sortedPermissions(ids, await readRows(context, "permissions", ids));
}

function sortedPermissions(ids: readonly string[], rows: ReadonlyMap<string, PermissionRow>): readonly Permission[] {
  const permissions: Permission[] = [];
  for (const id of ids) {
    const row = rows.get(id);
    if (row !== undefined) permissions.push(toPermissionResponse(row));
  }
  return permissions.sort((a, b) => (a.slug < b.slug ? -1 : 1));
}

/**
 * Roles with their permissions, in order. One call of the store for each thousand permissions, of which a page may name
 * 100,000; it yields in between.
 */
export async function toRoleResponses(context: Context, roles: readonly RoleRow[]): Promise<Role[]> {
  const rows = await readRows(
    context,
    "permissions",
    roles.flatMap((role) => role.permissions),
  );
  const responses: Role[] = [];
  let shown = 0;
  for (const { id, name, description, permissions: ids } of roles) {
    const permissions = sortedPermissions(ids, rows);
    responses.push({
      id,
      name,
      ...(description !== undefined && { description }),
      ...(permissions.length > 0 && { permissions }),
    });
    shown += ids.length;
    if (shown < MAX_BATCH) continue;
    shown = 0;
    await pause(0);
  }
  return responses;
}

/** Roles by their ids, sorted by name; rows deleted since count as absent. Two calls of the store, as above. */
export async function toRoleResponsesOf(context: Context, ids: readonly string[]): Promise<readonly Role[]> {
  const roles = await toRoleResponses(context, [...(await readRows(context, "roles", ids)).values()]);
  return roles.sort((a, b) => (a.name < b.name ? -1 : 1));
}
