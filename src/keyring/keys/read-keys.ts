/** Reads keys: the operations `keys.getKey`, `apis.listKeys` and `keys.whoami`. */
import { digestKey } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { readPage } from "../list-page.js";
import { notFound, requireApi, requireKey } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type {
  V2KeysGetKeyRequestBody,
  V2KeysListKeysRequestBody,
  V2KeysWhoamiRequestBody,
} from "../schemas/requests.js";
import type { KeyResponseData, Page } from "../schemas/responses.js";
import { createKeyMapper } from "./key-response.js";

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getKey(context: Context, body: V2KeysGetKeyRequestBody): Promise<KeyResponseData> {
  const { keyId } = parse(schemas.getKey, body);
  return createKeyMapper(context, context.clock())(await requireKey(context, keyId));
}

/**
 * Keys of an API, by id; an externalId without an identity returns an empty page.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such API
 */
export async function listKeys(context: Context, body: V2KeysListKeysRequestBody): Promise<Page<KeyResponseData>> {
  const request = parse(schemas.listKeys, body);
  const { apiId, externalId } = request;
  await requireApi(context, apiId);
  const toResponse = createKeyMapper(context, context.clock());
  if (externalId === undefined) return readPage(context, request, { table: "keys", filter: { apiId }, toResponse });
  const [identity] = await context.store.readNames("identities", context.workspaceId, [externalId]);
  if (identity === undefined) return { data: [], pagination: { hasMore: false } };
  return readPage(context, request, { table: "keys", filter: { apiId, identityId: identity.id }, toResponse });
}

/**
 * The record of the key whose text this is. An imported key is found by its text once it has verified, or from the
 * start where its hash is a SHA-256 of the whole key.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: unknown, deleted, of another workspace
 */
export async function whoami(context: Context, body: V2KeysWhoamiRequestBody): Promise<KeyResponseData> {
  const { key } = parse(schemas.whoami, body);
  const digest = await digestKey(key);
  const record = await context.store.findKey(digest);
  // A root key is not a key, even if its hash was imported.
  if (record === undefined || (await context.store.findRootKey(digest)) !== undefined) throw notFound("The key");
  return createKeyMapper(context, context.clock())(await requireKey(context, record.keyId));
}
