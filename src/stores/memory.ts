/** In-memory store on plain maps. Also the reference implementation that tests compare other stores with. */
import { KeystileError } from "../contracts/errors.js";
import type {
  Change,
  KeyRecord,
  KeyRef,
  KeyRow,
  ListQuery,
  NewKey,
  RootKeyRow,
  Rows,
  Store,
  StorePowers,
  Table,
  Write,
  WriteOutcome,
} from "../contracts/store.js";
import {
  type Account,
  applyChange,
  assertSpend,
  countedBalance,
  draw,
  endLease,
  isCurrent,
  type Lease,
  type LeaseChanges,
  openAccount,
  type Outcome,
  spend,
} from "../credits/account.js";
import { deepFreeze } from "../lib/deep-freeze.js";
import { newSecret } from "../lib/hash.js";
import { isFoundWithKeys } from "../contracts/row-changes.js";
import { trust } from "../lib/guards/trusted.js";
import { findEach } from "./find-each.js";
import { toRecord } from "./key-record.js";
import { createListeners } from "./listeners.js";
import { createMemoryOnce } from "./memory-once.js";
import { listed, nameOf, uniqueOf } from "./row-names.js";
import { SortedIds } from "./sorted-ids.js";
import { bodyAt, spendOnce } from "./spend-once.js";

const POWERS: StorePowers = Object.freeze({
  leases: true,
  reserves: true,
  idempotency: true,
  usage: true,
  changes: "own",
  durability: "none",
});
const NO_LEASES: ReadonlyMap<string, Lease> = new Map();

/** Everything one store holds. */
interface State {
  readonly rows: { readonly [T in Table]: Map<string, Rows[T]> };
  /** Ids in order, by table and workspace, for lists. */
  readonly sorted: Map<string, SortedIds>;
  /** Unique text (a name in its workspace, a digest, a hash) → id of the row that holds it. */
  readonly unique: Map<string, string>;
  /** By key id. */
  readonly accounts: Map<string, Account>;
  /** Key id → lease id → lease. */
  readonly leases: Map<string, Map<string, Lease>>;
}

/**
 * Keeps keys in the memory of the process; nothing is persisted. For tests, and for programs that load their keys at
 * start.
 * @returns a new, empty store; its `KeyRef` is the key's id
 * @see src/contracts/store.ts for the contract · a find costs a few microseconds, since it builds the record each time
 */
