/** Credit operations of the store: spend, draw and return through group commit; read balances and records directly. */
import type {
  AccountTable,
  BalanceQuery,
  KeyRef,
  OnceSpend,
  Store,
  Wallet,
  WalletSpend,
} from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import {
  assertDraw,
  assertReservation,
  assertReturn,
  assertSettle,
  assertSpend,
  countedBalance,
  draw,
  endLease,
  settle,
  spend,
} from "../../../credits/account.js";
import { assertRefs, assertWalletSpend, spendFromWallets } from "../../../credits/wallet.js";
import { endedAs } from "../../endings.js";
import type { CreditMethods } from "../../powers.js";
import { assertRecord, bodyAt, spendOnce } from "../../spend-once.js";
import { walletAccountsOf, type AccountSession } from "./account-session.js";
import type { Accounts } from "./account-table.js";
import type { SqliteOnceTable } from "./once-table.js";
import type { Counters } from "../connection/counters.js";
import type { GroupCommit } from "../connection/group-commit.js";

/** An instant at which no lease has expired. */
const NOBODY_EXPIRED = Number.MIN_SAFE_INTEGER;

/** What a store does around spends. */
export interface SpendingOptions {
  readonly group: GroupCommit;
  /** What the group works on. */
  readonly session: AccountSession;
  /** Where returns that fail are counted. */
  readonly counters: Counters;
  /** Wraps a read: it waits for locks. */
  readonly reading: <A extends unknown[], T>(read: (...given: A) => T) => (...given: A) => MaybePromise<Awaited<T>>;
  /** Throws once the store is closed. Reads and commits do so by themselves. */
  readonly assertOpen: () => void;
}

export function createSpending(
  { accounts, recorded }: { readonly accounts: Accounts; readonly recorded: SqliteOnceTable },
  { group, session, counters, reading, assertOpen }: SpendingOptions,
): CreditMethods & Pick<Store, "readSecret"> {
  /** Refs of this store are numbers; any other ref belongs to no key here. @throws if the store is closed */
  const isOwn = (ref: KeyRef): ref is number => {
    if (typeof ref === "number") return true;
    assertOpen();
    return false;
  };
  const stored = walletAccountsOf(accounts, accounts.read);
  const peek = reading((ref: number, period: number, now: number) => {
    const account = accounts.read(ref);
    return account && spend(account, () => accounts.expiredLeases(ref, now), { cost: 0, period, now }).result;
  });
  // Each account as of its own moment: another process may spend in between.
  const peekWallets = reading((wallets: readonly Wallet[], request: WalletSpend): OnceSpend => ({
    outcome: "done",
    spend: spendFromWallets(stored, wallets, request).result,
  }));
  return {
    spendCredits(ref, cost, period, now) {
      assertSpend(cost, period, now);
      if (!isOwn(ref)) return;
      return cost > 0
        ? group.add(
            () => session.spend(ref, { cost, period, now }),
            () => session.compareAndSpend(ref, cost, period),
          )
        : peek(ref, period, now);
    },
    spendOnce(ref, period, request) {
      const { cost, now, once } = request;
      assertSpend(cost, period, now);
      assertRecord(once.record);
      const { reservation } = once.record;
      if (reservation !== undefined) assertReservation(reservation);
      if (ref !== undefined && !isOwn(ref)) return { outcome: "done" };
      return group.add(() => {
        const spendFrom = (taken: number) =>
          ref === undefined
            ? { ok: true, remaining: null }
            : session.spend(ref, { cost: taken, period, now }, reservation);
        return spendOnce(recorded, spendFrom, request);
      });
    },
    findOnce: reading((id, now) => bodyAt(recorded.find(id), now)),
    readSecret: reading(recorded.readSecret),
    drawCredits(ref, request) {
      assertDraw(request);
      if (!isOwn(ref)) return;
      const of = { lease: request.holder, now: request.now };
      return group.add(() => session.change(ref, of, (account, leases) => draw(account, leases, request)));
    },
    returnCredits(ref, lease) {
      assertReturn(lease);
      if (!isOwn(ref)) return;
      const of = { lease: lease.holder, now: NOBODY_EXPIRED };
      const returning = group.add(() => session.change(ref, of, (account, leases) => endLease(account, leases, lease)));
      return returning.catch((cause: unknown) => {
        counters.failedReturns++;
        throw cause;
      });
    },
    reserveCredits(ref, period, { cost, now, reservation }) {
      assertSpend(cost, period, now);
      assertReservation(reservation);
      if (!isOwn(ref)) return;
      return group.add(() => session.spend(ref, { cost, period, now }, reservation));
    },
    settleCredits(ref, request) {
      assertSettle(request);
      if (!isOwn(ref)) return endedAs(undefined);
      return group.add(() => {
        const of = { lease: request.id, now: request.now };
        const settled = session.change(ref, of, (account, leases) => settle(account, leases, request));
        return settled ?? endedAs(accounts.endingOf(request.id));
      });
    },
    spendWallets(wallets, request) {
      assertWalletSpend(wallets, request);
      const { cost, once } = request;
      if (cost === 0 && once === undefined) return peekWallets(wallets, request);
      if (once !== undefined) assertRecord(once.record);
      return group.add((): OnceSpend => {
        if (once === undefined) return { outcome: "done", spend: session.spendWallets(wallets, request) };
        const spendFrom = (taken: number) => session.spendWallets(wallets, { ...request, cost: taken });
        return spendOnce(recorded, spendFrom, { ...request, once });
      });
    },
    settleWallets(wallets, request) {
      assertSettle(request);
      assertRefs(wallets);
      return group.add(() => session.settleWallets(wallets, request));
    },
    readBalances: reading((queries: readonly BalanceQuery[], now: number) => {
      for (const { period } of queries) assertSpend(0, period, now);
      const read = (table: AccountTable, idOf: (query: BalanceQuery) => string | undefined) =>
        accounts.readMany(
          table,
          queries.flatMap((query) => idOf(query) ?? []),
        );
      const keys = read("keys", ({ keyId }) => keyId);
      const identities = read("identities", ({ identityId }) => identityId);
      const grants = read("grants", ({ grantId }) => grantId);
      return queries.map((query) => {
        const { keyId, identityId, grantId, period } = query;
        if (grantId !== undefined) {
          const one = grants.get(grantId);
          return one && countedBalance(one.account, one.leases, { period, now, expires: query.expires });
        }
        const one = keyId === undefined ? identities.get(identityId) : keys.get(keyId);
        return one && countedBalance(one.account, one.leases, { period, now });
      });
    }),
  };
}
