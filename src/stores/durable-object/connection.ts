/**
 * The storage of a Durable Object as a connection of the SQLite store: its tables, ledger and statements run there
 * unchanged. What concerns files, locks and other processes has no counterpart: an object is one process, and alone.
 *
 * The platform keeps prepared statements by their text, writes what one turn of the event loop wrote as one commit, and
 * holds every response back until that commit is durable.
 */
import { methods } from "../../lib/check-options.js";
import { type Connection, NO_FILE, type Transact } from "../sqlite/connection/connection.js";
import { adopt, type Handle, type SqliteValue } from "../sqlite/connection/handle.js";

/** What is used of the storage of a Durable Object that has SQLite: its `ctx.storage`. */
export interface ObjectStorage {
  readonly sql: { exec(query: string, ...bindings: never[]): { toArray(): unknown[] } };
  transactionSync<T>(work: () => T): T;
}

/** The platform's bound. */
const MAX_VALUES = 100;

/** What changed is asked for by the few callers that read it, before the next statement. */
function createObjectHandle({ sql }: ObjectStorage): Handle {
  const all = (query: string, values: readonly SqliteValue[]): unknown[] => {
    try {
      return sql.exec(query, ...(values as never[])).toArray();
    } catch (cause) {
      throw toDriverError(cause);
    }
  };
  const ask = (what: string) => (all(`SELECT ${what} AS n`, [])[0] as { readonly n: number }).n;
  const done = {
    get changes() {
      return ask("changes()");
    },
    get lastInsertRowid() {
      return ask("last_insert_rowid()");
    },
  };
  return {
    maxValues: MAX_VALUES,
    prepare: (query) => ({
      get: (...values) => all(query, values)[0],
      all: (...values) => all(query, values),
      run: (...values) => (all(query, values), done),
    }),
    exec: (query) => all(query, []),
  };
}

/** With the code that other drivers give; the platform has it in the message alone. */
function toDriverError(cause: unknown): unknown {
  const code = cause instanceof Error ? /\bSQLITE_[A-Z]+/.exec(cause.message)?.[0] : undefined;
  return code === undefined ? cause : Object.assign(new Error((cause as Error).message, { cause }), { code });
}

function createObjectTransact(storage: ObjectStorage): Transact {
  return <T>(work: () => T | undefined, onUndone?: () => void): T | undefined => {
    const undo = new Error("nothing is to be kept");
    try {
      return storage.transactionSync(() => {
        const result = work();
        if (result === undefined) throw undo;
        return result;
      });
    } catch (cause) {
      onUndone?.();
      if (cause === undo) return undefined;
      throw cause;
    }
  };
}

/** @throws TypeError: the storage has no SQLite */
export function assertHasSql(storage: ObjectStorage): void {
  methods("transactionSync")(storage, "storage");
  methods("exec")(storage.sql, "storage.sql");
}

/** Opens the storage. @throws the platform's error */
export function openStorage(storage: ObjectStorage): Omit<Connection, "close"> {
  const transact = createObjectTransact(storage);
  return {
    handle: adopt(createObjectHandle(storage)),
    file: NO_FILE,
    transact,
    transactLong: transact,
    probe: (attempt) => attempt(),
    isShared: false,
    sharesReads: false,
    dataVersion: () => 0,
    assertSchema: () => undefined,
    powers: { changes: "own", durability: "power" },
  };
}
