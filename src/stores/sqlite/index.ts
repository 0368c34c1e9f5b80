/**
 * The entry `keystile/sqlite`: keys in an SQLite file. A path is opened with better-sqlite3 where that loads, else
 * with node:sqlite; neither is loaded before.
 * @module keystile/sqlite
 */
export type { StoreCounters, StoreHealth } from "../../contracts/health.js";
export type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
export type { MaybePromise } from "../../contracts/types.js";
export type { SqliteBackup } from "./backup/make-backup.js";
export type { BackupOptions, BackupProgress } from "./backup/start-backup.js";
export type { SqliteHandle, SqliteRunResult, SqliteStatement } from "./connection/handle.js";
export type { SqliteHealth } from "./connection/health.js";
export { sqliteLimiter, type SqliteLimiterOptions } from "./limits/limiter.js";
export type { SqliteLimiter, SqliteLimiterCounters } from "./limits/wire-limiter.js";
export type { SqliteAuditOptions, SqliteHandleOptions, SqliteStoreOptions } from "./options.js";
export { sqliteStore, type SqliteStore } from "./store.js";
