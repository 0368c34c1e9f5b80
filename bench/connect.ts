/** Connections to PostgreSQL, the bare statements that are the floors there, and calls in flight. */
import pg from "pg";
import { postgresStore, type PostgresStore } from "../src/stores/postgres/index.js";

/** Connections of a program to PostgreSQL, besides the one that a store listens on. */
export const CONNECTIONS = 8;

/** A node on a database. */
export interface Connected {
  readonly pool: pg.Pool;
  readonly store: PostgresStore;
  /** Closes both. */
  close(): Promise<void>;
}

/** {@link CONNECTIONS} to a database, and one more. */
export function openPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS + 1 });
  pool.on("error", () => undefined);
  return pool;
}

/** @param schema where the store's tables are */
export function connect(url: string, schema = "keystile"): Connected {
  const pool = openPool(url);
  const store = postgresStore(pool, { schema });
  return {
    pool,
    store,
    async close() {
      await store.close();
      await pool.end();
    },
  };
}

/** Does so many, some in flight at any time. @returns how many came out right */
export async function inFlight(count: number, operations: number, work: () => Promise<boolean>): Promise<number> {
  let begun = 0;
  let right = 0;
  const run = async (): Promise<void> => {
    while (begun++ < operations) if (await work()) right++;
  };
  await Promise.all(Array.from({ length: count }, run));
  return right;
}

/** A trip to the server and back that reads nothing. */
export const TRIP = { name: "trip", text: "SELECT $1::text AS text", values: ["x"] };

/** Takes a credit, durably, in a table that {@link makeBare} made. Its value is a number below `keys`, as text. */
export const TAKE = {
  name: "take",
  text: "UPDATE bare SET remaining = remaining - 1 WHERE id = $1 AND remaining >= 1 RETURNING remaining",
};

/** A table of balances and nothing else, with more credits than any bench spends. */
export async function makeBare(pool: pg.Pool, keys: number): Promise<void> {
  await pool.query("CREATE TABLE bare (id bigint PRIMARY KEY, remaining bigint NOT NULL) WITH (fillfactor = 70)");
  await pool.query("INSERT INTO bare SELECT i, 1e15 FROM generate_series(0, $1::int - 1) i", [keys]);
}
