/** In-memory store on plain maps. Also the reference implementation that tests compare other stores with. */
import { KeystileError } from "../contracts/errors.js";
import type * as Port from "../contracts/store.js";
import {
  type Account,
  type Applied,
  applyChange,
  assertReservation,
  assertSettle,
  assertSpend,
  countedBalance,
  draw,
  endLease,
  isCurrent,
  type Lease,
  type LeaseChanges,
  openAccount,
  RESERVATION,
  reserve,
  settle,
  spend,
  writtenBalance,
} from "../credits/account.js";
import {
  assertRefs,
  assertWalletSpend,
  settleParts,
  spendFromWallets,
  type WalletAccounts,
  type WalletStep,
} from "../credits/wallet.js";
import { drawsOnIdentity } from "../lib/credits-source.js";
import { deepFreeze } from "../lib/deep-freeze.js";
import { newSecret } from "../lib/hash.js";
import {
  type CreditWrite,
  isCreditWrite,
  isFoundWithKeys,
  timeOfWrites,
  withCredits,
} from "../contracts/row-changes.js";
import { trust } from "../lib/guards/trusted.js";
import { endedAs } from "./endings.js";
import { findEach } from "./find-each.js";
import { type Granted, identityWallet, toRecord } from "./key-record.js";
import { createListeners } from "./listeners.js";
import { createMemoryOnce } from "./memory-once.js";
import { countKeys, searchKeys } from "./memory-search.js";
import { createMemoryAlerts } from "./memory-alerts.js";
import { createMemoryAudit } from "./memory-audit.js";
import { createMemoryCreditDays } from "./memory-credit-days.js";
import { createMemoryOutcomes } from "./memory-outcomes.js";
import { emptyState, setGrant, type State } from "./memory-state.js";
import { POWERS } from "./powers.js";
import { listed, nameOf, uniqueOf } from "./row-names.js";
import { SortedIds } from "./sorted-ids.js";
import { assertRecord, bodyAt, knownAs, makeSpaceFor, spendOnce } from "./spend-once.js";

const NO_LEASES: ReadonlyMap<string, Lease> = new Map();

/**
 * Keeps keys in the memory of the process; nothing is persisted. For tests, and for programs that load their keys at
 * start.
 * @returns a new, empty store; its `KeyRef` is the key's id, or a number for the account of an identity
 * @see src/contracts/store.ts for the contract · a find costs a few microseconds, since it builds the record each time
 */
