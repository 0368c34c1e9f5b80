/** Credit operations of the store: spend, draw and return through group commit; read balances and records directly. */
import type { KeyRef, Store } from "../../../contracts/store.js";
import {
  assertDraw,
  assertReturn,
  assertSpend,
  countedBalance,
  draw,
  endLease,
  spend,
} from "../../../credits/account.js";
import { assertRecord, bodyAt, spendOnce } from "../../spend-once.js";
import type { Accounts } from "./account-table.js";
import type { GroupCommit } from "./group-commit.js";
import type { SqliteOnceTable } from "./once-table.js";

export type Spending = Pick<
  Store,
  "spendCredits" | "spendOnce" | "findOnce" | "readSecret" | "drawCredits" | "returnCredits" | "readBalances"
>;

export function createSpending(accounts: Accounts, recorded: SqliteOnceTable, group: GroupCommit): Spending {
  return {
    spendCredits(ref, cost, period, now) {
      assertSpend(cost, period, now);
      if (!isNumber(ref)) return undefined;
      if (cost > 0) return group.spend(ref, cost, period, now);
      const account = accounts.read(ref);
      return account && spend(account, () => accounts.leases(ref), 0, period, now).result;
    },
    spendOnce(ref, cost, period, now, record, bounds) {
      assertSpend(cost, period, now);
      assertRecord(record);
      if (ref !== undefined && !isNumber(ref)) return { outcome: "done" };
      return group.add((session) => {
        const spendFrom = (taken: number) =>
          ref === undefined ? { ok: true, remaining: null } : session.spend(ref, taken, period, now);
        return spendOnce(recorded, spendFrom, cost, now, record, bounds);
      });
    },
    findOnce: (id, now) => bodyAt(recorded.find(id), now),
    readSecret: (name) => recorded.readSecret(name),
    drawCredits(ref, request) {
      assertDraw(request);
      if (!isNumber(ref)) return undefined;
      return group.add((session) => session.change(ref, (account, leases) => draw(account, leases(), request)));
    },
    returnCredits(ref, lease) {
      assertReturn(lease);
      if (!isNumber(ref)) return undefined;
      return group.add((session) => session.change(ref, (account, leases) => endLease(account, leases(), lease)));
    },
    readBalances(queries, now) {
      for (const { period } of queries) assertSpend(0, period, now);
      const found = accounts.readMany(queries.map(({ keyId }) => keyId));
      return queries.map(({ keyId, period }) => {
        const one = found.get(keyId);
        return one && countedBalance(one.account, period, one.leases, now);
      });
    },
  };
}

/** Refs of this store are numbers; any other ref belongs to no key here. */
function isNumber(ref: KeyRef): ref is number {
  return typeof ref === "number";
}
