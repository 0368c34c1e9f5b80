/**
 * Balances and reserves inside one transaction: each is read once, changed in memory and written once.
 * Cached balances stay valid from one transaction to the next until another connection writes to the file.
 */
import type { Spend } from "../../../contracts/store.js";
import { type Balance, type Reserve, spend, spendWithReserves } from "../../../credits/balance.js";
import { type Handle, select } from "../connection/handle.js";
import type { Balances } from "./balance-table.js";

/** A key's balance with the changes of the transaction. */
export interface CachedBalance {
  readonly n: number;
  balance: Balance;
  /** Whether the balance differs from the file. */
  isDirty: boolean;
  /** The reserves of all holders, once loaded. */
  reserves?: Map<string, Reserve>;
}

export interface BalanceSession {
  /** Call first in a transaction: drops cached balances that other connections may have changed. */
  begin(): void;
  /** @throws KeystileError STORE_INVALID: the balance in the file is invalid */
  find(n: number): CachedBalance | undefined;
  /** Takes credits. `undefined`: there is no such balance. */
  spend(n: number, cost: number, period: number, now: number): Spend | undefined;
  /**
   * The same in one autocommit statement outside a transaction, if the balance is cached and the file still has the
   * cached value. `undefined`: nothing was changed; spend in a transaction instead.
   *
   * Why: BEGIN, the poll for changes and COMMIT took 6 µs of 171 (durability "power"; with "process" 1.6 of 18).
   */
  compareAndSpend(n: number, cost: number, period: number): Spend | undefined;
  setBalance(cached: CachedBalance, balance: Balance): void;
  reserves(cached: CachedBalance): ReadonlyMap<string, Reserve>;
  /** Stores a holder's reserve, or removes it if nothing is reserved. */
  setReserve(cached: CachedBalance, holder: string, reserve: Reserve | undefined): void;
  /** Writes the balances that changed. Call last in a transaction. */
  save(): void;
  /** Drops cached balances. Call when balances or keys were changed by other code. */
  forgetBalances(): void;
  /** Drops everything. Call after a rollback. */
  forget(): void;
}

/** With more cached balances than this, the next transaction starts with an empty cache. */
const MAX_CACHED_BALANCES = 4_096;

/**
 * @param isShared other code may write through the same handle: then nothing is cached, since `data_version` would not
 * show it
 * @param onVersion called with the `data_version` of each transaction
 */
export function createBalanceSession(
  handle: Handle,
  balances: Balances,
  isShared: boolean,
  onVersion: (version: number | undefined) => void,
): BalanceSession {
  const putLease = handle.prepare(
    "INSERT OR REPLACE INTO keystile_leases (n, holder, reserved, generation, expires) VALUES (?, ?, ?, ?, ?)",
  );
  const dropLease = handle.prepare("DELETE FROM keystile_leases WHERE n = ? AND holder = ?");
  const dataVersion = select<{ data_version: number }>(handle, "PRAGMA data_version");
  let version: number | undefined;
  let cache = new Map<number, CachedBalance>();
  let dirty: CachedBalance[] = [];

  const forgetBalances = () => {
    cache = new Map();
    dirty = [];
  };
  const find = (n: number): CachedBalance | undefined => {
    const cached = cache.get(n);
    if (cached !== undefined) return cached;
    const balance = balances.read(n);
    if (balance === undefined) return undefined;
    const found: CachedBalance = { n, balance, isDirty: false };
    cache.set(n, found);
    return found;
  };
  const setBalance = (of: CachedBalance, balance: Balance) => {
    if (balance === of.balance) return;
    of.balance = balance;
    if (of.isDirty) return;
    of.isDirty = true;
    dirty.push(of);
  };
  const reserves = (of: CachedBalance): ReadonlyMap<string, Reserve> => (of.reserves ??= balances.reserves(of.n));
  const setReserve = (of: CachedBalance, holder: string, reserve: Reserve | undefined) => {
    if (reserve === undefined || reserve.reserved === 0) {
      if (of.reserves?.delete(holder) === true) dropLease.run(of.n, holder);
      return;
    }
    of.reserves?.set(holder, reserve);
    putLease.run(of.n, holder, reserve.reserved, reserve.generation, reserve.expires);
  };
  return {
    begin() {
      // Inside the transaction no other connection can write: an unchanged version means that the cache matches the
      // file.
      const now = dataVersion.get()?.data_version;
      onVersion(now);
      const mayBeStale = isShared || now !== version;
      balances.begin(mayBeStale);
      if (mayBeStale || cache.size > MAX_CACHED_BALANCES) forgetBalances();
      version = now;
    },
    find,
    spend(n, cost, period, now) {
      const from = find(n);
      if (from === undefined) return undefined;
      const { balance, result, expired } = spendWithReserves(from.balance, () => reserves(from), cost, period, now);
      for (const holder of expired) setReserve(from, holder, undefined);
      setBalance(from, balance);
      return result;
    },
    compareAndSpend(n, cost, period) {
      const from = isShared ? undefined : cache.get(n);
      // When a refill is due it adds `amount`, which the statement does not compare.
      if (from === undefined || period > from.balance.period) return undefined;
      const { balance, result } = spend(from.balance, cost, period);
      if (balance === from.balance || !balances.compareAndSet(from, balance.remaining)) return undefined;
      from.balance = balance;
      return result;
    },
    setBalance,
    reserves,
    setReserve,
    save() {
      if (dirty.length === 0) return;
      balances.save(dirty);
      for (const cached of dirty) cached.isDirty = false;
      dirty = [];
    },
    forgetBalances,
    forget() {
      balances.forget();
      forgetBalances();
    },
  };
}
