/** The PostgreSQL store before the suites of every store, in a PostgreSQL in this process. */
import type { AuditEntry } from "../../../src/contracts/audit.js";
import type { Store } from "../../../src/contracts/store.js";
import { sharedStoreSuite, storeSuite } from "../suite.js";
import { pglite } from "./support.js";

const { open, schemaOf, server } = pglite();

async function readAudit(store: Store): Promise<AuditEntry[]> {
  const { rows } = await server.query<AuditEntry>(
    `SELECT (extract(epoch FROM time) * 1000)::float8 AS time, workspace_id AS "workspaceId", actor_kind AS "actorKind",
      actor, operation, ids, fields, count::float8 AS count FROM ${schemaOf(store)}.audit ORDER BY number`,
  );
  return rows.map(({ actor, ...entry }) => (actor === null ? entry : { ...entry, actor }) as AuditEntry);
}

storeSuite("postgres", async () => (await open(1))[0]!, { readAudit });
sharedStoreSuite("postgres, two nodes", async () => (await open(2)) as [never, never]);
