/**
 * Creates, reads, lists and deletes permissions: the operations `permissions.*Permission*`. A permission's name in its
 * workspace is its slug.
 */
import { hasIdForm } from "../../lib/hash.js";
import { type Context, updateWithRetry } from "../context.js";
import { insertNamed, taken, writeRows } from "../create-row.js";
import { readPage } from "../list-page.js";
import { ownedRow, requireNamed } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type * as R from "../schemas/requests.js";
import type {
  EmptyResponse,
  Page,
  Permission,
  V2PermissionsCreatePermissionResponseData,
} from "../schemas/responses.js";
import { createSearch } from "../search.js";
import { toPermissionResponse } from "./rbac-responses.js";
import { PERMISSION, readPermissions } from "./resolve-names.js";

const WHAT = "A permission with this slug";

/** @throws KeystileError BAD_REQUEST · CONFLICT: the slug exists, or is the id of a permission */
export async function createPermission(
  context: Context,
  body: R.V2PermissionsCreatePermissionRequestBody,
): Promise<V2PermissionsCreatePermissionResponseData> {
  const request = parse(schemas.createPermission, body);
  const { slug } = request;
  if (hasIdForm(PERMISSION, slug) && (await readPermissions(context, [slug])).size > 0) throw taken(WHAT);
  const row = { ...ownedRow(context, context.newId(PERMISSION, context.clock())), ...request };
  await insertNamed(context, { table: "permissions", row }, WHAT);
  return { permissionId: row.id };
}

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getPermission(
  context: Context,
  body: R.V2PermissionsGetPermissionRequestBody,
): Promise<Permission> {
  const { permission } = parse(schemas.getPermission, body);
  return toPermissionResponse(await requireNamed(context, "permissions", permission));
}

/** By id. @throws KeystileError BAD_REQUEST */
export async function listPermissions(context: Context, body: R.SearchRequestBody = {}): Promise<Page<Permission>> {
  const { search, ...page } = parse(schemas.listPermissions, body);
  return readPage(context, page, {
    table: "permissions",
    search: createSearch("permissions", search),
    toResponses: (rows) => rows.map(toPermissionResponse),
  });
}

/** Keys and roles that had it lose it at once. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function deletePermission(
  context: Context,
  body: R.V2PermissionsGetPermissionRequestBody,
): Promise<EmptyResponse> {
  const { permission } = parse(schemas.getPermission, body);
  return updateWithRetry(context, permission, async () => {
    const { id, version } = await requireNamed(context, "permissions", permission);
    return (await writeRows(context, [{ table: "permissions", remove: id, version }])) ? {} : undefined;
  });
}
