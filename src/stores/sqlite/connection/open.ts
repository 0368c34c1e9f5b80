/** Opens and configures a connection: journal mode, durability, lock timeouts, tables. */
import type { SqliteStoreOptions } from "../options.js";
import type { Connection, FileWatch, Transact } from "./connection.js";
import {
  assertOwnDatabase,
  dataVersionOf,
  discardUnwritten,
  markFile,
  prepareFile,
  settleLog,
  watchFile,
} from "./database-file.js";
import { type ClosableHandle, type Driver, type DriverName, loadDriver, openFile, type OpenOptions } from "./driver.js";
import { resultName } from "./errors.js";
import { assertOwnLog } from "./foreign-log.js";
import { adopt, type Handle, isInFile, readPragma } from "./handle.js";
import { assertWhole, prepareSchema, watchSchema } from "./schema.js";
import { createTransact } from "./transaction.js";
import { retryWhileBusy } from "./waiting.js";

type Options = Required<SqliteStoreOptions>;

/** A connection of this machine. */
export interface FileConnection extends Connection {
  /** What opened the file; `undefined`: its owner did. */
  readonly driver: DriverName | undefined;
}

/**
 * Page cache size, kibibytes: enough for the index over the digests of a million keys.
 *
 * Why no mmap_size, though it makes a cold find among a million keys 20 % faster: a read error would end the process
 * instead of being thrown.
 */
const CACHE_KIB = 65_536;

/**
 * Bytes to which a log that grew longer is cut when it begins anew: the disk of a day with a stuck reader comes back.
 */
const MAX_LOG_BYTES = 67_108_864;

/**
 * Milliseconds for which the driver itself waits for locks, blocking the thread: on the caller's handle, and on close.
 */
export const DRIVER_BUSY_TIMEOUT = 50;
/**
 * The same for the first call in the lock queue. With timers alone (1 to 10 ms apart), 12 processes on two cores with
 * one spend in flight each got a quarter of the spends done: an attempt by the driver takes 85 µs, by a timer 280.
 * Why no longer: the thread is blocked meanwhile. With 25 four busy processes did no more spends together, and each
 * blocked its event loop for 30 ms (p99) instead of some 15.
 */
const PROBE_WAIT = 5;

/**
 * @param only the driver to open a path with: what another thread has chosen
 * @throws KeystileError when the file cannot be used; otherwise the driver's error, for the caller to translate
 */
