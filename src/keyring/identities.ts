/**
 * Creates, reads, lists, updates and deletes identities: the operations `identities.*`. An identity's name in its
 * workspace is its externalId.
 */
import type { IdentityRow } from "../contracts/store.js";
import type { Identity } from "../contracts/types.js";
import { type Context, updateWithRetry } from "./context.js";
import { insertNamed, taken, writeRows } from "./create-row.js";
import { toIdentityResponse } from "./keys/key-response.js";
import { toLimitRows } from "./keys/new-key.js";
import { readPage } from "./list-page.js";
import { IDENTITY, readReservedIds } from "./rbac/resolve-names.js";
import { ownedRow, requireNamed, setField } from "./rows.js";
import * as schemas from "./schemas/keys.js";
import { parse } from "./schemas/parse.js";
import type * as R from "./schemas/requests.js";
import type { EmptyResponse, Page, V2IdentitiesCreateIdentityResponseData } from "./schemas/responses.js";
import { createSearch } from "./search.js";
import type { Mutable } from "../lib/mutable.js";

const WHAT = "An identity with this externalId";

/** @throws KeystileError BAD_REQUEST · CONFLICT: the externalId exists, or is the id of an identity */
export async function createIdentity(
  context: Context,
  body: R.V2IdentitiesCreateIdentityRequestBody,
): Promise<V2IdentitiesCreateIdentityResponseData> {
  const { externalId, meta, ratelimits = [] } = parse(schemas.createIdentity, body);
  const now = context.clock();
  if ((await readReservedIds(context, [externalId])).size > 0) throw taken(WHAT);
  const row: Mutable<IdentityRow> = {
    ...ownedRow(context, context.newId(IDENTITY, now)),
    externalId,
    ratelimits: toLimitRows(context, ratelimits, now),
  };
  setField(row, "meta", meta);
  await insertNamed(context, { table: "identities", row }, WHAT);
  return { identityId: row.id };
}

/** @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function getIdentity(context: Context, body: R.V2IdentitiesGetIdentityRequestBody): Promise<Identity> {
  const { identity } = parse(schemas.getIdentity, body);
  return toIdentityResponse(await requireNamed(context, "identities", identity));
}

/** By id. @throws KeystileError BAD_REQUEST */
export async function listIdentities(context: Context, body: R.SearchRequestBody = {}): Promise<Page<Identity>> {
  const { search, ...page } = parse(schemas.listIdentities, body);
  return readPage(context, page, {
    table: "identities",
    search: createSearch("identities", search),
    toResponses: (rows) => rows.map(toIdentityResponse),
  });
}

/** A limit keeps its id and its tokens while its name stays. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function updateIdentity(
  context: Context,
  body: R.V2IdentitiesUpdateIdentityRequestBody,
): Promise<Identity> {
  const { identity, meta, ratelimits } = parse(schemas.updateIdentity, body);
  const now = context.clock();
  return updateWithRetry(context, identity, async () => {
    const row: Mutable<IdentityRow> = { ...(await requireNamed(context, "identities", identity)) };
    setField(row, "meta", meta);
    if (ratelimits !== undefined) row.ratelimits = toLimitRows(context, ratelimits, now, row.ratelimits);
    return (await writeRows(context, [{ table: "identities", row }])) ? toIdentityResponse(row) : undefined;
  });
}

/** Its keys remain, without an identity. @throws KeystileError BAD_REQUEST · NOT_FOUND */
export async function deleteIdentity(
  context: Context,
  body: R.V2IdentitiesGetIdentityRequestBody,
): Promise<EmptyResponse> {
  const { identity } = parse(schemas.getIdentity, body);
  return updateWithRetry(context, identity, async () => {
    const { id, version } = await requireNamed(context, "identities", identity);
    return (await writeRows(context, [{ table: "identities", remove: id, version }])) ? {} : undefined;
  });
}
