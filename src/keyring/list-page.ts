/**
 * One page of a list: rows after the cursor, in the order of their ids (store clause 16). It ends early where it would
 * have more than 4 MiB, but has one row at least.
 */
import type { ListQuery, Rows } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { jsonBytes } from "../lib/json-bytes.js";
import type { Context } from "./context.js";
import { MAX_BATCH } from "./rows.js";
import { type ListedTable, readCursor, writeCursor } from "./schemas/cursor.js";
import type { ListRequestBody } from "./schemas/requests.js";
import type { Page } from "./schemas/responses.js";

const DEFAULT_LIMIT = 100;
/** Of a page's rows as JSON; the envelope has the rest of 4 MiB. */
const MAX_PAGE_BYTES = 4_194_304 - 4_096;
/** Written as JSON in about a millisecond: after these bytes others get their turn. */
const BYTES_PER_TURN = 262_144;

/** What is listed, and how a page of rows is mapped. */
export interface Listing<T extends ListedTable, A> {
  readonly table: T;
  readonly filter: Pick<ListQuery, "apiId" | "identityId" | "namespaceId" | "search">;
  /** How many other rows a row refers to, which are read with it; default none. */
  readonly refersTo?: (row: Rows[T]) => number;
  /** Called for the rows of a page in turn, as many at a time as refer to about a thousand others. */
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
  const data = await context.turns.run(() => fillPage(context, listing, rows.slice(0, limit)));
  const last = rows[data.length - 1];
  const hasMore = rows.length > data.length && last !== undefined;
  return { data, pagination: hasMore ? { cursor: writeCursor(table, last.id), hasMore } : { hasMore } };
}

/** The responses of a page, as many as fit; yields to others now and then. Runs in {@link Context.turns}. */
export async function fillPage<T extends ListedTable, A>(
  context: Context,
  listing: Listing<T, A>,
  rows: readonly Rows[T][],
): Promise<A[]> {
  const data: A[] = [];
  let bytes = 0;
  let paused = 0;
  for (let start = 0; start < rows.length;) {
    if (start > 0) await context.turns.next();
    const end = endOfBatch(listing, rows, start);
    for (const response of await listing.toResponses(rows.slice(start, end))) {
      bytes += jsonBytes(response) + 1;
      if (bytes > MAX_PAGE_BYTES && data.length > 0) return data;
      data.push(response);
      if (bytes - paused < BYTES_PER_TURN) continue;
      paused = bytes;
      await context.turns.next();
    }
    start = end;
  }
  return data;
}

/** Why in batches: a hundred roles may name 100,000 permissions, of which a page shows a fraction. */
function endOfBatch<T extends ListedTable>(
  { refersTo = () => 0 }: Pick<Listing<T, unknown>, "refersTo">,
  rows: readonly Rows[T][],
  start: number,
): number {
  let end = start;
  let named = 0;
  while (end < rows.length) {
    named += refersTo(rows[end] as Rows[T]);
    if (named > MAX_BATCH && end > start) break;
    end++;
  }
  return end;
}
