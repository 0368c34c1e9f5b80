/** Maps rows of permissions and roles to the responses `Permission` and `Role`. */
import type { PermissionRow, RoleRow } from "../../contracts/store.js";
import { jsonBytes } from "../../lib/json-bytes.js";
import type { Context } from "../context.js";
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
 * Roles with their permissions, in order. One call of the store for each thousand permissions; it yields in between.
 * @param known permissions read for earlier roles
 */
export async function toRoleResponses(
  context: Context,
  roles: readonly RoleRow[],
  known?: Map<string, PermissionRow>,
): Promise<Role[]> {
  const ids = roles.flatMap((role) => role.permissions);
  const rows = await readRows(context, "permissions", ids, known);
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
    await context.turns.next();
  }
  return responses;
}

/** Of an answer that lists roles: those that come after so many bytes come without their permissions. */
const MAX_ROLES_BYTES = 3 * 1_048_576;

/**
 * Roles by their ids, sorted by name; rows deleted since count as absent. Two calls of the store, as above, where they
 * name up to a thousand permissions together.
 *
 * Why some may come without permissions: a role grows after it was given to a key, and the answer stays bounded.
 */
export async function toRoleResponsesOf(context: Context, ids: readonly string[]): Promise<readonly Role[]> {
  const rows = [...(await readRows(context, "roles", ids)).values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const known = new Map<string, PermissionRow>();
  const roles: Role[] = [];
  let bytes = 0;
  for (let start = 0, end = 0; start < rows.length; start = end) {
    let named = 0;
    do named += rows[end++]!.permissions.length;
    while (end < rows.length && named + rows[end]!.permissions.length <= MAX_BATCH);
    const batch = rows.slice(start, end);
    const isFull = bytes > MAX_ROLES_BYTES;
    const shown = isFull ? batch.map((role) => ({ ...role, permissions: [] })) : batch;
    for (const role of await toRoleResponses(context, shown, known)) {
      bytes += jsonBytes(role);
      roles.push(role);
    }
  }
  return roles;
}
