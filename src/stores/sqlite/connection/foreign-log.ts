/**
 * Recognises a write-ahead log (`-wal`) that belongs to another database than the file beside it, before SQLite reads
 * it: SQLite replays whatever log lies there, and a restored file would become a mixture of two.
 *
 * How: the header of a file says whether it is in WAL mode, and it says so on disk before the first byte of a log is
 * written. A log beside a file that is not in WAL mode, or beside an empty one, can therefore not be its own, whatever
 * crashed. A backup is not in WAL mode until a store opens it.
 *
 * Why the header is read through SQLite's own descriptor: closing any other descriptor of the file drops the POSIX
 * locks that this process holds on it. Another process would believe that it closes the file last, and delete the log.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync, realpathSync, statSync } from "node:fs";
import { KeystileError } from "../../../contracts/errors.js";

/** Offset in the header of the version that readers need, and its value in WAL mode. */
const READ_VERSION = 19;
const WAL_VERSION = 2;

/**
 * Call after the driver has opened the file, and before the first query.
 * @throws KeystileError STORE_INVALID, saying what to do
 */
export function assertOwnLog(path: string): void {
  if (!hasForeignLog(path)) return;
  throw new KeystileError(
    "STORE_INVALID",
    "beside the database file lies a write-ahead log (-wal) of another file, as after a backup was copied over a " +
      "database: opening it would mix the two; nothing was changed. Move the files that end in -wal and -shm away, or " +
      "put the backup in place with `npx keystile restore`",
  );
}

/**
 * Whether the log beside a file is known to be another's. The driver must have the file open, without having read it.
 * False where that cannot be told.
 */
export function hasForeignLog(path: string): boolean {
  let file: string;
  try {
    // As SQLite, which looks for the log beside the file that a symbolic link points to.
    file = realpathSync(path);
  } catch {
    return false;
  }
  // The log first: while another process brings the file into WAL mode, the header changes before the log is made. And
  // again at the end: a process may bring it out of WAL mode, which removes the log first.
  return hasLog(file) && readMode(file) === "other" && hasLog(file);
}

function hasLog(file: string): boolean {
  return (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** The journal mode that the header on disk states; `undefined`: it cannot be read safely. */
export function readMode(file: string): "wal" | "other" | undefined {
  const header = new Uint8Array(READ_VERSION + 1);
  try {
    // There are no POSIX locks on Windows, and no list of descriptors.
    const own = process.platform === "win32" ? openSync(file, "r") : findDescriptor(file);
    if (own === undefined) return undefined;
    const length = readSync(own, header, 0, header.length, 0);
    if (process.platform === "win32") closeSync(own);
    return length === header.length && header[READ_VERSION] === WAL_VERSION ? "wal" : "other";
  } catch {
    return undefined;
  }
}

/** A descriptor through which this process has the file open. */
function findDescriptor(file: string): number | undefined {
  const { dev, ino } = statSync(file, { bigint: true });
  return readdirSync("/dev/fd")
    .map(Number)
    .find((descriptor) => {
      try {
        const stat = fstatSync(descriptor, { bigint: true });
        return stat.ino === ino && stat.dev === dev;
      } catch {
        // Closed since: the one that listed the folder.
        return false;
      }
    });
}
