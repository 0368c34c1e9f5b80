/**
 * The step from which on a call over several accounts that needs nothing but the cost is one UPDATE of the accounts
 * that it takes from. It never changes once released.
 *
 * Why: the list of parts that it makes of other calls, and `spend_v1` that reads the list, took three quarters of the
 * time of a call.
 */
import { MAX_BALANCE } from "../../credits/account.js";
import { CAPS, SAYS_LOWEST } from "./days-and-caps.js";
import { type Change, changed } from "./refills-sql.js";

/** `firsts`: of each wallet the first account that has anything. */
const OF_WALLETS = (s: string): readonly Change[] => [
  [
    "forfeits bigint := 0;",
    "forfeits bigint := 0; firsts bigint[] := '{}'; is_due boolean; is_plain boolean := NOT c ? 'once' AND holder IS NULL;",
  ],
  ["    IF a.unlimited THEN\n      CONTINUE;", "    IF a.unlimited THEN\n      is_plain := false;\n      CONTINUE;"],
  [
    `    IF (one.expires > at) IS NOT FALSE THEN
      sums[one.wallet] := sums[one.wallet] + (${s}.settle_v1(a, one.period)).remaining;
    END IF;`,
    `    IF one.expires <= at THEN
      is_plain := is_plain AND a.remaining = 0;
      CONTINUE;
    END IF;
    is_due := a.period < one.period;
    IF is_due THEN a := ${s}.settle_v1(a, one.period); END IF;
    sums[one.wallet] := sums[one.wallet] + a.remaining;
    IF firsts[one.wallet] IS NULL AND a.remaining > 0 THEN
      firsts[one.wallet] := one.n;
      is_plain := is_plain AND NOT is_due AND cost <= least(a.remaining, ${MAX_BALANCE} - a.spent);
    END IF;`,
  ],
  [
    "  -- How much of each account,",
    `  IF is_plain THEN
    UPDATE ${s}.accounts SET remaining = remaining - cost, spent = spent + cost WHERE number = ANY (firsts);
    RETURN jsonb_build_object('outcome', outcome, 'spend', jsonb_build_object('ok', true, 'remaining', rest - cost) || ${SAYS_LOWEST});
  END IF;
  -- How much of each account,`,
  ],
];

const functions = (s: string, changes: readonly Change[]): string =>
  changed(CAPS.up(s).replaceAll("CREATE OR REPLACE", "CREATE"), s, "spend_wallets_of_v1", changes);

/** The step. */
export const PLAIN_WALLETS = {
  up: (s: string): string => functions(s, OF_WALLETS(s)),
  down: (s: string): string => functions(s, []),
  refuses: {},
};
