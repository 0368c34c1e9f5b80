/** Counts what accounts lose, for `health()`: refills beyond what is made up for at once, and returns that failed. */
import type { Counters } from "../connection/counters.js";
import type { AccountSession } from "./account-session.js";
import type { Spending } from "./spending.js";

export interface CountedLosses {
  /** @param session whose spends in a transaction are counted: the others change nothing if a refill is due */
  ofSpends(session: AccountSession): AccountSession;
  /** @param spending whose draws and returns are counted */
  ofLeases(spending: Spending): Pick<Spending, "drawCredits" | "returnCredits">;
}

export function countLosses(counters: Counters): CountedLosses {
  const countForfeits = <T extends { readonly forfeited?: number } | undefined>(outcome: T): T => {
    counters.forfeitedRefills += outcome?.forfeited ?? 0;
    return outcome;
  };
  return {
    ofSpends: (session) => ({
      ...session,
      spend: (...given) => countForfeits(session.spend(...given)),
      spendWallets: (...given) => countForfeits(session.spendWallets(...given)),
    }),
    ofLeases: ({ drawCredits, returnCredits }) => ({
      drawCredits: (ref, request) => Promise.resolve(drawCredits(ref, request)).then(countForfeits),
      returnCredits: (ref, lease) =>
        Promise.resolve(returnCredits(ref, lease)).catch((cause: unknown) => {
          counters.failedReturns++;
          throw cause;
        }),
    }),
  };
}
