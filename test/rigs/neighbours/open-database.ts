/** What the servers of the rig keep their rows in: a file, with or without a writer thread, or a database. */
import pg from "pg";
import type { Store } from "../../../src/index.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";

export type Engine = "sqlite" | "sqlite with a writer thread" | "postgres";

/** One database, as it is told to the process that serves it. */
export interface Database {
  readonly engine: Engine;
  /** The path of the file, or the address. */
  readonly at: string;
  /** The program of the writer thread. */
  readonly writer?: string;
}

/** Entries of the audit trail: few more than are there, so that an attack has to push some out. */
const AUDIT_ROWS = 400;

/** Opens it. `end` closes the store and what it was made of. */
export function openDatabase({ engine, at, writer }: Database): { readonly store: Store; end(): Promise<void> } {
  const audit = { rows: AUDIT_ROWS };
  if (engine === "postgres") {
    const pool = new pg.Pool({ connectionString: at, max: 10 });
    pool.on("error", () => undefined);
    const store = postgresStore(pool, { audit });
    return {
      store,
      async end() {
        await store.close();
        await pool.end();
      },
    };
  }
  const thread = writer === undefined ? {} : { writer: new URL(writer) };
  const store = sqliteStore(at, { durability: "process", audit, ...thread });
  return { store, end: async () => store.close() };
}
