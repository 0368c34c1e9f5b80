/** Rows of permissions and roles → what administration shows of them. Operations `Permission` and `Role`. */
import type { PermissionRow, RoleRow } from "../store.js";
import type { Permission, Role } from "./answers.js";
import type { Context } from "./context.js";

export function showPermission({ id, name, slug, description }: PermissionRow): Permission {
  return description === undefined ? { id, name, slug } : { id, name, slug, description };
}

/** Sorted by slug; what was deleted since counts as absent. */
export async function showPermissions(context: Context, ids: readonly string[]): Promise<readonly Permission[]> {
  const permissions: Permission[] = [];
  for (const id of ids) {
    const row = await context.store.read("permissions", id);
    if (row !== undefined) permissions.push(showPermission(row));
  }
  return permissions.sort((a, b) => (a.slug < b.slug ? -1 : 1));
}

export async function showRole(context: Context, { id, name, description, permissions: ids }: RoleRow): Promise<Role> {
  const permissions = await showPermissions(context, ids);
  return {
    id,
    name,
    ...(description !== undefined && { description }),
    ...(permissions.length > 0 && { permissions }),
  };
}

/** Sorted by name; what was deleted since counts as absent. */
export async function showRoles(context: Context, ids: readonly string[]): Promise<readonly Role[]> {
  const roles: Role[] = [];
  for (const id of ids) {
    const row = await context.store.read("roles", id);
    if (row !== undefined) roles.push(await showRole(context, row));
  }
  return roles.sort((a, b) => (a.name < b.name ? -1 : 1));
}