export function memoryStore(): Store {
  const state: State = {
    rows: {
      workspaces: new Map(),
      apis: new Map(),
      identities: new Map(),
      roles: new Map(),
      permissions: new Map(),
      migrations: new Map(),
      rootKeys: new Map(),
      namespaces: new Map(),
      overrides: new Map(),
      keys: new Map(),
    },
    sorted: new Map(),
    unique: new Map(),
    accounts: new Map(),
    leases: new Map(),
  };
  const { rows, sorted, unique, accounts } = state;
  const { add: subscribe, notify } = createListeners<Change>();
  const recorded = createMemoryOnce();
  // Made when it is first asked for: Cloudflare Workers do not allow random numbers at module scope.
  let secret: string | undefined;
  const keyBy = (text: string) => rows.keys.get(unique.get(text) ?? "");

  const spendCredits = (ref: KeyRef, cost: number, period: number, now: number) =>
    onAccount(state, ref, (account, leases) => spend(account, () => leases, cost, period, now));
  const findKey: Store["findKey"] = (digest) => recordOf(state, keyBy(`digest ${digest}`));
  return closable({
    powers: POWERS,
    findKey,
    findKeys: findEach(findKey),
    findForeignKey(migrationId, foreignDigest) {
      const row = keyBy(`foreign ${foreignDigest}`);
      return row?.migrationId === migrationId ? recordOf(state, row) : undefined;
    },
    findRootKey: (digest) => rows.rootKeys.get(unique.get(`root ${digest}`) ?? ""),
    adoptDigest(ref, digest) {
      const row = rows.keys.get(String(ref));
      if (row === undefined || row.digest !== undefined || unique.has(`digest ${digest}`)) return false;
      put(state, "keys", { ...row, digest });
      notify([{ digest }]);
      return true;
    },

    spendCredits,
    spendOnce(ref, cost, period, now, record, bounds) {
      assertSpend(cost, period, now);
      const spendFrom = (taken: number) =>
        ref === undefined ? { ok: true, remaining: null } : spendCredits(ref, taken, period, now);
      return spendOnce(recorded, spendFrom, cost, now, record, bounds);
    },
    findOnce: (id, now) => bodyAt(recorded.find(id), now),
    readSecret: () => (secret ??= newSecret()),
    recordUses(uses) {
      for (const { keyId, usedAt } of uses) {
        const row = rows.keys.get(keyId);
        if (row !== undefined && usedAt > (row.lastUsedAt ?? -Infinity))
          rows.keys.set(keyId, deepFreeze({ ...row, lastUsedAt: usedAt }));
      }
    },
    drawCredits: (ref, request) => onAccount(state, ref, (account, leases) => draw(account, leases, request)),
    returnCredits: (ref, lease) => onAccount(state, ref, (account, leases) => endLease(account, leases, lease)),
    readBalances: (queries, now) =>
      queries.map(({ keyId, period }) => {
        const row = rows.keys.get(keyId);
        if (row === undefined) return undefined;
        const accountId = accountOf(row);
        return countedBalance(accounts.get(accountId), period, leasesOf(state, accountId), now);
      }),

    readMany: (table, ids) => ids.map((id) => rows[table].get(id)),
    readNames: (table, workspaceId, names) =>
      [...new Set(names)].flatMap((name) => rows[table].get(unique.get(nameOf(table, workspaceId, name)) ?? "") ?? []),
    list<T extends Table>(table: T, query: ListQuery) {
      const of = rows[table] as Map<string, Rows[T]>;
      const found: Rows[T][] = [];
      const all = sorted.get(`${table} ${query.workspaceId}`);
      const ids = all?.ids ?? [];
      for (let i = all?.after(query.after ?? "") ?? 0; i < ids.length && found.length < query.limit; i++) {
        const row = of.get(ids[i] as string) as Rows[T];
        if (listed(row, query)) found.push(row);
      }
      return found;
    },
    insertKeys(keys) {
      for (const { row } of keys) {
        if (rows.apis.get(row.apiId)?.deleted === true)
          throw new KeystileError("NOT_FOUND", "the API of a key to be stored does not exist");
      }
      const inserted = keys.map((key) => insertKey(state, key));
      const digests = keys.flatMap(({ row }, i) =>
        inserted[i] && row.digest !== undefined ? [{ digest: row.digest }] : [],
      );
      notify(digests);
      return inserted;
    },
    write(writes) {
      const refusal = refusalOf(state, writes);
      if (refusal !== undefined) return refusal;
      const changes = writes.flatMap((write) => changesOf(state, write));
      for (const write of writes) apply(state, write);
      notify(changes);
      return "written";
    },

    subscribe,
    pollChanges: () => undefined,
    close: () => undefined,
  });
}

/** Makes every call after `close()` fail (store clause 11). */
function closable({ powers, ...methods }: Store): Store {
  let closed = false;
  const guarded = Object.entries(methods).map(([name, method]: [string, (...args: never[]) => unknown]) => [
    name,
    (...args: never[]) => {
      if (closed && name !== "close")
        throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
      if (name === "close") closed = true;
      return method(...args);
    },
  ]);
  return trust({ powers, ...(Object.fromEntries(guarded) as typeof methods) });
}

function recordOf({ rows }: State, row: KeyRow | undefined): KeyRecord | undefined {
  if (row === undefined) return undefined;
  return toRecord(
    row.id,
    row,
    {
      api: rows.apis.get(row.apiId),
      workspaceEnabled: rows.workspaces.get(row.workspaceId)?.enabled ?? true,
      identity: rows.identities.get(row.identityId ?? ""),
      role: (id) => rows.roles.get(id),
      permission: (id) => rows.permissions.get(id)?.slug,
    },
    accountOf(row),
  );
}

function accountOf({ id, accountId }: KeyRow): string {
  return accountId ?? id;
}

/** Changes an account and its leases. `undefined`: the key has none. */
function onAccount<T>(
  state: State,
  ref: KeyRef,
  change: (account: Account, leases: ReadonlyMap<string, Lease>) => Outcome<T>,
): T | undefined {
  const keyId = String(ref);
  const before = state.accounts.get(keyId);
  if (before === undefined) return undefined;
  const { account, leases, result } = change(before, leasesOf(state, keyId));
  state.accounts.set(keyId, account);
  setLeases(state, keyId, leases);
  return result;
}

function leasesOf({ leases }: State, keyId: string): ReadonlyMap<string, Lease> {
  return leases.get(keyId) ?? NO_LEASES;
}

