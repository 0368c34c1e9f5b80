/** Maps a key's row to `KeyResponseData`; a property that does not apply is absent. */
import { KEY_FIELDS, type KeyField } from "../../contracts/key-fields.js";
import type {
  ApiRow,
  BalanceQuery,
  CountedBalance,
  CreditRow,
  IdentityRow,
  KeyRow,
  Rows,
  WrittenBalance,
} from "../../contracts/store.js";
import type { Identity, Refill } from "../../contracts/types.js";
import { calendarOf, periodOf } from "../../credits/refill-calendar.js";
import { ownOnly, ownProperty } from "../../lib/check-options.js";
import { creditsSource, drawsOnIdentity, refillOf } from "../../lib/credits-source.js";
import { clampIdentity, toRatelimitResponse } from "../../ratelimit/take-limits.js";
import { toIdentity } from "../../lib/identity.js";
import { type DisabledParent, type KeyState, keyState } from "../../lib/key-state.js";
import type { Mutable } from "../../lib/mutable.js";
import type { Context, ReadingAt } from "../context.js";
import { grantedBy, type OpenGrant, readOpenGrants } from "../granted.js";
import { MAX_BATCH, readApisOf, readRows, setField } from "../rows.js";
import { ALWAYS_SHOWN, SHOWN_UNLESS_USUAL } from "../schemas/key-names.js";
import type { IdentityData, KeyCredits, KeyResponseData } from "../schemas/responses.js";
import { readBalances } from "./read-balances.js";

/** Rows that keys refer to, by id. */
export interface KnownRows {
  readonly permissions: Map<string, Rows["permissions"]>;
  readonly roles: Map<string, Rows["roles"]>;
  readonly identities: Map<string, Rows["identities"]>;
  readonly apis: Map<string, Rows["apis"]>;
  /** Of all keys; absent: not read so far. */
  workspaceDisabled?: boolean;
}

/** Reads whether the workspace is disabled, unless that is known. */
export async function readWorkspace({ store, workspaceId }: Context, known: KnownRows): Promise<void> {
  known.workspaceDisabled ??= (await store.readMany("workspaces", [workspaceId]))[0]?.enabled === false;
}

/** No rows but these APIs, for the keys of a page. */
export function knownRows(...apis: readonly ApiRow[]): KnownRows {
  return {
    ...{ permissions: new Map(), roles: new Map(), identities: new Map() },
    apis: new Map(apis.map((api) => [api.id, api])),
  };
}

/** How many rows a key refers to. */
export function refersTo({ permissions, roles, identityId }: KeyRow): number {
  return permissions.length + roles.length + (identityId === undefined ? 0 : 1);
}

/**
 * Maps keys, in order, with at most one call of the store each for permissions, roles, identities, APIs, the workspace
 * and balances, whatever the number of keys; {@link readRows} and {@link readCredits} say when there are more.
 * @param known rows read for earlier keys of a page
 */
export async function toKeyResponses(
  context: Context,
  given: readonly KeyRow[],
  known = knownRows(),
): Promise<KeyResponseData[]> {
  // Own properties only: a field that a row lacks must not come from a polluted prototype.
  const keys = given.map(ownOnly);
  const read = <T extends Exclude<keyof KnownRows, "workspaceDisabled">>(
    table: T,
    ids: (row: KeyRow) => readonly string[],
  ) => readRows(context, table, keys.flatMap(ids), known[table] as Map<string, Rows[T]>);
  const permissions = await read("permissions", (row) => row.permissions);
  const roles = await read("roles", (row) => row.roles);
  const identities = await read("identities", ({ identityId }) => (identityId === undefined ? [] : [identityId]));
  await readApisOf(context, keys, known.apis);
  await readWorkspace(context, known);
  const drawn = await drawnCredits(context, keys, identities);
  const responses: KeyResponseData[] = [];
  let shown = 0;
  for (const [i, row] of keys.entries()) {
    const data = showFields(row, stateOf(row, known, drawn[i]?.available, context.now));
    if (data.state === "forbidden") setField(data, "disabledBy", disabledParent(row, known));
    const slugs = namesOf(row.permissions, permissions, ({ slug }) => slug);
    if (slugs.length > 0) data.permissions = slugs;
    const names = namesOf(row.roles, roles, ({ name }) => name);
    if (names.length > 0) data.roles = names;
    if (row.hasCredits || row.refill !== undefined) data.credits = drawn[i]?.own as KeyCredits;
    const identity = row.identityId === undefined ? undefined : identities.get(row.identityId);
    data.creditsFrom = creditsSource(row, identity);
    setField(data, "ownerCredits", drawn[i]?.owner);
    if (identity !== undefined) data.identity = toIdentityResponse(identity);
    if (row.ratelimits.length > 0) data.ratelimits = row.ratelimits.map(toRatelimitResponse);
    responses.push(data);
    shown += slugs.length + names.length;
    if (shown < MAX_BATCH) continue;
    shown = 0;
    await context.turns.next();
  }
  return responses;
}

