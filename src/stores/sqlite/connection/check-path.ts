/** Checks the `file` argument, a path or a handle, before anything is opened. */
import { assertRuntime } from "../../../lib/runtime.js";
import type { SqliteStoreOptions } from "../options.js";
import { assertNamedRows, type SqliteHandle } from "./handle.js";

/** @throws TypeError: neither a path that the driver opens unchanged, nor a handle whose rows can be read */
export function assertFile(file: unknown): void {
  assertRuntime();
  if (typeof file === "string") return assertPath(file);
  const { prepare, exec } = (file ?? {}) as Partial<SqliteHandle>;
  if (typeof prepare !== "function" || typeof exec !== "function") throw new TypeError(INVALID_FILE);
  assertNamedRows(file as SqliteHandle);
}

const INVALID_FILE = "file must be a path of well-formed text, or an open database handle with prepare() and exec()";

/** The driver cuts a path at U+0000 and trims it: it would open another file, or a database in memory. */
function assertPath(path: string): void {
  if (path === "" || path.includes("\0") || !path.isWellFormed()) throw new TypeError(INVALID_FILE);
  if (path !== path.trim()) {
    throw new TypeError(
      "file must be a path without spaces at its ends: better-sqlite3 drops them, and would open another file or none",
    );
  }
}

/** @throws TypeError naming an option that makes no sense for a database in memory */
export function assertFits(file: unknown, { writer, readonly }: Required<SqliteStoreOptions>): void {
  if (file !== ":memory:") return;
  if (writer !== "inline")
    throw new TypeError("options.writer is for files: no other thread can see a database in memory");
  if (readonly) throw new TypeError("options.readonly is for files: a database in memory begins without tables");
}