function setLeases(state: State, keyId: string, changes: LeaseChanges): void {
  if (changes.length === 0) return;
  const leases = new Map(leasesOf(state, keyId));
  for (const [id, lease] of changes) {
    if (lease === undefined) leases.delete(id);
    else leases.set(id, lease);
  }
  state.leases.set(keyId, leases);
}

function insertKey(state: State, { row, balance }: NewKey): boolean {
  if (state.rows.keys.has(row.id) || uniqueOf("keys", row).some((text) => state.unique.has(text))) return false;
  put(state, "keys", row);
  const { generation } = row;
  if (balance !== undefined)
    state.accounts.set(accountOf(row), openAccount(balance.remaining, { ...balance, generation }));
  return true;
}

/** Why the writes cannot be made (store clause 13). `undefined`: they can. */
function refusalOf(
  { rows, unique, accounts }: State,
  writes: readonly Write[],
): Exclude<WriteOutcome, "written"> | undefined {
  const claimed = new Set<string>();
  for (const write of writes) {
    if ("remove" in write) {
      if (rows[write.table].get(write.remove)?.version !== write.version) return "conflict";
      continue;
    }
    const { table, row } = write;
    const stored = rows[table].get(row.id)?.version ?? 0;
    if (stored !== row.version) return row.version === 0 ? "taken" : "conflict";
    const texts = uniqueOf(table, row);
    if (texts.some((text) => claimed.has(text) || (unique.get(text) ?? row.id) !== row.id)) return "taken";
    for (const text of texts) claimed.add(text);
    if (write.credits !== undefined && !isCurrent(accounts.get(accountOf(row as KeyRow)), write.credits))
      return "conflict";
  }
  return undefined;
}

function apply(state: State, write: Write): void {
  if ("remove" in write) return remove(state, write.table, write.remove);
  put(state, write.table, write.row);
  if (write.credits === undefined) return;
  const id = accountOf(write.row);
  const { accounts } = state;
  const { account, leases } = applyChange(accounts.get(id), leasesOf(state, id), write.credits);
  accounts.set(id, account);
  setLeases(state, id, leases);
}

function put<T extends Table>(state: State, table: T, row: Rows[T]): void {
  const used = (state.rows[table].get(row.id) as Partial<KeyRow> | undefined)?.lastUsedAt;
  remove(state, table, row.id, true);
  const next: { version: number; lastUsedAt?: number } = { ...structuredClone(row), version: row.version + 1 };
  // Set by `recordUses` alone (store clause 24).
  delete next.lastUsedAt;
  if (used !== undefined) next.lastUsedAt = used;
  const stored = deepFreeze(next as Rows[T]);
  (state.rows[table] as Map<string, Rows[T]>).set(row.id, stored);
  sortedOf(state, table, stored).add(row.id);
  for (const text of uniqueOf(table, stored)) state.unique.set(text, row.id);
}

function sortedOf({ sorted }: State, table: Table, row: Rows[Table]): SortedIds {
  const name = `${table} ${"workspaceId" in row ? row.workspaceId : row.id}`;
  let ids = sorted.get(name);
  if (ids === undefined) sorted.set(name, (ids = new SortedIds()));
  return ids;
}

function remove(state: State, table: Table, id: string, replaced = false): void {
  const old = state.rows[table].get(id);
  if (old === undefined) return;
  for (const text of uniqueOf(table, old)) state.unique.delete(text);
  state.rows[table].delete(id);
  sortedOf(state, table, old).delete(id);
  if (table === "keys" && !replaced) {
    const accountId = accountOf(old as KeyRow);
    for (const other of state.rows.keys.values()) if (accountOf(other) === accountId) return;
    state.accounts.delete(accountId);
    state.leases.delete(accountId);
  }
}

/** The changes of a write that a find could see (store clause 15). A new role or API changes no existing key. */
function changesOf({ rows }: State, write: Write): Change[] {
  const id = "remove" in write ? write.remove : write.row.id;
  const old = rows[write.table].get(id);
  if (write.table === "keys" || write.table === "rootKeys") {
    const digests = [(old as KeyRow | RootKeyRow | undefined)?.digest, "row" in write ? write.row.digest : undefined];
    return digests.flatMap((digest) => (digest === undefined ? [] : [{ digest }]));
  }
  const { table } = write;
  if (!isFoundWithKeys(table)) return [];
  return old === undefined && table !== "workspaces" ? [] : [{ table, id }];
}
