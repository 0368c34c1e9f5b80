/**
 * The step by which an entry of the audit trail says what its change did to a balance, and why. It never changes once
 * released.
 *
 * Why a setting of the transaction: the amount is known where the account is locked, and the entry is made once all
 * rows are written.
 */
import { OF_GRANTS } from "./grants-step.js";
import { changedFunction } from "./refills-sql.js";
import { writtenBalances } from "./rows-sql.js";
import { sharedFunctions } from "./shares-sql.js";

/** What the changes of balances of this transaction have added, in order, as the elements of a list. */
const ADDED = "current_setting('keystile.added', true)";

const withAmount = (s: string): string =>
  replaced(changedFunction(s, "change_credits_v1"), [
    ["wanted bigint; signed bigint;", "wanted bigint; signed bigint := 0; added bigint := 0;"],
    [
      "    wanted := coalesce((change ->> 'remaining')::bigint, 0);\n",
      "    wanted := coalesce((change ->> 'remaining')::bigint, 0);\n    added := wanted - a.remaining;\n",
    ],
    [
      `  PERFORM ${s}.save_v1(a);\n`,
      `  PERFORM ${s}.save_v1(a);
  PERFORM set_config('keystile.added', concat_ws(',', nullif(${ADDED}, ''), added + signed), true);\n`,
    ],
  ]);

/** The entries are not kept by `write_v1`, which does not know the balances yet: it keeps none of them. */
const withEntries = (s: string): string =>
  replaced(
    writtenBalances(s)
      .replace(...OF_GRANTS)
      .replace("CREATE", "CREATE OR REPLACE"),
    [
      [
        `DECLARE written jsonb := ${s}.write_v1(mode, writes, entries, most)::jsonb; balances jsonb;
BEGIN
  IF written ->> 'outcome' <> 'written' OR strpos(writes, '"credits":{') = 0 THEN RETURN written::text; END IF;
`,
        `DECLARE written jsonb; balances jsonb; added jsonb; kept jsonb := entries::jsonb;
BEGIN
  PERFORM set_config('keystile.added', '', true);
  written := ${s}.write_v1(mode, writes, entries, 0)::jsonb;
  IF written ->> 'outcome' <> 'written' THEN RETURN written::text; END IF;
  IF strpos(writes, '"credits":{') = 0 THEN
    PERFORM ${s}.audit_v1(kept, most);
    RETURN written::text;
  END IF;
  added := ('[' || ${ADDED} || ']')::jsonb;
`,
      ],
      [
        "THEN 0 ELSE a.reserved END) ORDER BY x.i)",
        "THEN 0 ELSE a.reserved END,\n    'added', added -> (x.place - 1)::integer) ORDER BY x.i)",
      ],
      [
        "FROM jsonb_array_elements(writes::jsonb) WITH ORDINALITY x(w, i)",
        `FROM (SELECT w, i, row_number() OVER (ORDER BY i) AS place FROM jsonb_array_elements(writes::jsonb) WITH ORDINALITY y(w, i)
      WHERE w -> 'credits' IS NOT NULL) x`,
      ],
      ["\n  WHERE w -> 'credits' IS NOT NULL;", ";"],
      [
        "  RETURN (written ||",
        `  IF kept -> 0 IS NOT NULL THEN kept := jsonb_set(kept, '{0,credits}', balances -> 0); END IF;
  PERFORM ${s}.audit_v1(kept, most);
  RETURN (written ||`,
      ],
    ],
  );

const withColumns = (s: string): string =>
  replaced(sharedFunctions(s, "audit_v1"), [
    ["operation, ids, fields, count)", "operation, ids, fields, count, reason, added, remaining, grant_id)"],
    [
      "(e ->> 'count')::bigint)",
      `(e ->> 'count')::bigint, e ->> 'reason',
      (e #>> '{credits,added}')::bigint, (e #>> '{credits,remaining}')::bigint, e ->> 'grantId')`,
    ],
  ]);

function replaced(text: string, pairs: readonly (readonly [before: string, after: string])[]): string {
  return pairs.reduce((made, [before, after]) => made.replace(before, () => after), text);
}

/** The step. Going back to earlier tables drops the amounts and reasons, and nothing else. */
export const AUDIT_CREDITS = {
  up: (s: string): string => `
ALTER TABLE ${s}.audit ADD COLUMN reason text, ADD COLUMN added bigint, ADD COLUMN remaining bigint, ADD COLUMN grant_id text;
${withColumns(s)}${withAmount(s)}${withEntries(s)}`,
  down: (s: string): string => `
${sharedFunctions(s, "audit_v1")}${changedFunction(s, "change_credits_v1")}${writtenBalances(s)
    .replace(...OF_GRANTS)
    .replace("CREATE", "CREATE OR REPLACE")}
ALTER TABLE ${s}.audit DROP COLUMN reason, DROP COLUMN added, DROP COLUMN remaining, DROP COLUMN grant_id;`,
  refuses: {},
};
