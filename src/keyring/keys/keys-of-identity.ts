/** The keys of an identity, and which of them draw on its credits. */
import type { IdentityRow, KeyRow, ListQuery } from "../../contracts/store.js";
import { drawsOnIdentity } from "../../lib/credits-source.js";
import { type Context, pause } from "../context.js";
import { MAX_BATCH, readApisOf } from "../rows.js";

/** All keys that a filter selects, oldest first, a thousand at a time; the event loop runs in between. */
export async function* pagesOfKeys(
  context: Context,
  filter: Pick<ListQuery, "apiId" | "identityId">,
): AsyncGenerator<readonly KeyRow[]> {
  const query = { workspaceId: context.workspaceId, ...filter, limit: MAX_BATCH };
  for (let after = ""; ;) {
    const rows = await context.store.list("keys", after === "" ? query : { ...query, after });
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < MAX_BATCH) return;
    after = last.id;
    await pause(0);
  }
}

/** Those that draw on an identity's credits, disabled ones too; not those of deleted APIs, which are not found. */
export async function* keysThatDrawOn(context: Context, identity: IdentityRow): AsyncGenerator<KeyRow> {
  for await (const rows of pagesOfKeys(context, { identityId: identity.id })) {
    const apis = await readApisOf(context, rows);
    for (const row of rows) if (drawsOnIdentity(row, identity) && apis.get(row.apiId)?.deleted === false) yield row;
  }
}
