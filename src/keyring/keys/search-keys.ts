/**
 * Searches keys of all APIs that the caller may read: the operation `keys.searchKeys`.
 *
 * Why two ways: the orders `made` and `expires` are those of an index, and a page ends once it is full, or after some
 * time of looking. Balances and last uses change with every verification and have no index, and deleted keys have none
 * by expiry: these orders look at every balance, use or key, and keep the best. Of a million it takes about 0.1 s of
 * SQLite, so that whoever looks often accepts an order that was worked out for somebody before.
 */
import { badRequest } from "../../contracts/errors.js";
import type { KeyHints, KeyPosition, KeyRow, KeySearch, KeySlice } from "../../contracts/store.js";
import { lacking } from "../../lib/guards/powers.js";
import type { Context } from "../context.js";
import { fillPage } from "../list-page.js";
import { operation } from "../operation.js";
import { readRows } from "../rows.js";
import { type KeyCursor, readKeyCursor, writeKeyCursor } from "../schemas/cursor.js";
import { searchedKeys } from "../schemas/search-keys.js";
import type { SearchKeysRequestBody } from "../schemas/requests.js";
import type { KeyResponseData, SearchPage } from "../schemas/responses.js";
import { type Best, createMatcher, type Matcher } from "./key-matcher.js";
import { type KnownRows, knownRows, readWorkspace } from "./key-response.js";
import { keyListing } from "./read-keys.js";
import { readableApis } from "./readable-apis.js";
import { createSlicing } from "./slicing.js";

const DEFAULT_LIMIT = 50;
/** Milliseconds after which a page ends, however few keys it has found. */
const MAX_MS = 60;
/** Rows that are decoded at once. */
const MAX_ROWS = 100;

/** Keys whose order is kept: those that somebody looks at. */
const RANKED = 200;

/** A part of a search: the keys of an owner that the text names exactly, then those that hold the text. */
interface Phase {
  readonly identityId?: string;
  /** The text that its keys hold. */
  readonly text?: string;
  /** Keys that an earlier part has. */
  readonly isDone: (row: KeyRow) => boolean;
}

interface Walk {
  readonly context: Context;
  readonly known: KnownRows;
  readonly matcher: Matcher;
  readonly apiIds: readonly string[];
  /** Whether it is for deleted keys. */
  readonly isForDeleted: boolean;
  readonly phases: readonly Phase[];
  readonly limit: number;
}

/** What a walk found, and where it stopped; `next` absent: there are no more. */
interface Found {
  readonly rows: readonly KeyRow[];
  readonly searched: number;
  /** The cursor after a row, where a page cannot show all. */
  readonly cursorAt: (row: KeyRow) => KeyCursor;
  readonly next?: KeyCursor | undefined;
  readonly asOf?: number;
}

type RankedOrder = Exclude<KeyCursor["order"], "made">;

/**
 * Keys that match, newest first or in another order. Keys that the order does not know are left out: of `expires` those
 * that never do, of `credits` unlimited ones, of `lastUsed` unused ones.
 * @throws KeystileError NOT_FOUND: no such API · BAD_REQUEST: an API has to be named · STORE_POWER_MISSING
 */
export const searchKeys = operation(
  "searchKeys",
  searchedKeys,
  (context, request): Promise<SearchPage<KeyResponseData>> =>
    context.turns.run(async () => {
      const { store } = context;
      if (store.powers.search !== true || store.searchKeys === undefined) throw lacking("search", "searchKeys");
      const order = orderOf(request);
      const cursor = cursorOf(request);
      const walk = await planWalk(context, request);
      if (walk === undefined) return { data: [], pagination: { hasMore: false, searched: 0 } };
      const found = await (order === "made" || (order === "expires" && !walk.isForDeleted)
        ? walkInOrder(walk, order, cursor)
        : rankAll(walk, order, cursor, request));
      const data = await fillPage(context, keyListing(context, walk.known), found.rows);
      const { searched, asOf } = found;
      const progress = { searched, ...(asOf !== undefined && { asOf }) };
      const last = found.rows[data.length - 1];
      const next = data.length < found.rows.length && last !== undefined ? found.cursorAt(last) : found.next;
      if (next === undefined) return { data, pagination: { hasMore: false, ...progress } };
      return { data, pagination: { cursor: writeKeyCursor(next), hasMore: true, ...progress } };
    }),
);

/**
 * Those of the keys that a search found before, and would find now: balances, owners and states change meanwhile.
 * @param rows as they are now
 * @throws KeystileError as `searchKeys`
 */
export async function stillFound(
  context: Context,
  request: SearchKeysRequestBody,
  rows: readonly KeyRow[],
): Promise<readonly KeyRow[]> {
  const walk = await planWalk(context, request);
  return walk === undefined ? [] : fitting(walk, rows);
}

