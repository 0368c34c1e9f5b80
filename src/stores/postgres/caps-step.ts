/**
 * The step from which on a key's own credits cap what it takes of its identity's: both are a reason not to remove the
 * identity, and a spend of two wallets says which has the least.
 */
import { type Change, changed, changedFunction } from "./refills-sql.js";
import { rowFunctions } from "./rows-sql.js";
import { fieldOf } from "./texts.js";

/** Whether a key `x` has credits of its own, and does not draw on them alone. */
const IS_CAPPED = `${fieldOf("x", "limited")} IS NOT NULL AND ${fieldOf("x", "creditsFrom")} IS NULL`;

const OF_ENTITIES: readonly Change[] = [["AND x.draws AND", `AND (x.draws OR ${IS_CAPPED}) AND`]];
/** `lowest`: the place of the wallet that has the least, where there are two. */
const SAYS_LOWEST = "CASE WHEN lowest IS NULL THEN '{}' ELSE jsonb_build_object('least', lowest) END";
const OF_WALLETS: readonly Change[] = [
  ["rest bigint; said", "rest bigint; lowest integer; said"],
  [
    "    IF NOT free[i] THEN rest",
    `    IF NOT free[i] AND cardinality(sums) > 1 AND (rest IS NULL OR sums[i] < rest) THEN lowest := i - 1; END IF;
    IF NOT free[i] THEN rest`,
  ],
  ["'remaining', rest);", `'remaining', rest) || ${SAYS_LOWEST};`],
  ["'remaining', rest - cost)", `'remaining', rest - cost) || ${SAYS_LOWEST}`],
];

const functions = (s: string, isChanged: boolean): string =>
  changed(rowFunctions(s), s, "write_entity_v1", isChanged ? OF_ENTITIES : []) +
  changed(
    changedFunction(s, "spend_wallets_of_v1").replace("OR REPLACE ", ""),
    s,
    "spend_wallets_of_v1",
    isChanged ? OF_WALLETS : [],
  );

/** The step. */
export const CAPS = {
  up: (s: string): string => functions(s, true),
  down: (s: string): string => functions(s, false),
  refuses: {
    "keys whose own credits cap those of their identity": (s: string): string =>
      `SELECT count(*) FROM ${s}.keys x JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = x.identity_id
       JOIN ${s}.accounts o ON o.number = i.account AND NOT o.unlimited WHERE ${IS_CAPPED}`,
  },
};
