/** The SQLite store before the suite of every store; what is its own is tried in the folder beside this file. */
import Database from "better-sqlite3";
import { cachedStore } from "../../../src/cache/key-cache.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { buildWriter } from "../../rigs/workers.js";
import { storeSuite } from "../suite.js";
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
