/** Makes a connection what the promises need: journal, durability, tables. Traps 2, 4. Knows nothing of keys. */
import { existsSync } from "node:fs";
import { KeystileError } from "../../../contracts/errors.js";
import type { SqliteStoreOptions } from "../options.js";
import { type ClosableHandle, loadDriver, openFile } from "./driver.js";
import { resultName } from "./errors.js";
import { adopt, type Handle, readPragma } from "./handle.js";
import { prepareSchema } from "./schema.js";
import { createTransact, retryWhileBusy, type Transact } from "./transaction.js";

type Options = Required<SqliteStoreOptions>;

/** A connection that is ready. */
export interface Connection {
  readonly handle: Handle;
  readonly transact: Transact;
  /** Runs an attempt to get past a lock, for which the driver may wait a little. */
  probe(attempt: () => void): void;
  /** Others may write through the same handle. */
  readonly isShared: boolean;
  /** Closes what was opened here; a handle of its owner stays open. */
  close(): void;
}

/**
 * Of the page cache, kibibytes: the index over the digests of a million keys fits.
 *
 * Why no mmap_size, though a cold find at a million keys is 20 % faster with it: a read error would end the process instead of
 * rising as an error.
 */
const CACHE_KIB = 65_536;

/** Milliseconds for which the driver waits by itself in a handle of its owner, and here at the end: it blocks the thread. */
export const DRIVER_BUSY_TIMEOUT = 50;
/**
 * The same for the one call that tries while others wait behind it. Without it (attempts by timers alone, 1 to 10 ms apart) 12 processes
 * on two cores, each with one spend in flight, got a quarter of the spends done: an attempt by the driver takes 85 µs, by a timer 280.
 */
const PROBE_WAIT = 25;

/** @throws KeystileError when the file cannot serve; whatever the driver says, for the caller to translate */
export function connect(file: string | Handle, options: Options): Connection {
  if (typeof file !== "string") {
    const handle = adopt(file);
    const transact = prepare(handle, options, Math.min(DRIVER_BUSY_TIMEOUT, options.busyTimeout));
    return shareHandle(handle, transact);
  }
  const { readonly } = options;
  const fileMustExist = options.mustExist || readonly;
  const driver = loadDriver();
  if (fileMustExist) assertThere(file);
  const handle = openFile(driver, file, { readonly, fileMustExist, timeout: 0 });
  try {
    const transact = prepare(handle, options, 0);
    handle.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
    return {
      handle,
      transact,
      probe: (attempt) => withDriverWait(handle, PROBE_WAIT, attempt),
      isShared: false,
      close: () => finish(handle, options),
    };
  } catch (cause) {
    handle.close();
    throw cause;
  }
}

/** @param driverWait milliseconds for which the driver waits for locks from then on */
function prepare(handle: Handle, options: Options, driverWait: number): Transact {
  assertIdle(handle);
  handle.exec(`PRAGMA busy_timeout = ${driverWait}`);
  // As a whole, so that several locks are waited for no longer than one.
  return retryWhileBusy(() => {
    useWal(handle);
    handle.exec(durabilityOf(options));
    handle.exec("PRAGMA foreign_keys = ON");
    const transact = createTransact(handle);
    prepareSchema(handle, transact);
    return transact;
  }, options.busyTimeout);
}

/**
 * A connection of another owner, who may let the driver wait for locks. In transactions of the store it waits no longer than in its own
 * connection: waits of many transactions in a row would add up.
 */
function shareHandle(handle: Handle, transact: Transact): Connection {
  let driverWait = 0;
  return {
    handle,
    transact: (work, onUndone) => withDriverWait(handle, driverWait, () => transact(work, onUndone)),
    probe(attempt) {
      driverWait = PROBE_WAIT;
      try {
        withDriverWait(handle, PROBE_WAIT, attempt);
      } finally {
        driverWait = 0;
      }
    },
    isShared: true,
    close: () => undefined,
  };
}

/** Acts while the driver waits for locks for so many milliseconds; afterwards it waits as before. */
function withDriverWait<T>(handle: Handle, milliseconds: number, act: () => T): T {
  const before = Number(readPragma(handle, "busy_timeout"));
  handle.exec(`PRAGMA busy_timeout = ${milliseconds}`);
  try {
    return act();
  } finally {
    try {
      handle.exec(`PRAGMA busy_timeout = ${before}`);
    } catch {
      // What was committed is: no setting may turn it into an error.
    }
  }
}

/** A deferred transaction takes no lock: it only fails inside another one, and on a handle that was closed. */
function assertIdle(handle: Handle): void {
  handle.exec("BEGIN");
  handle.exec("COMMIT");
}

/** SQLite's own words for this are no help. */
function assertThere(file: string): void {
  if (file === ":memory:" || existsSync(file)) return;
  throw new KeystileError(
    "STORE_FAILED",
    "there is no database file at this path, and none may be made (mustExist or readonly)",
  );
}

/** In memory there is no log; a database that may not be written keeps the journal that it has. */
function useWal(handle: Handle): void {
  if (["wal", "memory"].includes(String(readPragma(handle, "journal_mode")))) return;
  try {
    handle.exec("PRAGMA journal_mode = WAL");
  } catch (cause) {
    if (resultName(cause) !== "READONLY") throw cause;
  }
}

/** fullfsync matters on macOS only, where fsync alone leaves data in the drive's own memory. */
function durabilityOf({ durability }: Options): string {
  if (durability === "process")
    return "PRAGMA synchronous = NORMAL; PRAGMA fullfsync = OFF; PRAGMA checkpoint_fullfsync = OFF";
  return "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON";
}

/** The log is carried over into the file, so that a copy of the file alone is whole. */
function finish(handle: ClosableHandle, { readonly }: Options): void {
  try {
    if (!readonly) handle.exec(`PRAGMA busy_timeout = ${DRIVER_BUSY_TIMEOUT}; PRAGMA wal_checkpoint(TRUNCATE)`);
  } catch {
    // Another process is using the log: it will carry it over.
  } finally {
    handle.close();
  }
}