/** `undefined`: there is nothing to look at. */
async function planWalk(context: Context, request: SearchKeysRequestBody): Promise<Walk | undefined> {
  const known = knownRows(...(await readableApis(context, request.apiId)));
  const apiIds = [...known.apis.keys()];
  const phases = await phasesOf(context, request);
  if (apiIds.length === 0 || phases === undefined) return undefined;
  await readWorkspace(context, known);
  const matcher = createMatcher(context, request, known);
  const { state, limit = DEFAULT_LIMIT } = request;
  return { context, known, matcher, apiIds, isForDeleted: state === "deleted", phases, limit };
}

/** The rows that a walk finds, in their order. */
function fitting({ matcher, apiIds, isForDeleted, phases }: Walk, rows: readonly KeyRow[]) {
  // The last part has the keys of those before it.
  const { identityId, text } = phases.at(-1) as Phase;
  const isOf = (row: KeyRow): boolean =>
    row.deleted === isForDeleted &&
    apiIds.includes(row.apiId) &&
    (identityId === undefined || row.identityId === identityId);
  return matcher.filter(rows.filter(isOf), text);
}

/**
 * Keys without credits all have the same: the newest come first, as in `made`, without looking at other keys. Those
 * that were replaced all have an end, which an index has.
 */
function orderOf({ order, state, search, externalId }: SearchKeysRequestBody): KeyCursor["order"] {
  if (order !== undefined || (search ?? externalId) !== undefined) return order ?? "made";
  return state === "exhausted" ? "credits" : state === "replaced" ? "expires" : "made";
}

/** @throws KeystileError BAD_REQUEST: it is of a list in another order */
function cursorOf(request: SearchKeysRequestBody): KeyCursor | undefined {
  const { cursor } = request;
  const read = cursor === undefined ? undefined : readKeyCursor(cursor);
  if (read === undefined || read.order === orderOf(request)) return read;
  const message = "is of a list in another order";
  throw badRequest([{ location: "body.cursor", message, fix: "send the same order with every page" }]);
}

/** `undefined`: the identity does not exist, so that no key is of it. */
async function phasesOf(
  { store, workspaceId }: Context,
  { externalId, search = "" }: SearchKeysRequestBody,
): Promise<readonly Phase[] | undefined> {
  const text = search.trim() === "" ? undefined : search;
  const name = externalId ?? text;
  const [identity] = name === undefined ? [] : await store.readNames("identities", workspaceId, [name]);
  const holding: Phase = { ...(text !== undefined && { text }), isDone: () => false };
  if (externalId !== undefined) return identity && [{ ...holding, identityId: identity.id }];
  if (identity === undefined) return [holding];
  const { id } = identity;
  return [
    { identityId: id, isDone: () => false },
    { ...holding, isDone: ({ identityId }) => identityId === id },
  ];
}

/** Walks in the order of an index, until the page is full or the time is up. */
async function walkInOrder(walk: Walk, order: "made" | "expires", cursor: KeyCursor | undefined): Promise<Found> {
  const { context, matcher, phases, limit } = walk;
  const began = performance.now();
  const slicing = createSlicing(context);
  const rows: KeyRow[] = [];
  const of: number[] = [];
  let searched = 0;
  const cursorAt = (row: KeyRow): KeyCursor =>
    toCursor(order, of[rows.indexOf(row)] as number, row.id, order === "expires" ? row.expires : undefined);
  // An owner that is deleted between two pages leaves one part less: the search begins again with its first part.
  const from = cursor !== undefined && cursor.phase < phases.length ? cursor : undefined;
  for (let at = from?.phase ?? 0; at < phases.length; at++) {
    const phase = phases[at] as Phase;
    let after = from?.phase === at ? positionOf(from) : matcher.startOf(order);
    for (;;) {
      const slice: KeySlice = await slicing.timed(() =>
        searchSlice(walk, phase, {
          ...{ order: order === "made" ? "newest" : order, after, mayMatch: matcher.hints },
          among: slicing.among(),
          // Of a slice most keys may not fit: few places that are left make no small slices.
          limit: Math.max(limit - rows.length + 1, MAX_ROWS),
        }),
      );
      searched += slice.looked;
      for (const row of await matcher.filter(slice.keys, phase.text)) {
        if (phase.isDone(row)) continue;
        if (rows.length === limit) return { rows, searched, cursorAt, next: cursorAt(rows[limit - 1] as KeyRow) };
        rows.push(row);
        of.push(at);
      }
      after = slice.last;
      if (after === undefined || matcher.endsAt(order, after)) break;
      if (performance.now() - began >= MAX_MS)
        return { rows, searched, cursorAt, next: toCursor(order, at, after.id, after.expires) };
      await slicing.yield();
    }
  }
  return { rows, searched, cursorAt };
}

