/** Creates a key in an API: the operation `keys.createKey`. The key's text is returned once and never stored. */
import { KeystileError } from "../../contracts/errors.js";
import { digestKey, newId, newKey } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { ensureIdentities, ensurePermissions, idsOf, requireRoles } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireApi } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type { V2KeysCreateKeyRequestBody } from "../schemas/requests.js";
import type { V2KeysCreateKeyResponseData } from "../schemas/responses.js";
import { buildKey } from "./new-key.js";

/** Random bytes of a key unless the request says otherwise: 128 bits. */
export const DEFAULT_BYTES = 16;

/**
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such API, or a role that does not exist; nothing is created then
 */
export async function createKey(
  context: Context,
  body: V2KeysCreateKeyRequestBody,
): Promise<V2KeysCreateKeyResponseData> {
  const request = parse(schemas.createKey, body);
  const now = context.clock();
  const { roles = [], permissions = [], externalId } = request;
  await requireApi(context, request.apiId);
  const roleIds = await requireRoles(context, roles);
  const permissionIds = await ensurePermissions(context, permissions, now);
  const identityIds = await ensureIdentities(context, externalId === undefined ? [] : [externalId], now);
  const grantedIds = idsOf(permissions, permissionIds);
  await requireShowable(context, grantedIds);
  await requireVerifiable(context, roleIds, grantedIds);
  const { key, start } = newKey(request.prefix, request.byteLength ?? DEFAULT_BYTES);
  const { row, balance } = buildKey(
    {
      id: newId("key", now),
      workspaceId: context.workspaceId,
      apiId: request.apiId,
      start,
      createdAt: now,
      permissions: grantedIds,
      roles: roleIds,
      identityId: externalId === undefined ? undefined : identityIds.get(externalId),
    },
    request,
  );
  row.digest = await digestKey(key);
  const [inserted] = await context.store.insertKeys([balance === undefined ? { row } : { row, balance }]);
  if (inserted !== true) throw new KeystileError("STORE_FAILED", "the store did not take the new key");
  return { keyId: row.id, key };
}
