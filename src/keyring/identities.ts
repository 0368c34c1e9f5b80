/**
 * Creates, reads, lists, updates and deletes identities: the operations `identities.*`. An identity's name in its
 * workspace is its externalId.
 */
import type { ApiRow, IdentityRow, KeyRow } from "../contracts/store.js";
import type { Mutable } from "../lib/mutable.js";
import { type Context, updateWithRetry } from "./context.js";
import { removalsOf } from "./granted.js";
import { changeIdentityCredits, disableKeys, identityWrite, requireUndrawn } from "./identity-credits.js";
import { expiryOf } from "./keys/create-key.js";
import { readCredits, toIdentityData } from "./keys/key-response.js";
import { toLimitRows } from "./keys/new-key.js";
import { readMatches } from "./list-page.js";
import { operation } from "./operation.js";
import { IDENTITIES, readReservedIds } from "./rbac/resolve-names.js";
import { ownedRow, readApisOf, requireNamed, setField } from "./rows.js";
import { changedCredits, credits, drawingKeys } from "./schemas/credits.js";
import { listedIdentities } from "./schemas/page.js";
import type { Schema } from "./schemas/parse.js";
import * as atom from "./schemas/primitives.js";
import { ratelimits } from "./schemas/ratelimits.js";
import type * as R from "./schemas/requests.js";
import type { IdentityData, KeyCredits, ListedIdentity } from "./schemas/responses.js";
import { insertNamed, taken, writeRows } from "./write.js";

const { anyExternalId, body, boolean, explained, meta, nameGiven, nullable, optional, time } = atom;

const WHAT = "An identity with this externalId";

/** A new identity with an external id of this form. */
export const newIdentity = (externalId: Schema<string>) =>
  body<R.V2IdentitiesCreateIdentityRequestBody>()({
    externalId,
    meta: optional(meta),
    enabled: optional(boolean),
    expires: optional(time),
    ratelimits: optional(ratelimits),
    credits: optional(credits),
  });
const given = body<R.V2IdentitiesGetIdentityRequestBody>()({ identity: nameGiven });

/**
 * @throws KeystileError CONFLICT: the externalId exists, or is the id of an identity · BAD_REQUEST at `body.expires`
 *   for a time that is past
 */
export const createIdentity = operation(
  "createIdentity",
  newIdentity(anyExternalId),
  async (context, { externalId, meta, ratelimits = [], credits, enabled, ...given }) => {
    const { now } = context;
    const expires = expiryOf(given, now);
    if ((await readReservedIds(context, [externalId])).size > 0) throw taken(WHAT);
    const row: Mutable<IdentityRow> = {
      ...ownedRow(context, context.newId(IDENTITIES.prefix, now)),
      externalId,
      ratelimits: toLimitRows(context, ratelimits),
    };
    setField(row, "meta", meta);
    setState(row, enabled, expires);
    const isGiven = credits !== undefined && credits.remaining !== null;
    const change = isGiven ? await changeIdentityCredits(context, row, credits) : undefined;
    await insertNamed(context, identityWrite(row, change), WHAT);
    return { identityId: row.id };
  },
);

/** @throws KeystileError NOT_FOUND */
export const getIdentity = operation("getIdentity", given, async (context, { identity }): Promise<IdentityData> => {
  const row = await requireNamed(context, "identities", identity);
  const response = toIdentityData(row);
  if (row.hasCredits !== true) return response;
  const [credits] = await readCredits(context, "identities", [row]);
  return { ...response, credits: credits as KeyCredits };
});

/** Keys of an identity that a list counts. */
const MAX_COUNTED = 100;
/** Pages of them that are looked at where a caller may not read all. */
const MAX_PAGES = 5;

/** By id. */
export const listIdentities = operation(
  "listIdentities",
  listedIdentities,
  (context, { details = false, ...request }) =>
    readMatches<"identities", ListedIdentity>(context, request, {
      table: "identities",
      toResponses: details ? (rows) => detailsOf(context, rows) : (rows) => rows.map(toIdentityData),
      ...(details && { refersTo: () => MAX_COUNTED }),
    }),
);

