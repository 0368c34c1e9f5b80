/** One page of a list: rows after the cursor, in the order of their ids (port clause 16). Knows no verb. */
import type { ListQuery, Rows } from "../store.js";
import type { Page } from "./answers.js";
import type { Context } from "./context.js";
import { readCursor, writeCursor, type ListedTable } from "./cursor.js";
import type { ListRequestBody } from "./requests.js";

const DEFAULT_LIMIT = 100;

/** What is listed, and how a row is shown. */
export interface Listing<T extends ListedTable, A> {
  readonly table: T;
  readonly filter: Pick<ListQuery, "apiId" | "identityId" | "search">;
  readonly show: (row: Rows[T]) => Promise<A> | A;
}

/** Reads one row more than the page holds, to know whether there are more; rows hidden since are passed over. */
export async function readPage<T extends ListedTable, A>(
  context: Context,
  request: ListRequestBody,
  listing: Listing<T, A>,
): Promise<Page<A>> {
  const { limit = DEFAULT_LIMIT, cursor } = request;
  const { table } = listing;
  const rows: Rows[T][] = [];
  let after = cursor === undefined ? undefined : readCursor(table, cursor);
  for (;;) {
    const query = { workspaceId: context.workspaceId, ...listing.filter, limit: limit + 1, ...(after !== undefined && { after }) };
    const more = await context.store.list(table, query);
    for (const row of more) if (!isHidden(row)) rows.push(row);
    if (rows.length > limit || more.length <= limit) break;
    after = more.at(-1)?.id;
  }
  const shown = rows.slice(0, limit);
  const data: A[] = [];
  for (const row of shown) data.push(await listing.show(row));
  const last = shown.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  return { data, pagination: hasMore ? { cursor: writeCursor(table, last.id), hasMore } : { hasMore } };
}

function isHidden(row: object): boolean {
  return "deleted" in row && row.deleted === true;
}
