/**
 * Copies a database while it is in use: one file, consistent, that a store opens as it opens any other.
 *
 * Why VACUUM INTO: it reads one snapshot, which writers do not disturb. SQLite's backup interface starts again whenever
 * another process writes, and never ended under two busy writers.
 */
import { rmSync, statSync } from "node:fs";
import { KeystileError } from "../../../contracts/errors.js";
import { makeFile } from "../connection/descriptor.js";
import { type Driver, type DriverName, loadDriver, withFile } from "../connection/driver.js";
import { toStoreError } from "../connection/errors.js";
import { assertOwnLog } from "../connection/foreign-log.js";
import type { Handle } from "../connection/handle.js";
import { readVersion } from "../connection/schema.js";
import { COMPANIONS, filesAt, publish, syncFile, taken, toFileError } from "./files.js";
import { prepareCopy } from "./prepare-copy.js";

/** A backup that was made. */
export interface SqliteBackup {
  /** Size of the backup. */
  readonly bytes: number;
  /** Balances in it. */
  readonly accounts: number;
  /** Of these, how many do not add up, in the original too: `keystile doctor --reconcile` names them. */
  readonly broken: number;
  /** Leases that were open. They are void in the backup. */
  readonly leases: number;
  /** Credits that these leases held: forfeited in the backup. */
  readonly forfeited: number;
}

/** What to copy, and where to. */
export interface BackupOrder {
  /** The database file. */
  readonly path: string;
  /** The backup, which must not exist. */
  readonly target: string;
  /** A free name beside `target`, for the file while it is written. */
  readonly temporary: string;
  /** Open the database for reading only. */
  readonly readonly: boolean;
  /** Milliseconds to wait for locks. */
  readonly busyTimeout: number;
  /** What the store was opened with. Default: what `loadDriver` chooses. */
  readonly driver?: DriverName | undefined;
}

/**
 * Makes a backup. Blocks the thread: seconds for a million keys.
 * @param onAccounts called with the number of accounts proved so far, once the file is copied
 * @throws KeystileError CONFLICT: the target exists; STORE_FULL, STORE_FAILED: it cannot be written; STORE_INVALID: the
 * database is damaged or has no keystile tables; STORE_SCHEMA_NEWER; STORE_BUSY; DRIVER_… as opening does
 */
export function makeBackup(order: BackupOrder, onAccounts: (accounts: number) => void = () => undefined): SqliteBackup {
  const { target, temporary } = order;
  if (filesAt(target).length > 0) throw taken();
  try {
    makeFile(temporary);
    try {
      const driver = loadDriver({ only: order.driver });
      copyDatabase(driver, order);
      const { leases, forfeited, credits } = prepareCopy(driver, temporary, onAccounts);
      syncFile(temporary);
      const bytes = statSync(temporary).size;
      publish(temporary, target);
      return { bytes, accounts: credits.accounts, broken: credits.broken, leases, forfeited };
    } finally {
      for (const end of ["", ...COMPANIONS]) rmSync(`${temporary}${end}`, { force: true });
    }
  } catch (cause) {
    throw toStoreError(toFileError(cause, "the backup"));
  }
}

function copyDatabase(driver: Driver, order: BackupOrder): void {
  const { path, temporary, readonly, busyTimeout } = order;
  withFile(driver, { path, readonly, timeout: busyTimeout }, (handle) => {
    assertOwnLog(path);
    assertTables(handle);
    handle.prepare("VACUUM INTO ?").run(temporary);
  });
}

/** @returns their version @throws KeystileError STORE_INVALID, STORE_SCHEMA_NEWER */
export function assertTables(handle: Handle): number {
  const version = readVersion(handle);
  if (version === 0) throw new KeystileError("STORE_INVALID", "the file has no keystile tables");
  return version;
}
