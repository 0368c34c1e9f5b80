/** The SQLite store with a writer thread, and two of it on one file, before the suites of every store. */
import { cachedStore } from "../../../src/cache/key-cache.js";
import { sqliteStore, type SqliteStoreOptions } from "../../../src/stores/sqlite/index.js";
import { buildWriter } from "../../rigs/workers.js";
import { sharedStoreSuite, storeSuite } from "../suite.js";
import { emptyFiles, temporaryPaths } from "./support.js";

const newPath = temporaryPaths();
const path = await emptyFiles();
const writer = await buildWriter();

storeSuite("sqlite with a writer thread", () => sqliteStore(newPath(), { writer }));
storeSuite("sqlite with a writer thread, through the cache", () =>
  cachedStore(sqliteStore(path(), { writer, durability: "process" })),
);

const twice = (options?: SqliteStoreOptions) => {
  const file = path();
  return [sqliteStore(file, options), sqliteStore(file, options)] as const;
};
sharedStoreSuite("sqlite, two on one file", () => twice());
sharedStoreSuite("sqlite, process-durable, each through a cache", () => {
  const [one, other] = twice({ durability: "process" });
  return [cachedStore(one), cachedStore(other)];
});
sharedStoreSuite("sqlite, each with a writer thread", () => twice({ writer }));
sharedStoreSuite("sqlite, one with a writer thread, the other without", () => {
  const file = path();
  return [sqliteStore(file, { writer }), sqliteStore(file)];
});
