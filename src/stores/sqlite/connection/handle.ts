/** What an SQLite driver must offer, and nothing more: better-sqlite3, node:sqlite and bun:sqlite have it. Knows no driver by name. */

/** What a writing statement did. */
export interface SqliteRunResult {
  readonly changes: number | bigint;
  readonly lastInsertRowid: number | bigint;
}

/** A prepared statement; parameters are positional. `never` here lets every driver's own types fit. */
export interface SqliteStatement {
  get(...parameters: never[]): unknown;
  all(...parameters: never[]): unknown[];
  run(...parameters: never[]): SqliteRunResult;
}

/** An open database: a better-sqlite3 or bun:sqlite `Database`, or a node:sqlite `DatabaseSync`. */
export interface SqliteHandle {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
}

/** A value that is bound to a parameter. */
export type SqliteValue = string | number | Uint8Array | null;

/** A statement as it is used here. */
export interface Statement {
  get(...parameters: SqliteValue[]): unknown;
  all(...parameters: SqliteValue[]): unknown[];
  run(...parameters: SqliteValue[]): SqliteRunResult;
}

/** A handle as it is used here. */
export interface Handle {
  prepare(sql: string): Statement;
  exec(sql: string): unknown;
}

/**
 * A handle that fails is left to its first use, which says why.
 * @throws TypeError: rows come as arrays, and nothing could be read from them by name
 */
export function assertNamedRows(given: Pick<SqliteHandle, "prepare">): void {
  let row: unknown;
  try {
    row = given.prepare("SELECT 1").get();
  } catch {
    return;
  }
  if (Array.isArray(row))
    throw new TypeError("file must be a handle whose rows are objects: open it without returnArrays");
}

/** Wraps the handle of a program if its `get` answers `null` where there is no row. */
export function adopt(given: Handle): Handle {
  if (given.prepare("SELECT 1 WHERE 0").get() !== null) return given;
  return {
    prepare(sql) {
      const statement = given.prepare(sql);
      return {
        get: (...parameters) => statement.get(...parameters) ?? undefined,
        all: (...parameters) => statement.all(...parameters),
        run: (...parameters) => statement.run(...parameters),
      };
    },
    exec: (sql) => given.exec(sql),
  };
}

/** A prepared SELECT whose rows have this shape. */
export interface Select<Row> {
  get(...parameters: SqliteValue[]): Row | undefined;
  all(...parameters: SqliteValue[]): Row[];
}

/** Prepares a SELECT; the caller vouches that its columns are `Row`. */
export function select<Row>(handle: Handle, sql: string): Select<Row> {
  return handle.prepare(sql) as Select<Row>;
}

/** One setting of the connection as it stands. */
export function readPragma(handle: Handle, name: string): unknown {
  return Object.values(handle.prepare(`PRAGMA ${name}`).get() as object)[0];
}

/** Rows that a writing statement changed. */
export function changed({ changes }: SqliteRunResult): number {
  return Number(changes);
}
