/** Creates a key in an API: the operation `keys.createKey`. The key's text is returned once and never stored. */
import { badRequest, KeystileError } from "../../contracts/errors.js";
import { digestKey, newKey } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { requireMeta } from "../meta.js";
import { operation } from "../operation.js";
import { ensureNames, idsOf, requireIds, ROLES } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireApi } from "../rows.js";
import { credits, creditsFrom } from "../schemas/credits.js";
import { newKeyFields } from "../schemas/key-schemas.js";
import type { Schema } from "../schemas/parse.js";
import * as atom from "../schemas/primitives.js";
import { ratelimits } from "../schemas/ratelimits.js";
import type { CreateKeyRequestBody, V2KeysCreateKeyRequestBody } from "../schemas/requests.js";
import type { V2KeysCreateKeyResponseData } from "../schemas/responses.js";
import { insertKeys } from "../write.js";
import { buildKey, requireOneSource } from "./new-key.js";

const { body, integer, optional, optionalOr } = atom;
/** Random bytes of a key unless the request says otherwise: 128 bits. */
export const DEFAULT_BYTES = 16;

const fields = (externalId: Schema<string>) => ({
  apiId: atom.id,
  prefix: optional(atom.prefix),
  byteLength: optionalOr(integer(16, 255), DEFAULT_BYTES),
  ...newKeyFields,
  externalId: optional(externalId),
  roles: optional(atom.roleNames(0)),
  permissions: optional(atom.slugs(0)),
  credits: optional(credits),
  creditsFrom: optional(creditsFrom),
  ratelimits: optional(ratelimits),
  recoverable: atom.noPlaintext,
});

/** A new key over HTTP, with an external id of this form. */
export const specifiedKey = (externalId: Schema<string>) =>
  body<V2KeysCreateKeyRequestBody>()({ ...fields(externalId), expires: optional(atom.specifiedTime) });

/**
 * @throws KeystileError BAD_REQUEST at `body.expires` for a time that is past · NOT_FOUND: no such API, or a role that
 *   does not exist; nothing is created then
 */
export const createKey = operation(
  "createKey",
  body<CreateKeyRequestBody>()({ ...fields(atom.anyExternalId), expiresIn: optional(atom.period) }),
  (context, request) => insertKey(context, request, expiryOf(request, context.now)),
);

/** The same over HTTP, where a time may be past: the key is EXPIRED from the start. */
export function createSpecifiedKey(
  context: Context,
  request: V2KeysCreateKeyRequestBody,
): Promise<V2KeysCreateKeyResponseData> {
  return insertKey(context, request, request.expires);
}

async function insertKey(
  context: Context,
  request: V2KeysCreateKeyRequestBody,
  expires: number | undefined,
): Promise<V2KeysCreateKeyResponseData> {
  const { key, row, balance } = await prepareKey(context, request, expires);
  const [inserted] = await insertKeys(context, [balance === undefined ? { row } : { row, balance }]);
  if (inserted !== true) throw new KeystileError("STORE_FAILED", "the store did not take the new key");
  return { keyId: row.id, key };
}

/**
 * Builds a key of a validated request; permissions and an identity that do not exist are created.
 * @param expires in place of the request's
 * @returns the text of the key, and what is to be stored
 * @throws KeystileError NOT_FOUND: no such API, or a role that does not exist; nothing is created then
 */
export async function prepareKey(context: Context, request: V2KeysCreateKeyRequestBody, expires: number | undefined) {
  requireOneSource(request);
  await requireMeta(context, request.meta);
  const { roles = [], permissions = [], externalId } = request;
  await requireApi(context, request.apiId);
  const roleIds = await requireIds(context, ROLES, roles);
  const externalIds = externalId === undefined ? [] : [externalId];
  const { permissionIds, identityIds } = await ensureNames(context, permissions, externalIds);
  const grantedIds = idsOf(permissions, permissionIds);
  await requireShowable(context, grantedIds);
  await requireVerifiable(context, roleIds, grantedIds);
  const { key, start } = newKey(request.prefix, request.byteLength ?? DEFAULT_BYTES);
  const origin = {
    id: context.newId("key", context.now),
    apiId: request.apiId,
    start,
    permissions: grantedIds,
    roles: roleIds,
    identityId: externalId === undefined ? undefined : identityIds.get(externalId),
  };
  const { row, balance } = buildKey(context, origin, request);
  if (expires !== undefined) row.expires = expires;
  row.digest = await digestKey(key);
  return { key, row, balance };
}

/**
 * When a new key expires.
 * @throws KeystileError BAD_REQUEST for both forms at once, and for a time that is past
 */
export function expiryOf(
  { expires, expiresIn }: Pick<CreateKeyRequestBody, "expires" | "expiresIn">,
  now: number,
): number | undefined {
  if (expiresIn !== undefined) {
    if (expires === undefined) return Math.min(now + expiresIn, atom.MAX_TIME);
    const message = "cannot be combined with expires";
    throw badRequest([{ location: "body.expiresIn", message, fix: "give one of the two" }]);
  }
  if (expires === undefined || expires >= now) return expires;
  throw badRequest([{ location: "body.expires", message: "is past", fix: "give a later time, or expiresIn" }]);
}
