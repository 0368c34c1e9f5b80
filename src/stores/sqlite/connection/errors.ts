/** Maps errors of the SQLite drivers to KeystileError. No message contains a parameter, a key or a hash. */
import { isKeystileError, KeystileError, type KeystileErrorCode } from "../../../contracts/errors.js";

/** SQLite's primary result codes that keystile distinguishes: number (node:sqlite) → name (the other drivers). */
const NAMES: Readonly<Record<number, string>> = {
  5: "BUSY",
  6: "LOCKED",
  8: "READONLY",
  10: "IOERR",
  11: "CORRUPT",
  13: "FULL",
  14: "CANTOPEN",
  15: "PROTOCOL",
  19: "CONSTRAINT",
  26: "NOTADB",
};

const FULL: readonly [code: KeystileErrorCode, detail: string] = [
  "STORE_FULL",
  "the disk, the quota or the database is full; nothing was changed",
];
const CANTOPEN: readonly [code: KeystileErrorCode, detail: string] = [
  "STORE_FAILED",
  "the database file cannot be opened; check that its folder exists, and that this user may read and write both",
];
const LOCKED = "other connections kept the database file locked for too long; nothing was changed";
const MEANINGS: Readonly<Record<string, readonly [code: KeystileErrorCode, detail: string]>> = {
  BUSY: ["STORE_BUSY", LOCKED],
  LOCKED: ["STORE_BUSY", LOCKED],
  PROTOCOL: ["STORE_BUSY", LOCKED],
  READONLY: ["STORE_READ_ONLY", "the database is read-only; nothing was changed"],
  FULL,
  CORRUPT: [
    "STORE_INVALID",
    "the database file reads as damaged; keystile doctor examines it: if it finds damage too, restore a backup",
  ],
  NOTADB: ["STORE_INVALID", "the file is not an SQLite database"],
  CANTOPEN,
};

/**
 * The primary result code of a driver's error, without the prefix: `BUSY`; `undefined` for other errors.
 * better-sqlite3 and bun:sqlite set `code: "SQLITE_BUSY_SNAPSHOT"`, node:sqlite `errcode: 517`.
 */
export function resultName(cause: unknown): string | undefined {
  if (typeof cause !== "object" || cause === null) return undefined;
  const { code, errcode } = cause as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return NAMES[errcode & 0xff];
  return typeof code === "string" && code.startsWith("SQLITE_") ? code.split("_")[1] : undefined;
}

/** `SQLITE_IOERR_FSYNC` and `SQLITE_IOERR_DIR_FSYNC`, as numbers of node:sqlite. */
const SYNC_ERRCODES: readonly unknown[] = [1034, 1290];

/** Whether an fsync failed. */
export function isSyncFailure(cause: unknown): boolean {
  const { code, errcode } = (cause ?? {}) as { code?: unknown; errcode?: unknown };
  return SYNC_ERRCODES.includes(errcode) || (typeof code === "string" && code.endsWith("_FSYNC"));
}

/** Disk quota exceeded: on macOS and BSD, on Linux. Elsewhere no such number is an error of a file. */
const EDQUOT: readonly number[] = [69, 122];

/** Whether a call of the system failed for lack of space: on the disk, or within the user's quota. */
export function isFullError(cause: unknown): boolean {
  const { code, errno } = (cause ?? {}) as { code?: unknown; errno?: unknown };
  // Node has no name for EDQUOT: its code is "Unknown system error -122".
  return code === "ENOSPC" || (typeof errno === "number" && EDQUOT.includes(-errno));
}

/** Whether the system refused a call for lack of rights, or because the file system is mounted read-only. */
export function isForbidden(cause: unknown): boolean {
  const { code } = (cause ?? {}) as { code?: unknown };
  return code === "EACCES" || code === "EPERM" || code === "EROFS";
}

/**
 * The error of a transaction. SQLite tells a quota that is used up as an I/O error, and not as a full disk.
 * @param isFull finds out whether there is space
 */
export function toCommitError(cause: unknown, isFull: () => boolean): unknown {
  return resultName(cause) === "IOERR" && isFull() ? new KeystileError(...FULL, { cause }) : cause;
}

/** Whether the disk failed. */
export function isOfDisk(cause: unknown): boolean {
  const name = resultName(cause);
  return name === "IOERR" || name === "FULL" || name === "CORRUPT" || name === "CANTOPEN";
}

/** Whether waiting may help: another connection holds a lock. */
export function isBusy(cause: unknown): boolean {
  const name = resultName(cause);
  return name === "BUSY" || name === "LOCKED" || name === "PROTOCOL";
}

/**
 * Any error of the driver as a {@link KeystileError} with its `cause`. A KeystileError or RangeError is returned
 * unchanged.
 */
export function toStoreError(cause: unknown): Error {
  if (isKeystileError(cause) || cause instanceof RangeError) return cause;
  // JSON.parse quotes its input, and rows contain hashes, so its error is not kept as the cause.
  if (cause instanceof SyntaxError)
    return new KeystileError("STORE_INVALID", "the file has a row that cannot be read; restore it from a backup");
  const [code, detail] = MEANINGS[resultName(cause) ?? ""] ?? meaningOf(cause);
  return new KeystileError(code, detail, { cause });
}

/** The same for a file that does not open: the detail begins with its path, unless the driver is at fault. */
export function toOpenError(cause: unknown, path: string): Error {
  const error = toStoreError(cause);
  if (!isKeystileError(error) || error.code.startsWith("DRIVER_")) return error;
  return new KeystileError(error.code, `${path}: ${error.detail}`, { cause: error.cause });
}

function meaningOf(cause: unknown): readonly [KeystileErrorCode, string] {
  if (isFullError(cause)) return FULL;
  if (isForbidden(cause)) return CANTOPEN;
  const message = cause instanceof Error ? cause.message : "";
  if (/within a transaction/i.test(message)) {
    return ["STORE_FAILED", "the handle is inside a transaction of its owner; end it before keys are used"];
  }
  if (/(connection|database) (is not open|has closed)|statement has been finalized/i.test(message))
    return ["STORE_CLOSED", "the database handle was closed; open it again to use the store"];
  return ["STORE_FAILED", "the database failed; its own words are in the cause"];
}
