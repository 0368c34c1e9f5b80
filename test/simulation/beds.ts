/** Stores to simulate on. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../src/contracts/store.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { postgresBed } from "./postgres-bed.js";
import type { Bed } from "./world.js";

/** One store in memory, shared by all clients. */
export function memoryBed(): Bed {
  const store = memoryStore();
  return { open: () => store, probe: store, close: () => store.close() };
}

/** A real file: each client has a handle of its own, which a crash abandons. */
export function sqliteBed(): Bed {
  const folder = mkdtempSync(join(tmpdir(), "keystile-simulation-"));
  const handles: Store[] = [];
  const open = (): Store => {
    const store = sqliteStore(join(folder, "keys.db"), { durability: "process" });
    handles.push(store);
    return store;
  };
  return {
    open,
    probe: open(),
    findsAsPolled: true,
    async close() {
      for (const handle of handles) await handle.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const BEDS: Readonly<Record<string, (seed: number) => Bed | Promise<Bed>>> = {
  memory: memoryBed,
  sqlite: sqliteBed,
  postgres: postgresBed,
};
