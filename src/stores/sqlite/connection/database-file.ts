/**
 * The database file as the system sees it: made with mode 0600, refused under several names, and watched while open.
 *
 * Why never opened here: POSIX drops all locks of a process on a file as soon as the process closes any descriptor of
 * it, and SQLite's would go unnoticed. Only the log (`-wal`), which nobody locks, is opened.
 *
 * Why several names matter: SQLite names log and locks after the path. Two processes that opened one file under two
 * names had a log each, and granted 2,000 of 1,000 credits.
 *
 * What cannot be recognised: a file that was overwritten in place with one at least as long, and folders that two
 * machines share over a network.
 */
import { fsyncSync, readdirSync, readFileSync, readSync, realpathSync, rmSync, statSync, writeSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { KeystileError } from "../../../contracts/errors.js";
import { makeFile, withDescriptor } from "./descriptor.js";
import { isBusy, isForbidden, isFullError, resultName } from "./errors.js";
import { type FileWatch, NO_FILE } from "./connection.js";
import { type Handle, readPragma, select } from "./handle.js";
import { monotonic, pauseThread } from "./waiting.js";

/** Bytes of the header of every SQLite database. */
const HEADER_BYTES = 100;

/** Marks a file as keystile's, in the header: "KSTL". */
const APPLICATION_ID = 0x4b53544c;

/** Bytes that are copied at once. */
const CHUNK = 1_048_576;

/** Bytes that are written to find out whether there is space. */
const TRIAL_BYTES = 65_536;
const MAX_TRY_AGE_MS = 1_000;

/** Milliseconds for which a check counts for the transactions that follow. */
const MAX_CHECK_AGE_MS = 1;

/**
 * Makes the file if there is none, readable and writable by its owner only, and checks what can be checked from
 * outside.
 * @param wait milliseconds to wait while another process has just made the file and not written to it; blocks
 * @throws KeystileError STORE_FAILED: there is none, and none may or can be made; STORE_INVALID: it is shorter than a
 * database's header; STORE_FILE_LINKED
 * @returns whether it made the file, which is empty
 */
export function prepareFile(path: string, mustExist: boolean, wait: number): boolean {
  if (path === ":memory:") return false;
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    if (mustExist) throw missing();
    if (create(path)) return true;
  }
  const stat = statSync(path, { throwIfNoEntry: false });
  // The driver says why what was removed meanwhile does not open.
  if (stat === undefined) return false;
  if (!stat.isFile()) {
    const what = stat.isDirectory() ? "a folder" : "no regular file";
    throw new KeystileError("STORE_FAILED", `the path is that of ${what}; give that of a database file`);
  }
  if (waitForContent(path, wait) < HEADER_BYTES)
    throw new KeystileError(
      "STORE_INVALID",
      "the database file is shorter than a database's header: it was truncated, or never written; " +
        "restore it from a backup, or remove it if it never held anything",
    );
  assertOneName(realpathSync(path));
  return false;
}

/**
 * Removes a file that {@link prepareFile} made and nothing could be written to: it would be refused as truncated once
 * there is space. Only then: otherwise another process may have begun to use it.
 * @param cause why it could not be opened
 */
export function discardUnwritten(path: string, cause: unknown): void {
  const isFull = resultName(cause) === "FULL" || isFullError(cause);
  if (isFull && statSync(path, { throwIfNoEntry: false })?.size === 0) rmSync(path, { force: true });
}

const missing = (): KeystileError =>
  new KeystileError(
    "STORE_FAILED",
    "there is no database file at this path, and none may be made (mustExist or readonly)",
  );

/** @returns whether this call made the file; false: another process did meanwhile */
function create(path: string): boolean {
  try {
    makeFile(path);
    return true;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "EEXIST" && statSync(path, { throwIfNoEntry: false }) !== undefined) return false;
    try {
      // A symbolic link to nothing counts as existing for "wx"; what it names is made.
      if (code === "EEXIST") {
        makeFile(path, "a");
        return true;
      }
    } catch (linkCause) {
      throw unmade(linkCause);
    }
    throw unmade(cause);
  }
}

function unmade(cause: unknown): KeystileError {
  const { code } = cause as NodeJS.ErrnoException;
  let why = "the database file cannot be made";
  if (code === "ENOENT") why = "the folder of the database file does not exist";
  else if (isForbidden(cause)) why += ": this user may not write to its folder";
  return new KeystileError(isFullError(cause) ? "STORE_FULL" : "STORE_FAILED", why, { cause });
}

/** @returns the size, once it is not 0 or the file is older than `wait` */
function waitForContent(path: string, wait: number): number {
  const deadline = monotonic() + wait;
  for (;;) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined) throw missing();
    if (stat.size > 0 || Date.now() - stat.ctimeMs > wait || monotonic() >= deadline) return stat.size;
    pauseThread();
  }
}

/** @param place the path without symbolic links */
function assertOneName(place: string): void {
  const refuse = (why: string) =>
    new KeystileError("STORE_FILE_LINKED", `${why}: another name has another log, and credits would be granted twice`);
  const { nlink } = statSync(place);
  if (nlink > 1 && nlink > 1 + namesOfRestore(place))
    throw refuse("the database file has several names (hard links); keep one");
  if (isMountPoint(place)) throw refuse("the database file is mounted by itself; mount its folder");
}

/**
 * How many names a restore that was killed has left beside the file. They are its own second names, in the same folder,
 * which nobody opens: a restore makes a name before it takes the other away, so that it never overwrites a file.
 */
