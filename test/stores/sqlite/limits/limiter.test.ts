/** The limiter in a file: the suite, and what the suite cannot ask: files, processes' clocks, bounds, failures. */
import { linkSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { afterEach, describe, expect, it } from "vitest";
import type { LimitCheck } from "../../../../src/contracts/limiter.js";
import { memoryLimiter } from "../../../../src/ratelimit/memory/limiter.js";
import { sqliteLimiter, sqliteStore, type SqliteLimiter } from "../../../../src/stores/sqlite/index.js";
import { createRandom } from "../../../../src/testing/random.js";
import { createVerifier } from "../../../../src/verify/verifier.js";
import { limiterSuite } from "../../../ratelimit/suite.js";
import { buildWriter } from "../../../rigs/workers.js";
import { codeOf, inspect, temporaryPaths } from "../support.js";
import { check, HOUR, limitersOnFiles, NOW, openLimiter, passes } from "./support.js";

limiterSuite("SQLite", limitersOnFiles(1));

const newPath = temporaryPaths();
const program = await buildWriter();
const opened: SqliteLimiter[] = [];
const open = (path: string, options = {}) => openLimiter(opened, path, options);
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

/** What a file holds: buckets as it counts them, and as they are. */
const countsOf = (path: string) =>
  inspect(`${path}-limits`, (db) => [
    db.prepare("SELECT buckets, ad_hoc, holders, ad_hoc_holders FROM keystile_limits").raw().get(),
    db
      .prepare(
        `SELECT count(*), coalesce(sum(is_ad_hoc), 0), count(DISTINCT holder),
          count(DISTINCT iif(is_ad_hoc, holder, NULL)) FROM keystile_buckets`,
      )
      .raw()
      .get(),
  ]);

describe("sqliteLimiter: one set of buckets", () => {
  it("gives what the memory limiter gives, through three handles in turn, for any calls", async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const random = createRandom(seed);
      const path = newPath();
      const handles = [open(path), open(path), open(path)];
      const memory = memoryLimiter();
      const sizes = random.list(5, () => [random.integer(0, 20), random.integer(0, 4_000)] as const);
      sizes.push([10, 1_000]);
      const sizeOf = () => {
        const [limit, duration] = sizes[random.integer(0, sizes.length - 1)]!;
        return { limit, duration };
      };
      let now = NOW;
      for (let call = 0; call < 150; call++) {
        now += random.integer(-500, 1_500);
        const checks = Array.from({ length: random.integer(1, 4) }, () => ({
          bucket: `b${random.integer(1, 4)}`,
          cost: random.integer(0, 5),
          workspaceId: random.pick(["ws_1", "ws_2"]),
          ...sizeOf(),
          ...(random.integer(0, 3) === 0 && { configured: sizeOf() }),
        }));
        expect(await handles[random.integer(0, 2)]!.take(checks, now)).toEqual(memory.take(checks, now));
      }
      const [counted, there] = countsOf(path);
      expect(counted).toEqual(there);
    }
  });

  it("takes the calls of one turn in one transaction, in their order", async () => {
    const path = newPath();
    const limiter = open(path);
    await limiter.take([check("first")], NOW);
    const before = statSync(`${path}-limits-wal`).size;
    const taken = await Promise.all(Array.from({ length: 100 }, () => limiter.take([check("b", { limit: 60 })], NOW)));
    expect(taken.map(([verdict]) => verdict!.remaining)).toEqual([
      ...Array.from({ length: 60 }, (_, i) => 59 - i),
      ...Array<number>(40).fill(0),
    ]);
    expect(taken.filter(([verdict]) => verdict!.exceeded)).toHaveLength(40);
    // The pages of one transaction, where a hundred would write two hundred.
    expect(statSync(`${path}-limits-wal`).size - before).toBeLessThan(20 * 4_120);
  });

  it("keeps buckets over close and open, and gives no backup of the store any", async () => {
    const path = newPath();
    const store = sqliteStore(path);
    const limiter = sqliteLimiter(store);
    expect(await passes(limiter, NOW, check("b"), check("b"))).toEqual([true, false]);
    await limiter.close();
    const copy = newPath();
    await store.backup(copy, { writer: program });
    await store.close();
    expect(await passes(open(path), NOW + 1, check("b"))).toEqual([false]);
    expect(await passes(open(copy), NOW + 1, check("b"))).toEqual([true]);
    expect(statSync(`${path}-limits`).mode & 0o777).toBe(0o600);
  });

  it("is the same for a store that was opened through a symbolic link, and for one that writes in a thread", async () => {
    const path = newPath();
    const store = sqliteStore(path, { writer: program });
    const link = newPath();
    symlinkSync(path, link);
    const linked = sqliteStore(link);
    const handles = [sqliteLimiter(store), sqliteLimiter(linked)] as const;
    opened.push(...handles);
    expect(await passes(handles[0], NOW, check("b"))).toEqual([true]);
    expect(await passes(handles[1], NOW, check("b"))).toEqual([false]);
    await Promise.all([store.close(), linked.close()]);
  });

  it("stays open when the store closes, and settles what is pending when it is closed itself", async () => {
    const path = newPath();
    const store = sqliteStore(path);
    const limiter = sqliteLimiter(store);
    await store.close();
    const pending = Array.from({ length: 3 }, () => limiter.take([check("b", { limit: 2 })], NOW));
    await limiter.close();
    expect((await Promise.all(pending)).map(([verdict]) => verdict!.exceeded)).toEqual([false, false, true]);
    await limiter.close();
    expect(await codeOf(() => limiter.take([check("b")], NOW))).toBe("LIMITER_UNAVAILABLE");
  });

  it("tells a verifier what it counts", async () => {
    const store = sqliteStore(newPath());
    const limiter = sqliteLimiter(store, { size: 1 });
    opened.push(limiter);
    const verifier = createVerifier(store, { limiter });
    await passes(limiter, NOW, check("a", { workspaceId: "ws_1" }), check("b", { workspaceId: "ws_1" }));
    expect(verifier.counters()).toMatchObject({ newcomersRefused: 1, bucketsDisplaced: 0, degraded: 0 });
    await verifier.close();
    await store.close();
  });
});

