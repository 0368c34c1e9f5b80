import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier } from "../../../../src/index.js";
import { sqliteStore, type SqliteStoreOptions } from "../../../../src/stores/sqlite/index.js";
import { buildWriter } from "../../../rigs/workers.js";
import { addKeys, codeOf, inspect, nextTurn, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A verifier of one key with credits, which has been verified before. */
async function inUse(options: SqliteStoreOptions = {}, place = path()) {
  const store = sqliteStore(place, options);
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "docs" });
  const { key } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
  const free = await keyring.createKey({ apiId });
  const verifier = createVerifier(store);
  const verify = async (which = key) => (await verifier.verify({ key: which })).code;
  expect(await verify()).toBe("VALID");
  expect(await verify(free.key)).toBe("VALID");
  return { place, store, keyring, apiId, key, free: free.key, verify, verifier };
}

describe("the database file: how it is made and opened", () => {
  it("is readable and writable by its owner only, log included, and bears keystile's mark", async () => {
    const place = path();
    const before = process.umask(0);
    const store = await withApi(sqliteStore(place));
    process.umask(before);
    for (const file of [place, `${place}-wal`, `${place}-shm`]) expect(statSync(file).mode & 0o777, file).toBe(0o600);
    await store.close();
    expect(inspect(place, (db) => db.pragma("application_id", { simple: true }))).toBe(0x4b53544c);
  });

  it("what a symbolic link to nothing names is made; modes that the owner chose stay", async () => {
    const [link, target] = [path(), path()];
    symlinkSync(target, link);
    await sqliteStore(link).close();
    expect(statSync(target).mode & 0o777).toBe(0o600);
    chmodSync(target, 0o640);
    await sqliteStore(link).close();
    expect(statSync(target).mode & 0o777).toBe(0o640);
  });

  it("a file without the mark, of an earlier keystile, gets it; a copy of a program's own file keeps its own", async () => {
    const place = path();
    for (const id of [0, 7]) {
      await sqliteStore(place).close();
      inspect(place, (db) => db.pragma(`application_id = ${id}`));
      await sqliteStore(place).close();
      expect(inspect(place, (db) => db.pragma("application_id", { simple: true }))).toBe(id || 0x4b53544c);
    }
  });

  it.each([0, 1, 99])("a file of %d bytes is STORE_INVALID, and stays as it is", async (size) => {
    const place = path();
    writeFileSync(place, "x".repeat(size));
    for (const options of [
      { busyTimeout: 0 },
      { mustExist: true, busyTimeout: 0 },
      { readonly: true, busyTimeout: 0 },
    ]) {
      expect(await codeOf(() => sqliteStore(place, options))).toBe("STORE_INVALID");
      expect(() => sqliteStore(place, options)).toThrow(/shorter than a database's header/);
    }
    expect(statSync(place).size).toBe(size);
    expect(existsSync(`${place}-wal`)).toBe(false);
  });

  it("an empty file that another process is just making is waited for", async () => {
    const place = path();
    writeFileSync(place, "");
    const script = `
      setTimeout(() => {
        const db = new (require("better-sqlite3"))(process.argv[1]);
        db.pragma("journal_mode = WAL");
        db.close();
      }, 50);`;
    const { spawn } = await import("node:child_process");
    const child = spawn(process.execPath, ["-e", script, place], { cwd: process.cwd(), stdio: "inherit" });
    await sqliteStore(place, { busyTimeout: 20_000 }).close();
    await new Promise((resolve) => child.once("exit", resolve));
  });

  it("a database of another program is STORE_INVALID, and is not changed", async () => {
    const [marked, unmarked] = [path(), path()];
    inspect(marked, (db) => db.pragma("application_id = 252006674"));
    inspect(unmarked, (db) => db.exec("CREATE TABLE bookmarks (url)"));
    for (const place of [marked, unmarked]) {
      expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
      expect(() => sqliteStore(place)).toThrow(/of another program/);
      inspect(place, (db) => {
        expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
        expect(db.prepare("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'keystile%'").pluck().get()).toBe(0);
      });
    }
  });

  it("a file with two names is STORE_FILE_LINKED under both, as a path and as a handle", async () => {
    const [one, two] = [path(), path()];
    const store = await withApi(sqliteStore(one));
    const [ref] = await addKeys(store, 1, 1_000);
    inspect(one, (db) => db.pragma("wal_checkpoint(TRUNCATE)"));
    linkSync(one, two);
    for (const options of [{}, { mustExist: true }, { readonly: true }])
      expect(await codeOf(() => sqliteStore(two, options))).toBe("STORE_FILE_LINKED");
    expect(() => sqliteStore(two)).toThrow(/several names \(hard links\); keep one/);
    const handle = new Database(two);
    expect(await codeOf(() => sqliteStore(handle))).toBe("STORE_FILE_LINKED");
    handle.close();
    // The one that had it open before goes on, and says so.
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 999 });
    expect(store.health().problems).toEqual([expect.stringMatching(/several names/)]);
    await store.close();
    rmSync(two);
    await sqliteStore(one).close();
  });

  const canMount = process.platform === "linux" && canUnshare();
  it.skipIf(!canMount)(
    "a file that is mounted alone is STORE_FILE_LINKED; its folder mounted is not (needs root on Linux)",
    async () => {
      const place = path();
      await sqliteStore(place).close();
      const folder = `${path()}.mounted`;
      const program = fileURLToPath(new URL("../../../../src/stores/sqlite/index.ts", import.meta.url));
      const script = `
      import(${JSON.stringify(program)}).then(({ sqliteStore }) => {
        for (const file of process.argv.slice(1)) {
          try { sqliteStore(file, { mustExist: true }).close(); console.log("opened"); } catch ({ code }) { console.log(code); }
        }
      });`;
      const shell = `mkdir "$2" && touch "$2/alone me.db" && mount --bind "$1" "$2/alone me.db" &&
      mkdir "$2/all" && mount --bind "$(dirname "$1")" "$2/all" &&
      exec "$3" --import tsx -e "$4" "$2/alone me.db" "$2/all/$(basename "$1")"`;
      const told = execFileSync("unshare", ["-m", "sh", "-c", shell, "sh", place, folder, process.execPath, script], {
        encoding: "utf8",
      });
      expect(told.trim().split("\n")).toEqual(["STORE_FILE_LINKED", "opened"]);
    },
  );
});

