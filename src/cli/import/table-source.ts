/** Reads the rows of a table in another system's SQLite file. */
import { loadDriver, openFile } from "../../stores/sqlite/connection/driver.js";
import { EXIT, failure, usage } from "../io/failures.js";
import type { KeySource } from "./key-source.js";

const FLAG = "--source";
/** Rows of a read: between two reads the system that the file belongs to may write. */
const PAGE = 1_000;
/** Milliseconds that a read waits for such a write. */
const BUSY_TIMEOUT = 5_000;

/**
 * Opens a table; NULL is left out of its rows.
 * @throws failure 2: no such file or table; KeystileError: there is no driver
 */
export function openTable(path: string, table: string): KeySource & { close(): void } {
  // Not read-only: beside a write-ahead log SQLite would leave two files that only a writer may remove.
  const options = { readonly: false, fileMustExist: true, timeout: BUSY_TIMEOUT };
  const database = asked(path, () => openFile(loadDriver(), path, options));
  database.exec("PRAGMA query_only = 1");
  const read = asked(path, () =>
    database.prepare(`SELECT rowid AS "rowid", * FROM "${table}" WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE}`),
  );
  return {
    unit: "row",
    async *read() {
      let number = 0;
      let after = Number.MIN_SAFE_INTEGER;
      for (;;) {
        const rows = asked(path, () => read.all(after)) as { readonly rowid: number }[];
        for (const { rowid, ...value } of rows) yield { number: ++number, value: ((after = rowid), value) };
        if (rows.length < PAGE) return;
      }
    },
    count: async () =>
      asked(path, () => database.prepare(`SELECT COUNT(*) AS "rows" FROM "${table}"`).get() as { rows: number }).rows,
    close: () => void database.close(),
  };
}

/** The driver's errors name files, tables and columns, never values. */
function asked<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    const { code, message } = cause as { readonly code?: unknown; readonly message?: unknown };
    if (typeof code !== "string" || !code.startsWith("SQLITE_")) throw cause;
    if (code === "SQLITE_BUSY") throw failure(EXIT.failed, `${FLAG}: ${path}: others kept it locked for too long`);
    throw usage(`${FLAG}: ${path}: ${String(message)}`);
  }
}
