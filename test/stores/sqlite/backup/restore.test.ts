import {
  copyFileSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../../../src/contracts/errors.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { addKeys, inspect, temporaryPaths, withApi } from "../support.js";
import { makeBackup, restore } from "./support.js";

const path = temporaryPaths();

/** A database with two keys. */
async function database(balance: number, place = path()): Promise<string> {
  const store = await withApi(sqliteStore(place, { durability: "process" }));
  await addKeys(store, 2, balance);
  await store.close();
  return place;
}

async function backup(balance = 7): Promise<string> {
  const order = { path: await database(balance), target: path() };
  makeBackup(order);
  return order.target;
}

const balanceIn = (place: string) =>
  inspect(place, (db) => db.prepare("SELECT remaining FROM keystile_accounts").pluck().all());

/** Code and words of the error that a call throws, and what it left in the folder of a path. */
function refusal(act: () => unknown): readonly [code: string, detail: string] {
  try {
    act();
  } catch (error) {
    if (isKeystileError(error)) return [error.code, error.detail];
    throw error;
  }
  throw new Error("the call did not fail");
}

const namesAt = (place: string) => readdirSync(dirname(place)).filter((name) => name.startsWith(basename(place)));

describe("restoreBackup", () => {
  it("makes a private file that a store opens, and leaves the backup as it is", async () => {
    const [from, place] = [await backup(), path()];
    const before = readFileSync(from);
    const restored = restore(from, place);
    expect(restored).toEqual({ bytes: before.length, accounts: 2, leases: 0, forfeited: 0, movedAside: [] });
    expect([statSync(place).mode & 0o777, namesAt(place)]).toEqual([0o600, [basename(place)]]);
    expect([readFileSync(from), namesAt(from)]).toEqual([before, [basename(from)]]);
    const store = sqliteStore(place);
    expect(store.health().ok).toBe(true);
    await store.close();
    expect(balanceIn(place)).toEqual([7, 7]);
  });

  it("voids the leases of a copy that another tool made", async () => {
    const [live, copy, place] = [await database(100), path(), path()];
    const store = sqliteStore(live);
    await store.drawCredits(1, { holder: "a", cost: 5, step: 5, size: 20, spent: 0, period: 0, now: 0, until: 9e12 });
    await store.close();
    inspect(live, (db) => db.prepare("VACUUM INTO ?").run(copy));
    expect(restore(copy, place)).toMatchObject({ accounts: 2, leases: 1, forfeited: 20 });
    expect(balanceIn(place)).toEqual([80, 100]);
  });

  it("refuses a target that exists, or a log where it would go, and changes nothing", async () => {
    const from = await backup();
    const place = await database(1);
    const before = readFileSync(place);
    expect(refusal(() => restore(from, place))).toEqual(["CONFLICT", expect.stringContaining("--force")]);
    expect([readFileSync(place), namesAt(place)]).toEqual([before, [basename(place)]]);
    for (const end of ["-wal", "-shm", "-journal"]) {
      const other = path();
      writeFileSync(`${other}${end}`, "a log");
      expect(refusal(() => restore(from, other))).toEqual(["CONFLICT", expect.stringContaining("another file")]);
      expect(namesAt(other)).toEqual([basename(`${other}${end}`)]);
    }
  });

  it("with force keeps what was there, whole, under another name", async () => {
    const [from, live, place] = [await backup(), path(), path()];
    const store = await withApi(sqliteStore(live, { durability: "process" }));
    await addKeys(store, 1, 33);
    // As a killed process leaves it: the balance is in the log alone.
    for (const end of ["", "-wal"]) copyFileSync(`${live}${end}`, `${place}${end}`);
    await store.close();
    const aside = `${place}.before-restore-20270131T120000Z`;
    expect(restore(from, place, true).movedAside).toEqual([aside]);
    expect(namesAt(place).sort()).toEqual([place, aside].map((name) => basename(name)));
    expect([balanceIn(place), balanceIn(aside)]).toEqual([[7, 7], [33]]);
  });

  it("with force moves what it cannot read as it is: a damaged file, a log alone, a log of another file", async () => {
    const from = await backup();
    const [damaged, alone, mixed] = [path(), path(), path()];
    writeFileSync(damaged, "damaged ".repeat(1_000));
    writeFileSync(`${damaged}-wal`, "its log");
    writeFileSync(`${alone}-wal`, "a log");
    copyFileSync(from, mixed);
    writeFileSync(`${mixed}-wal`, "of another");
    for (const place of [damaged, alone, mixed]) {
      const before = namesAt(place).map((name) => readFileSync(`${dirname(place)}/${name}`));
      const { movedAside } = restore(from, place, true);
      expect(movedAside.map((file) => readFileSync(file))).toEqual(before);
      expect(existsSync(`${place}-wal`)).toBe(false);
      expect(balanceIn(place)).toEqual([7, 7]);
    }
  });

  it("with force replaces the file that a symbolic link points to, with its log", async () => {
    const [from, place, link] = [await backup(), await database(1), path()];
    symlinkSync(place, link);
    writeFileSync(`${place}-shm`, "");
    const { movedAside } = restore(from, link, true);
    expect(movedAside[0]).toBe(`${realpathSync(place)}.before-restore-20270131T120000Z`);
    expect([balanceIn(link), balanceIn(place), balanceIn(movedAside[0]!)]).toEqual([
      [7, 7],
      [7, 7],
      [1, 1],
    ]);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
  });

  it("with force refuses a database that a process has open", async () => {
    const [from, place] = [await backup(), await database(1)];
    for (const readonly of [false, true]) {
      const store = sqliteStore(place, { readonly });
      await store.readMany("keys", ["key_000001"]);
      expect(refusal(() => restore(from, place, true))).toEqual([
        "STORE_BUSY",
        expect.stringContaining("has the database file open"),
      ]);
      await store.close();
    }
    expect(namesAt(place).filter((name) => name.includes("before-restore") || name.includes(".part"))).toEqual([]);
    expect(balanceIn(place)).toEqual([1, 1]);
  });

  it("refuses a backup that is damaged, and leaves no file", async () => {
    const from = await backup();
    const whole = readFileSync(from);
    const page = whole.readUInt16BE(16);
    let refused = 0;
    // The first bytes of each page after the first: its kind, and where its cells are.
    for (let at = page; at < whole.length; at += page) {
      const bytes = Buffer.from(whole);
      bytes.fill(0xa5, at, at + 64);
      writeFileSync(from, bytes);
      const place = path();
      expect(refusal(() => restore(from, place))[0]).toBe("STORE_INVALID");
      expect(namesAt(place)).toEqual([]);
      refused++;
    }
    expect(refused).toBeGreaterThan(10);
    writeFileSync(from, whole.subarray(0, whole.length - page));
    expect(refusal(() => restore(from, path()))[0]).toBe("STORE_INVALID");
    writeFileSync(from, "no database".repeat(100));
    expect(refusal(() => restore(from, path()))[0]).toBe("STORE_INVALID");
    writeFileSync(from, "");
    expect(refusal(() => restore(from, path()))[0]).toBe("STORE_INVALID");
  });

  it("refuses credits that do not add up, and names a key", async () => {
    const from = await backup();
    inspect(from, (db) => {
      db.pragma("ignore_check_constraints = ON");
      db.exec("UPDATE keystile_accounts SET spent = spent + 1 WHERE number = 2");
      db.pragma("ignore_check_constraints = OFF");
    });
    const place = path();
    const [code, detail] = refusal(() => restore(from, place));
    // SQLite's own check finds the constraint first.
    expect([code, namesAt(place)]).toEqual(["STORE_INVALID", []]);
    expect(detail).toMatch(/damaged|do not add up/);
    inspect(from, (db) => {
      db.pragma("ignore_check_constraints = ON");
      db.exec("UPDATE keystile_accounts SET spent = 0 WHERE number = 2");
      db.pragma("ignore_check_constraints = OFF");
      db.exec("UPDATE keystile_accounts SET reserved = 3, remaining = remaining - 3 WHERE number = 2");
    });
    expect(refusal(() => restore(from, place))).toEqual(["STORE_INVALID", expect.stringMatching(/1 keys.*key_000002/)]);
  });

  it("refuses what is no backup: a database of something else, of a newer keystile, a copy of a database in use", async () => {
    const other = path();
    inspect(other, (db) => db.exec("CREATE TABLE other (a)"));
    expect(refusal(() => restore(other, path()))).toEqual(["STORE_INVALID", "the file has no keystile tables"]);
    const newer = path();
    inspect(newer, (db) => db.exec("CREATE TABLE keystile_schema (version); INSERT INTO keystile_schema VALUES (99)"));
    expect(refusal(() => restore(newer, path()))[0]).toBe("STORE_SCHEMA_NEWER");
    const live = await database(5);
    const store = sqliteStore(live);
    await store.spendCredits(1, 4, 0, 0);
    const copy = path();
    copyFileSync(live, copy);
    expect(refusal(() => restore(copy, path()))).toEqual(["STORE_INVALID", expect.stringContaining("no backup")]);
    expect(refusal(() => restore(live, path()))).toEqual([
      "STORE_INVALID",
      expect.stringContaining("beside the backup"),
    ]);
    await store.close();
  });

  it("a crash after the new file has its name is recognised at opening: its old log is another's", async () => {
    const [from, live, place] = [await backup(), await database(1), path()];
    const store = sqliteStore(live);
    await store.spendCredits(1, 1, 0, 0);
    copyFileSync(`${live}-wal`, `${place}-wal`);
    await store.close();
    // The state between the last two steps.
    copyFileSync(from, place);
    expect(refusal(() => sqliteStore(place))[0]).toBe("STORE_INVALID");
    expect(restore(from, place, true).movedAside.length).toBe(2);
    await sqliteStore(place).close();
  });
});
