/** The minimal driver interface, which better-sqlite3, node:sqlite and bun:sqlite all implement. */

/** Result of a statement that writes. */
export interface SqliteRunResult {
  /** Number of rows changed. */
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

/** A value to bind to a parameter. */
export type SqliteValue = string | number | Uint8Array | null;

/** A statement with the types used internally. */
export interface Statement {
  get(...parameters: SqliteValue[]): unknown;
  all(...parameters: SqliteValue[]): unknown[];
  run(...parameters: SqliteValue[]): SqliteRunResult;
}

/** A handle with the types used internally. */
export interface Handle {
  prepare(sql: string): Statement;
  exec(sql: string): unknown;
  /** The most values that a statement may bind; `undefined`: more than any here does. */
  readonly maxValues?: number;
}

/**
 * Checks that rows are objects. A handle that fails altogether passes: its first use reports why.
 * @throws TypeError: rows are arrays
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

/**
 * Makes a handle behave as those of better-sqlite3 12. Others return `null` instead of `undefined` when there is no
 * row (bun:sqlite), refuse `undefined` as a value (node:sqlite), or bind U+FFFD in place of what is not well formed in
 * a text, which may be another row's (node:sqlite, better-sqlite3 13).
 */
export function adopt(given: Handle): Handle {
  const returnsNull = given.prepare("SELECT 1 WHERE 0").get() === null;
  const replaces = Boolean(given.prepare("SELECT 1 WHERE ? = ?").get("\ud800", "\ufffd"));
  const translates = returnsNull || replaces;
  return {
    ...(given.maxValues !== undefined && { maxValues: given.maxValues }),
    prepare: (sql) => whenUsed(() => (translates ? translate(given.prepare(sql)) : given.prepare(sql))),
    exec: (sql) => given.exec(sql),
  };
}

/**
 * A statement that is prepared when it is first used: to prepare the two hundred of a store took half the time of
 * opening a file, and a process that verifies uses a tenth of them. From then on its methods are the driver's own.
 */
function whenUsed(prepare: () => Statement): Statement {
  const become = (): Statement => {
    const prepared = prepare();
    const [get, all, run] = [prepared.get.bind(prepared), prepared.all.bind(prepared), prepared.run.bind(prepared)];
    return Object.assign(statement, { get, all, run });
  };
  const statement: Statement = {
    get: (...parameters) => become().get(...parameters),
    all: (...parameters) => become().all(...parameters),
    run: (...parameters) => become().run(...parameters),
  };
  return statement;
}

function translate(statement: Statement): Statement {
  return {
    get: (...parameters) => statement.get(...toBound(parameters)) ?? undefined,
    all: (...parameters) => statement.all(...toBound(parameters)),
    run: (...parameters) => statement.run(...toBound(parameters)),
  };
}

/** Text that is ill-formed becomes bytes, which equal no text. Almost always the list is returned as it is. */
function toBound(values: (SqliteValue | undefined)[]): SqliteValue[] {
  for (const value of values) {
    if (value === undefined || (typeof value === "string" && !value.isWellFormed())) return values.map(toBindable);
  }
  return values as SqliteValue[];
}

function toBindable(value: SqliteValue | undefined): SqliteValue {
  if (typeof value === "string" && !value.isWellFormed())
    return new Uint8Array(Uint16Array.from(value, (unit) => unit.charCodeAt(0)).buffer);
  return value ?? null;
}

/** A prepared SELECT whose rows have this shape. */
export interface Select<Row> {
  get(...parameters: SqliteValue[]): Row | undefined;
  all(...parameters: SqliteValue[]): Row[];
}

/** Prepares a SELECT; unchecked: the caller ensures that its columns match `Row`. */
export function select<Row>(handle: Handle, sql: string): Select<Row> {
  return handle.prepare(sql) as Select<Row>;
}

/** The current value of one setting of the connection. */
export function readPragma(handle: Handle, name: string): unknown {
  return Object.values(handle.prepare(`PRAGMA ${name}`).get() as object)[0];
}

/**
 * Whether the database is in a file: false for one in memory, and for a temporary one that ends with its connection.
 */
export function isInFile(handle: Handle): boolean {
  const found = select<{ name: string; file: string | null }>(handle, "PRAGMA database_list").all();
  return found.some(({ name, file }) => name === "main" && file !== null && file !== "");
}
