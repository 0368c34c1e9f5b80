/**
 * The step from which on the settlement of a reservation over several accounts says what was kept, where parts of it
 * had ended. It never changes once released.
 */
import { type Change, changed } from "./refills-sql.js";
import { walletFunctions } from "./wallets-sql.js";

const OF_SETTLEMENTS: readonly Change[] = [
  ["exceeds boolean; wallet integer;", "exceeds boolean; wallet integer; kept_of bigint[];"],
  ["    wallet := NULL;\n", "    wallet := NULL;\n    kept_of := '{}';\n"],
  [
    "      kept := kept - part;\n",
    "      kept := kept - part;\n      kept_of[wallet] := (call.e ->> 'spent')::bigint - kept;\n",
  ],
  [
    "(SELECT x FROM jsonb_array_elements(said) x WHERE",
    `(SELECT x || CASE WHEN (call.e ->> 'spent')::bigint > ANY (kept_of) THEN jsonb_build_object('kept', kept_of) ELSE '{}' END
        FROM jsonb_array_elements(said) x WHERE`,
  ],
];

const settle = (s: string, changes: readonly Change[]): string =>
  changed(walletFunctions(s), s, "settle_wallets_v1", changes);

/** The step. */
export const KEPT_PARTS = {
  up: (s: string): string => settle(s, OF_SETTLEMENTS),
  down: (s: string): string => settle(s, []),
  refuses: {},
};