/** The keys that come first of those after the cursor: from an order that was kept, as far as that goes. */
async function rankAll(
  walk: Walk,
  order: RankedOrder,
  cursor: KeyCursor | undefined,
  { maxAge = 0, limit: _limit, cursor: _cursor, ...asked }: SearchKeysRequestBody,
): Promise<Found> {
  const { context, apiIds, limit } = walk;
  const isAfter = ({ id, value }: Place): boolean =>
    cursor === undefined || value > Number(cursor.value) || (value === cursor.value && id < cursor.id);
  const cursorOf = (place: Place | undefined): KeyCursor => toCursor(order, 0, place?.id ?? "", place?.value);
  const found = (places: readonly Place[], rows: readonly KeyRow[]) => ({
    rows,
    cursorAt: ({ id: wanted }: KeyRow) => cursorOf(places.find(({ id }) => id === wanted)),
    next: places.length > limit ? cursorOf(places[limit - 1]) : undefined,
  });
  if (maxAge > 0) {
    const name = JSON.stringify([order, apiIds, asked]);
    // Others wait for it too.
    const shared = { ...walk, context: { ...context, isGone: undefined } };
    const { asOf, value } = await context.kept.read(name, maxAge, async () => {
      const { places, searched } = await rank(shared, order, { size: RANKED });
      return { places, searched };
    });
    const places = value.places.filter(isAfter);
    if (places.length > limit || value.places.length < RANKED) {
      const ids = places.slice(0, limit).map(({ id }) => id);
      const known = await readRows(context, "keys", ids);
      const read = ids.flatMap((id) => known.get(id) ?? []);
      const rows = await fitting(walk, read);
      return { ...found(places, rows), searched: value.searched, asOf };
    }
  }
  const asOf = context.clock();
  const after = cursor && { id: cursor.id, value: Number(cursor.value) };
  const { places, rows, searched } = await rank(walk, order, { size: limit + 1, after });
  return { ...found(places, rows.slice(0, limit)), searched, asOf };
}

/** A key, and what it is ordered by. */
interface Place {
  readonly id: string;
  readonly value: number;
}

/** Looks at every key, or at what it is ordered by, and keeps those that come first of the ones after a place. */
async function rank(walk: Walk, order: RankedOrder, best: Omit<Best, "isOneWalk">) {
  const { context, matcher, phases, isForDeleted } = walk;
  const slicing = createSlicing(context);
  const [{ identityId, text }] = phases as readonly [Phase];
  const isAny = order !== "expires" && !isForDeleted && phases.length === 1 && (identityId ?? text) === undefined;
  const ranking = matcher.ranking(order, { ...best, isOneWalk: phases.length === 1 && !isAny });
  let searched = 0;
  for (const phase of phases) {
    for (let from: KeyPosition | undefined; ;) {
      const slice: KeySlice = await slicing.timed(() =>
        searchSlice(walk, phase, {
          ...{ order: isAny ? "any" : "newest", after: from, mayMatch: ranking.hints() },
          ...{ among: slicing.among(), limit: MAX_ROWS },
        }),
      );
      searched += slice.looked;
      const rows = await matcher.filter(slice.keys, phase.text);
      await ranking.add(rows.filter((row) => !phase.isDone(row)));
      from = slice.last;
      if (from === undefined) break;
      await slicing.yield();
    }
  }
  const first = ranking.best();
  return {
    places: first.map(({ row, value }) => ({ id: row.id, value })),
    rows: first.map(({ row }) => row),
    searched,
  };
}

/** What differs between the slices of a walk. */
interface Searched extends Pick<KeySearch, "order" | "among" | "limit"> {
  readonly after: KeyPosition | undefined;
  readonly mayMatch: KeyHints;
}

function searchSlice(
  { context: { store, workspaceId }, apiIds, isForDeleted }: Walk,
  { identityId, text }: Phase,
  { after, mayMatch, ...search }: Searched,
) {
  return store.searchKeys!({
    workspaceId,
    apiIds,
    ...search,
    ...(identityId !== undefined && { identityId }),
    ...(isForDeleted && { deleted: true }),
    ...(after !== undefined && { after }),
    mayMatch: { ...mayMatch, ...(text !== undefined && { text }) },
  });
}

function toCursor(order: KeyCursor["order"], phase: number, id: string, value?: number): KeyCursor {
  return { order, phase, id, ...(value !== undefined && { value }) };
}

function positionOf({ order, id, value }: KeyCursor): KeyPosition {
  return order === "expires" ? { id, expires: value as number } : { id };
}
