/** The step from which on there are grants: `write_v2` says the balances of their accounts too. */
import { fieldOf } from "./texts.js";
import { writtenBalances } from "./rows-sql.js";

const OF_IDENTITIES = "e.kind = 'identities' AND e.kind = w ->> 'table'";
const replace = (s: string) => writtenBalances(s).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION");
const flagged = (rows: string) => `SELECT count(*) FROM ${rows} WHERE ${fieldOf("x", "hasGrants")} IS NOT NULL`;

/** The step. */
export const GRANTS = {
  up: (s: string): string =>
    replace(s).replace(OF_IDENTITIES, "e.kind IN ('identities', 'grants') AND e.kind = w ->> 'table'"),
  down: replace,
  refuses: {
    grants: (s: string): string => `SELECT count(*) FROM ${s}.entities WHERE kind = 'grants'`,
    "keys with grants": (s: string): string => flagged(`${s}.keys x`),
    "identities with grants": (s: string): string => `${flagged(`${s}.entities x`)} AND x.kind = 'identities'`,
  },
};
