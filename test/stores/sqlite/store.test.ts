/**
 * The SQLite store before the suite of every store; what is its own is tried in the folder beside this file. Shared by
 * two handles: `shared-store.test.ts`; with a writer thread: `writer-thread.test.ts`.
 */
import Database from "better-sqlite3";
import { cachedStore } from "../../cache/cached-store.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { storeSuite } from "../suite.js";
import { emptyFiles, foreignHandle, nullHandle, temporaryPaths } from "./support.js";

const newPath = temporaryPaths();
const path = await emptyFiles();
/** Where the driver is the subject: how commits reach the disk is tried with the others. */
const DRIVER = { durability: "process" } as const;

storeSuite("sqlite", () => sqliteStore(newPath()));
storeSuite("sqlite, process-durable, through the cache", () =>
  cachedStore(sqliteStore(path(), { durability: "process" })),
);
storeSuite("sqlite in memory", () => sqliteStore(":memory:"));
storeSuite("sqlite on a handle of its owner", () => sqliteStore(new Database(path())));
storeSuite("sqlite on a handle that answers bigints", () =>
  sqliteStore(new Database(path()).defaultSafeIntegers(), DRIVER),
);
storeSuite("sqlite on a handle with prepare and exec alone", () =>
  sqliteStore(foreignHandle(new Database(path())), DRIVER),
);
storeSuite("sqlite on a handle that answers null for no row", () =>
  sqliteStore(nullHandle(new Database(path())), DRIVER),
);
