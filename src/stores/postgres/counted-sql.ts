/**
 * Numbers of rows of each workspace, kept by triggers: no statement changes the rows without the numbers.
 *
 * Why they are in slots: two changes of one workspace would wait for each other until the first is on disk. What is
 * removed has a slot of its own, since one session removes at a time.
 */

/** Slots for the rows that a workspace adds. */
const SLOTS = 8;

/**
 * Part of a step that never changes once released.
 * @param s the schema, quoted
 * @param rows what the rows of the table are called
 * @param when which rows `c` count
 */
export function countRows(s: string, table: string, rows: string, when = "true"): string {
  const counts = `${s}.${table}_counts`;
  const add = (slot: string, sign: string): string => `INSERT INTO ${counts} AS x
      SELECT c.workspace_id, ${slot}, ${sign}count(*) FROM changed c WHERE ${when} GROUP BY 1 ORDER BY 1
      ON CONFLICT (workspace_id, slot) DO UPDATE SET ${rows} = x.${rows} + excluded.${rows};`;
  const trigger = (name: string, event: string, changed: string): string => `
CREATE TRIGGER ${table}_${name} AFTER ${event} ON ${s}.${table} ${changed} FOR EACH STATEMENT EXECUTE FUNCTION ${s}.count_${table}_v1();`;
  return `
CREATE TABLE ${counts} (
  workspace_id text COLLATE "C" NOT NULL,
  slot integer NOT NULL,
  ${rows} bigint NOT NULL,
  PRIMARY KEY (workspace_id, slot)
);
INSERT INTO ${counts} SELECT c.workspace_id, 0, count(*) FROM ${s}.${table} c WHERE ${when} GROUP BY 1;
CREATE FUNCTION ${s}.count_${table}_v1() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    DELETE FROM ${counts};
  ELSIF TG_OP = 'INSERT' THEN
    ${add(`pg_backend_pid() % ${SLOTS}`, "")}
  ELSE
    ${add("-1", "-")}
  END IF;
  RETURN NULL;
END $f$;${trigger("added", "INSERT", "REFERENCING NEW TABLE AS changed")}${trigger("removed", "DELETE", "REFERENCING OLD TABLE AS changed")}${trigger("emptied", "TRUNCATE", "")}
`;
}

/** SQL that removes what {@link countRows} makes: triggers, function and table. */
export function forgetCounts(s: string, table: string): string {
  const triggers = ["added", "removed", "emptied"].map((name) => `DROP TRIGGER ${table}_${name} ON ${s}.${table};`);
  return `${triggers.join(" ")}
DROP FUNCTION ${s}.count_${table}_v1(); DROP TABLE ${s}.${table}_counts;`;
}
