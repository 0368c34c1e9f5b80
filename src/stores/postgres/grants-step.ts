/** The step from which on there are grants: `write_v2` says the balances of their accounts too. */
import { fieldOf } from "./texts.js";
import { writtenBalances } from "./rows-sql.js";

/** What stands in place of what in the function, so that it says balances of grants too. */
export const OF_GRANTS = [
  "e.kind = 'identities' AND e.kind = w ->> 'table'",
  "e.kind IN ('identities', 'grants') AND e.kind = w ->> 'table'",
] as const;
const replace = (s: string) => writtenBalances(s).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION");
const flagged = (rows: string) => `SELECT count(*) FROM ${rows} WHERE ${fieldOf("x", "hasGrants")} IS NOT NULL`;

/** The step. */
export const GRANTS = {
  up: (s: string): string => replace(s).replace(...OF_GRANTS),
  down: replace,
  refuses: {
    grants: (s: string): string => `SELECT count(*) FROM ${s}.entities WHERE kind = 'grants'`,
    "keys with grants": (s: string): string => flagged(`${s}.keys x`),
    "identities with grants": (s: string): string => `${flagged(`${s}.entities x`)} AND x.kind = 'identities'`,
  },
};
