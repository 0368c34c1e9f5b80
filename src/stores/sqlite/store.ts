/**
 * The SQLite store: one file, any number of processes on one host.
 *
 * Why one connection and by default no worker thread: every transaction is synchronous, so no other call of this
 * process sees half of it, and a find needs no message to a thread. For what a worker gains see `writer/writer.ts`.
 */
import type { Store } from "../../contracts/store.js";
import { trust } from "../../lib/guards/trusted.js";
import type { SqliteBackup } from "./backup/make-backup.js";
import { type BackupOptions, createBackup } from "./backup/start-backup.js";
import { type CounterSet, createCounters } from "./connection/counters.js";
import type { DriverName } from "./connection/driver.js";
import { toOpenError, toStoreError } from "./connection/errors.js";
import { type SqliteHandle, assertNamedRows } from "./connection/handle.js";
import { createHealth, type SqliteHealth } from "./connection/health.js";
import { connect, DRIVER_BUSY_TIMEOUT, type FileConnection } from "./connection/open.js";
import { retryWhileBusy } from "./connection/waiting.js";
import { readOptions, type SqliteHandleOptions, type SqliteSettings, type SqliteStoreOptions } from "./options.js";
import { type WiredTables, wireTables } from "./wire.js";
import { withWriter } from "./writer/writer.js";
import { assertRuntime } from "../../lib/runtime.js";

/** A {@link Store} with a health check and backups of its file. */
export interface SqliteStore extends Store {
  /** The path of the database, absolute and without symbolic links; empty: it is in memory. */
  readonly path: string;
  /** Examines file and connection. Reads the disk: not for every request. */
  health(): SqliteHealth;
  /**
   * Copies the whole database to a new file while processes verify and change keys. A thread makes the copy, with a
   * connection of its own; the `-wal` grows by what is written meanwhile. `keystile restore` puts it in place.
   *
   * The copy has everything that was acknowledged before the call, and nothing that was acknowledged after the promise
   * resolved. Leases are void in it: what they held counts as forfeited there.
   * @param path of a file that does not exist, in a folder that does; made with mode 0600. It gets this name once it is
   * complete and on disk: until then it ends in `.part`
   * @param options see {@link BackupOptions}
   * @returns what is in the copy
   * @throws (rejects with) TypeError: `path` is none; KeystileError CONFLICT: a file is there; STORE_POWER_MISSING: the
   * store is in memory or on a handle of its owner; STORE_FULL, STORE_FAILED: the copy cannot be written, or the
   * thread's program is not found; STORE_INVALID: the database is damaged; STORE_BUSY; STORE_CLOSED
   */
  backup(path: string, options?: BackupOptions): Promise<SqliteBackup>;
}

/**
 * Keeps keys in an SQLite file. Its `KeyRef` is a number. Copy the file with `backup`, and restore it only while no
 * process has it open. A new file is readable and writable by its owner only. If it is deleted, replaced, truncated or
 * upgraded by a later keystile while it is open, `pollChanges` and every write fail with STORE_FILE_CHANGED or
 * STORE_SCHEMA_NEWER, within the bound of `staleness`. `spendCredits` alone does not notice an upgrade: poll first, as
 * verifiers do.
 * @param file a path, or an open handle. A path is opened with better-sqlite3 12 or 13, or with node:sqlite where that
 * does not load, and created unless `mustExist`; `":memory:"` for a database in memory. A handle of better-sqlite3,
 * node:sqlite or bun:sqlite gets WAL, `synchronous`, `foreign_keys` and a `busy_timeout` of at most 50 ms, and
 * `close()` leaves it open
 * @param options see {@link SqliteStoreOptions}; with a handle only {@link SqliteHandleOptions}
 * @throws TypeError or RangeError naming an option, or saying what is wrong with `file`: a path with spaces at its
 * ends, a handle whose rows are arrays; KeystileError DRIVER_MISSING or DRIVER_UNSUPPORTED, both saying what to run;
 * STORE_INVALID (empty, not a database, one of another program, made before keystile 0.1.0, or beside a `-wal` of
 * another), STORE_FILE_LINKED (hard links, or a file mounted by itself), STORE_SCHEMA_NEWER, STORE_READ_ONLY (no tables
 * or old ones in a file that may not be written), STORE_BUSY, STORE_FULL, STORE_FAILED
 * @see src/contracts/store.ts for the contract · a single find in a turn takes 1.15 times as long as a bare SELECT and
 * JSON.parse, several in one turn 0.75 times each; a single spend 1.2 times as long as a bare UPDATE in a transaction
 */
