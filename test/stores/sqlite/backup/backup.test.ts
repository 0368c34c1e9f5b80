import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { KeystileError } from "../../../../src/contracts/errors.js";
import type { BackupProgress, SqliteStore } from "../../../../src/stores/sqlite/index.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { type MakeOrder, makeBackup } from "./support.js";
import type { Handle } from "../../../../src/stores/sqlite/connection/handle.js";
import { reconcile } from "../../../../src/stores/sqlite/credits/reconcile.js";
import { buildWriter } from "../../../rigs/workers.js";
import { createKeyring } from "../../../../src/index.js";
import { keyRow } from "../../suite.js";
import { addKeys, codeOf, inspect, refOf, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
/** Where 60 MB take longer than the time between two reports. */
const onDisk = temporaryPaths(join(process.cwd(), ".cache", "backup"));
const writer = await buildWriter();
const HOUR = 3_600_000;

async function open(place = path(), options = {}): Promise<SqliteStore> {
  return withApi(sqliteStore(place, { durability: "process", ...options }));
}

const draw = (store: SqliteStore, ref: number, over = {}) =>
  store.drawCredits(ref, {
    holder: "node_1",
    cost: 5,
    step: 5,
    size: 20,
    spent: 0,
    period: 0,
    now: 0,
    until: HOUR,
    ...over,
  });

describe("store.backup", () => {
  it("makes one private file with everything acknowledged before, that a store opens", async () => {
    const [place, copy] = [path(), path()];
    const store = await open(place);
    const [first] = await addKeys(store, 3);
    await store.spendCredits(first!, 40, 0, 0);
    const made = await store.backup(copy, { writer });
    expect(made).toEqual({ bytes: statSync(copy).size, accounts: 3, broken: 0, leases: 0, forfeited: 0 });
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    expect(readdirSync(dirname(copy)).filter((name) => name.includes(".part"))).toEqual([]);
    await store.spendCredits(first!, 1, 0, 0);
    await store.close();
    const restored = await open(copy);
    expect((await restored.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(60);
    expect(restored.health().ok).toBe(true);
    await restored.close();
  });

  it("works from a store that writes in a thread, that only reads, and under a path that changes meanwhile", async () => {
    const place = path();
    const store = await open(place, { writer });
    await addKeys(store, 2);
    expect((await store.backup(path())).accounts).toBe(2);
    const reader = sqliteStore(place, { readonly: true });
    expect((await reader.backup(path(), { writer })).accounts).toBe(2);
    await reader.close();
    await store.close();
  });

  it("voids leases: what they hold is forfeited in the copy, and the original goes on", async () => {
    const [place, copy] = [path(), path()];
    const store = await open(place);
    const [ref] = await addKeys(store, 2);
    await draw(store, ref!);
    // Of another node, expired: what it held is forfeited already.
    await draw(store, ref!, { holder: "node_2", until: 1 });
    await draw(store, ref!, { now: 2, spent: 3 });
    const before = (await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]!;
    const made = await store.backup(copy, { writer });
    expect(made).toMatchObject({ broken: 0, leases: 2, forfeited: before.reserved });
    expect(before.reserved).toBeGreaterThan(0);
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]).toEqual(before);
    await store.close();
    inspect(copy, (db) => expect(reconcile(db as Handle, () => undefined)).toMatchObject({ accounts: 2, broken: 0 }));

    const restored = await open(copy);
    const again = await refOf(restored, keyRow(1).digest!);
    const remaining = before.remaining!;
    const { forfeited } = before.totals!;
    // Long after every lease would have ended, and after its nodes tried to give back what they hold.
    for (const holder of ["node_1", "node_2"]) await restored.returnCredits(again, { holder, spent: 3 });
    const [after] = await restored.readBalances([{ keyId: "key_000001", period: 0 }], 100 * HOUR);
    expect(after).toMatchObject({ remaining, reserved: 0, totals: { forfeited: forfeited + before.reserved } });
    expect((await restored.spendCredits(again, remaining + 1, 0, 100 * HOUR))?.ok).toBe(false);
    expect((await restored.spendCredits(again, remaining, 0, 100 * HOUR))?.ok).toBe(true);
    await restored.close();
  });

  it("keeps reservations: in the copy they are settled by their ids, or return at their time-outs", async () => {
    const [place, copy] = [path(), path()];
    const store = await open(place);
    const [ref] = await addKeys(store, 2);
    for (const [id, cost] of [
      ["res_a", 30],
      ["res_b", 20],
    ] as const)
      expect((await store.reserveCredits(ref!, 0, { cost, now: 0, reservation: { id, until: HOUR } }))?.ok).toBe(true);
    await draw(store, ref!);
    const query = [{ keyId: "key_000001", period: 0 }];
    const { remaining, reserved } = (await store.readBalances(query, 0))[0]!;
    expect(await store.backup(copy, { writer })).toMatchObject({ broken: 0, leases: 1, forfeited: reserved - 50 });
    await store.close();
    inspect(copy, (db) => expect(reconcile(db as Handle, () => undefined)).toMatchObject({ accounts: 2, broken: 0 }));
    const restored = await open(copy);
    const again = await refOf(restored, keyRow(1).digest!);
    expect((await restored.readBalances(query, 0))[0]).toMatchObject({ remaining, reserved: 50 });
    expect(await restored.settleCredits(again, { id: "res_a", spent: 10, now: 1 })).toEqual({ settled: true });
    expect((await restored.readBalances(query, HOUR))[0]).toMatchObject({ remaining: remaining! + 40, reserved: 0 });
    expect(await restored.settleCredits(again, { id: "res_b", spent: 10, now: HOUR })).toMatchObject({
      reason: "expired",
    });
    await restored.close();
  });

  it("accounts of identities are proved with those of keys", async () => {
    const [place, copy] = [path(), path()];
    const store = await open(place);
    const keyring = createKeyring(store, { workspaceId: "ws_1" });
    const { identityId } = await keyring.createIdentity({ externalId: "ada", credits: { remaining: 20 } });
    const { keyId } = await keyring.createKey({ apiId: "api_1", externalId: "ada", credits: { remaining: 3 } });
    await keyring.updateKey({ keyId, creditsFrom: "identity" });
    expect(await store.backup(copy, { writer })).toMatchObject({ accounts: 2, broken: 0 });
    const problemsAfter = (sql: string) =>
      inspect(copy, (db) => {
        db.exec(`BEGIN; ${sql}`);
        const { named } = reconcile(db, () => undefined);
        db.exec("ROLLBACK");
        return named;
      });
    expect(problemsAfter("UPDATE keystile_identities SET body = json_remove(body, '$.hasCredits')")).toEqual([
      { keyId: identityId, problem: "the identity and its account differ about whether it is unlimited" },
    ]);
    expect(problemsAfter("DELETE FROM keystile_accounts WHERE number < 0")).toEqual([
      { keyId: identityId, problem: "it has credits, and no account" },
    ]);
    expect(problemsAfter("DELETE FROM keystile_identities")).toEqual([
      { keyId: "number -1", problem: "an account without a key, an identity or a grant" },
    ]);
    await store.close();
  });

  it("an account that does not add up stays as it is and is counted", async () => {
    const [place, copy] = [path(), path()];
    const store = await open(place);
    const [ref] = await addKeys(store, 2);
    await draw(store, ref!);
    inspect(place, (db) => {
      db.pragma("ignore_check_constraints = ON");
      db.exec("UPDATE keystile_accounts SET remaining = remaining + 1 WHERE number = 1");
    });
    expect(await store.backup(copy, { writer })).toMatchObject({ accounts: 2, broken: 1, leases: 0 });
    const restored = sqliteStore(copy);
    expect(await codeOf(() => restored.spendCredits(ref!, 1, 0, 0))).toBe("STORE_INVALID");
    await restored.close();
    await store.close();
  });

  it("never writes over a file, nor beside a log", async () => {
    const store = await open();
    for (const end of ["", "-wal", "-journal"]) {
      const target = path();
      writeFileSync(`${target}${end}`, "precious");
      expect(await codeOf(() => store.backup(target, { writer }))).toBe("CONFLICT");
      expect(readFileSync(`${target}${end}`, "utf8")).toBe("precious");
      expect(existsSync(target)).toBe(end === "");
    }
    await store.close();
  });

  it("of two backups to one name one is made", async () => {
    const [store, target] = [await open(), path()];
    const backup = () => store.backup(target, { writer }).then(() => "made");
    const codes = (await Promise.allSettled([backup(), backup()])).map((settled) =>
      settled.status === "fulfilled" ? settled.value : (settled.reason as KeystileError).code,
    );
    expect(codes.sort()).toEqual(["CONFLICT", "made"]);
    expect(readdirSync(dirname(target)).filter((name) => name.includes(".part"))).toEqual([]);
    await store.close();
  });

  it("says what is wrong with a path, an option, a folder, a store without a file and a program", async () => {
    const store = await open();
    for (const target of ["", " a.db", "a\0b", ":memory:", 7, undefined])
      await expect(store.backup(target as string)).rejects.toThrow(TypeError);
    await expect(store.backup(path(), { onprogress: () => 0 } as object)).rejects.toThrow("options.onprogress is not");
    expect(await codeOf(() => store.backup(join(path(), "none", "a.db"), { writer }))).toBe("STORE_FAILED");
    expect(await codeOf(() => store.backup(path(), { writer: pathToFileURL(path()) }))).toBe("STORE_FAILED");
    await store.close();
    expect(await codeOf(() => store.backup(path(), { writer }))).toBe("STORE_CLOSED");
    const memory = sqliteStore(":memory:");
    expect(await codeOf(() => memory.backup(path(), { writer }))).toBe("STORE_POWER_MISSING");
    const owned = new Database(path());
    expect(await codeOf(() => sqliteStore(owned).backup(path(), { writer }))).toBe("STORE_POWER_MISSING");
    owned.close();
  });

  it("refuses what has no keystile tables, newer ones, or those of before the first version", () => {
    const order = (place: string): MakeOrder => ({ path: place, target: path() });
    const empty = path();
    inspect(empty, (db) => db.exec("CREATE TABLE other (a)"));
    expect(() => makeBackup(order(empty))).toThrow("has no keystile tables");
    const newer = path();
    inspect(newer, (db) => db.exec("CREATE TABLE keystile_schema (version); INSERT INTO keystile_schema VALUES (99)"));
    expect(() => makeBackup(order(newer))).toThrow("upgrade keystile");
    const old = path();
    inspect(old, (db) => db.exec("CREATE TABLE keystile_schema (version); INSERT INTO keystile_schema VALUES (8)"));
    expect(() => makeBackup(order(old))).toThrow("made before keystile 0.1.0");
  });

  it("lets the event loop run, and tells how far it is", async () => {
    const place = onDisk();
    const store = await open(place);
    const grow = (megabytes: number) =>
      inspect(place, (db) => {
        db.exec("CREATE TABLE IF NOT EXISTS ballast (a)");
        const insert = db.prepare("INSERT INTO ballast VALUES (randomblob(1000000))");
        db.transaction(() => {
          for (let i = 0; i < megabytes; i++) insert.run();
        })();
      });
    const seen: BackupProgress[] = [];
    let turns = 0;
    const timer = setInterval(() => turns++, 5);
    // The first report comes after 200 ms: on a fast machine a small file is copied by then. On a busy one this process
    // may stand still for as long.
    for (let megabytes = 60; (seen.length === 0 || turns <= 5) && megabytes <= 960; megabytes *= 2) {
      grow(megabytes);
      turns = 0;
      await store.backup(onDisk(), {
        writer,
        onProgress(progress) {
          seen.push(progress);
          throw new Error("of the watcher");
        },
      });
    }
    clearInterval(timer);
    expect(turns).toBeGreaterThan(5);
    expect(seen.length).toBeGreaterThan(0);
    for (const { bytes, total } of seen) expect(bytes).toBeLessThanOrEqual(total);
    expect(seen[0]!.total).toBeGreaterThan(60_000_000);
    await store.close();
  });
});
