/**
 * Creates, reads, lists and deletes permissions: the operations `permissions.*Permission*`. A permission's name in its
 * workspace is its slug.
 */
import { readMatches } from "../list-page.js";
import { operation } from "../operation.js";
import { ownedRow, removeNamed, requireNamed } from "../rows.js";
import { search } from "../schemas/page.js";
import { body, description, label, optional, slug, slugGiven } from "../schemas/primitives.js";
import type * as R from "../schemas/requests.js";
import { insertNamed, taken } from "../write.js";
import { toPermissionResponse } from "./rbac-responses.js";
import { mayBecomeSlug, PERMISSIONS, readIds } from "./resolve-names.js";

const WHAT = "A permission with this slug";
const given = body<R.V2PermissionsGetPermissionRequestBody>()({ permission: slugGiven });

/** @throws KeystileError CONFLICT: the slug exists, or is the id of a permission */
export const createPermission = operation(
  "createPermission",
  body<R.V2PermissionsCreatePermissionRequestBody>()({
    name: label(1, 512),
    slug,
    description: optional(description),
  }),
  async (context, request) => {
    const { slug } = request;
    if (!mayBecomeSlug(slug) && (await readIds(context, PERMISSIONS, [slug])).size > 0) throw taken(WHAT);
    const row = { ...ownedRow(context, context.newId(PERMISSIONS.prefix, context.now)), ...request };
    await insertNamed(context, { table: "permissions", row }, WHAT);
    return { permissionId: row.id };
  },
);

/** @throws KeystileError NOT_FOUND */
export const getPermission = operation("getPermission", given, async (context, { permission }) =>
  toPermissionResponse(await requireNamed(context, "permissions", permission)),
);

/** By id. */
export const listPermissions = operation("listPermissions", search("permissions"), (context, request) =>
  readMatches(context, request, { table: "permissions", toResponses: (rows) => rows.map(toPermissionResponse) }),
);

/** Keys and roles that had it lose it at once. @throws KeystileError NOT_FOUND */
export const deletePermission = operation("deletePermission", given, (context, { permission }) =>
  removeNamed(context, "permissions", permission),
);
