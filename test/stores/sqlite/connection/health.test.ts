import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { afterAll, describe, expect, it } from "vitest";
import { createHandler } from "../../../../src/http/index.js";
import { sqliteStore, type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import { buildWorker, buildWriter, ended, nextMessage, startWorker } from "../../../rigs/workers.js";
import type { HoldOrders } from "../../../rigs/workers/hold.js";
import { keyRow } from "../../suite.js";
import { addKeys, codeOf, foreignHandle, inspect, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const holder = buildWorker("hold");
afterAll(async () => rmSync(await holder, { force: true }));
const DAY = 32_000_000_000;
const SYNC_FAILED = Object.assign(new Error("disk I/O error"), { code: "ERR_SQLITE_ERROR", errcode: 1034 });

/** A store on a handle whose statements fail while `fault.error` is set. */
async function breakable() {
  const fault: { error?: Error; at: RegExp } = { at: /^COMMIT$/ };
  const db = new Database(path());
  const store = await withApi(
    sqliteStore(
      foreignHandle(db, (sql) => {
        if (fault.error !== undefined && fault.at.test(sql)) throw fault.error;
      }),
    ),
  );
  const refs = await addKeys(store, 2);
  return { db, fault, store, refs };
}

async function until(holds: () => boolean): Promise<void> {
  for (const deadline = performance.now() + 20_000; !holds();) {
    if (performance.now() > deadline) throw new Error("it does not come");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("health: what failed", () => {
  it("fsyncs that fail: ok is false until a transaction is committed, and the count stays", async () => {
    const { fault, store, refs } = await breakable();
    expect(store.health()).toMatchObject({ ok: true, counters: { failedWrites: 0, failedSyncs: 0 } });
    fault.error = SYNC_FAILED;
    for (let i = 1; i <= 50; i++) {
      expect(await codeOf(() => Promise.all(refs.map((ref) => store.spendCredits(ref, 1, 0, 0))))).toBe("STORE_FAILED");
      expect(store.health()).toMatchObject({ ok: false, counters: { failedWrites: i, failedSyncs: i } });
    }
    expect(store.health().problems).toEqual([
      "the last 50 transactions failed on the disk; none has been committed since",
    ]);
    delete fault.error;
    await store.spendCredits(refs[0]!, 1, 0, 0);
    expect(store.health()).toMatchObject({ ok: true, counters: { failedWrites: 50, failedSyncs: 50 } });
  });

  it("a full disk counts, and a conflict or a lock does not", async () => {
    const { fault, store, refs } = await breakable();
    fault.error = Object.assign(new Error("full"), { errcode: 13 });
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(9) }]))).toBe("STORE_FULL");
    expect(store.health()).toMatchObject({ ok: false, counters: { failedWrites: 1, failedSyncs: 0 } });
    fault.error = Object.assign(new Error("constraint"), { errcode: 19 });
    await codeOf(() => store.spendCredits(refs[0]!, 1, 0, 0));
    expect(store.health().counters.failedWrites).toBe(1);
  });

  it("locks that calls wait for, their time, and calls that fail with STORE_BUSY", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place, { busyTimeout: 60 }));
    const refs = await addKeys(store, 3);
    const lock = new Database(place);
    lock.exec("BEGIN IMMEDIATE");
    const spends = await Promise.allSettled(refs.map((ref) => store.spendCredits(ref, 1, 0, 0)));
    expect(spends.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    lock.close();
    const { ok, counters } = store.health();
    expect([ok, counters.busyErrors]).toEqual([true, 3]);
    expect(counters.lockWaits).toBeGreaterThan(0);
    expect(counters.lockWaitMs).toBeGreaterThan(50);
    await store.close();
  });

  it("returns of leased credits that fail, and refills that are forfeited", async () => {
    const { fault, store, refs } = await breakable();
    fault.error = SYNC_FAILED;
    expect(await codeOf(() => store.returnCredits(refs[0]!, { holder: "node", spent: 0 }))).toBe("STORE_FAILED");
    delete fault.error;
    expect(store.health().counters).toMatchObject({ failedReturns: 1, forfeitedRefills: 0 });
    const row = keyRow(7, { hasCredits: true });
    await store.insertKeys([{ row, balance: { remaining: 1, amount: 1, period: DAY } }]);
    const { ref } = (await store.findKey(row.digest!))!;
    await store.spendCredits(ref, 1, DAY + 500, 0);
    expect(store.health().counters.forfeitedRefills).toBe(100);
  });

  it("a read that fails says nothing about damage, and does not advise a restore", async () => {
    const { fault, store } = await breakable();
    fault.error = Object.assign(new Error("disk I/O error"), { errcode: 266 });
    fault.at = /SELECT/;
    const error = await (async () => store.findKey("digest-1"))().catch((thrown: unknown) => thrown as Error);
    expect(error).toMatchObject({ code: "STORE_FAILED" });
    expect((error as Error).message).not.toMatch(/restore|damaged/);
  });
});

