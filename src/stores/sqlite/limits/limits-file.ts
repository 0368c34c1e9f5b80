/**
 * The file of the rate limits, and the connection to it.
 *
 * Why a file of its own beside the store's: buckets change with every call and may be forgotten in a power cut, credits
 * may not. In one file they would share its log and its write lock, so that takes wait for the fsyncs of spends and
 * bring checkpoints, and their fsyncs, upon them. It also keeps backups free of buckets.
 *
 * Why `synchronous = NORMAL`: a commit is in the system's memory, where the end of the process does not reach it, and
 * only a checkpoint waits for the disk. A power cut takes the file back to an earlier commit, and never damages it.
 */
import { KeystileError } from "../../../contracts/errors.js";
import { dataVersionOf, watchFile } from "../connection/database-file.js";
import { toOpenError } from "../connection/errors.js";
import { type Handle, readPragma, select } from "../connection/handle.js";
import { finish, openOwn, probeOf } from "../connection/open.js";
import { createTransact } from "../connection/transaction.js";
import { retryWhileBusy } from "../connection/waiting.js";
import { hasTables, makeTables } from "./limits-tables.js";
import type { LimitsConnection } from "./wire-limiter.js";

/** Where the rate limits of a database are: this follows the name of its file. */
const SUFFIX = "-limits";

/** Marks the file in its header: "KSTB". */
const APPLICATION_ID = 0x4b535442;

/** Kibibytes of the page cache. */
const CACHE_KIB = 65_536;
/** Pages after which the log is carried over: two fsyncs in so many. */
const LOG_PAGES = 1_000;
/** Bytes to which a log that grew longer is cut. */
const MAX_LOG_BYTES = 16_777_216;
/** Where the rate limits of the database at `path` are. */
export function limitsPathOf(path: string): string {
  return `${path}${SUFFIX}`;
}

/**
 * Opens the file, and makes it if there is none.
 * @param path from {@link limitsPathOf}
 * @param wait milliseconds to wait for locks; blocks
 * @throws KeystileError as `sqliteLimiter` does
 */
export function openLimits(path: string, wait: number): LimitsConnection {
  try {
    return connect(path, wait);
  } catch (cause) {
    throw toOpenError(cause, `the file of the rate limits beside the database, ${path}`);
  }
}

function connect(path: string, wait: number): LimitsConnection {
  return openOwn(path, { readonly: false, fileMustExist: false, wait }, (handle) => {
    // Whatever reads the file may meet the lock of another process that is making it.
    const transact = retryWhileBusy(() => {
      assertOwnTables(handle);
      handle.exec("PRAGMA journal_mode = WAL");
      handle.exec("PRAGMA synchronous = NORMAL; PRAGMA fullfsync = OFF; PRAGMA checkpoint_fullfsync = OFF");
      const made = createTransact(handle);
      if (!hasTables(handle)) made(() => completeTables(handle));
      handle.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA journal_size_limit = ${MAX_LOG_BYTES};
        PRAGMA wal_autocheckpoint = ${LOG_PAGES}`);
      return made;
    }, wait);
    return {
      handle,
      file: watchFile(handle),
      dataVersion: dataVersionOf(handle),
      transact,
      probe: probeOf(handle),
      close: () => finish(handle),
    };
  });
}

/** @throws KeystileError STORE_INVALID: a database of something else */
function assertOwnTables(handle: Handle): void {
  const tables = select<{ name: string }>(handle, "SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  if (tables.length === 0 || tables.some(({ name }) => name === "keystile_limits")) return;
  throw new KeystileError("STORE_INVALID", "it is a database of something else; move it away");
}

/** Inside a transaction, so that one process makes them. */
function completeTables(handle: Handle): boolean {
  makeTables(handle);
  if (Number(readPragma(handle, "application_id")) === 0) handle.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
  return true;
}
