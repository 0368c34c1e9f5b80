/** The APIs whose keys a call may show. */
import type { Caller } from "../../contracts/caller.js";
import { badRequest } from "../../contracts/errors.js";
import type { ApiRow } from "../../contracts/store.js";
import type { Context } from "../context.js";
import { requireApi } from "../rows.js";

/** APIs that a search looks at together, and so many are read at a time. */
export const MAX_APIS = 1_000;
/** What `listKeys` asks for on an API. */
const ACTIONS = ["read_key", "read_api"];

function mayRead(caller: Caller | undefined, id?: string): boolean {
  const resource = { type: "api", ...(id !== undefined && { id }) } as const;
  return caller === undefined || ACTIONS.every((action) => caller.may(action, resource));
}

/**
 * The APIs that the caller may read, or the one that is named, which it may.
 * @throws KeystileError NOT_FOUND: no such API · BAD_REQUEST at `body.apiId`, if there are more than a thousand
 */
export async function readableApis(context: Context, apiId: string | undefined): Promise<readonly ApiRow[]> {
  if (apiId !== undefined) return [await requireApi(context, apiId)];
  const { store, workspaceId, caller, turns } = context;
  const mayAll = mayRead(caller);
  const found: ApiRow[] = [];
  for (let after: string | undefined; ;) {
    const query = { workspaceId, limit: MAX_APIS, ...(after !== undefined && { after }) };
    const rows = await store.list("apis", query);
    for (const row of rows) if (mayAll || mayRead(caller, row.id)) found.push(row);
    if (found.length > MAX_APIS) throw tooMany();
    if (rows.length < MAX_APIS) return found;
    after = rows.at(-1)?.id;
    await turns.next();
  }
}

function tooMany() {
  const message = `is required: there are more than ${MAX_APIS.toLocaleString("en")} APIs to look at`;
  return badRequest([{ location: "body.apiId", message, fix: "name one of them" }]);
}
