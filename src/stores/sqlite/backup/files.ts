/** Files of backups: private from their first byte, on disk before they get their name, and never over another. */
import { existsSync, fsyncSync, linkSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { isKeystileError, KeystileError } from "../../../contracts/errors.js";
import { withDescriptor } from "../connection/descriptor.js";

/** What SQLite keeps beside a database file, by the end of the name. */
export const COMPANIONS = ["-wal", "-shm", "-journal"] as const;

/** Bytes per step of a copy. */
const CHUNK = 1_048_576;
/** File systems without hard links say one of these. */
const NO_LINKS = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"];

/** A name beside `target` that nothing else uses, for a file that is still being written. */
export function temporaryName(target: string): string {
  return `${target}.${globalThis.crypto.randomUUID().slice(0, 13)}.part`;
}

/** The file at `path` and what lies beside it, of those that exist. */
export function filesAt(path: string): string[] {
  return ["", ...COMPANIONS].map((end) => `${path}${end}`).filter((file) => existsSync(file));
}

/**
 * Copies a file into a new one that only its owner may use.
 * @param onProgress called with the bytes copied so far
 */
export function copyPrivate(from: string, to: string, onProgress: (bytes: number) => void): void {
  const copy = (source: number, target: number): void => {
    const chunk = new Uint8Array(CHUNK);
    for (let copied = 0, length = 0; (length = readSync(source, chunk, 0, CHUNK, copied)) > 0; copied += length) {
      for (let written = 0; written < length;)
        written += writeSync(target, chunk, written, length - written, copied + written);
      onProgress(copied + length);
    }
  };
  withDescriptor(from, "r", (source) => withDescriptor(to, "wx", (target) => copy(source, target)));
}

/** Returns once the file is on disk. */
export function syncFile(path: string): void {
  withDescriptor(path, "r+", fsyncSync);
}

/** Returns once the names in the folder of `path` are on disk. */
export function syncFolderOf(path: string): void {
  // Windows opens no folders, and writes names at once.
  if (process.platform !== "win32") withDescriptor(dirname(path), "r", fsyncSync);
}

/** Gives a file a second name that is free. @throws the system's error, EEXIST if it is taken */
export function addName(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (cause) {
    if (!NO_LINKS.includes(codeOf(cause)) || existsSync(name)) throw cause;
    // Not atomic against another process that makes `name` at this moment.
    renameSync(file, name);
  }
}

/**
 * Gives a finished file its name, which must be free, durably.
 * @throws KeystileError CONFLICT: the name is taken
 */
export function publish(temporary: string, name: string): void {
  try {
    addName(temporary, name);
  } catch (cause) {
    throw codeOf(cause) === "EEXIST" || existsSync(name) ? taken(cause) : cause;
  }
  rmSync(temporary, { force: true });
  syncFolderOf(name);
}

export function taken(cause?: unknown): KeystileError {
  return new KeystileError(
    "CONFLICT",
    "a file of this name, or its -wal, -shm or -journal, is already there; nothing was changed",
    cause === undefined ? {} : { cause },
  );
}

/** Errors of the file system as a {@link KeystileError}; others are returned unchanged. */
export function toFileError(cause: unknown, what: string): unknown {
  const { syscall } = (cause ?? {}) as { syscall?: unknown };
  if (isKeystileError(cause) || typeof syscall !== "string") return cause;
  const isFull = ["ENOSPC", "EDQUOT"].includes(codeOf(cause));
  return new KeystileError(
    isFull ? "STORE_FULL" : "STORE_FAILED",
    isFull ? `the disk is full; ${what} was not made` : `${what} cannot be made: the system refused (${syscall})`,
    { cause },
  );
}

function codeOf(cause: unknown): string {
  return String((cause as { code?: unknown }).code);
}
