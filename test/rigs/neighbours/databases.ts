/** The databases of the rig: each run gets a copy of its own of the same rows. */
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { PostgresStore } from "../../../src/stores/postgres/index.js";
import { startPostgres, type TestPostgres } from "../../servers/postgres.js";
import { buildWriter } from "../workers.js";
import { type Database, type Engine, openDatabase } from "./open-database.js";
import { createWorld, type World } from "./world.js";

/** Makes databases with the same rows. */
export interface Databases {
  /** @param roles of the key whose permissions are many */
  make(engine: Engine, roles: number): Promise<{ readonly database: Database; readonly world: World }>;
  remove(database: Database): void;
  close(): Promise<void>;
}

/** @param folder for files */
export function createDatabases(folder: string): Databases {
  /** The first one of each kind, which others are copies of. */
  const originals = new Map<string, Promise<{ readonly at: string; readonly world: World }>>();
  let server: Promise<TestPostgres> | undefined;
  let made = 0;
  const newPlace = async (isPostgres: boolean): Promise<string> =>
    isPostgres ? (await (server ??= startPostgres())).newDatabase() : join(folder, `${++made}.db`);
  const fill = async (engine: Engine, roles: number) => {
    const at = await newPlace(engine === "postgres");
    const { store, end } = openDatabase({ engine, at });
    try {
      if (engine === "postgres") await (store as PostgresStore).setUp();
      return { at, world: await createWorld(store, roles) };
    } finally {
      await end();
    }
  };
  return {
    async make(engine, roles) {
      const isPostgres = engine === "postgres";
      const kind = `${isPostgres} ${roles}`;
      const original = originals.get(kind) ?? fill(isPostgres ? "postgres" : "sqlite", roles);
      originals.set(kind, original);
      const { at, world } = await original;
      if (!isPostgres) {
        const copy = await newPlace(false);
        copyFileSync(at, copy);
        const writer = engine === "sqlite" ? {} : { writer: (await buildWriter()).href };
        return { database: { engine, at: copy, ...writer }, world };
      }
      const copy = new URL(at);
      const template = copy.pathname.slice(1);
      copy.pathname = `/run_${++made}`;
      await (await server!).sql(`CREATE DATABASE run_${made} TEMPLATE ${template}`);
      return { database: { engine, at: copy.href }, world };
    },
    remove({ engine, at }) {
      if (engine === "postgres") return;
      for (const suffix of ["", "-wal", "-shm"]) rmSync(at + suffix, { force: true });
    },
    async close() {
      await (await server)?.close();
    },
  };
}
