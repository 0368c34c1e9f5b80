/** Maps rows of permissions and roles to the responses `Permission` and `Role`. */
import type { PermissionRow, RoleRow } from "../../contracts/store.js";
import type { Context } from "../context.js";
import { createReader } from "../rows.js";
import type { Permission, Role } from "../schemas/responses.js";

export function toPermissionResponse({ id, name, slug, description }: PermissionRow): Permission {
  return description === undefined ? { id, name, slug } : { id, name, slug, description };
}

/** Sorted by slug; rows deleted since count as absent. */
export function toPermissionResponses(context: Context, ids: readonly string[]): Promise<readonly Permission[]> {
  return createPermissionMapper(context)(ids);
}

/** Maps lists of permissions, reading each row once. */
function createPermissionMapper(context: Context): (ids: readonly string[]) => Promise<readonly Permission[]> {
  const permissionOf = createReader(context, "permissions");
  return async (ids) => {
    const permissions: Permission[] = [];
    for (const id of ids) {
      const row = await permissionOf(id);
      if (row !== undefined) permissions.push(toPermissionResponse(row));
    }
    return permissions.sort((a, b) => (a.slug < b.slug ? -1 : 1));
  };
}

/**
 * Maps roles, reading each shared permission once: create a new mapper per call. A page of roles may name 100,000.
 */
export function createRoleMapper(context: Context): (row: RoleRow) => Promise<Role> {
  const toResponses = createPermissionMapper(context);
  return async ({ id, name, description, permissions: ids }) => {
    const permissions = await toResponses(ids);
    return {
      id,
      name,
      ...(description !== undefined && { description }),
      ...(permissions.length > 0 && { permissions }),
    };
  };
}

/** Sorted by name; rows deleted since count as absent. */
export async function toRoleResponses(context: Context, ids: readonly string[]): Promise<readonly Role[]> {
  const toResponse = createRoleMapper(context);
  const roles: Role[] = [];
  for (const id of ids) {
    const row = await context.store.read("roles", id);
    if (row !== undefined) roles.push(await toResponse(row));
  }
  return roles.sort((a, b) => (a.name < b.name ? -1 : 1));
}
