/** Files, rows and handles for the tests of the SQLite store. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, afterEach, vi } from "vitest";
import { isKeystileError, type KeystileErrorCode } from "../../../src/contracts/errors.js";
import type { ApiRow, KeyRow, NewBalance, Store } from "../../../src/contracts/store.js";
import { sqliteStore, type SqliteStore, type SqliteStoreOptions } from "../../../src/stores/sqlite/index.js";
import { createChangePolling } from "../../../src/stores/sqlite/changes/change-log.js";
import type { Handle, Statement } from "../../../src/stores/sqlite/connection/handle.js";
import { keyRow } from "../suite.js";

export const WS = "ws_1";

/**
 * Paths in a folder that goes away with the file's tests.
 * @param parent where it is made: by default in memory, where the system has a folder for that (vitest.config.ts)
 */
export function temporaryPaths(parent = tmpdir()): () => string {
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, "keystile-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  let made = 0;
  return () => join(folder, `${++made}.db`);
}

/** Polling by itself: of a store that is open, with a file that nobody locks. */
export function pollingOf(poll: () => void, staleness: "turn" | "call" | number) {
  const run = (work: () => void) => work();
  const { pollChanges, note } = createChangePolling({ staleness, poll, run });
  return { note, pollChanges: (when?: number | "anew") => void pollChanges(when) };
}

/** Opens process-durable stores, and closes those of a test after it. */
export function openStores(): (place: string, options?: SqliteStoreOptions) => SqliteStore {
  const opened: SqliteStore[] = [];
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
  });
  return (place, options = {}) => {
    const store = sqliteStore(place, { durability: "process", ...options });
    opened.push(store);
    return store;
  };
}

/**
 * Paths of files that have the tables of an empty store: each a copy of one file, because making the tables takes half
 * the time of a test of the suite. Each has a secret of its own for idempotency keys, as a new one has. Not where a new
 * file is the subject.
 */
export async function emptyFiles(): Promise<() => string> {
  const path = temporaryPaths();
  const empty = path();
  await sqliteStore(empty).close();
  return () => {
    const copy = path();
    copyFileSync(empty, copy);
    const database = new Database(copy);
    database.pragma("synchronous = off");
    database.exec("UPDATE keystile_secrets SET secret = randomblob(32) WHERE name = 'idempotency'");
    database.close();
    return copy;
  };
}

export const api = (over: Partial<ApiRow> = {}): ApiRow => ({
  id: "api_1",
  workspaceId: WS,
  version: 0,
  name: "docs",
  enabled: true,
  ipAllowlist: [],
  deleted: false,
  createdAt: 0,
  ...over,
});

/** Gives a store the API that `keyRow` speaks of. */
export async function withApi<S extends Store>(store: S): Promise<S> {
  if ((await store.readMany("apis", ["api_1"]))[0] === undefined) await store.write([{ table: "apis", row: api() }]);
  return store;
}

/** Adds keys 1…`count`, each with `remaining` credits, and answers their handles. */
export async function addKeys(
  store: Store,
  count: number,
  remaining = 100,
  over: Partial<NewBalance> = {},
): Promise<number[]> {
  const keys = Array.from({ length: count }, (_, i) => ({
    row: keyRow(i + 1, { hasCredits: true }),
    balance: { remaining, amount: 0, period: 0, ...over },
  }));
  await store.insertKeys(keys);
  return Promise.all(keys.map(({ row }) => refOf(store, row.digest!)));
}

export async function refOf(store: Store, digest: string): Promise<number> {
  return (await store.findKey(digest))!.ref as number;
}

/** Changes fields of a key, as an administrator would. */
export async function change(store: Store, id: string, over: Partial<KeyRow>): Promise<void> {
  const row = (await store.readMany("keys", [id]))[0]!;
  if ((await store.write([{ table: "keys", row: { ...row, ...over } }])) !== "written")
    throw new Error("the key changed meanwhile");
}

/** The code of the error that a call ends in; throws when it ends otherwise. */
export async function codeOf(call: () => unknown): Promise<KeystileErrorCode> {
  try {
    await call();
  } catch (error) {
    if (isKeystileError(error)) return error.code;
    throw error;
  }
  throw new Error("the call did not fail");
}

