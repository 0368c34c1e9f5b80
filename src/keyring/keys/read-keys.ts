/** Reads keys: the operations `keys.getKey`, `apis.listKeys` and `keys.whoami`. */
import type { KeyRow } from "../../contracts/store.js";
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
import { type KnownRows, refersTo, toKeyResponses } from "./key-response.js";

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getKey(context: Context, body: V2KeysGetKeyRequestBody): Promise<KeyResponseData> {
  const { keyId } = parse(schemas.getKey, body);
  return readResponse(context, keyId);
}

async function readResponse(context: Context, keyId: string): Promise<KeyResponseData> {
  const now = context.clock();
  const [response] = await toKeyResponses(context, [await requireKey(context, keyId)], now);
  return response as KeyResponseData;
}

/**
 * Keys of an API, by id; an externalId without an identity returns an empty page. At most seven calls of the store for
 * a page of any length that names up to a thousand permissions, roles and identities, and at most four more for each
 * further thousand.
 * @throws KeystileError BAD_REQUEST · NOT_FOUND: no such API
 */
export async function listKeys(context: Context, body: V2KeysListKeysRequestBody): Promise<Page<KeyResponseData>> {
  const request = parse(schemas.listKeys, body);
  const { apiId, externalId } = request;
  await requireApi(context, apiId);
  const now = context.clock();
  const known: KnownRows = { permissions: new Map(), roles: new Map(), identities: new Map() };
  const listing = {
    table: "keys",
    refersTo,
    toResponses: (rows: readonly KeyRow[]) => toKeyResponses(context, rows, now, known),
  } as const;
  if (externalId === undefined) return readPage(context, request, { ...listing, filter: { apiId } });
  const [identity] = await context.store.readNames("identities", context.workspaceId, [externalId]);
  if (identity === undefined) return { data: [], pagination: { hasMore: false } };
  return readPage(context, request, { ...listing, filter: { apiId, identityId: identity.id } });
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
  return readResponse(context, record.keyId);
}
