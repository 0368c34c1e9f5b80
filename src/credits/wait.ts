/**
 * How long until refills let several accounts cover a cost.
 *
 * Why a search, not a formula: grants end, rollovers take, and each account has boundaries of its own. But from one
 * expiry or first boundary to the next, balances only grow, so that a stretch of time needs looking at where it ends,
 * and the first that covers the cost is halved until the millisecond is found: some 40 looks.
 */
import type { NumberedRefill } from "../contracts/store.js";
import { countRefills, openAccount } from "./account.js";
import { nextBoundary, periodOf } from "./refill-calendar.js";

/** No account has more that is due: 24 months are refilled at once, and of shorter periods less time. */
const HORIZON = 800 * 86_400_000;

/** What an account has at some moment, and what comes and goes later. */
export interface Holding {
  readonly remaining: number;
  readonly refill?: NumberedRefill | undefined;
  /** Unix time, milliseconds, from which on nothing can be taken from it. Absent: never. */
  readonly expires?: number;
}

/**
 * How long until each of the wallets covers the cost, if nobody takes any of it meanwhile.
 * @param wallets what the accounts of each have at `now`
 * @param now Unix time, milliseconds
 * @returns milliseconds, ≥ 0; undefined: they never will
 */
export function untilCovered(wallets: readonly (readonly Holding[])[], cost: number, now: number): number | undefined {
  const covers = (at: number): boolean =>
    wallets.every((holdings) => holdings.reduce((sum, holding) => sum + balanceAt(holding, now, at), 0) >= cost);
  const turns = wallets
    .flat()
    .flatMap(({ refill, expires = Infinity }) => [expires, refill === undefined ? Infinity : nextBoundary(refill, now)])
    .filter((at) => at > now && at < now + HORIZON);
  let from = now;
  for (const end of [...turns.sort((a, b) => a - b), now + HORIZON]) {
    if (covers(end - 1)) return firstOf(from, end - 1, covers) - now;
    from = end;
  }
  return undefined;
}

function balanceAt({ remaining, refill, expires = Infinity }: Holding, now: number, at: number): number {
  if (at >= expires) return 0;
  if (refill === undefined) return remaining;
  const { amount, rollover = null } = refill;
  const account = openAccount(remaining, { amount, rollover, period: periodOf(refill, now), generation: 0 });
  return countRefills(account, periodOf(refill, at)).remaining;
}

/** The first of these instants at which it holds, as it does at the last one. */
function firstOf(from: number, to: number, holds: (at: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