/**
 * The state of a key.
 * @param known its API and identity, and whether the workspace is disabled
 * @param remaining of the credits that it takes; null or absent: unlimited
 */
export function stateOf(row: KeyRow, known: Parents, remaining: number | null | undefined, now: number): KeyState {
  const ownerExpires = ownProperty(ownerOf(row, known), "expires");
  const parentDisabled = disabledParent(row, known) !== undefined;
  const deleted = row.deleted || known.apis.get(row.apiId)?.deleted !== false;
  return keyState({ ...row, deleted, ownerExpires, parentDisabled, remaining }, now);
}

type Parents = Pick<KnownRows, "apis" | "identities" | "workspaceDisabled">;

const ownerOf = ({ identityId = "" }: KeyRow, { identities }: Parents): Partial<IdentityRow> =>
  identities.get(identityId) ?? {};

/** The first parent of a key that is disabled. */
function disabledParent(row: KeyRow, known: Parents): DisabledParent | undefined {
  if (known.workspaceDisabled === true) return "workspace";
  if (known.apis.get(row.apiId)?.enabled === false) return "api";
  return ownProperty(ownerOf(row, known), "enabled") === false ? "identity" : undefined;
}

/**
 * The credits that keys take.
 * @param identities of the keys
 * @returns of each its `own` · those of its `owner`, undefined: it takes none · what is `available`: the least of what
 *   both have; null: unlimited
 */
export async function drawnCredits(
  context: ReadingAt,
  rows: readonly KeyRow[],
  identities: ReadonlyMap<string, IdentityRow>,
) {
  const credits = await readCredits(context, "keys", rows);
  const owners = rows.map((row) => {
    const identity = row.identityId === undefined ? undefined : identities.get(row.identityId);
    return drawsOnIdentity(row, identity) ? identity : undefined;
  });
  const drawnOn = new Map(owners.flatMap((owner) => (owner === undefined ? [] : [[owner.id, owner]])));
  const shared = await readCredits(context, "identities", [...drawnOn.values()]);
  const byOwner = new Map([...drawnOn.keys()].map((id, i) => [id, shared[i]]));
  return rows.map((row, i) => {
    const owner = byOwner.get(owners[i]?.id ?? "");
    const own = credits[i];
    const has = [row.hasCredits ? own : undefined, owner].map((one) => availableOf(one) ?? Infinity);
    const available = Math.min(...has);
    return { own, owner, available: available === Infinity ? null : available };
  });
}

/** Fields that are returned as they are stored. */
function showFields(row: KeyRow, state: KeyState): Mutable<KeyResponseData> {
  const data: Mutable<Partial<KeyResponseData>> = { keyId: row.id, apiId: row.apiId, state };
  for (const name of ALWAYS_SHOWN) setField(data, name, row[name]);
  for (const name of SHOWN_UNLESS_USUAL) if (!isUsual(name, row[name])) setField(data, name, row[name]);
  return data as KeyResponseData;
}

function isUsual(name: (typeof SHOWN_UNLESS_USUAL)[number], value: unknown): boolean {
  const { usual }: KeyField = KEY_FIELDS[name];
  return value === usual || (Array.isArray(value) && value.length === 0);
}

/** An identity as responses contain it. */
export function toIdentityResponse(row: IdentityRow): Identity {
  return clampIdentity(toIdentity(row));
}

/** An identity as administration sees it, without its credits. */
export function toIdentityData(row: IdentityRow): Omit<IdentityData, "credits"> {
  const expires = ownProperty(row, "expires");
  return {
    ...toIdentityResponse(row),
    ...(ownProperty(row, "enabled") === false && { enabled: false }),
    ...(expires !== undefined && { expires }),
  };
}

/** {@link readAccounts} as responses contain them. An invalid balance is what can be spent of it, 0, and says so. */
export async function readCredits<T extends "keys" | "identities">(
  context: ReadingAt,
  table: T,
  rows: readonly Rows[T][],
): Promise<KeyCredits[]> {
  const accounts = await readAccounts(context, table, rows);
  return accounts.map(({ refill, balance, grants }) => {
    const granted = grantedBy(grants);
    const credits =
      balance === "invalid"
        ? { ...toCredits(0, refill), invalid: true as const }
        : toCredits(balance?.remaining ?? null, refill, balance?.reserved);
    return granted === 0 || credits.remaining === null ? credits : { ...credits, granted };
  });
}

