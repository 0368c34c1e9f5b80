/** The SQLite store before the suite of every store; what is its own is tried in the folder beside this file. */
import Database from "better-sqlite3";
import { cachedStore } from "../../../src/cache/key-cache.js";
import { sqliteStore, type SqliteStoreOptions } from "../../../src/stores/sqlite/index.js";
import { buildWriter } from "../../rigs/workers.js";
import { sharedStoreSuite, storeSuite } from "../suite.js";
import { foreignHandle, nullHandle, temporaryPaths } from "./support.js";

const path = temporaryPaths();
const writer = await buildWriter();

storeSuite("sqlite", () => sqliteStore(path()));
storeSuite("sqlite, process-durable, through the cache", () =>
  cachedStore(sqliteStore(path(), { durability: "process" })),
);
storeSuite("sqlite in memory", () => sqliteStore(":memory:"));
storeSuite("sqlite on a handle of its owner", () => sqliteStore(new Database(path())));
storeSuite("sqlite on a handle that answers bigints", () => sqliteStore(new Database(path()).defaultSafeIntegers()));
storeSuite("sqlite on a handle with prepare and exec alone", () => sqliteStore(foreignHandle(new Database(path()))));
storeSuite("sqlite on a handle that answers null for no row", () => sqliteStore(nullHandle(new Database(path()))));
storeSuite("sqlite with a writer thread", () => sqliteStore(path(), { writer }));
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
