/** The `exact` credit mode: every spend is one durable step of the store. */
import type { Store } from "../contracts/store.js";
import { isThenable } from "../lib/thenable.js";
import { periodOf } from "./refill-calendar.js";
import type { Spender } from "./spender.js";

/** The `exact` mode. */
export function exactSpender(store: Store): Spender {
  return {
    spend({ ref, refill }, cost, now) {
      const spending = store.spendCredits(ref, cost, periodOf(refill, now), now);
      return isThenable(spending) ? Promise.resolve(spending) : spending;
    },
    reserve: ({ ref, refill }, cost, now, reservation) =>
      store.reserveCredits(ref, cost, periodOf(refill, now), now, reservation),
    spendOnce: (target, cost, now, record, bounds) =>
      store.spendOnce(target?.ref, cost, target === undefined ? 0 : periodOf(target.refill, now), now, record, bounds),
    creditsForfeited: () => 0,
    close: () => undefined,
  };
}
