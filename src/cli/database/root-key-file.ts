/** The file that the first root key goes to where standard output is no terminal, so that it lands in no log. */
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { EXIT, failure } from "../io/failures.js";

/** Where the first root key of a database goes: beside it, or for one in memory into a folder of its own. */
export function rootKeyFile(db: string): string {
  return db === ":memory:" ? join(mkdtempSync(join(tmpdir(), "keystile-")), "root-key") : `${resolve(db)}.root-key`;
}

/**
 * Makes the file, for its owner alone. Overwrites nothing and follows no link.
 * @throws failure 3 if it is there already, or cannot be written
 */
export function writeRootKey(path: string, key: string): void {
  try {
    const file = openSync(path, "wx", 0o600);
    try {
      writeSync(file, `${key}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    const why = code === "EEXIST" ? "is there already; move it away" : `cannot be written (${code})`;
    throw failure(EXIT.failed, `${path}, for the first root key: ${why}`);
  }
}

/** Removes the file, if it is there. */
export function removeRootKey(path: string): void {
  rmSync(path, { force: true });
}
