import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../../../src/contracts/errors.js";
import { toOpenError } from "../../../../src/stores/sqlite/connection/errors.js";
import { SCHEMA_VERSION } from "../../../../src/stores/sqlite/connection/schema.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { keyRow } from "../../suite.js";
import { addKeys, codeOf, inspect, quietCounters, temporaryPaths, totalIn, withApi } from "../support.js";

const path = temporaryPaths();

describe("sqliteStore: opening", () => {
  it.each([
    [undefined, /file must be/],
    ["", /file must be/],
    [7, /file must be/],
    ["keys.db\0.tmp", /file must be/],
    ["keys\ud800.db", /file must be/],
    [{ prepare: () => undefined }, /file must be/],
  ])("a file that is neither path nor handle is a TypeError: %s", (file, message) => {
    expect(() => sqliteStore(file as never)).toThrow(TypeError);
    expect(() => sqliteStore(file as never)).toThrow(message);
  });

  it("a path that better-sqlite3 would trim is a TypeError, and makes no file", () => {
    const place = path();
    for (const file of [" ", `${place} `, `${place}\n`, `\t${place}`, `\ufeff${place}`, " :memory: "]) {
      expect(() => sqliteStore(file), JSON.stringify(file)).toThrow(TypeError);
      expect(() => sqliteStore(file), JSON.stringify(file)).toThrow(
        /without spaces at its ends: better-sqlite3 drops them/,
      );
    }
    expect([place, `${place} `].map((file) => existsSync(file))).toEqual([false, false]);
  });

  it("a handle whose rows are arrays, as of node:sqlite with returnArrays, is a TypeError that says so", () => {
    const db = new Database(path());
    const prepare = (sql: string) => (db.prepare(sql).reader ? db.prepare(sql).raw() : db.prepare(sql));
    const open = () => sqliteStore({ prepare, exec: (sql: string) => db.exec(sql) });
    expect(open).toThrow(TypeError);
    expect(open).toThrow("file must be a handle whose rows are objects: open it without returnArrays");
    db.close();
  });

  it("a database in memory is not for reading only: a TypeError", () => {
    const open = () => sqliteStore(":memory:", { readonly: true });
    expect(open).toThrow(TypeError);
    expect(open).toThrow("options.readonly is for files");
  });

  it("health says how a file was opened", () => {
    const place = path();
    const store = sqliteStore(place);
    const fit = () => ({
      ok: true,
      problems: [],
      warnings: [],
      journalMode: "wal",
      synchronous: "full",
      schemaVersion: SCHEMA_VERSION,
      counters: quietCounters(place),
    });
    expect(store.health()).toEqual(fit());
    void store.close();
    inspect(place, (db) => db.pragma("journal_mode = DELETE"));
    // What is opened for reading keeps its journal.
    const reader = sqliteStore(place, { readonly: true });
    expect(reader.health()).toEqual({
      ...fit(),
      ok: false,
      problems: ["the journal mode is delete, not wal"],
      journalMode: "delete",
    });
    void reader.close();
    const again = sqliteStore(place);
    expect(again.health()).toEqual(fit());
    void again.close();
  });

  it.each([
    [{ durabilty: "power" }, TypeError, "options.durabilty is not an option"],
    [{ durability: "none" }, TypeError, "options.durability must be one of: power, process"],
    [{ staleness: "never" }, TypeError, "options.staleness must be one of: turn, call, or milliseconds"],
    [{ staleness: 0 }, RangeError, "options.staleness must be from 1 to 3600000"],
    [{ staleness: 1.5 }, TypeError, "options.staleness must be an integer"],
    [{ mustExist: 1 }, TypeError, "options.mustExist must be true or false"],
    [{ readonly: "yes" }, TypeError, "options.readonly must be true or false"],
    [{ writer: "a URL" }, TypeError, "options.writer must be one of: inline, thread, or a URL"],
    [{ busyTimeout: "5" }, TypeError, "options.busyTimeout must be an integer"],
    [{ busyTimeout: -1 }, RangeError, "options.busyTimeout must be from 0 to 60000"],
    [{ busyTimeout: 60_001 }, RangeError, "options.busyTimeout must be from 0 to 60000"],
    [{ toString: 1 }, TypeError, "options.toString is not an option"],
    [null, TypeError, "options must be an object"],
  ])(
    "an option that does not fit is a TypeError, or beyond its range a RangeError, that names it: %o",
    (options, kind, message) => {
      const place = path();
      expect(() => sqliteStore(place, options as never)).toThrow(kind);
      expect(() => sqliteStore(place, options as never)).toThrow(message);
      expect(existsSync(place)).toBe(false);
    },
  );

  it("an option that is undefined takes its default", () => {
    const store = sqliteStore(path(), { durability: undefined, readonly: undefined } as never);
    expect(store.health()).toMatchObject({ synchronous: "full" });
    void store.close();
  });

  it("options of opening do not go with a handle", () => {
    const db = new Database(":memory:");
    // @ts-expect-error nor do their types
    expect(() => sqliteStore(db, { mustExist: true })).toThrow(/options.mustExist is for paths/);
    // @ts-expect-error nor do their types
    expect(() => sqliteStore(db, { readonly: false })).toThrow(/options.readonly is for paths/);
  });

  it("power-durable is WAL with synchronous FULL, process-durable NORMAL", () => {
    for (const [options, level] of [
      [{}, 2],
      [{ durability: "power" }, 2],
      [{ durability: "process" }, 1],
    ] as const) {
      const db = new Database(path());
      db.pragma("foreign_keys = OFF");
      void sqliteStore(db, options).close();
      expect(db.pragma("synchronous", { simple: true })).toBe(level);
      expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
      expect(db.pragma("fullfsync", { simple: true })).toBe(level - 1);
      expect(db.pragma("foreign_keys", { simple: true })).toBe(1);
      expect(db.pragma("busy_timeout", { simple: true })).toBe(50);
      db.close();
    }
  });

  it("tables are strict, balances are checked and cannot be NULL", () => {
    const place = path();
    void sqliteStore(place).close();
    inspect(place, (db) => {
      const tables = db.pragma("table_list") as { name: string; type: string; strict: number }[];
      const own = tables.filter(({ name, type }) => name.startsWith("keystile_") && type === "table");
      expect(own).toHaveLength(34);
      for (const { name, strict } of own) expect(strict, name).toBe(1);
      db.pragma("foreign_keys = OFF");
      // A seal of key 1: 2, and 3 if it is unlimited.
      const insert = (unlimited: number, remaining: string) => () =>
        db.exec(`INSERT INTO keystile_accounts (number, unlimited, remaining, amount, period, generation, credited, seal)
          VALUES (1, ${unlimited}, ${remaining}, 0, 0, 0, ${remaining}, ${2 + 3 * unlimited})`);
      for (const remaining of ["NULL", "-1", "9007199254740992", "1.5", "'5x'"])
        expect(insert(0, remaining), remaining).toThrow();
      expect(insert(2, "0")).toThrow("unlimited IN (0, 1)");
      insert(0, "9007199254740991")();
    });
  });

  it("a second opening finds everything", async () => {
    const place = path();
    const first = await withApi(sqliteStore(place));
    const [ref] = await addKeys(first, 2);
    await first.spendCredits(ref!, 30, 0, 0);
    await first.close();
    const second = sqliteStore(place, { mustExist: true });
    expect((await second.findKey("digest-1"))?.ref).toBe(ref);
    expect((await second.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(70);
    await second.close();
  });

  it("close carries the log over: a copy of the file alone is whole", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    const beside = new Database(place);
    await addKeys(store, 3);
    await store.close();
    copyFileSync(place, `${place}.copy`);
    beside.close();
    expect(inspect(`${place}.copy`, (db) => db.prepare("SELECT count(*) FROM keystile_keys").pluck().get())).toBe(3);
  });

  it("hostile A187: mustExist makes no new file; the error says so", async () => {
    const place = path();
    expect(await codeOf(() => sqliteStore(place, { mustExist: true }))).toBe("STORE_FAILED");
    expect(() => sqliteStore(place, { mustExist: true })).toThrow(/no database file at this path/);
    expect(() => sqliteStore(place, { readonly: true })).toThrow(/no database file at this path/);
    expect(existsSync(place)).toBe(false);
  });

  it("an error of opening names the file", () => {
    const place = path();
    const empty = path();
    writeFileSync(empty, "");
    const text = path();
    writeFileSync(text, "no database ".repeat(100));
    for (const [file, message] of [
      [place, "there is no database file at this path"],
      [empty, "the database file is shorter"],
      [text, "the file is not an SQLite database"],
      [dirname(place), "the path is that of a folder; give that of a database file"],
      ["/dev/null", "the path is that of no regular file; give that of a database file"],
    ] as const)
      expect(() => sqliteStore(file, { mustExist: true }), file).toThrow(`${file}: ${message}`);
  });

  it.skipIf(process.platform !== "linux")("what this user may not do is said, and not only told in the cause", () => {
    // Where nobody makes a file.
    expect(() => sqliteStore("/sys/keys.db")).toThrow("this user may not write to its folder");
    const refused = Object.assign(new Error("EACCES: permission denied, stat"), { code: "EACCES", syscall: "stat" });
    expect(toOpenError(refused, "/a/keys.db").message).toContain("that this user may read and write both");
  });

  it.runIf(process.getuid?.() === 0)(
    "a full disk leaves no file behind that is refused once there is space",
    (context) => {
      const disk = path();
      mkdirSync(disk);
      try {
        execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], { stdio: "ignore" });
      } catch {
        return context.skip("nothing may be mounted here");
      }
      try {
        const full = join(disk, "full");
        writeFileSync(full, Buffer.alloc(65_536));
        const place = join(disk, "keys.db");
        expect(() => sqliteStore(place)).toThrow("the disk, the quota or the database is full");
        expect(readdirSync(disk)).toEqual(["full"]);
      } finally {
        execFileSync("umount", ["-l", disk]);
      }
    },
  );

  it("a folder that does not exist, or a path that is a folder, is a typed error", async () => {
    const place = path();
    expect(await codeOf(() => sqliteStore(join(place, "deeper.db")))).toBe("STORE_FAILED");
    mkdirSync(place);
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_FAILED");
  });

  it("a file that is not a database is STORE_INVALID, and stays as it is", async () => {
    const place = path();
    writeFileSync(place, "these are plainly not the bytes of a database, however long one looks at them".repeat(20));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
    expect(existsSync(`${place}-wal`)).toBe(false);
  });

  it("a newer schema is refused, and one that is not a number", async () => {
    const place = path();
    void sqliteStore(place).close();
    inspect(place, (db) => db.exec("UPDATE keystile_schema SET version = version + 1"));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_SCHEMA_NEWER");
    expect(() => sqliteStore(place)).toThrow(/upgrade keystile/);
    inspect(place, (db) => db.exec("UPDATE keystile_schema SET version = -1"));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
    inspect(place, (db) => db.exec("DELETE FROM keystile_schema"));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
  });

  it("the tables live beside those of the file's owner", async () => {
    const db = new Database(path());
    db.exec("CREATE TABLE keys (id TEXT); INSERT INTO keys VALUES ('mine'); PRAGMA user_version = 7");
    const store = await withApi(sqliteStore(db));
    await addKeys(store, 1);
    await store.close();
    expect(db.prepare("SELECT id FROM keys").all()).toEqual([{ id: "mine" }]);
    expect(db.pragma("user_version", { simple: true })).toBe(7);
    expect(db.open).toBe(true);
  });

  it("a handle inside a transaction, or closed, is refused, and its transaction is left alone", async () => {
    const db = new Database(path());
    db.exec("CREATE TABLE mine (x); BEGIN; INSERT INTO mine VALUES (1)");
    expect(await codeOf(() => sqliteStore(db))).toBe("STORE_FAILED");
    expect(() => sqliteStore(db)).toThrow(/inside a transaction of its owner/);
    expect(db.inTransaction).toBe(true);
    db.exec("COMMIT");
    expect(db.prepare("SELECT count(*) FROM mine").pluck().get()).toBe(1);
    db.close();
    expect(await codeOf(() => sqliteStore(db))).toBe("STORE_CLOSED");
  });

  it("a handle whose owner began a transaction later: changes fail and do not end it", async () => {
    const db = new Database(path());
    const store = await withApi(sqliteStore(db));
    const [ref] = await addKeys(store, 1);
    db.exec("BEGIN");
    expect(await codeOf(() => store.spendCredits(ref!, 1, 0, 0))).toBe("STORE_FAILED");
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(9) }]))).toBe("STORE_FAILED");
    expect(db.inTransaction).toBe(true);
    expect((await store.findKey("digest-1"))?.keyId).toBe("key_000001");
    db.exec("ROLLBACK");
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 99 });
  });

  it("a handle that its owner closes: STORE_CLOSED", async () => {
    const db = new Database(path());
    const store = await withApi(sqliteStore(db));
    db.close();
    expect(await codeOf(() => store.findKey("digest-1"))).toBe("STORE_CLOSED");
  });

  it("a database in memory is one store's own", async () => {
    const [one, two] = [await withApi(sqliteStore(":memory:", { mustExist: true })), sqliteStore(":memory:")];
    await addKeys(one, 1);
    expect(await two.findKey("digest-1")).toBeUndefined();
    expect(one.health()).toMatchObject({ ok: true, journalMode: "memory" });
    await Promise.all([one.close(), two.close()]);
    expect(existsSync(":memory:")).toBe(false);
  });

  it("clause 11: every method fails after close, and close waits for what is in flight", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    const refs = await addKeys(store, 2);
    const inFlight = Array.from({ length: 1_000 }, (_, i) => store.spendCredits(refs[i % 2]!, 1, 0, 0));
    const closed = store.close();
    expect(store.close()).toBe(closed);
    const answers = await Promise.all(inFlight);
    expect(answers.filter((answer) => answer?.ok)).toHaveLength(200);
    await closed;
    expect(await store.close()).toBeUndefined();
    const calls: (() => unknown)[] = [
      () => store.findKey("digest-1"),
      () => store.findForeignKey("m", "f"),
      () => store.findRootKey("d"),
      () => store.adoptDigest(1, "d"),
      () => store.spendCredits(1, 0, 0, 0),
      () => store.spendCredits(1, 1, 0, 0),
      () => store.drawCredits(1, { holder: "h", spent: 0, cost: 1, step: 1, size: 1, period: 0, now: 0, until: 1 }),
      () => store.returnCredits(1, { holder: "h", spent: 0 }),
      () => store.readBalances([{ keyId: "key_000001", period: 0 }], 0),
      () => store.readMany("keys", ["key_000001"]),
      () => store.readNames("roles", "ws_1", ["a"]),
      () => store.list("keys", { workspaceId: "ws_1", limit: 1 }),
      () => store.insertKeys([]),
      () => store.write([]),
      () => store.subscribe(() => undefined),
      () => store.pollChanges(),
      () => store.health(),
    ];
    for (const call of calls) expect(await codeOf(call), String(call)).toBe("STORE_CLOSED");
    inspect(place, (db) => {
      expect(totalIn(db)).toBe(0);
    });
  });

  it("errors can be distinguished across copies of the package, and keep their cause", () => {
    let caught: unknown;
    try {
      sqliteStore(join(path(), "keys.db"));
    } catch (error) {
      caught = error;
    }
    expect(isKeystileError(caught)).toBe(true);
    expect((caught as Error).cause).toBeInstanceOf(Error);
  });
});