describe("sqliteLimiter: clocks of several processes", () => {
  it("ruling A7: one that is behind refills nothing that the other has not, even where a full bucket was dropped", async () => {
    const path = newPath();
    const [ahead, behind] = [open(path), open(path)];
    const small = check("b", { duration: 1_000 });
    expect(await passes(ahead, NOW, small)).toEqual([true]);
    // Full and idle: it is dropped while others come.
    for (let i = 0; i < 200; i++) await ahead.take([check(`other ${i}`)], NOW + HOUR + i * 100);
    expect(inspect(`${path}-limits`, (db) => db.prepare("SELECT count(*) FROM keystile_buckets").pluck().get())).toBe(
      200,
    );
    expect(await passes(behind, NOW + 500, small, small)).toEqual([true, false]);
    expect(await passes(ahead, NOW + HOUR + 20_000, small)).toEqual([false]);
    expect(await passes(behind, NOW + HOUR + 20_900, small)).toEqual([true]);
  });
});

describe("sqliteLimiter: bounded space", () => {
  const full = (path: string, workspaceId: string, count: number, over: Partial<LimitCheck> = {}) =>
    Array.from({ length: count }, (_, i) => check(`${path} ${workspaceId} ${i}`, { workspaceId, ...over }));

  it("ruling C6: with one workspace a newcomer finds no space among buckets that refuse, and fails closed", async () => {
    const path = newPath();
    const limiter = open(path, { size: 20 });
    expect(await passes(limiter, NOW, ...full("a", "ws_1", 20))).toEqual(Array(20).fill(true));
    expect(await limiter.take([check("late", { workspaceId: "ws_1" })], NOW)).toEqual([
      { exceeded: true, remaining: 0, reset: HOUR },
    ]);
    expect(limiter.counters()).toMatchObject({ newcomersRefused: 1, bucketsDisplaced: 0 });
    // One that does not refuse gives way.
    const roomy = open(newPath(), { size: 20 });
    await passes(roomy, NOW, ...full("a", "ws_1", 19), check("half", { limit: 2, workspaceId: "ws_1" }));
    expect(await passes(roomy, NOW, ...full("late", "ws_1", 2))).toEqual([true, false]);
    expect(roomy.size()).toBe(20);
  });

  it("ruling C9: a newcomer below its share displaces a bucket of the largest holder, even one that refuses", async () => {
    const path = newPath();
    const [limiter, other] = [open(path, { size: 20 }), open(path, { size: 20 })];
    await passes(limiter, NOW, ...full("a", "greedy", 20));
    expect(await other.take([check("late", { workspaceId: "poor" })], NOW)).toEqual([
      { exceeded: false, remaining: 0, reset: HOUR, displaced: 1 },
    ]);
    expect(await passes(limiter, NOW, ...full("b", "poor", 15))).toEqual([
      ...Array<boolean>(9).fill(true),
      ...Array<boolean>(6).fill(false),
    ]);
    expect(limiter.counters()).toMatchObject({ newcomersRefused: 6, bucketsDisplaced: 9 });
    expect(other.counters()).toMatchObject({ newcomersRefused: 0, bucketsDisplaced: 1 });
    expect(countsOf(path)).toEqual([
      [20, 0, 2, 0],
      [20, 0, 2, 0],
    ]);
  });

  it("ad hoc limits use half of it, and hold no other limits up", async () => {
    const path = newPath();
    const limiter = open(path, { size: 20 });
    expect((await passes(limiter, NOW, ...full("a", "ws_1", 30, { isAdHoc: true }))).filter(Boolean)).toHaveLength(10);
    expect(await passes(limiter, NOW, ...full("b", "ws_1", 10))).toEqual(Array(10).fill(true));
    expect(countsOf(path)[0]).toEqual([20, 10, 1, 1]);
  });

  it("a call whose new buckets do not all find space takes from none", async () => {
    const limiter = open(newPath(), { size: 3 });
    await passes(limiter, NOW, check("a"), check("b"));
    const call = [check("old", { limit: 5 }), check("c"), check("d")];
    expect((await limiter.take(call, NOW)).map(({ exceeded }) => exceeded)).toEqual([true, true, true]);
    expect(limiter.size()).toBe(2);
    expect(await passes(limiter, NOW, check("c"))).toEqual([true]);
  });

  it("drops buckets that are full and idle, and no other", async () => {
    const path = newPath();
    const limiter = open(path);
    const quick = Array.from({ length: 300 }, (_, i) => check(`quick ${i}`, { duration: 1_000 }));
    await Promise.all([...quick, check("slow", { duration: 24 * HOUR })].map((one) => limiter.take([one], NOW)));
    expect(limiter.size()).toBe(301);
    const slow = check("slow", { duration: 24 * HOUR });
    for (let i = 1; i <= 20; i++) expect(await passes(limiter, NOW + HOUR + i * 1_000, slow)).toEqual([false]);
    expect(limiter.size()).toBe(1);
    expect(countsOf(path)[0]).toEqual([1, 0, 1, 0]);
  });
});

