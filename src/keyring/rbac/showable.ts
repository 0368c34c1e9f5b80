/**
 * Refuses what no answer could show: a role or key with more permissions than 1 MiB of JSON lists.
 *
 * Why when it is written: answers are bounded, and a verification lists all permissions of a key each time.
 */
import { badRequest } from "../../contracts/errors.js";
import { jsonBytes } from "../../lib/json-bytes.js";
import type { Context } from "../context.js";
import { readRows } from "../rows.js";
import { toPermissionResponse } from "./rbac-responses.js";

/** Of the permissions of one role or key as an answer lists them. */
const MAX_BYTES = 1_048_576;
/** A permission with id, name, slug and description at their longest. */
const LONGEST_PERMISSION = 4_608;
/** A slug with its quotes and a comma. */
const LONGEST_SLUG = 131;

/**
 * Reads the permissions only if there are so many that they may be too long.
 * @param ids of the permissions of a role, or granted directly to a key
 * @throws KeystileError BAD_REQUEST at `body.permissions`
 */
export async function requireShowable(context: Context, ids: readonly string[]): Promise<void> {
  if (ids.length * LONGEST_PERMISSION <= MAX_BYTES) return;
  let bytes = 0;
  for (const row of (await readRows(context, "permissions", ids)).values())
    bytes += jsonBytes(toPermissionResponse(row)) + 1;
  if (bytes > MAX_BYTES) throw tooLong("permissions", "shorter names and descriptions, or fewer permissions");
}

/**
 * The same of all that a key has: a verification lists the slugs.
 * @param roleIds of the key
 * @param permissionIds granted to it directly
 * @throws KeystileError BAD_REQUEST at `body.roles`
 */
export async function requireVerifiable(
  context: Context,
  roleIds: readonly string[],
  permissionIds: readonly string[],
): Promise<void> {
  if (roleIds.length === 0) return;
  const ids = new Set(permissionIds);
  for (const role of (await readRows(context, "roles", roleIds)).values())
    for (const id of role.permissions) ids.add(id);
  if (ids.size * LONGEST_SLUG <= MAX_BYTES) return;
  let bytes = 0;
  for (const { slug } of (await readRows(context, "permissions", ids)).values()) bytes += jsonBytes(slug) + 1;
  if (bytes > MAX_BYTES) throw tooLong("roles", "fewer roles, or roles with wildcards");
}

const tooLong = (field: string, fix: string) =>
  badRequest([
    { location: `body.${field}`, message: "would make a list of permissions of more than 1 MiB", fix: `give ${fix}` },
  ]);
