/** The `exact` credit mode: every spend is one durable step of the store. */
import type { OnceSpend, Spend, Store, WalletSpend } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { requirePower } from "../lib/guards/powers.js";
import { isThenable } from "../lib/thenable.js";
import { periodOf } from "./refill-calendar.js";
import type { Spender, SpendTarget } from "./spender.js";
import { drawsOnSeveral, toWallets } from "./wallet.js";

/** The `exact` mode. */
export function exactSpender(store: Store): Spender {
  const fromWallets = (wallets: NonNullable<SpendTarget["wallets"]>, request: WalletSpend): MaybePromise<OnceSpend> => {
    requirePower(store, "wallets", "a key that draws on several accounts");
    return store.spendWallets!(toWallets(wallets, request.now), request);
  };
  const spendOf = (spent: MaybePromise<OnceSpend>): MaybePromise<Spend | undefined> =>
    isThenable(spent) ? Promise.resolve(spent).then(({ spend }) => spend) : spent.spend;
  return {
    spend({ ref, refill, wallets }, cost, now) {
      // At cost 0 the result still needs what each account has, expired accounts too: the store reads them all.
      if (wallets !== undefined && (cost === 0 || drawsOnSeveral(wallets, now)))
        return spendOf(fromWallets(wallets, { cost, now }));
      const spending = store.spendCredits(ref, cost, periodOf(refill, now), now);
      return isThenable(spending) ? Promise.resolve(spending) : spending;
    },
    reserve: ({ ref, refill, wallets }, cost, now, reservation) =>
      wallets === undefined
        ? store.reserveCredits(ref, cost, periodOf(refill, now), now, reservation)
        : spendOf(fromWallets(wallets, { cost, now, reservation })),
    spendOnce: (target, cost, now, record, bounds) =>
      target?.wallets === undefined
        ? store.spendOnce(
            target?.ref,
            cost,
            target === undefined ? 0 : periodOf(target.refill, now),
            now,
            record,
            bounds,
          )
        : fromWallets(target.wallets, { cost, now, once: { record, bounds } }),
    creditsForfeited: () => 0,
    close: () => undefined,
  };
}