/** With what is left of their credits, and how many keys they have that the caller may read. */
async function detailsOf(context: Context, rows: readonly IdentityRow[]): Promise<ListedIdentity[]> {
  const { store, workspaceId, caller } = context;
  const mayCount = caller?.mayAny("read_key", "api") !== false;
  const credits = await readCredits(context, "identities", rows);
  const apis = new Map<string, ApiRow>();
  const shown: ListedIdentity[] = [];
  for (const [i, row] of rows.entries()) {
    const isSeen = ({ apiId: id }: KeyRow): boolean =>
      apis.get(id)?.deleted === false && caller?.may("read_key", { type: "api", id }) !== false;
    let seen = 0;
    for (let page = 0, after = ""; mayCount && page < MAX_PAGES && seen <= MAX_COUNTED; page++) {
      const keys = await store.list("keys", { workspaceId, identityId: row.id, after, limit: MAX_COUNTED + 1 });
      await readApisOf(context, keys, apis);
      seen += keys.filter(isSeen).length;
      if (keys.length <= MAX_COUNTED) break;
      after = keys.at(-1)!.id;
    }
    shown.push({
      ...toIdentityData(row),
      ...(row.hasCredits === true && { credits: credits[i] as KeyCredits }),
      ...(mayCount && { keyCount: Math.min(seen, MAX_COUNTED) }),
      ...(seen > MAX_COUNTED && { hasMoreKeys: true }),
    });
  }
  return shown;
}

/** A limit keeps its id and its tokens while its name stays. @throws KeystileError NOT_FOUND */
export const updateIdentity = operation(
  "updateIdentity",
  body<R.V2IdentitiesUpdateIdentityRequestBody>()({
    identity: nameGiven,
    meta: optional(nullable(meta)),
    enabled: optional(boolean),
    expires: optional(nullable(time)),
    ratelimits: optional(ratelimits),
    credits: optional(nullable(changedCredits)),
    ...explained,
  }),
  (context, { identity, meta, enabled, expires, ratelimits, credits }) =>
    updateWithRetry(context, identity, async () => {
      const row: Mutable<IdentityRow> = { ...(await requireNamed(context, "identities", identity)) };
      setField(row, "meta", meta);
      setState(row, enabled, expires);
      if (ratelimits !== undefined) row.ratelimits = toLimitRows(context, ratelimits, row.ratelimits);
      const patch = credits === null ? { remaining: null } : credits;
      const change = patch && (await changeIdentityCredits(context, row, patch));
      return (await writeRows(context, [identityWrite(row, change)])) ? toIdentityData(row) : undefined;
    }),
);

/** Absent fields are kept; an enabled identity lacks the field, as those do that were made before there was one. */
function setState(row: Mutable<IdentityRow>, enabled: boolean | undefined, expires: number | null | undefined): void {
  setField(row, "enabled", enabled === true ? null : enabled);
  setField(row, "expires", expires);
}

/**
 * Its keys remain, without an identity; none becomes unlimited by it, and none gets out of its shared limits where its
 * keys are to be disabled. Keys are disabled until none is found enabled, and only then is it removed: one that is made
 * with credits of its own in between those two steps stays enabled.
 * @throws KeystileError NOT_FOUND · CONFLICT: keys draw on its credits, and are not to be disabled · STORE_BUSY: others
 *   kept making keys of it
 */
export const deleteIdentity = operation(
  "deleteIdentity",
  body<R.DeleteIdentityRequestBody>()({
    identity: nameGiven,
    keys: optional(drawingKeys),
    ...explained,
  }),
  (context, { identity, keys }) =>
    updateWithRetry(context, identity, async () => {
      const row = await requireNamed(context, "identities", identity);
      if (keys === "disable") {
        // Looked for again: keys may have been made meanwhile.
        if ((await disableKeys(context, row)) > 0) return undefined;
      } else if (row.hasCredits === true) await requireUndrawn(context, row);
      // Refused by the store if a key has begun to draw meanwhile.
      const removal = { table: "identities", remove: row.id, version: row.version } as const;
      return (await writeRows(context, [removal, ...(await removalsOf(context, row.id))])) ? {} : undefined;
    }),
);