function namesOfRestore(place: string): number {
  const { dev, ino } = statSync(place);
  const [folder, begin] = [dirname(place), `${basename(place)}.`];
  return readdirSync(folder).filter((name) => {
    if (!name.startsWith(begin) || !/\.part$|\.before-restore-/.test(name)) return false;
    const other = statSync(join(folder, name), { throwIfNoEntry: false });
    return other?.dev === dev && other.ino === ino;
  }).length;
}

/**
 * Whether a file is a mount of its own, as with a container that was given the file alone. Linux tells, others do not.
 */
function isMountPoint(place: string): boolean {
  let mounts: string;
  try {
    mounts = readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return false;
  }
  // The fifth field is the mount point; space, tab, line feed and backslash are written in octal.
  const escaped = place.replace(/[ \t\n\\]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, "0")}`);
  return mounts.split("\n").some((line) => line.split(" ", 5)[4] === escaped);
}

/**
 * Makes what is left in the log durable before anything is added to it, if a process ended without closing the store.
 *
 * Why: after an fsync that failed, the system may hold pages of the log in memory that it will never write. The process
 * that failed reports it and writes them again; but if it ends first, the next one finds them whole, adds commits
 * behind them and syncs those alone. A power cut then leaves a gap, and everything behind it is lost. So the log is
 * written again in place, which makes its pages dirty, and synced, under the lock of writers. Where another process
 * still works with the log this is not needed and does no harm: 10 ms for a log of 4 MB.
 * @param path the database, without symbolic links
 */
export function settleLog(handle: Handle, path: string): void {
  const log = `${path}-wal`;
  if (path === "" || !statSync(log, { throwIfNoEntry: false })?.size) return;
  try {
    handle.exec("BEGIN IMMEDIATE");
  } catch (cause) {
    // A process that writes has been through this itself.
    if (isBusy(cause) || resultName(cause) === "READONLY") return;
    throw cause;
  }
  try {
    rewrite(log);
  } finally {
    handle.exec("ROLLBACK");
  }
}

function rewrite(path: string): void {
  try {
    withDescriptor(path, "r+", (file) => {
      const chunk = Buffer.allocUnsafe(CHUNK);
      for (let at = 0, read: number; (read = readSync(file, chunk, 0, CHUNK, at)) > 0; at += read)
        for (let done = 0; done < read;) done += writeSync(file, chunk, done, read - done, at + done);
      fsyncSync(file);
    });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
  }
}

/**
 * @throws KeystileError STORE_INVALID: a database of another program. One that a program opened itself may be shared.
 */
export function assertOwnDatabase(handle: Handle): void {
  const tables = select<{ name: string }>(handle, "SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  if (tables.some(({ name }) => name === "keystile_schema")) return;
  const id = Number(readPragma(handle, "application_id"));
  if (tables.length === 0 && (id === 0 || id === APPLICATION_ID)) return;
  throw new KeystileError(
    "STORE_INVALID",
    "the file is a database of another program; to keep keystile's tables in it, pass an open handle",
  );
}

/** Marks the file, unless it bears a mark. */
export function markFile(handle: Handle): void {
  if (Number(readPragma(handle, "application_id")) === 0) handle.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
}

/** Numbers of files may be above 2^53. */
const EXACT = { bigint: true, throwIfNoEntry: false } as const;

/** @throws KeystileError STORE_FILE_LINKED */
export function watchFile(handle: Handle): FileWatch {
  const main = select<{ file: string | null }>(handle, "SELECT file FROM pragma_database_list WHERE name = 'main'");
  const path = main.get()?.file ?? "";
  const opened = path === "" ? undefined : statSync(path, EXACT);
  if (opened === undefined) return NO_FILE;
  assertOneName(path);
  let { size } = opened;
  let checkedAt = NaN;
  let triedAt = NaN;
  let wasFull = false;
  let change: string | undefined;
  const assertSame = () => {
    checkedAt = NaN;
    const now = statSync(path, EXACT);
    if (now === undefined) change = "deleted";
    else if (now.dev !== opened.dev || now.ino !== opened.ino) change = "replaced";
    else if (now.size < size && isTruncated(handle, Number(now.size))) change = "truncated";
    else size = now.size;
    if (change !== undefined)
      throw new KeystileError("STORE_FILE_CHANGED", `the database file was ${change} while it is in use`);
    checkedAt = monotonic();
  };
  return {
    path,
    assertSame,
    assertRecent() {
      if (!(monotonic() - checkedAt < MAX_CHECK_AGE_MS)) assertSame();
    },
    isFull() {
      if (monotonic() - triedAt < MAX_TRY_AGE_MS) return wasFull;
      triedAt = monotonic();
      return (wasFull = lacksSpace(path));
    },
  };
}

/** Reads a number that grows with every commit of another connection to the file. */
export function dataVersionOf(handle: Handle): () => number | undefined {
  const version = select<{ data_version: number }>(handle, "PRAGMA data_version");
  return () => version.get()?.data_version;
}

/** Whether a file of a few pages cannot be written beside the database. */
function lacksSpace(path: string): boolean {
  const trial = `${path}-space-${process.pid}`;
  try {
    withDescriptor(trial, "w", (file) => {
      writeSync(file, Buffer.alloc(TRIAL_BYTES));
      fsyncSync(file);
    });
    return false;
  } catch (cause) {
    return isFullError(cause);
  } finally {
    rmSync(trial, { force: true });
  }
}

/** Whether a file that became shorter misses pages; VACUUM makes it shorter too. */
function isTruncated(handle: Handle, size: number): boolean {
  if (size < HEADER_BYTES) return true;
  try {
    return size < Number(readPragma(handle, "page_count")) * Number(readPragma(handle, "page_size"));
  } catch (cause) {
    if (isBusy(cause)) throw cause;
    return true;
  }
}
