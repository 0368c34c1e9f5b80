/**
 * The step that gives each workspace a share of the audit trail and of the records of idempotency keys, and by which
 * only deliveries that have ended count as tries of an alert. It never changes once released.
 */
import { alertTables } from "./alerts.js";
import { countRows, forgetCounts } from "./counted-sql.js";
import { rowFunctions } from "./rows-sql.js";

const countAudit = (s: string): string => `
CREATE INDEX audit_of_workspace ON ${s}.audit (workspace_id, number);${countRows(s, "audit", "entries")}
-- Removes what is beyond the bound: the oldest entries of the workspaces above an equal share of it, down to that, of
-- the largest first. One session at a time; the others leave it to a later one.
CREATE FUNCTION ${s}.prune_audit_v1(most bigint) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('${s}', 7235928)) THEN RETURN; END IF;
  WITH held AS MATERIALIZED (
    SELECT workspace_id, sum(entries)::bigint AS n FROM ${s}.audit_counts GROUP BY 1 HAVING sum(entries) > 0
  ), bound AS (SELECT sum(n)::bigint - most AS many, most / count(*) AS share FROM held),
  paying AS (
    SELECT workspace_id, n - share AS above, many, sum(n - share) OVER (ORDER BY n DESC, workspace_id) - (n - share) AS paid
    FROM held, bound WHERE many > 0 AND n > share
  )
  DELETE FROM ${s}.audit WHERE number IN (
    SELECT a.number FROM paying p, LATERAL (
      SELECT x.number FROM ${s}.audit x WHERE x.workspace_id = p.workspace_id ORDER BY x.number LIMIT least(p.above, p.many - p.paid)::bigint
    ) a WHERE p.paid < p.many);
END $f$;
`;

/** Each function that changes: its name, what makes it in the first schema, and what stands there in place of what. */
const CHANGES = (s: string) =>
  [
    [
      "audit_v1",
      rowFunctions(s),
      `DELETE FROM ${s}.audit WHERE number <= last - most;`,
      `PERFORM ${s}.prune_audit_v1(most);`,
    ],
    [
      "spend_once_v1",
      rowFunctions(s),
      `(SELECT sum(x.records) FROM ${s}.idempotency_counts x) >= (c ->> 'most')::bigint THEN`,
      `own > 0 AND (
      SELECT sum(x.records) >= (c ->> 'most')::bigint AND own >= (c ->> 'most')::bigint / count(*)
      FROM ${s}.idempotency_counts x WHERE x.records > 0) THEN`,
    ],
    ["take_alerts_v1", alertTables(s), "due = until_ms, tries = a.tries + 1 FROM", "due = until_ms FROM"],
  ] as const;

/** One function out of a text that makes several, to be made in place of another version of it. */
export function functionOf(text: string, s: string, name: string): string {
  const start = text.indexOf(`CREATE FUNCTION ${s}.${name}(`);
  const end = /END \$f(?:n)?\$;\n/g;
  end.lastIndex = start;
  end.exec(text);
  return text.slice(start, end.lastIndex).replace("CREATE", "CREATE OR REPLACE");
}

/** The functions as this step makes them. @param only the name of one; absent: all */
export const sharedFunctions = (s: string, only?: string): string =>
  CHANGES(s)
    .filter(([name]) => name === (only ?? name))
    .map(([name, text, before, after]) => functionOf(text, s, name).replace(before, () => after))
    .join("");

/** The step. */
export const SHARES = {
  up: (s: string): string => countAudit(s) + sharedFunctions(s),
  down: (s: string): string => `${CHANGES(s)
    .map(([name, text]) => functionOf(text, s, name))
    .join("")}
${forgetCounts(s, "audit")}
DROP FUNCTION ${s}.prune_audit_v1(bigint);
DROP INDEX ${s}.audit_of_workspace;`,
  refuses: {},
};
