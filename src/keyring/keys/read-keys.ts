/** Reads keys: the operations `keys.getKey`, `keys.getKeys`, `apis.listKeys` and `keys.whoami`. */
import type { KeyRow } from "../../contracts/store.js";
import { MAX_KEY_LENGTH } from "../../lib/copy-json.js";
import { digestKey } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { fillPage, type Listing, readPage } from "../list-page.js";
import { operation } from "../operation.js";
import { notFound, readRows, requireApi, requireKey } from "../rows.js";
import { page } from "../schemas/page.js";
import {
  body,
  boolean,
  id,
  list,
  nameGiven,
  noPlaintext,
  optional,
  optionalOr,
  wellFormed,
} from "../schemas/primitives.js";
import type * as R from "../schemas/requests.js";
import type { KeyResponseData } from "../schemas/responses.js";
import { type KnownRows, refersTo, toKeyResponses } from "./key-response.js";

/** Keys that a request names by their ids. */
const MAX_KEYS = 100;

/** @throws KeystileError NOT_FOUND */
export const getKey = operation(
  "getKey",
  body<R.V2KeysGetKeyRequestBody>()({ keyId: id, decrypt: noPlaintext }),
  (context, { keyId }) => readResponse(context, keyId),
);

/** Keys by their ids; for a caller those that it may read. */
export const getKeys = operation(
  "getKeys",
  body<R.GetKeysRequestBody>()({ keyIds: list(id, 1, MAX_KEYS) }),
  async (context, { keyIds }) => {
    const { store, workspaceId, caller } = context;
    const ids = [...new Set(keyIds)];
    const found = (await store.readMany("keys", ids)).filter((row) => row?.workspaceId === workspaceId && !row.deleted);
    const apis = await readRows(
      context,
      "apis",
      found.map((row) => (row as KeyRow).apiId),
    );
    const isShown = ({ id: keyId, apiId }: KeyRow): boolean =>
      apis.get(apiId)?.deleted === false && caller?.may("read_key", { type: "api", id: apiId, keyId }) !== false;
    const rows = (found as KeyRow[]).filter(isShown);
    const keys = await context.turns.run(() => fillPage(context, keyListing(context), rows));
    return { keys, rest: rows.slice(keys.length).map((row) => row.id) };
  },
);

/** How keys are shown in a page. */
export function keyListing(context: Context, now = context.clock()): Listing<"keys", KeyResponseData> {
  const known: KnownRows = { permissions: new Map(), roles: new Map(), identities: new Map() };
  return { table: "keys", refersTo, toResponses: (rows) => toKeyResponses(context, rows, now, known) };
}

/**
 * Keys of an API, by id; an externalId without an identity returns an empty page. At most eight calls of the store for
 * a page of any length that names up to a thousand permissions, roles and identities, and at most four more for each
 * further thousand.
 * @throws KeystileError NOT_FOUND: no such API
 */
export const listKeys = operation(
  "listKeys",
  body<R.V2KeysListKeysRequestBody>()({
    apiId: nameGiven,
    ...page("keys"),
    externalId: optional(nameGiven),
    decrypt: noPlaintext,
    revalidateKeysCache: optionalOr(boolean, false),
  }),
  async (context, request) => {
    const { apiId, externalId } = request;
    await requireApi(context, apiId);
    const listing = keyListing(context);
    if (externalId === undefined) return readPage(context, request, { ...listing, filter: { apiId } });
    const [identity] = await context.store.readNames("identities", context.workspaceId, [externalId]);
    if (identity === undefined) return { data: [], pagination: { hasMore: false } };
    return readPage(context, request, { ...listing, filter: { apiId, identityId: identity.id } });
  },
);

/**
 * The record of the key whose text this is. An imported key is found by its text once it has verified, or from the
 * start where its hash is a SHA-256 of the whole key.
 * @throws KeystileError NOT_FOUND: unknown, deleted, of another workspace
 */
export const whoami = operation(
  "whoami",
  body<R.V2KeysWhoamiRequestBody>()({ key: wellFormed(1, MAX_KEY_LENGTH) }),
  async (context, { key }) => {
    const digest = await digestKey(key);
    const record = await context.store.findKey(digest);
    // A root key is not a key, even if its hash was imported.
    if (record === undefined || (await context.store.findRootKey(digest)) !== undefined) throw notFound("The key");
    return readResponse(context, record.keyId);
  },
);

async function readResponse(context: Context, keyId: string): Promise<KeyResponseData> {
  const now = context.clock();
  const [response] = await toKeyResponses(context, [await requireKey(context, keyId)], now);
  return response as KeyResponseData;
}
