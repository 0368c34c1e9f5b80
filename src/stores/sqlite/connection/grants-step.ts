/** The step that makes the table of grants. It never changes once released. */

/** The owner of a grant: the name is its id, a space and the id that the caller chose. */
export const OWNER_OF_GRANT = "substr(name, 1, instr(name, ' ') - 1)";
/** Whether keys draw on it. */
export const IS_OPEN = "json_extract(body, '$.endedAt') IS NULL";

const flagged = (table: string) =>
  `SELECT count(*) AS n FROM keystile_${table} WHERE json_extract(body, '$.hasGrants') IS NOT NULL`;

/** @param table makes a table of rows with an id, a workspace and a name */
export const grantsStep = (table: (name: string) => string) => ({
  up: `${table("grants")}
  CREATE INDEX keystile_grants_of ON keystile_grants (workspace_id, ${OWNER_OF_GRANT}, id);
  CREATE INDEX keystile_grants_open ON keystile_grants (workspace_id, ${OWNER_OF_GRANT}) WHERE ${IS_OPEN};`,
  down: "DROP TABLE keystile_grants;",
  refuses: {
    grants: "SELECT count(*) AS n FROM keystile_grants",
    "keys with grants": flagged("keys"),
    "identities with grants": flagged("identities"),
  },
});