/** The counters of `health()` in a store that has met no trouble. */
export const quietCounters = (place: string) => ({
  walBytes: statSync(`${place}-wal`, { throwIfNoEntry: false })?.size ?? 0,
  checkpoints: 0,
  lockWaits: 0,
  lockWaitMs: 0,
  busyErrors: 0,
  failedWrites: 0,
  failedSyncs: 0,
  failedReturns: 0,
  forfeitedRefills: 0,
});

/** What a file says of balances, by key number. Read by nothing of the store. */
export function balancesIn(db: Database.Database): Map<number, number> {
  const rows = db.prepare("SELECT number, remaining FROM keystile_accounts WHERE unlimited = 0").raw().all();
  return new Map(rows as [number, number][]);
}

/** All of them together. */
export function totalIn(db: Database.Database): number {
  return [...balancesIn(db).values()].reduce((sum, remaining) => sum + remaining, 0);
}

/** Opens a file beside the store, as another tool would. */
export function inspect<T>(path: string, look: (db: Database.Database) => T): T {
  const db = new Database(path);
  try {
    return look(db);
  } finally {
    db.close();
  }
}

/**
 * A handle in the manner of node:sqlite: rows without a prototype, errors with `errcode`, lone surrogates replaced, no
 * `undefined` taken, and nothing but `prepare` and `exec`.
 * @param intercept called before each execution of a statement; may throw in its place
 */
export function foreignHandle(db: Database.Database, intercept: (sql: string) => void = () => undefined): Handle {
  const guarded = <A extends unknown[], T>(sql: string, execute: (...given: A) => T) => {
    return (...given: A): T => {
      intercept(sql);
      try {
        return execute(...given);
      } catch (error) {
        const { message, code } = error as { message: string; code: string };
        throw Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode: ERRCODES[code] });
      }
    };
  };
  const bare = (row: unknown) => {
    if (row === undefined) return undefined;
    for (const value of Object.values(row as object)) {
      if (typeof value === "number" && !Number.isSafeInteger(value))
        throw new RangeError("The value of column 1 is too large");
    }
    return Object.assign(Object.create(null), row) as unknown;
  };
  const bound = (value: unknown) => {
    if (value === undefined) throw new TypeError("Provided value cannot be bound to SQLite parameter 1.");
    return typeof value === "string" ? value.toWellFormed() : value;
  };
  return {
    exec: guarded("exec", (sql: string) => void db.exec(sql)),
    prepare(sql): Statement {
      const statement = guarded(`prepare ${sql}`, () => db.prepare(sql))();
      return {
        get: (...given) => bare(guarded(sql, () => statement.get(...given.map(bound)))()),
        all: (...given) => guarded(sql, () => statement.all(...given.map(bound)))().map(bare),
        run: guarded(sql, (...given) => statement.run(...given.map(bound))),
      };
    },
  };
}

/** A handle in the manner of bun:sqlite: `null` where there is no row. */
export function nullHandle(db: Database.Database): Handle {
  return {
    exec: (sql) => db.exec(sql),
    prepare(sql): Statement {
      const statement = db.prepare(sql);
      return {
        get: (...given) => statement.get(...given) ?? null,
        all: (...given) => statement.all(...given),
        run: (...given) => statement.run(...given),
      };
    },
  };
}

const ERRCODES: Readonly<Record<string, number>> = {
  SQLITE_BUSY: 5,
  SQLITE_READONLY: 8,
  SQLITE_FULL: 13,
  SQLITE_CONSTRAINT_FOREIGNKEY: 787,
  SQLITE_NOTADB: 26,
};

/**
 * Acts while `process.nextTick` and `queueMicrotask` do nothing, as under fake timers that nobody moves. Not for longer
 * than that: the process of the tests needs both.
 */
export function withoutTicks<T>(act: () => T): T {
  const fakes = [
    vi.spyOn(process, "nextTick").mockReturnValue(),
    vi.spyOn(globalThis, "queueMicrotask").mockReturnValue(),
  ];
  try {
    return act();
  } finally {
    for (const fake of fakes) fake.mockRestore();
  }
}

/** Ends the turn of the event loop. */
export const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
