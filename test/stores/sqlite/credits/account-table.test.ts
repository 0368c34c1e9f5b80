/** Accounts in the file: what is rejected when it is read, and what the table refuses by itself. */
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { Account } from "../../../../src/credits/account.js";
import type { Handle } from "../../../../src/stores/sqlite/connection/handle.js";
import { createAccounts } from "../../../../src/stores/sqlite/credits/account-table.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { keyRow } from "../../suite.js";
import { addKeys, codeOf, foreignHandle, inspect, nullHandle, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const MOST = Number.MAX_SAFE_INTEGER;
const DRAW = { holder: "h", spent: 0, cost: 1, step: 4, size: 20, period: 9, now: 0, until: 1_000 };
/** Columns with amounts: a change of one of them no longer adds up. */
const AMOUNTS = ["remaining", "credited", "refilled", "adjusted", "spent", "reserved", "forfeited"];
/** Columns of which no sum speaks. */
const SEALED = ["unlimited", "amount", "period", "generation", "seal"];

const HANDLES = [
  ["better-sqlite3", (db: Database.Database): Handle => db],
  ["better-sqlite3 with bigints", (db: Database.Database): Handle => db.defaultSafeIntegers()],
  ["node:sqlite", (db: Database.Database): Handle => foreignHandle(db)],
  ["bun:sqlite", (db: Database.Database): Handle => nullHandle(db)],
] as const;

/** A file with keys 1 and 2, of which the first has every amount: refilled, adjusted, spent, reserved, forfeited. */
async function grownFile(): Promise<string> {
  const place = path();
  const store = await withApi(sqliteStore(place));
  const [ref] = await addKeys(store, 2, 50, { amount: 5, period: 7 });
  await store.spendCredits(ref!, 3, 9, 0);
  await store.drawCredits(ref!, { ...DRAW, holder: "lost" });
  await store.spendCredits(ref!, 1_000, 9, 2_000);
  await store.drawCredits(ref!, { ...DRAW, now: 2_000, until: 1e15 });
  const row = (await store.readMany("keys", ["key_000001"]))[0]!;
  await store.write([{ table: "keys", row, credits: { period: 9, add: 11 } }]);
  await store.close();
  return place;
}

/** Changes a column as a tool that ignores all checks might, or as a damaged disk. */
function tamper(place: string, sql: string, ...values: unknown[]): void {
  inspect(place, (db) => {
    db.pragma("ignore_check_constraints = ON");
    db.pragma("foreign_keys = OFF");
    if (db.prepare(sql).run(...values).changes !== 1) throw new Error("nothing was changed");
  });
}

const rowOf = (place: string) =>
  inspect(place, (db) => db.prepare("SELECT * FROM keystile_accounts WHERE number = 1").get()) as Record<
    string,
    number
  >;

describe("accounts in the file", () => {
  it("the file under test has every amount", async () => {
    const row = rowOf(await grownFile());
    for (const column of [...AMOUNTS, "amount", "period", "seal"]) expect(row[column], column).toBeGreaterThan(0);
  });

  it.each(HANDLES)(
    "hostile A035: no change of one column is believed, and none harms another key (%s)",
    async (_, of) => {
      const place = await grownFile();
      const store = sqliteStore(of(new Database(place)));
      const before = rowOf(place);
      const wrongs = (column: string): readonly unknown[] => [
        before[column]! + 1,
        before[column]! - 1,
        ...[0, 1, 2, 20, 31, 40, 52].map((bit) => BigInt(before[column]!) ^ (1n << BigInt(bit))),
        -1,
        2n ** 53n,
        2n ** 63n - 1n,
      ];
      for (const column of [...AMOUNTS, ...SEALED]) {
        for (const wrong of wrongs(column)) {
          // The state of a flag is 0 or 1: any other number counts as one of them, and is not believed with the seal of
          // the other.
          if (column === "unlimited" && wrong !== 1 && wrong !== 1n && wrong !== -1) continue;
          tamper(place, `UPDATE keystile_accounts SET ${column} = ? WHERE number = 1`, wrong);
          const said = `${column} = ${String(wrong)}`;
          const codes = await Promise.all([
            codeOf(() => store.spendCredits(1, 1, 9, 0)),
            codeOf(() => store.spendCredits(1, 0, 9, 0)),
            codeOf(() => store.drawCredits(1, DRAW)),
            codeOf(() => store.returnCredits(1, { holder: "h", spent: 0 })),
            codeOf(() => store.readBalances([{ keyId: "key_000001", period: 9 }], 0)),
          ]);
          expect(codes, said).toEqual(Array(5).fill("STORE_INVALID"));
        }
        tamper(place, `UPDATE keystile_accounts SET ${column} = ? WHERE number = 1`, before[column]);
      }
      expect(rowOf(place)).toEqual(before);
      expect((await store.spendCredits(2, 1, 9, 0))?.ok).toBe(true);
      expect((await store.spendCredits(1, 1, 9, 0))?.ok).toBe(true);
      await store.close();
    },
  );

  it("two columns that changed places, and a row put in the place of another, are not believed", async () => {
    const place = await grownFile();
    const store = sqliteStore(place);
    const before = rowOf(place);
    // Both are on one side of the equation: only what was meant by them differs.
    for (const [one, other] of [
      ["amount", "generation"],
      ["amount", "period"],
      ["remaining", "credited"],
      ["spent", "refilled"],
    ] as const) {
      expect(before[one]).not.toBe(before[other]);
      tamper(place, `UPDATE keystile_accounts SET ${one} = ${other}, ${other} = ${one} WHERE number = 1`);
      expect(await codeOf(() => store.spendCredits(1, 1, 9, 0)), one).toBe("STORE_INVALID");
      tamper(place, `UPDATE keystile_accounts SET ${one} = ${other}, ${other} = ${one} WHERE number = 1`);
    }
    tamper(place, "DELETE FROM keystile_accounts WHERE number = 2");
    tamper(place, "UPDATE keystile_accounts SET number = 2 WHERE number = 1");
    expect(await codeOf(() => store.spendCredits(2, 1, 9, 0))).toBe("STORE_INVALID");
    await store.close();
  });

  it("a damaged lease is STORE_INVALID wherever it matters", async () => {
    const place = await grownFile();
    const store = sqliteStore(place);
    for (const column of ["generation", "expires", "reserved", "held", "spent", "is_forfeited"]) {
      const where = "WHERE account = 1 AND holder = 'h'";
      const read = `SELECT ${column} FROM keystile_leases ${where}`;
      const before = inspect(place, (db) => db.prepare(read).pluck().get());
      tamper(place, `UPDATE keystile_leases SET ${column} = ? ${where}`, 2n ** 53n);
      for (const call of [
        () => store.drawCredits(1, DRAW),
        () => store.returnCredits(1, { holder: "h", spent: 0 }),
        () => store.readBalances([{ keyId: "key_000001", period: 9 }], 0),
        // A spend looks at no lease before it expires.
        ...(column === "expires" ? [] : [() => store.spendCredits(1, 1_000, 9, 1e15)]),
      ])
        expect(await codeOf(call), column).toBe("STORE_INVALID");
      tamper(place, `UPDATE keystile_leases SET ${column} = ? ${where}`, before);
    }
    expect(await store.returnCredits(1, { holder: "h", spent: 0 })).toBeUndefined();
    await store.close();
  });

  it("a damaged account takes no change but a new balance, which repairs it", async () => {
    const place = await grownFile();
    const store = sqliteStore(place);
    tamper(place, "UPDATE keystile_accounts SET remaining = remaining + 1000 WHERE number = 1");
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    const add = () => store.write([{ table: "keys", row, credits: { period: 9, add: 1 } }]);
    expect(await codeOf(add)).toBe("STORE_INVALID");
    expect(await codeOf(() => store.spendCredits(1, 1, 9, 0))).toBe("STORE_INVALID");
    const set = { table: "keys", row: { ...row, generation: 1 }, credits: { period: 9, remaining: 6 } } as const;
    expect(await store.write([set])).toEqual([{ remaining: 6, reserved: 0, added: 6 }]);
    expect(await store.spendCredits(1, 1, 9, 0)).toEqual({ ok: true, remaining: 5 });
    expect((await store.readBalances([{ keyId: "key_000001", period: 9 }], 0))[0]).toMatchObject({
      remaining: 5,
      reserved: 0,
    });
    await store.close();
  });

  it("SQL that changes a balance alone is refused by the_credits_add_up, and other columns by their seal", async () => {
    const place = await grownFile();
    inspect(place, (db) => {
      for (const column of AMOUNTS)
        expect(() => db.exec(`UPDATE keystile_accounts SET ${column} = ${column} + 1`), column).toThrow(
          "CHECK constraint failed: the_credits_add_up",
        );
      for (const column of SEALED.slice(1))
        expect(() => db.exec(`UPDATE keystile_accounts SET ${column} = ${column} + 1`), column).toThrow("seal");
      expect(() => db.exec("UPDATE keystile_accounts SET unlimited = 1")).toThrow("seal");
      // An operator who means it says where the credits come from.
      db.exec("UPDATE keystile_accounts SET remaining = remaining + 100, adjusted = adjusted + 100 WHERE number = 2");
    });
    const store = sqliteStore(place);
    expect((await store.readBalances([{ keyId: "key_000002", period: 7 }], 0))[0]).toMatchObject({ remaining: 150 });
    await store.close();
  });

  it("accounts of many new keys are opened with their balances; a key without credits has none", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    const keys = Array.from({ length: 300 }, (_, i) => ({
      row: keyRow(i + 1, { hasCredits: i % 3 > 0, generation: i % 4 }),
      ...(i % 3 > 0 && { balance: { remaining: i === 1 ? MOST : i, amount: i === 2 ? MOST : i % 5, period: 100 * i } }),
    }));
    expect(await store.insertKeys(keys)).toEqual(keys.map(() => true));
    for (const [i, { row, balance }] of keys.entries()) {
      const counted = (await store.readBalances([{ keyId: row.id, period: 0 }], 0))[0];
      if (balance === undefined) expect(counted, row.id).toEqual({ remaining: null, period: 0, reserved: 0 });
      else
        expect(counted).toMatchObject({
          remaining: balance.remaining,
          totals: { credited: balance.remaining, spent: 0 },
        });
      const drawn = await store.drawCredits((await store.findKey(`digest-${i + 1}`))!.ref, {
        ...DRAW,
        period: 100 * i,
      });
      expect(drawn?.generation).toBe(balance === undefined ? undefined : i % 4);
    }
    await store.close();
  });
});