export function sqliteStore(file: string | SqliteHandle, options?: SqliteHandleOptions): SqliteStore;
export function sqliteStore(file: string, options?: SqliteStoreOptions): SqliteStore;
export function sqliteStore(file: string | SqliteHandle, options: SqliteStoreOptions = {}): SqliteStore {
  assertFile(file);
  const settings = readOptions(options, typeof file === "string");
  assertFits(file, settings);
  try {
    const connection = connect(file, settings);
    try {
      const { store, counters } = wire(connection, settings);
      return trust(
        settings.writer === "inline" || typeof file !== "string"
          ? store
          : withWriter(store, { path: file, options: settings, driver: connection.driver }, counters),
      );
    } catch (cause) {
      connection.close();
      throw cause;
    }
  } catch (cause) {
    throw typeof file === "string" ? toOpenError(cause, file) : toStoreError(cause);
  }
}

/** A store that also accepts keys encoded by another thread. */
export interface WriterStore extends Pick<WiredTables, "insertEncoded" | "deadline"> {
  readonly store: SqliteStore;
  readonly counters: CounterSet;
}

/** Opens a store in the writer thread, with the driver that the store's own thread has chosen. */
export function writerStore(path: string, options: SqliteStoreOptions, driver: DriverName | undefined): WriterStore {
  try {
    const settings = readOptions(options, true);
    return wire(connect(path, settings, driver), settings);
  } catch (cause) {
    throw toOpenError(cause, path);
  }
}

function wire(connection: FileConnection, settings: SqliteSettings): WriterStore {
  const counters = createCounters();
  const { store, examining, ...writing } = wireTables(connection, settings, counters);
  const examine = createHealth(connection, settings, counters);
  const startBackup = createBackup(connection, settings);
  return {
    ...writing,
    counters,
    store: {
      ...store,
      path: connection.file.path,
      health: examining(() => retryWhileBusy(examine, DRIVER_BUSY_TIMEOUT)),
      backup: async (path, options) => examining(startBackup)(path, options),
    },
  };
}

/* Checks the `file` argument, a path or a handle, before anything is opened. */

/** @throws TypeError: neither a path that the driver opens unchanged, nor a handle whose rows can be read */
function assertFile(file: unknown): void {
  assertRuntime();
  if (typeof file === "string") return assertPath(file);
  const { prepare, exec } = (file ?? {}) as Partial<SqliteHandle>;
  if (typeof prepare !== "function" || typeof exec !== "function") throw new TypeError(INVALID_FILE);
  assertNamedRows(file as SqliteHandle);
}

const INVALID_FILE = "file must be a path of well-formed text, or an open database handle with prepare() and exec()";

/** The driver cuts a path at U+0000 and trims it: it would open another file, or a database in memory. */
function assertPath(path: string): void {
  if (path === "" || path.includes("\0") || !path.isWellFormed()) throw new TypeError(INVALID_FILE);
  if (path !== path.trim()) {
    throw new TypeError(
      "file must be a path without spaces at its ends: better-sqlite3 drops them, and would open another file or none",
    );
  }
}

/** @throws TypeError naming an option that makes no sense for a database in memory */
function assertFits(file: unknown, { writer, readonly }: Required<SqliteStoreOptions>): void {
  if (file !== ":memory:") return;
  if (writer !== "inline")
    throw new TypeError("options.writer is for files: no other thread can see a database in memory");
  if (readonly) throw new TypeError("options.readonly is for files: a database in memory begins without tables");
}
