/** Leases on a real file that another process keeps locked. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { performance } from "node:perf_hooks";
import { afterEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { addKeys, balancesIn, codeOf, inspect, temporaryPaths, withApi } from "../stores/sqlite/support.js";
import { eagerSpender, account, accountOf } from "./support.js";

const path = temporaryPaths();
const KEYS = 100;
const CREDITS = 10_000;
/** Milliseconds that a call may take beyond the busy timeout. */
const GRACE = 500;

const HOLDER = `
  const Database = require("better-sqlite3");
  const db = new Database(process.argv[1]);
  db.exec("BEGIN IMMEDIATE");
  process.stdin.once("data", () => { db.exec("COMMIT"); process.exit(0); });
  console.log("locked");
`;
const holders = new Set<ChildProcess>();
afterEach(() => {
  for (const holder of holders) holder.kill("SIGKILL");
  holders.clear();
});

/** Locks a file from another process. @returns what ends that */
async function lock(file: string): Promise<() => Promise<void>> {
  const holder = spawn(process.execPath, ["-e", HOLDER, file], { stdio: ["pipe", "pipe", "inherit"] });
  holders.add(holder);
  await once(holder.stdout, "data");
  return async () => {
    const end = once(holder, "exit");
    holder.stdin.write("end");
    await end;
  };
}

async function bed(busyTimeout: number) {
  const file = path();
  const store = await withApi(sqliteStore(file, { durability: "process", busyTimeout }));
  await addKeys(store, KEYS, CREDITS);
  const total = () =>
    inspect(file, (db) => [...balancesIn(db).values()].reduce((sum, remaining) => sum + remaining, 0));
  return { file, store, total };
}

describe("leases on a file that another process keeps locked", () => {
  it("close waits until the lock is gone, and no credit is lost", { timeout: 20_000 }, async () => {
    const { file, store, total } = await bed(50);
    const spender = eagerSpender(store, { size: 1_000 });
    for (let n = 1; n <= KEYS; n++) await spender.spend(await accountOf(store, n), 1, Date.now());
    expect(total()).toBeLessThan(KEYS * (CREDITS - 900));
    const release = await lock(file);
    let isClosed = false;
    const closing = Promise.resolve(spender.close()).then(() => (isClosed = true));
    // Long enough for attempts to have failed, each after the busy timeout.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(isClosed).toBe(false);
    await release();
    await closing;
    await store.close();
    expect(total()).toBe(KEYS * (CREDITS - 1));
  });

  it("idle leases go back once the lock is gone", { timeout: 20_000 }, async () => {
    const { file, store, total } = await bed(50);
    let failed = 0;
    const watched: Store = {
      ...store,
      returnCredits: (...given) =>
        Promise.resolve(store.returnCredits(...given)).catch((error: unknown) => {
          failed++;
          throw error;
        }),
    };
    const spender = eagerSpender(watched, { size: 1_000, ttl: 1_000 });
    for (let n = 1; n <= KEYS; n++) await spender.spend(await accountOf(store, n), 1, Date.now());
    const release = await lock(file);
    await expect.poll(() => failed, { timeout: 10_000 }).toBeGreaterThanOrEqual(KEYS);
    await release();
    await expect.poll(total, { timeout: 5_000 }).toBe(KEYS * (CREDITS - 1));
    await spender.close();
    await store.close();
  });

  it("close rejects after closeTimeout with what is still out", { timeout: 20_000 }, async () => {
    const { file, store, total } = await bed(50);
    const spender = eagerSpender(store, { size: 1_000, closeTimeout: 300 });
    for (let n = 1; n <= KEYS; n++) await spender.spend(await accountOf(store, n), 1, Date.now());
    const release = await lock(file);
    await expect(Promise.resolve(spender.close())).rejects.toMatchObject({
      code: "CREDITS_NOT_RETURNED",
      detail: expect.stringContaining(`${249 * KEYS} leased credits (leases: ${KEYS}, spends in flight: 0)`) as string,
    });
    await release();
    await expect.poll(total, { timeout: 5_000 }).toBe(KEYS * (CREDITS - 1));
    await store.close();
  });

  it("64 calls of one key wait no longer for it than one does", { timeout: 20_000 }, async () => {
    const busyTimeout = 300;
    const { file, store } = await bed(busyTimeout);
    const record = (await store.findKey("digest-1"))!;
    const spender = eagerSpender(store);
    const release = await lock(file);
    const began = performance.now();
    const codes = await Promise.all(
      Array.from({ length: 64 }, () => codeOf(() => spender.spend(account(record), 1, Date.now()))),
    );
    expect(performance.now() - began).toBeLessThan(busyTimeout + GRACE);
    expect(new Set(codes)).toEqual(new Set(["STORE_BUSY"]));
    await release();
    expect(await spender.spend(account(record), 1, Date.now())).toEqual({ ok: true, remaining: CREDITS - 1 });
    await spender.close();
    await store.close();
  });
});
