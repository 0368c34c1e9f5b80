/** The entry `keystile/sqlite`: keys in an SQLite file. Needs better-sqlite3 once a path is opened, and not before. */
export type { SqliteHandle, SqliteRunResult, SqliteStatement } from "./stores/sqlite/handle.js";
export type { HealthOptions, SqliteHealth } from "./stores/sqlite/health.js";
export type { SqliteHandleOptions, SqliteStoreOptions } from "./stores/sqlite/options.js";
export { sqliteStore, type SqliteStore } from "./stores/sqlite/store.js";
