/** Puts a backup in the place of a database: proved first, and without losing what was there. */
import { existsSync, realpathSync, renameSync, rmSync, statSync } from "node:fs";
import { KeystileError } from "../../../contracts/errors.js";
import { type Driver, loadDriver, openFile, withFile } from "../connection/driver.js";
import { isBusy, toStoreError } from "../connection/errors.js";
import { hasForeignLog, readMode } from "../connection/foreign-log.js";
import { type Handle, select } from "../connection/handle.js";
import {
  addName,
  COMPANIONS,
  copyPrivate,
  filesAt,
  publish,
  syncFile,
  syncFolderOf,
  temporaryName,
  toFileError,
} from "./files.js";
import { assertTables, type SqliteBackup } from "./make-backup.js";
import { type PreparedCopy, prepareCopy } from "./prepare-copy.js";

export interface RestoreOptions {
  /** Move what is at the target aside. Without it the target, its `-wal`, `-shm` and `-journal` must not exist. */
  readonly force: boolean;
  /** Unix milliseconds, for the name of what is moved aside. */
  readonly now: number;
  /** Called with what is being done, and how much of it is: bytes copied, accounts proved. */
  readonly onProgress: (what: "copying" | "proving", done: number) => void;
}

/**
 * What was restored. `leases` counts those that the backup still had, and `forfeited` the credits in them: both are 0
 * for what `npx keystile backup` made.
 */
export interface Restored extends Omit<SqliteBackup, "broken"> {
  /** Paths of the files that were there before, under their new names. */
  readonly movedAside: readonly string[];
}

/**
 * Copies a backup to `target`, after proving the copy. The backup itself is not changed, nor opened as a database.
 * @throws KeystileError CONFLICT: the target or a log beside it exists; STORE_BUSY: a process has the target open;
 * STORE_INVALID: the backup is damaged, is no backup or does not add up; STORE_SCHEMA_NEWER; STORE_FULL, STORE_FAILED
 */
export function restoreBackup(backup: string, target: string, options: RestoreOptions): Restored {
  const { force, onProgress } = options;
  // SQLite keeps the log beside the file that a symbolic link points to.
  const path = existsSync(target) ? realpathSync(target) : target;
  if (!force) assertFree(path);
  assertAlone(backup);
  const temporary = temporaryName(path);
  try {
    const driver = loadDriver();
    try {
      copyPrivate(backup, temporary, (bytes) => onProgress("copying", bytes));
      const { leases, forfeited, credits } = proveCopy(driver, temporary, onProgress);
      syncFile(temporary);
      const bytes = statSync(temporary).size;
      const movedAside = force && filesAt(path).length > 0 ? replace(driver, temporary, path, options.now) : [];
      if (movedAside.length === 0) publish(temporary, path);
      return { bytes, accounts: credits.accounts, leases, forfeited, movedAside };
    } finally {
      for (const end of ["", ...COMPANIONS]) rmSync(`${temporary}${end}`, { force: true });
    }
  } catch (cause) {
    throw toStoreError(toFileError(cause, "the restored file"));
  }
}

function assertFree(path: string): void {
  if (existsSync(path))
    throw new KeystileError(
      "CONFLICT",
      "there is already a database file; nothing was changed. With --force it is moved aside, with its -wal and -shm",
    );
  if (filesAt(path).length > 0)
    throw new KeystileError(
      "CONFLICT",
      "where the database file should go lies a -wal, -shm or -journal of another file, which SQLite would take for its " +
        "own; nothing was changed. With --force they are moved aside",
    );
}

function assertAlone(backup: string): void {
  if (filesAt(backup).length > 1)
    throw new KeystileError(
      "STORE_INVALID",
      "beside the backup lies a -wal, -shm or -journal: a program has it open or was killed while it had; take a backup " +
        "of it with `npx keystile backup`, and restore that",
    );
}

/** @throws KeystileError STORE_INVALID, STORE_SCHEMA_NEWER; otherwise the driver's error */
function proveCopy(driver: Driver, copy: string, onProgress: RestoreOptions["onProgress"]): PreparedCopy {
  withFile(driver, { path: copy, readonly: true, timeout: 0 }, (handle) => {
    if (readMode(copy) === "wal")
      throw new KeystileError(
        "STORE_INVALID",
        "this is a database in use, or a copy of its file, and no backup: what was in its -wal may be missing. Make a " +
          "backup with `npx keystile backup`",
      );
    assertTables(handle);
    onProgress("proving", 0);
    assertWhole(handle);
  });
  const prepared = prepareCopy(driver, copy, (accounts) => onProgress("proving", accounts));
  const { broken, named } = prepared.credits;
  if (broken > 0)
    throw new KeystileError(
      "STORE_INVALID",
      `the credits of ${broken} keys of the backup do not add up, the first is ${named[0]?.keyId}; \`keystile doctor ` +
        "--reconcile --db\` names them. To use it nevertheless, copy it to its place yourself: these keys refuse to " +
        "spend until their balance is set",
    );
  return prepared;
}

function assertWhole(handle: Handle): void {
  const faults = select<Record<string, string>>(handle, "PRAGMA integrity_check(3)")
    .all()
    .flatMap((row) => Object.values(row))
    .filter((text) => text !== "ok");
  if (faults.length > 0) throw new KeystileError("STORE_INVALID", "the backup is damaged; use another");
}

/**
 * Puts a finished file in the place of a database, and gives what was there other names.
 *
 * The old files get their new names first, so that they stay a whole database whenever this ends early. The old log is
 * removed after the new file has its name on disk: a crash in between leaves the new file beside a log that opening
 * recognises as another's.
 */
function replace(driver: Driver, temporary: string, path: string, now: number): string[] {
  assertUnused(driver, path);
  const aside = `${path}.before-restore-${new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
  const moved: string[] = [];
  for (const file of filesAt(path)) {
    const name = `${aside}${file.slice(path.length)}`;
    addName(file, name);
    moved.push(name);
  }
  syncFolderOf(path);
  renameSync(temporary, path);
  syncFolderOf(path);
  for (const end of COMPANIONS) rmSync(`${path}${end}`, { force: true });
  syncFolderOf(path);
  return moved;
}

/**
 * Takes the file for itself for a moment, which carries its log over into it. A file that cannot be read as a database
 * passes: nobody can use it.
 * @throws KeystileError STORE_BUSY: another connection has it open
 */
function assertUnused(driver: Driver, path: string): void {
  if (!existsSync(path)) return;
  let handle: ReturnType<typeof openFile> | undefined;
  try {
    handle = openFile(driver, path, { readonly: false, fileMustExist: true, timeout: 0 });
    if (hasForeignLog(path)) return;
    handle.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK");
  } catch (cause) {
    if (!isBusy(cause)) return;
    throw new KeystileError(
      "STORE_BUSY",
      "a process has the database file open; stop it first, since it would go on with the file that is moved aside",
      { cause },
    );
  } finally {
    handle?.close();
  }
}
