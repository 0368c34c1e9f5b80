/** What rigs plant in their workers. */
import type { Store } from "../../../src/contracts/store.js";

/** A store whose balances are read, and what was read decides. */
export function readThenWrite(real: Store): Store {
  return {
    ...real,
    async spendCredits(ref, cost, period, now) {
      const seen = await real.spendCredits(ref, 0, period, now);
      if (seen === undefined || cost === 0 || (seen.remaining ?? 0) < cost) return seen && { ...seen, ok: cost === 0 };
      await real.spendCredits(ref, cost, period, now);
      return { ok: true, remaining: seen.remaining! - cost };
    },
  };
}