describe("health: the log", () => {
  it(
    "that a stuck reader in another process keeps from being begun anew is told, by the metrics too, and cut once the reader is gone",
    { timeout: 60_000 },
    async () => {
      const place = path();
      const store = await withApi(sqliteStore(place, { durability: "process" }));
      const [ref] = await addKeys(store, 1, 1_000_000);
      const handler = createHandler(store, { metrics: true });
      const told = async () => {
        const text = await (await handler(new Request("http://localhost/metrics"))).text();
        return Number(/^keystile_store_wal_bytes (\d+)$/m.exec(text)?.[1]);
      };
      const reader = startWorker(await holder, { file: place, lock: "READ" } satisfies HoldOrders);
      await nextMessage(reader);
      reader.kill("SIGSTOP");
      const { checkpoints } = store.health().counters;
      const text = "x".repeat(60_000);
      for (let n = 2; store.health().counters.walBytes <= 67_108_864; n += 100)
        await store.insertKeys(Array.from({ length: 100 }, (_, i) => ({ row: keyRow(n + i, { meta: { text } }) })));
      const stuck = store.health();
      expect(stuck).toMatchObject({ ok: true, problems: [], counters: { checkpoints } });
      expect(stuck.warnings).toEqual([expect.stringMatching(/the log has \d+ bytes and grows: a reader that stays/)]);
      expect(await told()).toBe(stuck.counters.walBytes);
      // It goes on to take spends.
      expect(await store.spendCredits(ref!, 1, 0, 0)).toMatchObject({ ok: true });

      reader.kill("SIGKILL");
      await ended(reader).catch(() => undefined);
      for (let i = 0; i < 3; i++) await store.spendCredits(ref!, 1, 0, 0);
      const { warnings, counters } = store.health();
      expect(warnings).toEqual([]);
      expect(counters.walBytes).toBeLessThanOrEqual(67_108_864);
      expect(counters.checkpoints).toBe(checkpoints + 1);
      await handler.close();
      await store.close();
    },
  );

  it("and its rounds: counted alike in every store, whichever begins the log anew; the count never goes back", async () => {
    const place = path();
    const one = await withApi(sqliteStore(place, { durability: "process" }));
    const other = sqliteStore(place, { durability: "process" });
    const [ref] = await addKeys(one, 1, 1_000_000);
    const counts = () => [one, other].map((store) => store.health().counters.checkpoints);
    const before = counts();
    for (let round = 1; round <= 6; round++) {
      inspect(place, (db) => db.pragma("wal_checkpoint(FULL)"));
      // One of them goes first: it begins the log anew.
      for (const store of round % 3 === 0 ? [one, other] : [other, one]) await store.spendCredits(ref!, 1, 0, 0);
      expect(counts()).toEqual(before.map((count) => count + round));
    }
    // A log that is cut to nothing, and begun by the other store, has a number of its own.
    inspect(place, (db) => db.pragma("wal_checkpoint(TRUNCATE)"));
    await other.spendCredits(ref!, 1, 0, 0);
    for (const [i, count] of counts().entries()) expect(count).toBeGreaterThanOrEqual(before[i]! + 6);
    await one.close();
    await other.close();
  });

  it("and its rounds: each time that it was carried over and begun anew", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    const [ref] = await addKeys(store, 1);
    for (let round = 0; round < 3; round++) {
      expect(store.health().counters.checkpoints).toBe(round);
      inspect(place, (db) => db.pragma("wal_checkpoint(RESTART)"));
      await store.spendCredits(ref!, 1, 0, 0);
    }
    await store.close();
  });
});

describe("health: the writer thread", () => {
  const open = async (place: string, writer: URL): Promise<SqliteStore> => {
    const first = await withApi(sqliteStore(place));
    await addKeys(first, 1);
    await first.close();
    return sqliteStore(place, { writer });
  };

  it("one that could not open the file is started again, and health says so meanwhile", async () => {
    const place = path();
    const [program, obstacle] = [await buildWriter(), `${place}.obstacle`];
    const wrapper = `${place}.mjs`;
    writeFileSync(obstacle, "");
    // As when no file descriptor is left: opening fails until it passes.
    const script = `
      import { existsSync } from "node:fs";
      import { parentPort } from "node:worker_threads";
      const fault = { name: "KeystileError", message: "the database file cannot be opened", code: "STORE_FAILED" };
      if (existsSync(${JSON.stringify(obstacle)})) parentPort.postMessage({ unable: fault });
      else await import(${JSON.stringify(program.href)});`;
    writeFileSync(wrapper, script);
    const store = await open(place, pathToFileURL(wrapper));
    expect(await codeOf(() => store.write([]))).toBe("STORE_FAILED");
    expect(store.health()).toMatchObject({
      ok: false,
      problems: ["the writer thread does not write: the database file cannot be opened"],
    });
    rmSync(obstacle);
    // By itself: while health says no, nobody may be calling.
    await until(() => store.health().ok);
    expect(await store.write([])).toBe("written");
    expect((await store.spendCredits((await store.findKey("digest-1"))!.ref, 1, 0, 0))?.ok).toBe(true);
    await store.close();
  });

  it("what it counts is told with the rest", async () => {
    const place = path();
    const store = await open(place, await buildWriter());
    const { ref } = (await store.findKey("digest-1"))!;
    await store.spendCredits(ref, 1, 0, 0);
    // On a busy machine the thread may begin only once the lock is gone.
    for (let ms = 100; store.health().counters.lockWaits === 0; ms *= 2) {
      expect(ms).toBeLessThan(10_000);
      const lock = new Database(place);
      lock.exec("BEGIN IMMEDIATE");
      const spent = store.spendCredits(ref, 1, 0, 0);
      await new Promise((resolve) => setTimeout(resolve, ms));
      lock.close();
      await spent;
    }
    expect(store.health().counters.lockWaitMs).toBeGreaterThan(0);
    await store.close();
  });

  it("while it waits to be started again the process may end", () => {
    const code = `
      import { sqliteStore } from ${JSON.stringify(new URL("../../../../src/stores/sqlite/index.ts", import.meta.url).href)};
      const store = sqliteStore(${JSON.stringify(path())}, { writer: new URL("file:///nowhere/writer.mjs") });
      store.write([]).catch(({ code }) => console.log(code));`;
    const { stdout, status } = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", code], {
      encoding: "utf8",
      timeout: 30_000,
    });
    expect([stdout, status]).toEqual(["STORE_FAILED\n", 0]);
  });
});
