/** One page of a list: rows after the cursor, in the order of their ids (store clause 16). */
import type { ListQuery, Rows } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import type { Context } from "./context.js";
import { type ListedTable, readCursor, writeCursor } from "./schemas/cursor.js";
import type { ListRequestBody } from "./schemas/requests.js";
import type { Page } from "./schemas/responses.js";

const DEFAULT_LIMIT = 100;

/** What is listed, and how a page of rows is mapped. */
export interface Listing<T extends ListedTable, A> {
  readonly table: T;
  readonly filter: Pick<ListQuery, "apiId" | "identityId" | "namespaceId" | "search">;
  readonly toResponses: (rows: readonly Rows[T][]) => MaybePromise<A[]>;
}

/** Reads one row more than the page holds, to know whether there are more. */
export async function readPage<T extends ListedTable, A>(
  context: Context,
  request: ListRequestBody,
  listing: Listing<T, A>,
): Promise<Page<A>> {
  const { limit = DEFAULT_LIMIT, cursor } = request;
  const { table } = listing;
  const after = cursor === undefined ? undefined : readCursor(table, cursor);
  const query = {
    workspaceId: context.workspaceId,
    ...listing.filter,
    limit: limit + 1,
    ...(after !== undefined && { after }),
  };
  const rows = await context.store.list(table, query);
  const shown = rows.slice(0, limit);
  const data = await listing.toResponses(shown);
  const last = shown.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { data, pagination: hasMore ? { cursor: writeCursor(table, last.id), hasMore } : { hasMore } };
}
