/** Creates a key in an API: the operation `keys.createKey`. The key's text is returned once and never stored. */
import { badRequest, KeystileError } from "../../contracts/errors.js";
import { type Check, checkOptions, flag, ownOnly } from "../../lib/check-options.js";
import { digestKey, newKey } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { requireMeta } from "../meta.js";
import { ensureNames, idsOf, requireRoles } from "../rbac/resolve-names.js";
import { requireShowable, requireVerifiable } from "../rbac/showable.js";
import { requireApi } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import { MAX_TIME } from "../schemas/primitives.js";
import type { CreateKeyOptions, CreateKeyRequestBody } from "../schemas/requests.js";
import type { V2KeysCreateKeyResponseData } from "../schemas/responses.js";
import { buildKey } from "./new-key.js";

const OPTIONS = { acceptPast: flag } satisfies Record<keyof CreateKeyOptions, Check>;
/** Random bytes of a key unless the request says otherwise: 128 bits. */
export const DEFAULT_BYTES = 16;

/**
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such API, or a role that does not exist; nothing is created then
 */
export async function createKey(
  context: Context,
  body: CreateKeyRequestBody,
  options: CreateKeyOptions = {},
): Promise<V2KeysCreateKeyResponseData> {
  const request = parse(schemas.createKey, body);
  const { acceptPast = false } = checkOptions(options, OPTIONS);
  const { key, row, balance } = await prepareKey(context, request, context.clock(), acceptPast);
  const [inserted] = await context.store.insertKeys([balance === undefined ? { row } : { row, balance }]);
  if (inserted !== true) throw new KeystileError("STORE_FAILED", "the store did not take the new key");
  return { keyId: row.id, key };
}

/** A new key that is not stored yet. */
export interface PreparedKey extends ReturnType<typeof buildKey> {
  /** Its text. */
  readonly key: string;
}

/**
 * Builds a key of a validated request; permissions and an identity that do not exist are created.
 * @throws KeystileError as {@link createKey}
 */
export async function prepareKey(
  context: Context,
  request: CreateKeyRequestBody,
  now: number,
  acceptPast: boolean,
): Promise<PreparedKey> {
  const expires = expiryOf(request.expires, request.expiresIn, now, acceptPast);
  await requireMeta(context, request.meta);
  const { roles = [], permissions = [], externalId } = request;
  await requireApi(context, request.apiId);
  const roleIds = await requireRoles(context, roles);
  const externalIds = externalId === undefined ? [] : [externalId];
  const { permissionIds, identityIds } = await ensureNames(context, permissions, externalIds, now);
  const grantedIds = idsOf(permissions, permissionIds);
  await requireShowable(context, grantedIds);
  await requireVerifiable(context, roleIds, grantedIds);
  const { key, start } = newKey(request.prefix, request.byteLength ?? DEFAULT_BYTES);
  const { row, balance } = buildKey(
    context,
    {
      id: context.newId("key", now),
      workspaceId: context.workspaceId,
      apiId: request.apiId,
      start,
      createdAt: now,
      permissions: grantedIds,
      roles: roleIds,
      identityId: externalId === undefined ? undefined : identityIds.get(externalId),
    },
    expires === undefined ? request : ownOnly({ ...request, expires }),
  );
  row.digest = await digestKey(key);
  return balance === undefined ? { key, row } : { key, row, balance };
}

/**
 * Below it, milliseconds mean a time in 1973 or earlier, and seconds any time up to the year 5138.
 */
const LIKELY_SECONDS = 100_000_000_000;

/**
 * When a new key expires.
 * @throws KeystileError BAD_REQUEST for both forms at once, and unless `acceptPast` for a time that is past
 */
export function expiryOf(
  expires: number | undefined,
  expiresIn: number | undefined,
  now: number,
  acceptPast: boolean,
): number | undefined {
  if (expiresIn !== undefined) {
    if (expires === undefined) return Math.min(now + expiresIn, MAX_TIME);
    const message = "cannot be combined with expires";
    throw badRequest([{ location: "body.expiresIn", message, fix: "give one of the two" }]);
  }
  if (expires === undefined || expires >= now || acceptPast) return expires;
  const isInSeconds = expires > 0 && expires < LIKELY_SECONDS;
  const message = `is past${isInSeconds ? "; it looks like seconds" : ""}`;
  const fix = isInSeconds ? "give milliseconds, such as Date.now() + 86_400_000" : "give a later time, or expiresIn";
  throw badRequest([{ location: "body.expires", message, fix }]);
}
