/**
 * The step that gives each workspace a share of the audit trail and of the records of idempotency keys, and by which
 * only deliveries that have ended count as tries of an alert. It never changes once released.
 *
 * Why the counts of a workspace are in slots: two changes of one workspace would wait for each other until the first is
 * on disk. What is removed has a slot of its own, since one session removes at a time.
 */
import { alertTables } from "./alerts.js";
import { rowFunctions } from "./rows-sql.js";

/** Slots for the entries that a workspace adds. */
const SLOTS = 8;

const countAudit = (s: string): string => `
CREATE INDEX audit_of_workspace ON ${s}.audit (workspace_id, number);
CREATE TABLE ${s}.audit_counts (
  workspace_id text NOT NULL,
  slot integer NOT NULL,
  entries bigint NOT NULL,
  PRIMARY KEY (workspace_id, slot)
);
INSERT INTO ${s}.audit_counts SELECT workspace_id, 0, count(*) FROM ${s}.audit GROUP BY 1;
CREATE FUNCTION ${s}.count_audit_v1() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    DELETE FROM ${s}.audit_counts;
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO ${s}.audit_counts AS c SELECT workspace_id, pg_backend_pid() % ${SLOTS}, count(*) FROM changed GROUP BY 1 ORDER BY 1
      ON CONFLICT (workspace_id, slot) DO UPDATE SET entries = c.entries + excluded.entries;
  ELSE
    INSERT INTO ${s}.audit_counts AS c SELECT workspace_id, -1, -count(*) FROM changed GROUP BY 1 ORDER BY 1
      ON CONFLICT (workspace_id, slot) DO UPDATE SET entries = c.entries + excluded.entries;
  END IF;
  RETURN NULL;
END $f$;
CREATE TRIGGER audit_added AFTER INSERT ON ${s}.audit REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION ${s}.count_audit_v1();
CREATE TRIGGER audit_removed AFTER DELETE ON ${s}.audit REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION ${s}.count_audit_v1();
CREATE TRIGGER audit_emptied AFTER TRUNCATE ON ${s}.audit FOR EACH STATEMENT EXECUTE FUNCTION ${s}.count_audit_v1();

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
function functionOf(text: string, s: string, name: string): string {
  const start = text.indexOf(`CREATE FUNCTION ${s}.${name}(`);
  const end = /END \$f(?:n)?\$;\n/g;
  end.lastIndex = start;
  end.exec(text);
  return text.slice(start, end.lastIndex).replace("CREATE", "CREATE OR REPLACE");
}

/** The step. */
export const SHARES = {
  up: (s: string): string =>
    countAudit(s) +
    CHANGES(s)
      .map(([name, text, before, after]) => functionOf(text, s, name).replace(before, () => after))
      .join(""),
  down: (s: string): string => `${CHANGES(s)
    .map(([name, text]) => functionOf(text, s, name))
    .join("")}
DROP TABLE ${s}.audit_counts;
DROP TRIGGER audit_added ON ${s}.audit;
DROP TRIGGER audit_removed ON ${s}.audit;
DROP TRIGGER audit_emptied ON ${s}.audit;
DROP FUNCTION ${s}.count_audit_v1();
DROP FUNCTION ${s}.prune_audit_v1(bigint);
DROP INDEX ${s}.audit_of_workspace;`,
  refuses: {},
};
