import { copyFileSync, existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../../../src/contracts/errors.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { addKeys, codeOf, inspect, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const DRIVER = createRequire(import.meta.url).resolve("better-sqlite3");

/** A database whose process was killed: its log holds what the file does not. */
async function crashed(place = path()): Promise<string> {
  const live = path();
  const store = await withApi(sqliteStore(live, { durability: "process" }));
  await addKeys(store, 3);
  for (const end of ["", "-wal"]) copyFileSync(`${live}${end}`, `${place}${end}`);
  await store.close();
  return place;
}

/** A copy as SQLite makes it, which is not in WAL mode. */
async function backupOf(balance: number): Promise<string> {
  const [live, copy] = [path(), path()];
  const store = await withApi(sqliteStore(live, { durability: "process" }));
  await addKeys(store, 1, balance);
  await store.close();
  inspect(live, (db) => db.prepare("VACUUM INTO ?").run(copy));
  return copy;
}

const bytesOf = (place: string) => ["", "-wal"].map((end) => readFileSync(`${place}${end}`));

describe("sqliteStore: a log of another file", () => {
  it("is refused with a sentence that says what to do, and neither file is changed", async () => {
    const place = await crashed();
    copyFileSync(await backupOf(7), place);
    const before = bytesOf(place);
    for (const options of [{}, { readonly: true }, { mustExist: true }]) {
      let error: unknown;
      try {
        sqliteStore(place, options);
      } catch (cause) {
        error = cause;
      }
      expect(isKeystileError(error) && [error.code, error.detail]).toEqual([
        "STORE_INVALID",
        expect.stringMatching(/-wal.* of another file.*Move .*-wal and -shm away.*keystile restore/),
      ]);
    }
    expect(bytesOf(place)).toEqual(before);
  });

  it("beside an empty file, or none, is refused: SQLite would delete it", async () => {
    const place = await crashed();
    writeFileSync(place, "");
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
    rmSync(place);
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
    expect(readFileSync(`${place}-wal`).length).toBeGreaterThan(0);
  });

  it("is found beside the file that a symbolic link points to", async () => {
    const [place, link] = [await crashed(), path()];
    copyFileSync(await backupOf(7), place);
    symlinkSync(place, link);
    expect(await codeOf(() => sqliteStore(link))).toBe("STORE_INVALID");
  });

  it("control: SQLite itself replays it", async () => {
    const place = await crashed();
    copyFileSync(await backupOf(7), place);
    const found = inspect(place, (db) => {
      try {
        return db.prepare("SELECT remaining FROM keystile_accounts").pluck().all();
      } catch (cause) {
        return (cause as { code: string }).code;
      }
    });
    expect(found).not.toEqual([7]);
  });

  it("is not suspected where it is the file's own: after a crash, beside a live store, with an empty log", async () => {
    const place = await crashed();
    const store = sqliteStore(place);
    expect((await store.readMany("keys", ["key_000001"]))[0]).toBeDefined();
    // The log of a live store is not empty.
    await addKeys(store, 0);
    const second = sqliteStore(place);
    await second.close();
    await store.close();
    const copy = await backupOf(7);
    writeFileSync(`${copy}-wal`, "");
    await sqliteStore(copy).close();
  });

  it("is not suspected after a kill at any moment of the first opening of a backup", async () => {
    const backup = await backupOf(7);
    const script = `
      const Database = require(process.argv[1]);
      for (const place of process.argv.slice(2)) {
        const db = new Database(place);
        db.pragma("journal_mode = WAL");
        db.exec("CREATE TABLE ballast (a)");
        process.stdout.write(".");
      }`;
    let logs = 0;
    for (let kill = 0; kill < 5; kill++) {
      const places = Array.from({ length: 40 }, () => path());
      for (const place of places) copyFileSync(backup, place);
      const child = spawn(process.execPath, ["-e", script, DRIVER, ...places]);
      await new Promise((resolve) => child.stdout.once("data", resolve));
      await new Promise((resolve) => setTimeout(resolve, kill * 7));
      child.kill("SIGKILL");
      await new Promise((resolve) => child.once("exit", resolve));
      for (const place of places) {
        logs += (statSync(`${place}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0 ? 1 : 0;
        await sqliteStore(place, { durability: "process" }).close();
      }
    }
    expect(logs).toBeGreaterThan(5);
  });

  // Closing any other descriptor of a file drops the POSIX locks of the process; only Linux lists them.
  it.runIf(existsSync("/proc/locks"))("looking for it keeps the locks that the process holds on the file", async () => {
    const place = path();
    const first = await withApi(sqliteStore(place));
    const locks = () =>
      readFileSync("/proc/locks", "utf8")
        .split("\n")
        .filter((line) => line.includes(`:${statSync(place).ino} `)).length;
    expect(locks()).toBe(1);
    for (const options of [{}, { readonly: true }]) await sqliteStore(place, options).close();
    expect(locks()).toBe(1);
    await first.close();
    expect(locks()).toBe(0);
  });
});
