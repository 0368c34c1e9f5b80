/** Reads what a statement is made of: days of accounts, counts, grants and the audit trail. */
import type { AuditEntry, AuditQuery } from "../contracts/audit.js";
import type { OutcomeRow } from "../contracts/outcomes.js";
import type { Rows, Store } from "../contracts/store.js";
import { nextTurn } from "../lib/timers.js";
import { type Bounds, readInTurns } from "./rows.js";
import { assertStatementOf, boundsOf, type Statement, type StatementOf, toStatement } from "./statement.js";

/** Rows that are read at once. */
const MAX_ROWS = 1_000;
/** Entries of the audit trail, and keys whose entries are looked for. */
const MAX_CHANGES = 1_000;
const MAX_NAMED = 1_000;
/** Entries that the store looks at in one call: as many as take a millisecond or two. */
const SLICE = 1_000;

type Source = Pick<Store, "powers" | "readAudit" | "readCreditDays" | "readMany" | "readNames" | "readOutcomes">;

/** @throws (rejects with) KeystileError BAD_REQUEST · ANALYTICS_TOO_LARGE · STORE_… */
export async function readStatement(
  store: Source,
  workspaceId: string,
  { of, month }: { readonly of: StatementOf; readonly month: string },
  { maxRows, until, now }: Pick<Bounds, "maxRows" | "until"> & { readonly now: number },
): Promise<Statement> {
  const [from, to] = boundsOf(month);
  assertStatementOf(of);
  const { keyId, externalId } = of;
  const lists = keyId === undefined ? { externalIds: [externalId] } : { keyIds: [keyId] };
  const query = { level: "day", workspaceId, from, to, by: ["keyId"], ...lists, maxRows } as const;
  const days = await store.readCreditDays({ workspaceId, ...of, from, to });
  const counts: OutcomeRow[] = [];
  for await (const found of readInTurns(store, query, until)) counts.push(...found);
  const used = counts.flatMap((row) => row.keyId ?? []);
  const named = [keyId ?? [], ...days.map((day) => day.keyId ?? [])].flat();
  const [identity] = keyId === undefined ? await store.readNames("identities", workspaceId, [externalId]) : [];
  const ids = [...new Set([...days.map((day) => day.identityId ?? []), ...used, ...named].flat())];
  const changed = [...(identity === undefined ? [] : [identity.id]), ...ids].slice(0, MAX_NAMED);
  const changes = store.powers.audit === true ? await readChanges(store, { workspaceId, ids: changed, from, to }) : [];
  const grantIds = days.flatMap((day) => day.grantId ?? []);
  const grants = await rowsOf(store, "grants", grantIds);
  const granted = [...grants.values()].flatMap(({ accountId }) => accountId ?? []);
  const keys = await rowsOf(store, "keys", [...named, ...granted, ...changes.flatMap((entry) => entry.ids)]);
  return toStatement(month, of, { days, counts, changes, keys, grants, now });
}

/** The rows that exist, by id. */
async function rowsOf<T extends "keys" | "grants">(
  store: Source,
  table: T,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Rows[T]>> {
  const found = new Map<string, Rows[T]>();
  const all = [...new Set(ids)];
  for (let start = 0; start < all.length; start += MAX_ROWS) {
    const rows = await store.readMany(table, all.slice(start, start + MAX_ROWS));
    for (const row of rows) if (row !== undefined) found.set(row.id, row);
  }
  return found;
}

/** The latest entries, in the order in which they were made. */
async function readChanges(
  store: Source,
  query: Pick<AuditQuery, "workspaceId" | "ids" | "from" | "to">,
): Promise<AuditEntry[]> {
  const found: AuditEntry[] = [];
  for (let before: number | undefined; ;) {
    const limit = MAX_CHANGES - found.length;
    const slice = await store.readAudit({ ...query, among: SLICE, limit, ...(before !== undefined && { before }) });
    found.push(...slice.entries.map(({ number: _, ...entry }) => entry));
    before = slice.next;
    if (before === undefined || found.length >= MAX_CHANGES) return found.reverse();
    // A store in this process answers within the turn.
    await nextTurn();
  }
}
