/** Credit operations of the store: spend, draw and return through group commit; read the balance directly. */
import type { Draw, DrawRequest, KeyRef, Store } from "../../../contracts/store.js";
import {
  countedBalance,
  draw,
  forfeitedRefills,
  giveBack,
  isOfCalendar,
  spendWithReserves,
  sweep,
} from "../../../credits/balance.js";
import type { BalanceSession } from "./balance-session.js";
import type { Balances } from "./balance-table.js";
import type { GroupCommit } from "./group-commit.js";

export type Spending = Pick<Store, "spendCredits" | "drawCredits" | "returnCredits" | "readBalances">;

export function createSpending(balances: Balances, group: GroupCommit): Spending {
  return {
    spendCredits(ref, cost, period, now) {
      assertSpend(cost, period, now);
      if (!isNumber(ref)) return undefined;
      if (cost === 0) {
        const balance = balances.peek(ref);
        return balance && spendWithReserves(balance, () => balances.reserves(ref), 0, period, now).result;
      }
      return group.spend(ref, cost, period, now);
    },
    drawCredits(ref, request) {
      for (const name of ["cost", "step", "size"] as const) assertCount(`request.${name}`, request[name]);
      for (const name of ["period", "now", "until"] as const) assertInteger(`request.${name}`, request[name]);
      return isNumber(ref) ? group.add((session) => drawFrom(session, ref, request)) : undefined;
    },
    returnCredits(ref, holder, generation, unspent) {
      assertCount("generation", generation);
      assertCount("unspent", unspent);
      return isNumber(ref) ? group.add((session) => returnTo(session, ref, holder, generation, unspent)) : undefined;
    },
    readBalances(queries, now) {
      for (const { period } of queries) assertInteger("period", period);
      assertInteger("now", now);
      const found = balances.peekMany(queries.map(({ keyId }) => keyId));
      return queries.map(({ keyId, period }) => {
        const one = found.get(keyId);
        return one && countedBalance(one.balance, period, one.reserves, now);
      });
    },
  };
}

function drawFrom(session: BalanceSession, n: number, request: DrawRequest): Draw | undefined {
  const cached = session.find(n);
  if (cached === undefined) return undefined;
  const { generation, unlimited } = cached.balance;
  if (unlimited) return { drawn: request.cost, generation, remaining: null };
  if (!isOfCalendar(cached.balance, request.period)) return { drawn: 0, generation, remaining: 0, stale: true };
  const holders = session.reserves(cached);
  const { balance: swept, expired } = sweep(cached.balance, holders, request.holder, request.now);
  for (const holder of expired) session.setReserve(cached, holder, undefined);
  const { balance, reserve, drawn } = draw(swept, holders.get(request.holder), request);
  session.setBalance(cached, balance);
  session.setReserve(cached, request.holder, reserve);
  const forfeited = forfeitedRefills(swept, request.period);
  const outcome = { drawn, generation, remaining: balance.remaining + reserve.reserved };
  return forfeited === 0 ? outcome : { ...outcome, forfeited };
}

function returnTo(session: BalanceSession, n: number, holder: string, generation: number, unspent: number): void {
  const cached = session.find(n);
  if (cached === undefined) return;
  const reserve = session.reserves(cached).get(holder);
  const isCurrent = reserve?.generation === generation;
  session.setBalance(cached, giveBack(cached.balance, generation, unspent + (isCurrent ? reserve.reserved : 0)));
  if (isCurrent) session.setReserve(cached, holder, undefined);
}

/** Refs of this store are numbers; any other ref belongs to no key here. */
function isNumber(ref: KeyRef): ref is number {
  return typeof ref === "number";
}

/** @throws RangeError naming the argument that is not an integer, or a cost below 0 */
export function assertSpend(cost: number, period: number, now: number): void {
  assertCount("cost", cost);
  assertInteger("period", period);
  assertInteger("now", now);
}

// The drivers bind NaN as NULL, and a negative cost would add credits.
function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be an integer from 0 to 2^53 - 1`);
}

function assertInteger(name: string, value: number): void {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${name} must be an integer of at most 2^53 - 1`);
}
