/**
 * Accounts and leases inside one transaction: each account is read once, changed in memory and written once.
 * Cached accounts stay valid from one transaction to the next until another connection writes to the file.
 */
import type {
  KeyRef,
  ReservationRequest,
  Settlement,
  SettleRequest,
  Spend,
  Wallet,
  WalletSpend,
} from "../../../contracts/store.js";
import {
  type Account,
  type Applied,
  type AccountSpend,
  type Lease,
  reserve,
  spend,
  spendRemaining,
} from "../../../credits/account.js";
import { settleParts, spendFromWallets, type WalletAccounts, type WalletStep } from "../../../credits/wallet.js";
import { endedAs } from "../../endings.js";
import type { Connection } from "../connection/connection.js";
import type { Counters } from "../connection/counters.js";
import type { Accounts } from "./account-table.js";

interface CachedAccount {
  readonly n: number;
  account: Account;
  /** The account as the file has it. */
  stored: Account;
}

/** With more cached accounts than this, the next transaction starts with an empty cache. */
const MAX_CACHED_ACCOUNTS = 4_096;

export interface AccountSessionOptions {
  /** Where refills are counted that accounts lose, beyond those that are made up for at once. */
  readonly counters: Counters;
  /** Called with the version of the data in each transaction. */
  readonly onVersion: (version: number | undefined) => void;
}

/**
 * @param connection if other code may write through its handle, nothing is cached, since its version would not show it
 */
export function createAccountSession(
  { isShared, dataVersion }: Pick<Connection, "isShared" | "dataVersion">,
  accounts: Accounts,
  { counters, onVersion }: AccountSessionOptions,
) {
  let version: number | undefined;
  let cache = new Map<number, CachedAccount>();
  let dirty: CachedAccount[] = [];

  const forget = () => {
    cache = new Map();
    dirty = [];
  };
  const find = (n: number): CachedAccount | undefined => {
    const cached = cache.get(n);
    if (cached !== undefined) return cached;
    const account = accounts.read(n);
    if (account === undefined) return undefined;
    const found: CachedAccount = { n, account, stored: account };
    cache.set(n, found);
    return found;
  };
  const counted = <T>(result: T): T => {
    counters.forfeitedRefills += (result as { readonly forfeited?: number } | undefined)?.forfeited ?? 0;
    return result;
  };
  const keep = <T>(of: CachedAccount, { account, leases, result }: Applied<T>): T => {
    if (leases.length > 0) accounts.saveLeases(of.n, leases);
    if (account !== of.account && of.account === of.stored) dirty.push(of);
    of.account = account;
    return counted(result);
  };
  const walletAccounts = walletAccountsOf(accounts, (n) => find(n)?.account);
  const keepStep = <T>({ result, changes }: WalletStep<T>): T => {
    for (const { ref, account, leases } of changes) keep(find(ref as number)!, { account, leases, result: undefined });
    return counted(result);
  };
  return {
    /**
     * Call first in a transaction: drops cached accounts that other connections may have changed.
     * @returns whether another connection has committed since the last transaction
     */
    begin(): boolean {
      // Inside the transaction no other connection can write: an unchanged version means that the cache matches the
      // file.
      const now = dataVersion();
      onVersion(now);
      const isFirst = version === undefined;
      const isChanged = now !== version;
      if (isShared || isChanged || cache.size > MAX_CACHED_ACCOUNTS) forget();
      version = now;
      return isChanged && !isFirst;
    },
    /**
     * Changes an account. `undefined`: there is no such account.
     * @param change is given the lease, if it is there, and those that have expired at `now`
     * @throws KeystileError STORE_INVALID: the account in the file is damaged; nothing was changed
     */
    change<T>(
      n: number,
      { lease, now }: { readonly lease: string; readonly now: number },
      change: (account: Account, leases: ReadonlyMap<string, Lease>) => Applied<T>,
    ): T | undefined {
      const from = find(n);
      return from && keep(from, change(from.account, accounts.expiredLeases(n, now, lease)));
    },
    /** Takes credits. `undefined`: there is no such account. @param reservation takes them for one */
    spend(n: number, asked: AccountSpend, reservation?: ReservationRequest): Spend | undefined {
      const from = find(n);
      if (from === undefined) return undefined;
      const leases = () => accounts.expiredLeases(n, asked.now);
      if (reservation === undefined) return keep(from, spend(from.account, leases, asked));
      accounts.forgetEndings(asked.now);
      const known = () => accounts.reservations(n, reservation.id);
      return keep(from, reserve(from.account, { leases, known }, { ...asked, reservation }));
    },
    /** Takes credits from several accounts. */
    spendWallets(wallets: readonly Wallet[], request: WalletSpend): Spend {
      if (request.reservation !== undefined || request.once?.record.reservation !== undefined)
        accounts.forgetEndings(request.now);
      return keepStep(spendFromWallets(walletAccounts, wallets, request));
    },
    /** Settles a reservation of several accounts. */
    settleWallets(wallets: readonly (readonly KeyRef[])[], request: SettleRequest): Settlement {
      return keepStep(settleParts(walletAccounts, wallets, request));
    },
    /**
     * {@link AccountSession.spend} in one autocommit statement outside a transaction, if the account is cached, nothing
     * of it is leased, and the file still has the cached value. `undefined`: nothing was changed; spend in a
     * transaction instead.
     *
     * Why: BEGIN, the poll for changes and COMMIT took 6 µs of 171 (durability "power"; with "process" 1.6 of 18).
     */
    compareAndSpend(n: number, cost: number, period: number): Spend | undefined {
      const from = isShared ? undefined : cache.get(n);
      // A reserve may have expired, and belong to the balance.
      if (from === undefined || from.account.reserved > 0) return undefined;
      const { account, result } = spendRemaining(from.account, cost, period);
      if (account === from.account || !accounts.compareAndSpend(n, from.account, account)) return undefined;
      from.account = from.stored = account;
      return result;
    },
    /** Writes the accounts that changed. Call last in a transaction. */
    save(): void {
      for (const of of dirty) {
        accounts.save(of.n, of.stored, of.account);
        of.stored = of.account;
      }
      dirty = [];
    },
    /** Drops cached accounts. Call after a rollback, and when accounts or keys were changed by other code. */
    forget,
  };
}

export type AccountSession = ReturnType<typeof createAccountSession>;

/**
 * The accounts of the file as wallets see them; refs of this store are numbers.
 * @param read an account by its number
 */
export function walletAccountsOf(accounts: Accounts, read: (n: number) => Account | undefined): WalletAccounts {
  return {
    find: (ref) => (typeof ref === "number" ? read(ref) : undefined),
    leases: (ref, now, id) => accounts.expiredLeases(ref as number, now, id),
    reservations: (ref, id) => accounts.reservations(ref as number, id),
    endingOf: (id) => endedAs(accounts.endingOf(id)),
  };
}
