/**
 * One page of a list: rows after the cursor, in the order of their ids (store clause 16), all of them or those that a
 * search finds. It ends early where it would have more than 4 MiB, but has one row at least.
 */
import type { ListQuery, Rows } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { jsonBytes } from "../lib/json-bytes.js";
import type { Context } from "./context.js";
import { MAX_BATCH } from "./rows.js";
import { createSearch, type Search, type SearchedTable } from "./search.js";
import { type ListedTable, readCursor, writeCursor } from "./schemas/cursor.js";
import type { ListRequestBody, SearchRequestBody } from "./schemas/requests.js";
import type { Page } from "./schemas/responses.js";

const DEFAULT_LIMIT = 100;
/** Of a page's rows as JSON; the envelope has the rest of 4 MiB. */
const MAX_PAGE_BYTES = 4_194_304 - 4_096;
/** Written as JSON in about a millisecond: after these bytes others get their turn. */
const BYTES_PER_TURN = 262_144;
/** Milliseconds of a search after which others get their turn. */
const TURN_MS = 3;
/**
 * Rows that a search looks at in one call of the store. The first are few: a role may name thousands of permissions.
 */
const FIRST_ROWS = 16;
const MAX_ROWS = 8_192;
/** Of those, rows that are read at once. An identity may have 64 KB of `meta`. */
const MAX_READ = 100;
/** Rows between two looks at the clock. */
const ROWS_PER_LOOK = 16;

/** What is listed, and how a page of rows is mapped. */
export interface Listing<T extends ListedTable, A> {
  readonly table: T;
  readonly filter?: Pick<ListQuery, "apiId" | "identityId" | "namespaceId">;
  /** Which rows are listed; absent: all. */
  readonly search?: Search<T> | undefined;
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
  const { search } = listing;
  return context.turns.run(async () => {
    const rows = await (search === undefined
      ? context.store.list(table, query)
      : findMatches(context, table, query, search));
    // What rows refer to is read in another turn: 100 roles of 1,000 permissions took 8 ms, and a thousand of these 6.
    if (listing.refersTo !== undefined && rows.length > FIRST_ROWS) await context.turns.next();
    const data = await fillPage(context, listing, rows.slice(0, limit));
    const last = rows[data.length - 1];
    const hasMore = rows.length > data.length && last !== undefined;
    return { data, pagination: hasMore ? { cursor: writeCursor(table, last.id), hasMore } : { hasMore } };
  });
}

/** A page of the rows that hold the text of the request, if it has one. */
export function readMatches<T extends ListedTable & SearchedTable, A>(
  context: Context,
  { search, ...page }: SearchRequestBody,
  listing: Omit<Listing<T, A>, "search">,
): Promise<Page<A>> {
  return readPage(context, page, { ...listing, search: createSearch(listing.table, search) });
}

/**
 * The rows that match, from as many as it takes: a slice at a time, between which others get their turn. A search of
 * 300,000 rows in one statement held the event loop for 0.2 s.
 */
async function findMatches<T extends ListedTable>(
  { store, turns, isGone }: Context,
  table: T,
  query: ListQuery,
  { text, matches }: Search<T>,
): Promise<Rows[T][]> {
  const found: Rows[T][] = [];
  let among = FIRST_ROWS;
  let after = query.after;
  let began = performance.now();
  for (;;) {
    const asked = performance.now();
    const limit = Math.min(among, MAX_READ);
    const answer = store.list(table, {
      ...query,
      ...(after !== undefined && { after }),
      limit,
      mayHold: { text, among },
    });
    const took = performance.now() - asked;
    const rows = await answer;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] as Rows[T];
      if (matches(row)) found.push(row);
      if (found.length === query.limit) return found;
      if (i % ROWS_PER_LOOK > 0 || performance.now() - began < TURN_MS) continue;
      await turns.next();
      began = performance.now();
    }
    after = rows.at(-1)?.id;
    // What is found so far is for who waits no longer.
    if (after === undefined || isGone?.() === true) return found;
    // What a store takes before it returns, it takes of this turn. Where each row may match, it looks at no more than
    // it returns.
    if (took > TURN_MS / 2) among = Math.max(1, among >> 1);
    else among = rows.length < limit ? Math.min(MAX_ROWS, among * 2) : MAX_READ;
  }
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