export function memoryStore(): Port.Store {
  const state = emptyState();
  const { rows, unique } = state;
  const { add: subscribe, notify } = createListeners<Port.Change>();
  const recorded = createMemoryOnce();
  const creditDays = createMemoryCreditDays(state);
  const { hasCounted, forgetKey, ...outcomes } = createMemoryOutcomes(creditDays);
  const { record, ...audit } = createMemoryAudit();
  // Made when it is first asked for: Cloudflare Workers do not allow random numbers at module scope.
  let secret: string | undefined;
  const keyBy = (text: string) => rows.keys.get(unique.get(text) ?? "");

  const spendCredits = (ref: Port.KeyRef, cost: number, period: number, now: number) =>
    onAccount(state, ref, (account) => spend(account, () => expiredOf(state, ref, now), { cost, period, now }));
  const reserveCredits: Port.Store["reserveCredits"] = (ref, period, { cost, now, reservation }) => {
    assertReservation(reservation);
    state.endings.forget(now);
    return onAccount(state, ref, (account) => {
      const leases = () => expiredOf(state, ref, now);
      const known = () => walletAccounts.reservations(ref, reservation.id);
      return reserve(account, { leases, known }, { cost, period, now, reservation });
    });
  };
  const walletAccounts = walletAccountsOf(state);
  const spendTogether = (wallets: readonly Port.Wallet[], request: Port.WalletSpend) =>
    keepStep(state, spendFromWallets(walletAccounts, wallets, request));
  const findKey: Port.Store["findKey"] = (digest) => recordOf(state, keyBy(`digest ${digest}`));
  return closable({
    powers: Object.freeze({ ...POWERS, audit: true, changes: "own", durability: "none" }),
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
    spendOnce(ref, period, request) {
      const { cost, now, once } = request;
      assertSpend(cost, period, now);
      const { reservation } = once.record;
      const spendFrom = (taken: number) => {
        if (ref === undefined) return { ok: true, remaining: null };
        if (reservation === undefined) return spendCredits(ref, taken, period, now);
        return reserveCredits(ref, period, { cost: taken, now, reservation }) as Port.Spend | undefined;
      };
      return spendOnce(recorded, spendFrom, request);
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
    ...outcomes,
    ...audit,
    ...createMemoryAlerts(),
    drawCredits: (ref, request) => onAccount(state, ref, (account, leases) => draw(account, leases, request)),
    returnCredits: (ref, lease) => onAccount(state, ref, (account, leases) => endLease(account, leases, lease)),
    reserveCredits,
    settleCredits(ref, request) {
      assertSettle(request);
      const settled = onAccount(state, ref, (account, leases) => settle(account, leases, request));
      return settled ?? walletAccounts.endingOf(request.id);
    },
    findWallet(id) {
      const row = rows.identities.get(id);
      return row && identityWallet(row, state.identityRefs.get(id) as number, (owner) => grantsTo(state, owner));
    },
    spendWallets(wallets, request) {
      assertWalletSpend(wallets, request);
      const { now, reservation, once } = request;
      if ((once?.record.reservation ?? reservation) !== undefined) state.endings.forget(now);
      if (once === undefined) return { outcome: "done", spend: spendTogether(wallets, request) };
      const spendFrom = (taken: number) => spendTogether(wallets, { ...request, cost: taken });
      return spendOnce(recorded, spendFrom, { ...request, once });
    },
    settleWallets(wallets, request) {
      assertSettle(request);
      assertRefs(wallets);
      return keepStep(state, settleParts(walletAccounts, wallets, request));
    },
    readBalances: (queries, now) => queries.map((query) => balanceOf(state, query, now)),

    readMany: (table, ids) => ids.map((id) => rows[table].get(id)),
    readNames: (table, workspaceId, names) =>
      [...new Set(names)].flatMap((name) => rows[table].get(unique.get(nameOf(table, workspaceId, name)) ?? "") ?? []),
    list: (table, query) => listOf(state, table, query),
    searchKeys: (search) => searchKeys(keyIdsOf(state, search), rows.keys, search),
    countKeys: (count) => countKeys(keyIdsOf(state, count), rows, count),
    findKeyIds: (wanted) =>
      wanted.map(
        ({ digest, foreignDigest }) => unique.get(`digest ${digest}`) ?? unique.get(`foreign ${foreignDigest}`),
      ),
    insertKeys(keys, entry) {
      for (const { row } of keys) {
        if (rows.apis.get(row.apiId)?.deleted === true)
          throw new KeystileError("NOT_FOUND", "the API of a key to be stored does not exist");
      }
      const inserted = keys.map((key) => insertKey(state, key));
      const digests = keys.flatMap(({ row }, i) =>
        inserted[i] && row.digest !== undefined ? [{ digest: row.digest }] : [],
      );
      const count = inserted.filter(Boolean).length;
      if (entry !== undefined && count > 0) record({ ...entry, count });
      notify(digests);
      return inserted;
    },
    write(writes, entries = [], once) {
      if (once !== undefined) assertRecord(once.record);
      const refusal = (once && knownAs(recorded, once)) ?? refusalOf(state, writes);
      if (refusal !== undefined) return refusal;
      if (once !== undefined && !makeSpaceFor(recorded, once)) return "full";
      const changes = writes.flatMap((write) => changesOf(state, write));
      const at = timeOfWrites(writes, entries, once) ?? Date.now();
      const before = hasCounted() ? writes.flatMap((write) => accountsOfWrite(state, write)) : [];
      creditDays.keep(before, at);
      const balances = writes.flatMap((write) => apply(state, write) ?? []);
      for (const write of writes) if (write.table === "keys" && "remove" in write) forgetKey(write.remove);
      if (hasCounted()) creditDays.keep([...before, ...writes.flatMap((write) => accountsOfWrite(state, write))], at);
      if (once !== undefined) recorded.add(once.record);
      entries.forEach((entry, i) => record(i === 0 ? withCredits(entry, writes, balances) : entry));
      notify(changes);
      return balances.length > 0 ? balances : "written";
    },

    subscribe,
    pollChanges: () => undefined,
    close: () => undefined,
  });
}

/** Makes every call after `close()` fail (store clause 11). */
function closable({ powers, ...methods }: Port.Store): Port.Store {
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

const NO_IDS = new SortedIds();

function keyIdsOf({ sorted }: State, { workspaceId }: { readonly workspaceId: string }): SortedIds {
  return sorted.get(`keys ${workspaceId}`) ?? NO_IDS;
}

function walletAccountsOf(state: State): WalletAccounts {
  return {
    find: (ref) => state.accounts.get(ref),
    leases: (ref, now, id) => (id === undefined ? expiredOf(state, ref, now) : leasesOf(state, ref)),
    reservations(ref, id) {
      const leases = leasesOf(state, ref);
      return { count: countReservations(leases), hasId: leases.has(id) };
    },
    endingOf: (id) => endedAs(state.endings.find(id)),
  };
}

function listOf<T extends Port.Table>({ rows, sorted }: State, table: T, query: Port.ListQuery): Port.Rows[T][] {
  const of = rows[table] as Map<string, Port.Rows[T]>;
  const found: Port.Rows[T][] = [];
  const all = sorted.get(`${table} ${query.workspaceId}`) ?? NO_IDS;
  const { ids } = all;
  for (let i = all.after(query.after ?? ""); i < ids.length && found.length < query.limit; i++) {
    const row = of.get(ids[i] as string) as Port.Rows[T];
    if (listed(row, query)) found.push(row);
  }
  return found;
}

function balanceOf(state: State, query: Port.BalanceQuery, now: number): Port.CountedBalance | undefined {
  const { period } = query;
  const ref = refOfQuery(state, query);
  const expires = query.grantId === undefined ? undefined : query.expires;
  if (ref === undefined) return undefined;
  return countedBalance(state.accounts.get(ref), leasesOf(state, ref), { period, now, expires });
}

function recordOf(state: State, row: Port.KeyRow | undefined): Port.KeyRecord | undefined {
  if (row === undefined) return undefined;
  const { rows, identityRefs } = state;
  return toRecord(row.id, row, {
    api: rows.apis.get(row.apiId),
    workspaceEnabled: rows.workspaces.get(row.workspaceId)?.enabled ?? true,
    identity: rows.identities.get(row.identityId ?? ""),
    identityRef: identityRefs.get(row.identityId ?? ""),
    role: (id) => rows.roles.get(id),
    permission: (id) => rows.permissions.get(id)?.slug,
    creditGrants: (ownerId) => grantsTo(state, ownerId),
    accountRef: accountOf(row),
  });
}

/** The open grants of an owner; the ref of a grant's account is its id. */
function grantsTo({ openGrants, rows }: State, ownerId: string): Granted[] {
  return [...(openGrants.get(ownerId) ?? [])].map((ref) => ({ ref, row: rows.grants.get(ref) as Port.GrantRow }));
}

function accountOf({ id, accountId }: Port.KeyRow): string {
  return accountId ?? id;
}

/** The ref of the account that belongs to a row. */
function refOf({ identityRefs }: State, { table, row }: CreditWrite): Port.KeyRef {
  if (table === "keys") return accountOf(row);
  return table === "grants" ? row.id : (identityRefs.get(row.id) as number);
}

function refOfQuery(
  { rows, identityRefs }: State,
  { keyId, identityId, grantId }: Port.BalanceQuery,
): Port.KeyRef | undefined {
  if (grantId !== undefined) return rows.grants.has(grantId) ? grantId : undefined;
  if (identityId !== undefined) return identityRefs.get(identityId);
  const row = rows.keys.get(keyId);
  return row && accountOf(row);
}

/** The account of a key, an identity or a grant that a write is about. */
function accountsOfWrite({ rows, identityRefs }: State, write: Port.Write): Port.KeyRef[] {
  const id = "remove" in write ? write.remove : write.row.id;
  if (write.table === "grants") return [id];
  const key = write.table === "keys" ? rows.keys.get(id) : undefined;
  const ref = key === undefined ? write.table === "identities" && identityRefs.get(id) : accountOf(key);
  return ref === undefined || ref === false ? [] : [ref];
}

/** Changes an account and its leases. `undefined`: there is none. */
function onAccount<T>(
  state: State,
  ref: Port.KeyRef,
  change: (account: Account, leases: ReadonlyMap<string, Lease>) => Applied<T>,
): T | undefined {
  const before = state.accounts.get(ref);
  if (before === undefined) return undefined;
  const { account, leases, result } = change(before, leasesOf(state, ref));
  state.accounts.set(ref, account);
  setLeases(state, ref, leases);
  return result;
}

/** Stores what a step over several accounts has changed. */
function keepStep<T>(state: State, { result, changes }: WalletStep<T>): T {
  for (const { ref, account, leases } of changes) {
    state.accounts.set(ref, account);
    setLeases(state, ref, leases);
  }
  return result;
}

function leasesOf({ leases }: State, ref: Port.KeyRef): ReadonlyMap<string, Lease> {
  return leases.get(ref)?.byId ?? NO_LEASES;
}

/** The leases of an account, if one has expired by now: a spend beside a thousand looks at none. */
function expiredOf(state: State, ref: Port.KeyRef, now: number): ReadonlyMap<string, Lease> {
  const of = state.leases.get(ref);
  return of === undefined || of.firstExpiry > now ? NO_LEASES : of.byId;
}

function countReservations(leases: ReadonlyMap<string, Lease>): number {
  let count = 0;
  for (const id of leases.keys()) if (id.startsWith(RESERVATION)) count++;
  return count;
}

function setLeases(state: State, ref: Port.KeyRef, changes: LeaseChanges): void {
  if (changes.length === 0) return;
  const of = state.leases.get(ref) ?? { byId: new Map<string, Lease>(), firstExpiry: Infinity };
  state.leases.set(ref, of);
  for (const [id, lease, ending] of changes) {
    if (ending !== undefined) state.endings.add(id, ending);
    if (lease === undefined) of.byId.delete(id);
    else of.byId.set(id, lease);
  }
  of.firstExpiry = Infinity;
  for (const { expires } of of.byId.values()) if (expires < of.firstExpiry) of.firstExpiry = expires;
}

function insertKey(state: State, { row, balance }: Port.NewKey): boolean {
  if (state.rows.keys.has(row.id) || uniqueOf("keys", row).some((text) => state.unique.has(text))) return false;
  put(state, "keys", row);
  const { generation } = row;
  if (balance !== undefined)
    state.accounts.set(accountOf(row), openAccount(balance.remaining, { ...balance, generation }));
  return true;
}

/** Why the writes cannot be made (store clause 13). `undefined`: they can. */
function refusalOf(state: State, writes: readonly Port.Write[]): "conflict" | "taken" | undefined {
  const { rows, unique, accounts } = state;
  const claimed = new Set<string>();
  for (const write of writes) {
    if ("remove" in write) {
      if (rows[write.table].get(write.remove)?.version !== write.version) return "conflict";
      if (write.table === "identities" && isDrawnOn(state, write.remove)) return "conflict";
      continue;
    }
    const { table, row } = write;
    const stored = rows[table].get(row.id)?.version ?? 0;
    if (stored !== row.version) return row.version === 0 ? "taken" : "conflict";
    const texts = uniqueOf(table, row);
    if (texts.some((text) => claimed.has(text) || (unique.get(text) ?? row.id) !== row.id)) return "taken";
    for (const text of texts) claimed.add(text);
    if (isCreditWrite(write) && !isCurrent(accounts.get(refOf(state, write)), write.credits)) return "conflict";
  }
  return undefined;
}

/** Whether an enabled key draws on the credits of an identity (store clause 26). */
function isDrawnOn({ rows }: State, id: string): boolean {
  const identity = rows.identities.get(id);
  for (const key of identity?.hasCredits === true ? rows.keys.values() : []) {
    const isFound = key.identityId === id && key.enabled && !key.deleted && rows.apis.get(key.apiId)?.deleted === false;
    if (isFound && drawsOnIdentity(key, identity)) return true;
  }
  return false;
}

/** @returns the balance that it left, if it changes one */
function apply(state: State, write: Port.Write): Port.WrittenBalance | undefined {
  if ("remove" in write) {
    remove(state, write.table, write.remove);
    return undefined;
  }
  put(state, write.table, write.row);
  if (!isCreditWrite(write)) return undefined;
  const ref = refOf(state, write);
  const changed = applyChange(state.accounts.get(ref), leasesOf(state, ref), write.credits);
  state.accounts.set(ref, changed.account);
  setLeases(state, ref, changed.leases);
  return writtenBalance(changed);
}

function put<T extends Port.Table>(state: State, table: T, row: Port.Rows[T]): void {
  const used = (state.rows[table].get(row.id) as Partial<Port.KeyRow> | undefined)?.lastUsedAt;
  remove(state, table, row.id, true);
  const next: { version: number; lastUsedAt?: number } = { ...structuredClone(row), version: row.version + 1 };
  // Set by `recordUses` alone (store clause 24).
  delete next.lastUsedAt;
  if (used !== undefined) next.lastUsedAt = used;
  const stored = deepFreeze(next as Port.Rows[T]);
  (state.rows[table] as Map<string, Port.Rows[T]>).set(row.id, stored);
  sortedOf(state, table, stored).add(row.id);
  if (table === "identities" && !state.identityRefs.has(row.id)) {
    state.identityRefs.set(row.id, ++state.lastRef);
    state.identityIds.set(state.lastRef, row.id);
  }
  if (table === "grants") {
    const grant = stored as Port.GrantRow;
    setGrant(state.openGrants, grant, grant.endedAt === undefined);
    setGrant(state.endedGrants, grant, grant.endedAt !== undefined);
  }
  for (const text of uniqueOf(table, stored)) state.unique.set(text, row.id);
}

function sortedOf({ sorted }: State, table: Port.Table, row: Port.Rows[Port.Table]): SortedIds {
  const name = `${table} ${"workspaceId" in row ? row.workspaceId : row.id}`;
  let ids = sorted.get(name);
  if (ids === undefined) sorted.set(name, (ids = new SortedIds()));
  return ids;
}

function remove(state: State, table: Port.Table, id: string, replaced = false): void {
  const old = state.rows[table].get(id);
  if (old === undefined) return;
  for (const text of uniqueOf(table, old)) state.unique.delete(text);
  state.rows[table].delete(id);
  sortedOf(state, table, old).delete(id);
  if (replaced) return;
  let ref: Port.KeyRef | undefined;
  if (table === "grants") {
    for (const grants of [state.openGrants, state.endedGrants]) setGrant(grants, old as Port.GrantRow, false);
    ref = id;
  }
  if (table === "keys") {
    ref = accountOf(old as Port.KeyRow);
    for (const other of state.rows.keys.values()) if (accountOf(other) === ref) return;
  } else if (table === "identities") {
    const number = state.identityRefs.get(id) as number;
    state.identityRefs.delete(id);
    state.identityIds.delete(number);
    ref = number;
  }
  if (ref === undefined) return;
  state.accounts.delete(ref);
  state.leases.delete(ref);
}

/** The changes of a write that a find could see (store clause 15). A new role or API changes no existing key. */
function changesOf({ rows }: State, write: Port.Write): Port.Change[] {
  const id = "remove" in write ? write.remove : write.row.id;
  const old = rows[write.table].get(id);
  if (write.table === "keys" || write.table === "rootKeys") {
    const digests = [
      (old as Port.KeyRow | Port.RootKeyRow | undefined)?.digest,
      "row" in write ? write.row.digest : undefined,
    ];
    return digests.flatMap((digest) => (digest === undefined ? [] : [{ digest }]));
  }
  const { table } = write;
  if (!isFoundWithKeys(table)) return [];
  return old === undefined && table !== "workspaces" ? [] : [{ table, id }];
}
