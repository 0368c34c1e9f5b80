/** What a store may be opened on: a path or a handle, judged before anything is opened. Knows no driver but its habits. */
import type { SqliteStoreOptions } from "../options.js";
import { assertNamedRows, type SqliteHandle } from "./handle.js";

/** @throws TypeError: neither a path that is opened as it stands, nor a handle whose rows can be read */
export function assertFile(file: unknown): void {
  if (typeof file === "string") return assertPath(file);
  const { prepare, exec } = (file ?? {}) as Partial<SqliteHandle>;
  if (typeof prepare !== "function" || typeof exec !== "function") throw new TypeError(NEITHER);
  assertNamedRows(file as SqliteHandle);
}

const NEITHER = "file must be a path of well-formed text, or an open database handle with prepare() and exec()";

/** The driver ends a path at U+0000 and trims it: it would open another file, or one in memory that nobody keeps. */
function assertPath(path: string): void {
  if (path === "" || path.includes("\0") || !path.isWellFormed()) throw new TypeError(NEITHER);
  if (path !== path.trim()) {
    throw new TypeError(
      "file must be a path without blanks at its ends: better-sqlite3 drops them, and would open another file or none",
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
