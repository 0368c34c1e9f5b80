/** Reads keys: the operations `keys.getKey`, `keys.getKeys`, `apis.listKeys` and `keys.whoami`. */
import { accountsOf, identityOf } from "../balance.js";
import type { KeyRow } from "../../contracts/store.js";
import { MAX_KEY_LENGTH } from "../../lib/copy-json.js";
import { requirePower } from "../../lib/guards/powers.js";
import { digestKey } from "../../lib/hash.js";
import type { Context } from "../context.js";
import { fillPage, type Listing, readPage } from "../list-page.js";
import { operation } from "../operation.js";
import { notFound, readApisOf, requireApi, requireKeyOfAnyApi } from "../rows.js";
import { page } from "../schemas/page.js";
import * as atom from "../schemas/primitives.js";
import type * as R from "../schemas/requests.js";
import type { KeyResponseData } from "../schemas/responses.js";
import { knownRows, refersTo, toKeyResponses } from "./key-response.js";

/** Keys that a request names by their ids. */
const MAX_KEYS = 100;
const includeDeleted = atom.optional(atom.boolean);

/** @throws KeystileError NOT_FOUND */
export const getKey = operation(
  "getKey",
  atom.body<R.V2KeysGetKeyRequestBody>()({ keyId: atom.id, decrypt: atom.noPlaintext, includeDeleted }),
  (context, { keyId, includeDeleted }) => readResponse(context, keyId, includeDeleted),
);

/** Keys by their ids; for a caller those that it may read. */
export const getKeys = operation(
  "getKeys",
  atom.body<R.GetKeysRequestBody>()({ keyIds: atom.list(atom.id, 1, MAX_KEYS), includeDeleted }),
  async (context, { keyIds, includeDeleted = false }) => {
    const { store, workspaceId, caller } = context;
    const ids = [...new Set(keyIds)];
    const found = (await store.readMany("keys", ids)).flatMap((row) => (row?.workspaceId === workspaceId ? row : []));
    const known = knownRows();
    const apis = await readApisOf(context, found, known.apis);
    const isShown = ({ id: keyId, apiId, deleted }: KeyRow): boolean =>
      (includeDeleted || (!deleted && apis.get(apiId)?.deleted === false)) &&
      caller?.may("read_key", { type: "api", id: apiId, keyId }) !== false;
    const rows = found.filter(isShown);
    const keys = await context.turns.run(() => fillPage(context, keyListing(context, known), rows));
    return { keys, rest: rows.slice(keys.length).map((row) => row.id) };
  },
);

/** How keys are shown in a page. */
export function keyListing(context: Context, known = knownRows()): Listing<"keys", KeyResponseData> {
  return { table: "keys", refersTo, toResponses: (rows) => toKeyResponses(context, rows, known) };
}

/**
 * Keys of an API, by id; an externalId without an identity returns an empty page. At most nine calls of the store for
 * a page of any length that names up to a thousand permissions, roles and identities, and at most four more for each
 * further thousand.
 * @throws KeystileError NOT_FOUND: no such API
 */
export const listKeys = operation(
  "listKeys",
  atom.body<R.V2KeysListKeysRequestBody>()({
    apiId: atom.nameGiven,
    ...page("keys"),
    externalId: atom.optional(atom.nameGiven),
    decrypt: atom.noPlaintext,
    revalidateKeysCache: atom.optionalOr(atom.boolean, false),
  }),
  async (context, request) => {
    const { apiId, externalId } = request;
    const listing = keyListing(context, knownRows(await requireApi(context, apiId)));
    if (externalId === undefined) return readPage(context, request, { ...listing, filter: { apiId } });
    const [identity] = await context.store.readNames("identities", context.workspaceId, [externalId]);
    if (identity === undefined) return { data: [], pagination: { hasMore: false } };
    return readPage(context, request, { ...listing, filter: { apiId, identityId: identity.id } });
  },
);

/**
 * The record of the key whose text this is. An imported key is found by its text once it has verified, or from the
 * start where its hash is a SHA-256 of the whole key.
 * @throws KeystileError NOT_FOUND: unknown, of another workspace, or deleted unless that is asked for ·
 *   STORE_POWER_MISSING
 */
export const whoami = operation(
  "whoami",
  atom.body<R.V2KeysWhoamiRequestBody>()({ key: atom.wellFormed(1, MAX_KEY_LENGTH), includeDeleted }),
  async (context, request) => readResponse(context, await findIdByText(context, request), request.includeDeleted),
);

/**
 * The id of the key whose text this is, of any workspace.
 * @throws KeystileError NOT_FOUND: unknown, or deleted unless that is asked for · STORE_POWER_MISSING
 */
export async function findIdByText(
  { store }: Pick<Context, "store">,
  { key, includeDeleted = false }: R.V2KeysWhoamiRequestBody,
): Promise<string> {
  const digest = await digestKey(key);
  if (includeDeleted) requirePower(store, "search", "includeDeleted");
  const keyId = includeDeleted ? (await store.findKeyIds!([{ digest }]))[0] : (await store.findKey(digest))?.keyId;
  // A root key is not a key, even if its hash was imported.
  if (keyId === undefined || (await store.findRootKey(digest)) !== undefined) throw notFound("The key");
  return keyId;
}

async function readResponse(context: Context, keyId: string, includeDeleted = false): Promise<KeyResponseData> {
  const { key, api } = await requireKeyOfAnyApi(context, keyId);
  if (!includeDeleted && (key.deleted || api.deleted)) throw notFound("The key");
  const response = (await toKeyResponses(context, [key], knownRows(api)))[0] as KeyResponseData;
  const { creditsFrom, credits, ownerCredits } = response;
  const hasSeveral = creditsFrom === "both" || [credits, ownerCredits].some((one) => one?.granted !== undefined);
  if (!hasSeveral) return response;
  return { ...response, accounts: await accountsOf(context, key, await identityOf(context, key)) };
}