describe("createAccounts", () => {
  /** Accounts of key 1, which has 50 credits. */
  async function table() {
    const place = path();
    const store = await withApi(sqliteStore(place));
    await addKeys(store, 1, 50);
    await store.close();
    const db = new Database(place);
    const accounts = createAccounts(db);
    return { db, accounts, account: accounts.read(1)! };
  }

  it("any change of an account is read as it was written, also of one whose sums pass 2^53 − 1", async () => {
    const { db, accounts, account } = await table();
    let before = account;
    const changes: readonly Partial<Account>[] = [
      { spent: 7, remaining: 43 },
      { reserved: 5, remaining: 38 },
      { forfeited: 5, reserved: 0 },
      { refilled: 10, remaining: 48, period: 3 },
      { adjusted: -8, remaining: 40 },
      // Carried forward: what was spent and what was adjusted start anew, and what is left looks like a spend.
      { adjusted: 2, remaining: 50 },
      { adjusted: 0, remaining: 48 },
      { unlimited: true, remaining: 0, adjusted: -48, generation: 9 },
      { unlimited: false, remaining: MOST, adjusted: MOST - 48, amount: MOST },
      { credited: MOST, refilled: MOST, adjusted: 0, spent: 0, forfeited: 0, reserved: MOST, period: -4 },
    ];
    for (const change of changes) {
      const after = { ...before, ...change };
      accounts.save(1, before, after);
      expect(accounts.read(1)).toEqual(after);
      before = after;
    }
    db.close();
  });

  it("an account that is not in the file is STORE_FAILED, and is not made", async () => {
    const { db, accounts, account } = await table();
    for (const after of [
      { ...account, remaining: 49, spent: 1 },
      { ...account, remaining: 49, reserved: 1 },
    ])
      expect(() => accounts.save(2, account, after)).toThrow(expect.objectContaining({ code: "STORE_FAILED" }));
    expect(accounts.read(2)).toBeUndefined();
    db.close();
  });

  it("compares all that a spend depends on before it writes", async () => {
    const { db, accounts, account } = await table();
    const spent = { ...account, remaining: 49, spent: 1 };
    for (const other of [
      { ...account, remaining: 48, spent: 2 },
      { ...account, generation: 1 },
      { ...account, period: 1 },
      { ...account, unlimited: true, remaining: 0, adjusted: -50 },
    ]) {
      accounts.replace(1, other);
      expect(accounts.compareAndSpend(1, account, spent)).toBe(false);
      expect(accounts.read(1)).toEqual(other);
    }
    accounts.replace(1, account);
    // A refill is no spend: more columns change.
    expect(accounts.compareAndSpend(1, account, { ...spent, period: 1 })).toBe(false);
    expect(accounts.compareAndSpend(1, account, spent)).toBe(true);
    expect(accounts.read(1)).toEqual(spent);
    db.close();
  });
});
