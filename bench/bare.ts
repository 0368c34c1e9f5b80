/**
 * The floors of SQLite: what the driver alone takes for the least that must be done, in tables made for nothing else.
 */
import Database from "better-sqlite3";
import type { KeyRecord } from "../src/contracts/store.js";
import { BALANCE, keyRow, PERMISSIONS } from "./keys.js";
import { kept, scratch } from "./stores.js";

/** Whole records as JSON by digest: one row read and one JSON.parse is all that a find could do. */
export interface Snapshots {
  readonly find: Database.Statement<[digest: string], { body: string }>;
  close(): void;
}

/** Balances by row number. */
export interface Balances {
  /** Takes a credit, in a transaction of its own. */
  readonly take: Database.Statement<[n: number]>;
  close(): void;
}

/** As large as the store's, so that a ratio shows no other cache. */
const CACHE = "cache_size = -65536";
const ROWS_A_TRANSACTION = 10_000;

function open(path: string, synchronous: "FULL" | "NORMAL" | "OFF"): Database.Database {
  const database = new Database(path);
  for (const pragma of ["journal_mode = WAL", `synchronous = ${synchronous}`, CACHE]) database.pragma(pragma);
  return database;
}

/** The records of as many keys as a store of the same size has. */
export async function openSnapshots(keys: number): Promise<Snapshots> {
  return openSnapshotFile(await kept(`snapshots-${keys}.db`, (path) => buildSnapshots(path, keys)));
}

/** Those of a file that {@link buildSnapshots} made. */
export function openSnapshotFile(path: string): Snapshots {
  const database = open(path, "FULL");
  return { find: database.prepare("SELECT body FROM snapshots WHERE digest = ?"), close: () => void database.close() };
}

/** A new file of them. The index is made last: filled key by key, at random, it grows ever slower (trap 13). */
export function buildSnapshots(path: string, keys: number): void {
  const database = open(path, "OFF");
  database.exec("CREATE TABLE snapshots (n INTEGER PRIMARY KEY, digest TEXT NOT NULL, body TEXT NOT NULL) STRICT");
  const insert = database.prepare("INSERT INTO snapshots (n, digest, body) VALUES (?, ?, ?)");
  const fill = database.transaction((first: number, end: number) => {
    for (let n = first; n < end; n++) insert.run(n, keyRow(n, false).row.digest, JSON.stringify(recordOf(n)));
  });
  for (let first = 0; first < keys; first += ROWS_A_TRANSACTION)
    fill(first, Math.min(keys, first + ROWS_A_TRANSACTION));
  database.exec("CREATE UNIQUE INDEX snapshots_digest ON snapshots (digest)");
  database.close();
}

/** What a find answers for row `n`. */
function recordOf(n: number): KeyRecord {
  const { id, workspaceId, apiId, name = "", enabled, ratelimits, hasCredits, generation } = keyRow(n, false).row;
  const granted = { permissions: PERMISSIONS, roles: [], ratelimits };
  const state = { enabled, hasCredits, generation, parentDisabled: false, unadopted: false, ipAllowlists: [] };
  return { ref: n, keyId: id, workspaceId, apiId, name, ...granted, ...state };
}

/** @param synchronous what a commit waits for; FULL: the disk */
export function openBalances(keys: number, synchronous: "FULL" | "NORMAL"): Balances {
  const path = scratch(`balances-${synchronous}.db`);
  const database = open(path, synchronous);
  database.exec(
    "CREATE TABLE balances (n INTEGER PRIMARY KEY, remaining INTEGER NOT NULL CHECK (remaining >= 0)) STRICT",
  );
  const insert = database.prepare("INSERT INTO balances (n, remaining) VALUES (?, ?)");
  database.transaction(() => {
    for (let n = 0; n < keys; n++) insert.run(n, BALANCE);
  })();
  return {
    take: database.prepare("UPDATE balances SET remaining = remaining - 1 WHERE n = ? AND remaining >= 1"),
    close: () => void database.close(),
  };
}

/** Asks a file of a store whether another connection changed it. */
export function openDataVersion(path: string): { readonly ask: Database.Statement<[]>; close(): void } {
  const database = open(path, "FULL");
  return { ask: database.prepare("PRAGMA data_version"), close: () => void database.close() };
}