function canUnshare(): boolean {
  try {
    execFileSync("unshare", ["-m", "mount", "--bind", "/tmp", "/tmp"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const CHANGES: readonly (readonly [name: string, change: (place: string) => void])[] = [
  ["deleted", (place) => rmSync(place)],
  [
    "replaced",
    (place) => {
      copyFileSync(place, `${place}.new`);
      renameSync(`${place}.new`, place);
    },
  ],
  ["truncated", (place) => truncateSync(place, 0)],
  ["truncated", (place) => truncateSync(place, 8_192)],
];

describe("the database file: changed while it is open", () => {
  it.each(CHANGES)(
    "%s: verifications and writes fail with STORE_FILE_CHANGED, from memory too",
    async (name, change) => {
      for (const isCheckpointed of name === "truncated" ? [true] : [false, true]) {
        const { place, store, keyring, apiId, free, verify } = await inUse();
        if (isCheckpointed) inspect(place, (db) => db.pragma("wal_checkpoint(TRUNCATE)"));
        await nextTurn();
        expect(await verify()).toBe("VALID");
        change(place);
        await nextTurn();
        expect(await codeOf(() => verify())).toBe("STORE_FILE_CHANGED");
        expect(await codeOf(() => verify(free))).toBe("STORE_FILE_CHANGED");
        await pause(2);
        expect(await codeOf(() => keyring.createKey({ apiId }))).toBe("STORE_FILE_CHANGED");
        expect(store.health()).toMatchObject({
          ok: false,
          problems: expect.arrayContaining([`the database file was ${name} while it is in use`]) as unknown,
        });
        await store.close();
      }
    },
  );

  it("spends that keep the connection up to date, so that nothing polls, fail within the bound", async () => {
    const { place, store, verifier, key } = await inUse();
    rmSync(place);
    const until = performance.now() + 2_000;
    const spend = async () => {
      for (;;) if (!(await verifier.verify({ key })).valid || performance.now() > until) throw new Error("it goes on");
    };
    const ends = await Promise.allSettled(Array.from({ length: 8 }, spend));
    for (const end of ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "STORE_FILE_CHANGED" } });
    await store.close();
  });

  it("with a writer thread, and with a bound of milliseconds", async () => {
    for (const options of [{ writer: await buildWriter() }, { staleness: 20 }, { staleness: "call" }] as const) {
      const { place, store, verify } = await inUse(options);
      rmSync(place);
      await pause(25);
      expect(await codeOf(() => verify())).toBe("STORE_FILE_CHANGED");
      await store.close();
    }
  });

  it("a later keystile upgrades the tables: STORE_SCHEMA_NEWER for verifications and writes", async () => {
    const { place, store, keyring, apiId, free, verify } = await inUse();
    inspect(place, (db) =>
      db.exec("ALTER TABLE keystile_keys ADD COLUMN later ANY; UPDATE keystile_schema SET version = 99"),
    );
    await nextTurn();
    expect(await codeOf(() => keyring.createKey({ apiId }))).toBe("STORE_SCHEMA_NEWER");
    expect(await codeOf(() => verify())).toBe("STORE_SCHEMA_NEWER");
    expect(await codeOf(() => verify(free))).toBe("STORE_SCHEMA_NEWER");
    expect(store.health().ok).toBe(false);
    await store.close();
  });

  it("what does no harm is let pass: VACUUM, a table of another tool, a name that comes and goes", async () => {
    const { place, store, keyring, apiId, verify } = await inUse();
    for (let i = 0; i < 200; i++) await keyring.createKey({ apiId, meta: { text: "x".repeat(2_000) } });
    inspect(place, (db) => {
      db.pragma("wal_checkpoint(TRUNCATE)");
      db.exec("CREATE TABLE mine (x)");
    });
    await nextTurn();
    expect(await verify()).toBe("VALID");
    const before = statSync(place).size;
    inspect(place, (db) => {
      db.exec("DELETE FROM keystile_keys WHERE number > 50; VACUUM");
      db.pragma("wal_checkpoint(TRUNCATE)");
    });
    expect(statSync(place).size).toBeLessThan(before);
    await nextTurn();
    expect(await verify()).toBe("VALID");
    linkSync(place, `${place}.backup`);
    rmSync(`${place}.backup`);
    await nextTurn();
    expect(await verify()).toBe("VALID");
    expect(store.health().ok).toBe(true);
    await store.close();
  });
});
