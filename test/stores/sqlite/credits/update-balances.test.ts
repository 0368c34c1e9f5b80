import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { Handle } from "../../../../src/stores/sqlite/connection/handle.js";
import { prepareSchema } from "../../../../src/stores/sqlite/connection/schema.js";
import { createTransact } from "../../../../src/stores/sqlite/connection/transaction.js";
import { createSave, type BalanceOf } from "../../../../src/stores/sqlite/credits/update-balances.js";

const KEYS = 100;

/** A database with the balances 0 … 99, each with other columns. */
function withBalances(): Database.Database {
  const db = new Database(":memory:");
  const handle = db as unknown as Handle;
  prepareSchema(handle, createTransact(handle));
  db.pragma("foreign_keys = OFF");
  const insert = db.prepare(
    "INSERT INTO keystile_balances (n, unlimited, remaining, amount, period, generation) VALUES (?, 0, ?, ?, ?, ?)",
  );
  for (let n = 0; n < KEYS; n++) insert.run(n, 1_000, n, n % 7, n % 5);
  return db;
}

const rows = (db: Database.Database) => db.prepare("SELECT * FROM keystile_balances ORDER BY n").all();
const account = (n: number, remaining: number, period: number): BalanceOf => ({
  n,
  balance: { remaining, period },
});

describe("createSave", () => {
  it.each([1, 45])("of %i balances, one that is no balance fails all of them", (count) => {
    const db = withBalances();
    const save = createSave(db as unknown as Handle);
    const before = rows(db);
    for (const wrong of [NaN, -1, 2 ** 53]) {
      const changed = Array.from({ length: count }, (_, n) => account(n, n === count - 1 ? wrong : 5, 0));
      expect(() =>
        createTransact(db as unknown as Handle)(() => {
          save(changed);
          return true;
        }),
      ).toThrow(/constraint/i);
      expect(rows(db)).toEqual(before);
    }
    db.close();
  });

  it("a balance that is not in the file is STORE_FAILED, and is not made", () => {
    const db = withBalances();
    const before = rows(db);
    const save = createSave(db as unknown as Handle);
    expect(() => save([account(KEYS + 1, 5, 0)])).toThrow(expect.objectContaining({ code: "STORE_FAILED" }));
    expect(rows(db)).toEqual(before);
    db.close();
  });
});
