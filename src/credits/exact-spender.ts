/** The `exact` credit mode: every spend is one durable step of the store. */
import type { OnceSpend, Spend, Store, Wallet, WalletSpend } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { requirePower } from "../lib/guards/powers.js";
import { periodOf } from "./refill-calendar.js";
import type { Spender } from "./spender.js";
import { drawOrders } from "./wallet.js";

/** The `exact` mode. @param store guarded, or one of this package: its promises are of this realm */
export function exactSpender(store: Store): Spender {
  const orderOf = drawOrders();
  const fromWallets = (wallets: readonly Wallet[], request: WalletSpend): MaybePromise<OnceSpend> => {
    requirePower(store, "wallets", "a key that draws on several accounts");
    return store.spendWallets!(wallets, request);
  };
  const spendOf = (spent: MaybePromise<OnceSpend>): MaybePromise<Spend | undefined> =>
    spent instanceof Promise ? spent.then(({ spend }) => spend) : spent.spend;
  return {
    spend({ ref, refill, wallets }, cost, now) {
      const order = wallets && orderOf(wallets, now);
      // At cost 0 the result still needs what each account has, expired accounts too: the store reads them all.
      if (order !== undefined && (cost === 0 || order.isOfSeveral))
        return spendOf(fromWallets(order.wallets, { cost, now }));
      return store.spendCredits(ref, cost, periodOf(refill, now), now);
    },
    reserve({ ref, refill, wallets }, request) {
      const { now } = request;
      return wallets === undefined
        ? store.reserveCredits(ref, periodOf(refill, now), request)
        : spendOf(fromWallets(orderOf(wallets, now).wallets, request));
    },
    spendOnce(target, request) {
      if (target?.wallets !== undefined) return fromWallets(orderOf(target.wallets, request.now).wallets, request);
      return store.spendOnce(target?.ref, target === undefined ? 0 : periodOf(target.refill, request.now), request);
    },
    creditsForfeited: () => 0,
    close: () => undefined,
  };
}