/** A balance, and the refill that its row had when it was read. */
export interface ReadAccount {
  readonly refill: Refill | undefined;
  /** `undefined`: it has none, so that its credits are unlimited. */
  readonly balance: CountedBalance | "invalid" | undefined;
  /** Its open grants. Absent: none. */
  readonly grants?: readonly OpenGrant[] | undefined;
}

/**
 * Current balances of keys or identities, in order, with the refills due by now counted: one call of the store, and
 * none if no row has credits ({@link readBalances}). Where a refill changed between reading the row and reading the
 * balance, both are read again: at most {@link MAX_READS} times, two calls each.
 */
export async function readMainAccounts<T extends "keys" | "identities">(
  context: ReadingAt,
  table: T,
  rows: readonly Rows[T][],
): Promise<ReadAccount[]> {
  const { store, now } = context;
  const accounts = rows.map(({ refill }): ReadAccount => ({ refill, balance: undefined }));
  let pending = [...rows.entries()].filter(([, { hasCredits }]) => hasCredits === true);
  for (let attempts = 1; pending.length > 0; attempts++) {
    const queries = pending.map(([, row]): BalanceQuery => {
      const period = periodOf(refillOf(row), now);
      return table === "keys" ? { keyId: row.id, period } : { identityId: row.id, period };
    });
    const balances = await readBalances(store, queries, now);
    const isLast = attempts === MAX_READS;
    const outdated = pending.filter(([i, { refill }], at) => {
      const balance = balances[at];
      accounts[i] = { refill, balance };
      if (isLast || balance === undefined || balance === "invalid") return false;
      return !isOfCalendar(balance, queries[at]?.period);
    });
    const ids = outdated.map(([, { id }]) => id);
    const current = await readRows(context, table, ids);
    pending = [];
    for (const [i, { id }] of outdated) {
      const row = current.get(id);
      // What was removed meanwhile is returned as it was read.
      if (row === undefined) continue;
      accounts[i] = { refill: row.refill, balance: undefined };
      if (row.hasCredits === true) pending.push([i, row]);
    }
  }
  return accounts;
}

/** {@link readMainAccounts}, and the open grants of those rows that have credits and grants. */
export async function readAccounts<T extends "keys" | "identities">(
  context: ReadingAt,
  table: T,
  rows: readonly Rows[T][],
): Promise<ReadAccount[]> {
  const accounts = await readMainAccounts(context, table, rows);
  const ownerOf = (row: Rows[T]) => (table === "keys" && (row as KeyRow).accountId) || row.id;
  const owners = rows.filter(({ hasCredits, hasGrants }) => hasCredits === true && hasGrants === true);
  if (owners.length === 0) return accounts;
  const grants = await readOpenGrants(context, owners, ownerOf);
  return accounts.map((one, i) => ({ ...one, grants: grants.get(ownerOf(rows[i] as Rows[T])) }));
}

/** What can be spent, of the balance and of grants; null or absent: unlimited. */
function availableOf(credits: KeyCredits | undefined): number | null | undefined {
  const { remaining, granted = 0 } = credits ?? {};
  return typeof remaining === "number" ? Math.min(remaining + granted, Number.MAX_SAFE_INTEGER) : remaining;
}

/** Most attempts while an administrator keeps changing a row: then the balance is returned without the refills due. */
const MAX_READS = 4;

function isOfCalendar({ remaining, period }: CountedBalance, asked = NaN): boolean {
  return remaining !== null && calendarOf(period) === calendarOf(asked);
}

/** A row that was written, and its balance as the write left it; `undefined`: the write did not change that. */
export interface ChangedRow<R> {
  readonly row: R;
  readonly balance: WrittenBalance | undefined;
}

/** @param changed without a balance: its credits are unlimited, and were before */
export function toChangedCredits({ row, balance }: ChangedRow<Partial<CreditRow>>): KeyCredits {
  return toCredits(balance?.remaining ?? null, row.refill, balance?.reserved);
}

function toCredits(remaining: number | null, refill: Refill | undefined, reserved = 0): KeyCredits {
  const credits: Mutable<KeyCredits> = { remaining };
  if (refill !== undefined) credits.refill = refill;
  if (reserved > 0) credits.reserved = reserved;
  return credits;
}

/** Sorted; rows deleted since count as absent. */
function namesOf<Row>(ids: readonly string[], rows: ReadonlyMap<string, Row>, nameOf: (row: Row) => string): string[] {
  const names: string[] = [];
  for (const id of ids) {
    const row = rows.get(id);
    if (row !== undefined) names.push(nameOf(row));
  }
  return names.sort();
}