export function connect(file: string | Handle, options: Options, only?: DriverName): FileConnection {
  if (typeof file !== "string") {
    const handle = adopt(file);
    const watch = watchFile(handle);
    const transact = prepare(handle, watch, options, Math.min(DRIVER_BUSY_TIMEOUT, options.busyTimeout));
    return { ...shareHandle(handle, watch, transact), ...stateOf(handle, options) };
  }
  const { readonly } = options;
  const fileMustExist = options.mustExist || readonly;
  return openOwn(file, { only, readonly, fileMustExist, wait: options.busyTimeout }, (opened, driver) => {
    const handle = retryWhileBusy(() => {
      const adopted = adopt(opened);
      assertOwnDatabase(adopted);
      return adopted;
    }, options.busyTimeout);
    const watch = watchFile(handle);
    const transact = prepare(handle, watch, options, 0);
    if (!readonly) retryWhileBusy(() => markFile(handle), options.busyTimeout);
    handle.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA journal_size_limit = ${MAX_LOG_BYTES}`);
    return {
      driver: driver.name,
      handle,
      file: watch,
      ...sizeLog(handle, transact),
      probe: probeOf(handle),
      isShared: false,
      sharesReads: true,
      ...stateOf(handle, options),
      close: () => finish(opened, readonly),
    };
  });
}

/**
 * Opens a file, which is made if it may be, and closes it if it cannot be used.
 * @param wait milliseconds to wait while another process has just made it and not written to it; blocks
 */
export function openOwn<T>(
  path: string,
  { only, wait, ...options }: Omit<OpenOptions, "timeout"> & { only?: DriverName | undefined; wait: number },
  use: (opened: ClosableHandle, driver: Driver) => T,
): T {
  const driver = loadDriver({ only });
  const isNew = prepareFile(path, options.fileMustExist, wait);
  const opened = openFile(driver, path, { ...options, timeout: 0 });
  try {
    assertOwnLog(path);
    return use(opened, driver);
  } catch (cause) {
    opened.close();
    if (isNew) discardUnwritten(path, cause);
    throw cause;
  }
}

/** @param driverWait milliseconds for which the driver waits for locks from now on */
function prepare(handle: Handle, { path }: FileWatch, options: Options, driverWait: number): Transact {
  assertIdle(handle);
  handle.exec(`PRAGMA busy_timeout = ${driverWait}`);
  if (!options.readonly) settleLog(handle, path);
  // As a whole, so that the timeout covers all locks together.
  return retryWhileBusy(() => {
    useWal(handle);
    handle.exec(durabilityOf(options));
    handle.exec("PRAGMA foreign_keys = ON");
    const transact = createTransact(handle);
    prepareSchema(handle, transact);
    assertWhole(handle);
    return transact;
  }, options.busyTimeout);
}

/**
 * A connection on the caller's handle, whose `busy_timeout` stays in force outside the store's transactions. Inside
 * them the driver does not wait, as on the store's own connections: waits of many transactions in a row would add up.
 */
function shareHandle(handle: Handle, file: FileWatch, transact: Transact): Omit<FileConnection, keyof State> {
  let driverWait = 0;
  const briefly: Transact = (work, onUndone) => withDriverWait(handle, driverWait, () => transact(work, onUndone));
  return {
    driver: undefined,
    handle,
    file,
    transact: briefly,
    transactLong: briefly,
    probe(attempt) {
      driverWait = PROBE_WAIT;
      try {
        withDriverWait(handle, PROBE_WAIT, attempt);
      } finally {
        driverWait = 0;
      }
    },
    isShared: true,
    sharesReads: false,
    close: () => undefined,
  };
}

type State = Pick<Connection, "dataVersion" | "assertSchema" | "powers">;

/** A database in memory has no file: it ends with its connection, and no other process can use it. */
function stateOf(handle: Handle, { durability }: Options): State {
  const isFile = isInFile(handle);
  return {
    dataVersion: dataVersionOf(handle),
    assertSchema: watchSchema(handle),
    powers: { changes: isFile ? "polled" : "own", durability: isFile ? durability : "none" },
  };
}

/** {@link Connection.probe} of a handle that was opened here. */
export const probeOf =
  (handle: Handle) =>
  (attempt: () => void): void =>
    withDriverWait(handle, PROBE_WAIT, attempt);

/** Calls `act` with this `busy_timeout`, then restores the previous one. */
function withDriverWait<T>(handle: Handle, milliseconds: number, act: () => T): T {
  const before = Number(readPragma(handle, "busy_timeout"));
  handle.exec(`PRAGMA busy_timeout = ${milliseconds}`);
  try {
    return act();
  } finally {
    try {
      handle.exec(`PRAGMA busy_timeout = ${before}`);
    } catch {
      // The commit stands: failing to restore a setting must not turn it into an error.
    }
  }
}

/** A deferred transaction takes no lock: it fails only inside another transaction, or on a closed handle. */
function assertIdle(handle: Handle): void {
  handle.exec("BEGIN");
  handle.exec("COMMIT");
}

/** A database in memory has no WAL; a read-only one keeps its journal mode. */
function useWal(handle: Handle): void {
  if (["wal", "memory"].includes(String(readPragma(handle, "journal_mode")))) return;
  try {
    handle.exec("PRAGMA journal_mode = WAL");
  } catch (cause) {
    if (resultName(cause) !== "READONLY") throw cause;
  }
}

/** fullfsync matters on macOS only, where fsync alone leaves data in the drive's cache. */
function durabilityOf({ durability }: Options): string {
  if (durability === "process")
    return "PRAGMA synchronous = NORMAL; PRAGMA fullfsync = OFF; PRAGMA checkpoint_fullfsync = OFF";
  return "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON";
}

/** Checkpoints the WAL, so that a copy of the database file alone is complete. */
export function finish(handle: ClosableHandle, readonly = false): void {
  try {
    if (!readonly) handle.exec(`PRAGMA busy_timeout = ${DRIVER_BUSY_TIMEOUT}; PRAGMA wal_checkpoint(TRUNCATE)`);
  } catch {
    // Another process is using the WAL and will checkpoint it.
  } finally {
    handle.close();
  }
}

/* Size at which the write-ahead log (WAL) is checkpointed: one for single commits, one for imports. */

/**
 * Pages, for single commits. A commit that extends the WAL file takes 340 µs, one that overwrites earlier pages 180
 * (durability "power"; a bare update 130), and a short WAL soon stops growing.
 */
const SHORT = 1_000;
/** Pages, for imports: at 1,000 every batch triggered a checkpoint and took 1.3 times as long. */
const LONG = 4_000;

/** The same transactions with a short and with a long WAL. */
function sizeLog(handle: Handle, transact: Transact): Pick<Connection, "transact" | "transactLong"> {
  let current = 0;
  const withPages =
    (pages: number): Transact =>
    (work, onUndone) => {
      if (current !== pages) handle.exec(`PRAGMA wal_autocheckpoint = ${(current = pages)}`);
      return transact(work, onUndone);
    };
  return { transact: withPages(SHORT), transactLong: withPages(LONG) };
}
