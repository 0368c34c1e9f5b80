/** What the stores of this package have in common: what they can do, and their methods on balances. */
import type { Store } from "../contracts/store.js";

/** What they can do, each on its engine; whether the audit trail is kept is an option. */
export const POWERS = {
  leases: true,
  reserves: true,
  idempotency: true,
  usage: true,
  reservations: true,
  analytics: true,
  search: true,
  alerts: true,
  wallets: true,
  rollover: true,
  refusals: true,
} as const;

/** The methods that read balances and take from them. */
export type CreditMethods = Pick<
  Required<Store>,
  | "spendCredits"
  | "spendOnce"
  | "findOnce"
  | "drawCredits"
  | "returnCredits"
  | "reserveCredits"
  | "settleCredits"
  | "readBalances"
  | "spendWallets"
  | "settleWallets"
>;
