/**
 * Stores to play on: the memory store, and SQLite files that are closed, copied as a crash leaves them, and opened
 * again.
 */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../src/contracts/store.js";
import { memoryStore } from "../../src/stores/memory.js";
import type { Bed } from "./stage.js";

/** Two hands on one store: each with caches and buckets of its own. */
export function memoryBed(): Bed {
  const store = memoryStore();
  return { handles: "one", open: () => store, close: () => store.close() };
}

/** Two handles on one file, as two processes would have. */
export function fileBed(openStore: (file: string) => Store): Bed {
  const folder = mkdtempSync(join(tmpdir(), "keystile-model-"));
  let stores: Store[] = [];
  let generation = 0;
  const file = () => join(folder, `${generation}.db`);
  const closeAll = async (): Promise<void> => {
    for (const store of stores) await store.close();
    stores = [];
  };
  return {
    handles: "two",
    open() {
      const store = openStore(file());
      stores.push(store);
      return store;
    },
    async restart(how) {
      const before = file();
      if (how === "crash") {
        // What the disk holds while the handles are open is what a process that dies now leaves behind.
        generation++;
        for (const suffix of ["", "-wal"])
          if (existsSync(before + suffix)) copyFileSync(before + suffix, file() + suffix);
      }
      await closeAll();
      if (how === "crash") for (const suffix of ["", "-wal", "-shm"]) rmSync(before + suffix, { force: true });
    },
    async close() {
      await closeAll();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
