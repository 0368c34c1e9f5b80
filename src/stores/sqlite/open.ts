/** Makes a connection what the promises need: journal, durability, tables. Traps 2, 4. Knows nothing of keys. */
import { existsSync } from "node:fs";
import { VerifierError } from "../../errors.js";
import { loadDriver, openFile, type OwnHandle } from "./driver.js";
import { resultName } from "./errors.js";
import { adopt, readPragma, type Handle } from "./handle.js";
import type { SqliteStoreOptions } from "./options.js";
import { prepareSchema } from "./schema.js";
import { createTransact, DRIVER_BUSY_TIMEOUT, patientlyNow, type Transact } from "./transaction.js";

type Options = Required<SqliteStoreOptions>;

/** A connection that is ready. */
export interface Connection {
  readonly handle: Handle;
  readonly transact: Transact;
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

/** @throws VerifierError when the file cannot serve; whatever the driver says, for the caller to translate */
export function connect(file: string | Handle, options: Options): Connection {
  if (typeof file !== "string") return prepare(adopt(file), options);
  const { readonly, busyTimeout } = options;
  const fileMustExist = options.mustExist || readonly;
  const driver = loadDriver();
  if (fileMustExist) assertThere(file);
  const own = openFile(driver, file, { readonly, fileMustExist, timeout: busyTimeout });
  try {
    own.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
    const connection = prepare(own, options);
    return { ...connection, isShared: false, close: () => finish(own, options) };
  } catch (cause) {
    own.close();
    throw cause;
  }
}

function prepare(handle: Handle, options: Options): Connection {
  assertIdle(handle);
  patientlyNow(() => useWal(handle), options.busyTimeout);
  handle.exec(durabilityOf(options));
  handle.exec("PRAGMA foreign_keys = ON");
  // While opening the driver may wait as long as the caller allows: there is no event loop to give way to.
  handle.exec(`PRAGMA busy_timeout = ${options.busyTimeout}`);
  const transact = createTransact(handle);
  prepareSchema(handle, transact);
  handle.exec(`PRAGMA busy_timeout = ${Math.min(DRIVER_BUSY_TIMEOUT, options.busyTimeout)}`);
  return { handle, transact, isShared: true, close: () => undefined };
}

/** A deferred transaction takes no lock: it only fails inside another one, and on a handle that was closed. */
function assertIdle(handle: Handle): void {
  handle.exec("BEGIN");
  handle.exec("COMMIT");
}

/** SQLite's own words for this are no help. */
function assertThere(file: string): void {
  if (file === ":memory:" || existsSync(file)) return;
  throw new VerifierError("STORE_FAILED", "there is no database file at this path, and none may be made (mustExist or readonly)");
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
  if (durability === "process") return "PRAGMA synchronous = NORMAL; PRAGMA fullfsync = OFF; PRAGMA checkpoint_fullfsync = OFF";
  return "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON";
}

/** The log is carried over into the file, so that a copy of the file alone is whole. */
function finish(own: OwnHandle, { readonly }: Options): void {
  try {
    if (!readonly) own.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // Another process is using the log: it will carry it over.
  } finally {
    own.close();
  }
}
