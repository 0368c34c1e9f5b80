/**
 * Sets up the tables of each database that it is told, and uses them at once, as one of many nodes that start together.
 */
import pg from "pg";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";

async function setUp(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on("error", () => undefined);
  const store = postgresStore(pool);
  try {
    await store.setUp();
    await createKeyring(store).createApi({ name: "first" });
  } finally {
    await store.close();
    await pool.end();
  }
}

process.on("message", (url: string) => {
  setUp(url).then(
    () => process.send!({ done: true }),
    (error: unknown) => process.send!({ error: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.send!({ ready: true });