describe("sqliteLimiter: failures", () => {
  it("ruling D10: waits for a lock no longer than busyTimeout and 500 ms, and fails with STORE_BUSY", async () => {
    const path = newPath();
    const limiter = open(path, { busyTimeout: 200 });
    for (let i = 0; i < 5; i++) await limiter.take([check(`b${i}`)], NOW);
    const holder = new Database(`${path}-limits`);
    holder.exec("BEGIN IMMEDIATE");
    let [attempts, waited] = [0, Infinity];
    // A busy machine makes some attempts long, not all.
    while (waited >= 700 && attempts++ < 5) {
      const began = performance.now();
      const calls = Array.from({ length: 50 }, () => codeOf(() => limiter.take([check("b")], NOW)));
      expect(new Set(await Promise.all(calls))).toEqual(new Set(["STORE_BUSY"]));
      waited = performance.now() - began;
      expect(waited).toBeGreaterThanOrEqual(200);
    }
    expect(waited).toBeLessThan(700);
    expect(limiter.counters()).toMatchObject({ busyErrors: 50 * attempts });
    // A lock that goes in time is waited for.
    const late = limiter.take([check("b")], NOW);
    holder.exec("ROLLBACK");
    holder.close();
    expect((await late)[0]).toMatchObject({ exceeded: false });
  });

  it.each(["deleted", "replaced"] as const)("a file that was %s under it fails every call", async (how) => {
    const path = newPath();
    const limiter = open(path);
    await limiter.take([check("b")], NOW);
    if (how === "deleted") rmSync(`${path}-limits`);
    else {
      await open(`${path}2`).close();
      renameSync(`${path}2-limits`, `${path}-limits`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
    for (let i = 0; i < 3; i++) expect(await codeOf(() => limiter.take([check("b")], NOW))).toBe("STORE_FILE_CHANGED");
  });

  it("a bucket that cannot be read, and tables of another keystile, fail the call: nothing passes for full", async () => {
    const path = newPath();
    const limiter = open(path);
    await limiter.take([check("b")], NOW);
    inspect(`${path}-limits`, (db) => db.exec("UPDATE keystile_buckets SET levels = '[[1,2]]'"));
    expect(await codeOf(() => limiter.take([check("b")], NOW))).toBe("STORE_INVALID");
    inspect(`${path}-limits`, (db) => db.exec("UPDATE keystile_limits SET version = 9"));
    expect(await codeOf(() => limiter.take([check("b")], NOW))).toBe("STORE_SCHEMA_NEWER");
    inspect(`${path}-limits`, (db) => db.exec("UPDATE keystile_limits SET version = 0"));
    await expect(limiter.take([check("b")], NOW)).rejects.toMatchObject({
      code: "STORE_INVALID",
      message: expect.stringContaining("remove the file") as string,
    });
  });

  it("refuses a store in memory, a file of something else, and several names", async () => {
    const store = sqliteStore(":memory:");
    expect(await codeOf(() => sqliteLimiter(store))).toBe("STORE_POWER_MISSING");
    await store.close();
    const path = newPath();
    inspect(`${path}-limits`, (db) => db.exec("CREATE TABLE mine (a)"));
    expect(await codeOf(() => sqliteLimiter({ path }))).toBe("STORE_INVALID");
    const text = newPath();
    writeFileSync(`${text}-limits`, "no database ".repeat(100));
    expect(await codeOf(() => sqliteLimiter({ path: text }))).toBe("STORE_INVALID");
    const linked = newPath();
    await sqliteLimiter({ path: linked }).close();
    linkSync(`${linked}-limits`, `${linked}-other`);
    expect(await codeOf(() => sqliteLimiter({ path: linked }))).toBe("STORE_FILE_LINKED");
  });

  it("names what is wrong with an option, a number or a name", async () => {
    const path = newPath();
    expect(() => sqliteLimiter({ path }, { size: 0 })).toThrow("options.size must be from 1 to 10000000");
    expect(() => sqliteLimiter({ path }, { busyTimeout: 60_001 })).toThrow("options.busyTimeout");
    expect(() => sqliteLimiter(undefined as never)).toThrow("store must be one of sqliteStore()");
    const limiter = open(path);
    expect(() => limiter.take([check("b", { cost: NaN })], NOW)).toThrow("cost must be an integer");
    expect(() => limiter.take([check("b")], NaN)).toThrow("now must be a finite number");
    expect(() => limiter.take([check("b".repeat(2_049))], NOW)).toThrow("bucket must be");
    expect(() => limiter.take([check("\ud800")], NOW)).toThrow("bucket must be");
    expect(limiter.size()).toBe(0);
  });
});
