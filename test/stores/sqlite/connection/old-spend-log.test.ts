/** Files with a log of spends, as schema versions 3 and 4 left them. */
import { readFileSync } from "node:fs";
import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { SCHEMA_VERSION } from "../../../../src/stores/sqlite/connection/schema.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { codeOf, inspect, temporaryPaths } from "../support.js";

const path = temporaryPaths();
const VERSION_1 = readFileSync(new URL("schema-1.sql", import.meta.url), "utf8");
/** Bytes of an entry. */
const ENTRY = 64 * 24;
const DAILY = 32_000_000_000;

/** What version 2 added, but for indexes. */
const VERSION_2 = ["root_keys", "namespaces", "overrides"]
  .map(
    (table) => `CREATE TABLE keystile_${table} (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
      workspace_id TEXT NOT NULL, name TEXT, version INTEGER NOT NULL CHECK (version > 0), body TEXT NOT NULL,
      UNIQUE (workspace_id, name)) STRICT;`,
  )
  .join("");

/** Adds an entry: key, remaining and period of each balance. */
function addEntry(db: Database.Database, balances: readonly (readonly number[])[], length = ENTRY): void {
  const bytes = Buffer.alloc(length);
  balances.flat().forEach((value, i) => bytes.writeDoubleBE(value, i * 8));
  const next = Number(db.prepare("SELECT coalesce(max(seq), 0) + 1 FROM keystile_spends").pluck().get());
  const insert = db.prepare("INSERT OR REPLACE INTO keystile_spends (slot, seq, balances) VALUES (?, ?, ?)");
  insert.run(next % 256, next, bytes);
}

/**
 * A file of version 3 or 4: four keys of 100 credits, the second with a daily refill, the fourth unlimited; a lease of
 * the third.
 */
function oldFile(version: 3 | 4, fill: (db: Database.Database) => void): string {
  const place = path();
  inspect(place, (db) => {
    db.pragma("journal_mode = WAL");
    db.exec(VERSION_1);
    db.exec(`INSERT INTO keystile_apis (id, workspace_id, version, body)
      VALUES ('api_1', 'ws_1', 1, '{"name":"docs","enabled":true,"ipAllowlist":[],"deleted":false,"createdAt":0}')`);
    for (let n = 1; n <= 4; n++) {
      const refill = n === 2 ? ',"refill":{"interval":"daily","amount":5}' : "";
      db.prepare(
        `INSERT INTO keystile_keys (id, api, version, foreign_digest, grants, body) VALUES (?, 1, 1, ?, '', ?)`,
      ).run(
        `key_${n}`,
        `f${n}`,
        `{"start":"...","createdAt":0,"limited":true,"hash":"f${n}","migrationId":"m"${refill}}`,
      );
      db.prepare("INSERT INTO keystile_credits VALUES (?, ?, 100, ?, ?, 0)").run(
        n,
        n === 4 ? 1 : 0,
        n === 2 ? 5 : 0,
        n === 2 ? (version === 4 ? DAILY : 0) + 10 : 0,
      );
    }
    db.exec("INSERT INTO keystile_leases (n, holder, reserved, generation, expires) VALUES (3, 'node', 30, 0, 1000)");
    db.exec("INSERT INTO keystile_leases (n, holder, reserved, generation, expires) VALUES (3, 'void', 9, 7, 1000)");
    db.exec(`${VERSION_2}
      ALTER TABLE keystile_keys ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1));
      ALTER TABLE keystile_credits RENAME TO keystile_balances;
      CREATE TABLE keystile_spends (
        slot INTEGER PRIMARY KEY CHECK (slot = seq % 256),
        seq INTEGER NOT NULL CHECK (seq BETWEEN 1 AND 9007199254740991),
        balances BLOB NOT NULL
      ) STRICT;
      UPDATE keystile_schema SET version = ${version};`);
    fill(db);
  });
  return place;
}

describe.each([3, 4] as const)("a file of version %i, which has a log of spends", (version) => {
  const base = version === 4 ? DAILY : 0;

  it("opens with the newest balance of each key, whether the log or the row has it", async () => {
    const place = oldFile(version, (db) => {
      addEntry(db, [[1, 3, 0]]);
      // What comes before an empty entry is in the rows.
      addEntry(db, []);
      addEntry(db, [
        [2, 90, base + 12],
        [3, 60, 0],
      ]);
      addEntry(db, [
        [3, 55, 0],
        [4, 7, 0],
        [99, 1_000, 0],
      ]);
    });
    const store = sqliteStore(place);
    expect(store.health()).toMatchObject({ ok: true, schemaVersion: SCHEMA_VERSION });
    const none = { refilled: 0, spent: 0, forfeited: 0 };
    expect((await store.readBalances([{ keyId: "key_1", period: 0 }], 0))[0]).toEqual({
      remaining: 100,
      period: 0,
      reserved: 0,
      totals: { ...none, credited: 100, adjusted: 0 },
    });
    // The log had counted two days, and a third is due.
    expect((await store.readBalances([{ keyId: "key_2", period: DAILY + 13 }], 0))[0]).toMatchObject({
      remaining: 95,
      period: DAILY + 13,
    });
    expect((await store.readBalances([{ keyId: "key_3", period: 0 }], 0))[0]).toEqual({
      remaining: 55,
      period: 0,
      reserved: 30,
      totals: { ...none, credited: 55, adjusted: 30 },
    });
    expect((await store.readBalances([{ keyId: "key_3", period: 0 }], 1_000))[0]).toMatchObject({
      remaining: 85,
      reserved: 0,
    });
    expect((await store.readBalances([{ keyId: "key_4", period: 0 }], 0))[0]).toMatchObject({ remaining: null });
    expect(await store.spendCredits(3, 85, 0, 1_000)).toEqual({ ok: true, remaining: 0 });
    await store.close();
    const tables = inspect(place, (db) =>
      db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all(),
    );
    expect(tables).not.toContain("keystile_spends");
    expect(tables).not.toContain("keystile_balances");
  });

  it("reads entries in the order of their numbers, also where the slots have begun again", async () => {
    const place = oldFile(version, (db) => {
      for (let i = 1; i <= 300; i++) addEntry(db, [[1, 1_000 - i, 0]]);
    });
    const store = sqliteStore(place);
    expect((await store.readBalances([{ keyId: "key_1", period: 0 }], 0))[0]).toMatchObject({ remaining: 700 });
    await store.close();
  });

  it("hostile A035: an entry that holds no balance is STORE_INVALID, and the file stays as it was", async () => {
    for (const balance of [
      [1, NaN, 0],
      [1, -1, 0],
      [1, 1.5, 0],
      [1, 2 ** 53, 0],
      [1, 5, NaN],
      [1.5, 5, 0],
    ]) {
      const place = oldFile(version, (db) => addEntry(db, [[2, 5, 0], balance]));
      expect(await codeOf(() => sqliteStore(place)), String(balance)).toBe("STORE_INVALID");
      inspect(place, (db) => {
        expect(db.prepare("SELECT version FROM keystile_schema").pluck().get()).toBe(version);
        expect(db.prepare("SELECT sum(remaining) FROM keystile_balances").pluck().get()).toBe(400);
        expect(db.prepare("SELECT count(*) FROM keystile_spends").pluck().get()).toBe(1);
      });
    }
  });
});
