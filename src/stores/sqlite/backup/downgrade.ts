/** Takes a database file back to the tables of an earlier keystile. */
import { loadDriver, withFile } from "../connection/driver.js";
import { toStoreError } from "../connection/errors.js";
import { assertOwnLog } from "../connection/foreign-log.js";
import { downgradeSchema } from "../connection/schema.js";
import { createTransact } from "../connection/transaction.js";
import { assertTables } from "./make-backup.js";

/** Milliseconds to wait for locks. */
const WAIT = 10_000;

/**
 * @param to version of the tables that the earlier keystile knows
 * @returns the version that they had
 * @throws KeystileError CONFLICT: there is no way back, and nothing was changed; STORE_INVALID, STORE_SCHEMA_NEWER,
 * STORE_BUSY, STORE_FAILED
 */
export function downgradeFile(path: string, to: number): number {
  try {
    return withFile(loadDriver(), { path, readonly: false, timeout: WAIT }, (handle) => {
      assertOwnLog(path);
      assertTables(handle);
      handle.exec("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
      return downgradeSchema(handle, createTransact(handle), to);
    });
  } catch (cause) {
    throw toStoreError(cause);
  }
}
