/** Stores on one database: in this process, or on a real server. */
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { afterAll, beforeAll } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import {
  type PostgresClient,
  postgresStore,
  type PostgresStore,
  type PostgresStoreOptions,
} from "../../../src/stores/postgres/index.js";
import { startPostgres, type TestPostgres } from "../../servers/postgres.js";

const TABLES = [
  ...["keys", "entities", "accounts", "changes", "audit", "idempotency", "idempotency_counts"],
  ...["reservations_ended"],
  ...[
    "flushes",
    "subjects",
    "tag_sets",
    "tag_sets_counts",
    "outcomes_hour",
    "outcomes_day",
    "credit_days",
    "alerts",
    "refusals",
  ],
];

/** Stores of a test file. Each new one gets a schema that no other one has at the time. */
export interface Opener {
  /** A name that no schema has. */
  newSchema(): string;
  /**
   * As many handles on one new store as are asked for. Empties its tables once all are closed: making new ones takes
   * longer.
   */
  open(handles: number, options?: PostgresStoreOptions): Promise<PostgresStore[]>;
  /** Where the tables of a store are that it opened. */
  schemaOf(store: Store): string;
}

/** @param client of a handle, by its place @param exec runs several statements */
export function openerOf(client: (i: number) => PostgresClient, exec: (sql: string) => Promise<unknown>): Opener {
  const free: string[] = [];
  const places = new WeakMap<Store, string>();
  let schemas = 0;
  const newSchema = () => `test_${++schemas}`;
  return {
    newSchema,
    schemaOf: (store) => places.get(store)!,
    async open(handles, options = {}) {
      const schema = free.pop() ?? newSchema();
      const opened = Array.from({ length: handles }, (_, i) => postgresStore(client(i), { schema, ...options }));
      await opened[0]!.setUp();
      let open = handles;
      return opened.map((store) => {
        let isOpen = true;
        const one: PostgresStore = {
          ...store,
          async close() {
            await store.close();
            if (isOpen) open--;
            if (isOpen && open === 0) {
              await exec(TABLES.map((table) => `DELETE FROM ${schema}.${table};`).join(""));
              free.push(schema);
            }
            isOpen = false;
          },
        };
        places.set(one, schema);
        return one;
      });
    },
  };
}

/**
 * The files of a new PostgreSQL, once a server of this process has made them. With them the next one starts in a
 * quarter of the time.
 */
let files: Blob | undefined;

/** A server of the tests of a file. */
export function postgresServer(): Opener {
  let server: TestPostgres;
  let pool: pg.Pool;
  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: await server.newDatabase(), max: 8 });
    pool.on("error", () => undefined);
  }, 120_000);
  afterAll(async () => {
    await pool.end();
    await server.close();
  });
  return openerOf(
    () => pool,
    (sql) => pool.query(sql),
  );
}

/** A PostgreSQL that runs in this process. */
export function pglite() {
  const server = new PGlite(files === undefined ? {} : { loadDataDir: files });
  // Its start takes half a minute where many files share the machine, more than a call may take.
  beforeAll(async () => {
    await server.waitReady;
    files ??= await server.dumpDataDir("none");
  }, 120_000);
  afterAll(() => server.close());
  return {
    server,
    ...openerOf(
      () => server,
      (sql) => server.exec(sql),
    ),
  };
}
