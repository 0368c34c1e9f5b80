/**
 * Two SQLite stores on one file, before the suite of stores that processes share; writer threads:
 * `writer-thread.test.ts`.
 */
import { cachedStore } from "../../cache/cached-store.js";
import { sqliteStore, type SqliteStoreOptions } from "../../../src/stores/sqlite/index.js";
import { sharedStoreSuite } from "../suite.js";
import { emptyFiles } from "./support.js";

const path = await emptyFiles();

const twice = (options?: SqliteStoreOptions) => {
  const file = path();
  return [sqliteStore(file, options), sqliteStore(file, options)] as const;
};
sharedStoreSuite("sqlite, two on one file", () => twice());
sharedStoreSuite("sqlite, process-durable, each through a cache", () => {
  const [one, other] = twice({ durability: "process" });
  return [cachedStore(one), cachedStore(other)];
});
