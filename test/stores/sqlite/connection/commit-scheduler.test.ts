import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { afterEach, describe, expect, it, vi } from "vitest";
import { afterTurn } from "../../../../src/stores/sqlite/connection/transaction.js";
import { createCommitScheduler } from "../../../../src/stores/sqlite/connection/commit-scheduler.js";
import { sqliteStore, type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import {
  addKeys,
  balancesIn,
  change,
  codeOf,
  foreignHandle,
  inspect,
  nextTurn,
  temporaryPaths,
  withApi,
} from "../support.js";

const path = temporaryPaths();
const opened: SqliteStore[] = [];
const open = (place = path()) => {
  const store = sqliteStore(place, { durability: "process" });
  opened.push(store);
  return store;
};
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

/** Spends one after the other until a spend that comes alone needs no turn of the event loop. */
async function spendAlone(store: SqliteStore, ref: number, times = 4): Promise<void> {
  for (let i = 0; i < times; i++) await store.spendCredits(ref, 1, 0, 0);
}
/** Transactions in the log, which has not begun anew: a frame that ends one says how large the file then is. */
function commits(place: string): number {
  const log = readFileSync(`${place}-wal`);
  const pageSize = log.readUInt32BE(8);
  let count = 0;
  for (let at = 32; at < log.length; at += 24 + pageSize) if (log.readUInt32BE(at + 4) !== 0) count++;
  return count;
}
const balance = (place: string, n: number) => inspect(place, (db) => balancesIn(db).get(n));

describe("createPace", () => {
  it("waits for the end of the turn until groups of one have followed each other, and again after a larger one", () => {
    const pace = createCommitScheduler();
    const waits = () => pace.next() === afterTurn;
    const waited = Array.from({ length: 4 }, () => (pace.note(1), waits()));
    expect(waited).toEqual([true, true, false, false]);
    pace.note(2);
    expect(waits()).toBe(true);
  });

  /** Calls one after the other, without a turn but those that they wait for: a commit of so many ms each, and the caller's own work. */
  async function inARow(calls: number, commit: number, work = 0): Promise<string> {
    vi.useFakeTimers({ toFake: ["performance"], now: 1_000_000 });
    try {
      const pace = createCommitScheduler();
      let waits = "";
      for (let i = 0; i < calls; i++) {
        vi.advanceTimersByTime(work);
        const later = pace.next();
        waits += later === afterTurn ? "1" : "0";
        await new Promise<void>(later);
        vi.advanceTimersByTime(commit);
        pace.note(1);
      }
      return waits.slice(3);
    } finally {
      vi.useRealTimers();
    }
  }

  it("waits for it every 64 calls, so that calls that now come together are found out", async () => {
    const waits = await inARow(200, 0);
    expect([...waits].flatMap((waited, i) => (waited === "1" ? [i + 3] : []))).toEqual([64, 128, 192]);
  });

  it("waits for it every 4 ms, so that the event loop goes on, however slow the disk is", async () => {
    expect(await inARow(3 + 20, 1)).toBe("00001000010000100001");
    expect(await inARow(3 + 6, 100)).toBe("010101");
  });

  it("what the caller does in between holds up the event loop as well", async () => {
    expect(await inARow(3 + 12, 0, 2)).toBe("001001001001");
    expect(await inARow(3 + 4, 0, 50)).toBe("0101");
  });

  it("does not wait where the event loop has had its turn by itself", async () => {
    const pace = createCommitScheduler();
    for (let i = 0; i < 3; i++) pace.note(1);
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => setTimeout(resolve, 6));
      expect(pace.isSequential()).toBe(true);
      pace.note(1);
    }
  });
});

describe("sqliteStore: a spend alone", () => {
  // A machine that is busy may take longer than calls may hold the event loop.
  it("is one statement once calls come one after the other, and answers as before", { retry: 3 }, async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 10);
    await spendAlone(store, ref!);
    let turns = 0;
    const later = nextTurn().then(() => turns++);
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 5 });
    expect(turns).toBe(0);
    expect(await store.spendCredits(ref!, 6, 0, 0)).toEqual({ ok: false, remaining: 5 });
    expect(await store.spendCredits(ref!, 5, 0, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: false, remaining: 0 });
    expect(balance(place, ref!)).toBe(0);
    await later;
  });

  it("calls begun together share a transaction all the same", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 3, 100);
    await spendAlone(store, refs[0]!);
    const before = commits(place);
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => store.spendCredits(refs[i % 3]!, 1, 0, 0)));
    expect(answers.every((answer) => answer?.ok)).toBe(true);
    // The first of them may be committed at once, when nothing told of the others.
    expect(commits(place)).toBeLessThanOrEqual(before + 2);
  });

  it("lets the event loop go on, though the caller never does", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1, 1_000);
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    await spendAlone(store, ref!, 320);
    isDone = true;
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  it("clause 5: sees what another connection spent, set or refilled in between", async () => {
    const place = path();
    const [store, other] = [await withApi(open(place)), open(place)];
    const [ref] = await addKeys(store, 1, 20, { amount: 7, period: 0 });
    await spendAlone(store, ref!);
    await other.spendCredits(ref!, 1, 0, 0);
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 14 });
    const row = (await other.readMany("keys", ["key_000001"]))[0]!;
    await other.write([{ table: "keys", row, credits: { period: 0, refill: { amount: 100 } } }]);
    expect(await store.spendCredits(ref!, 1, 1, 0)).toEqual({ ok: true, remaining: 113 });
    await other.write([
      { table: "keys", row: { ...row, version: row.version + 1 }, credits: { period: 1, remaining: null } },
    ]);
    expect(await store.spendCredits(ref!, 1, 1, 0)).toEqual({ ok: true, remaining: null });
  });

  it("is answered only when it is durable, also where the finds of its turn share a transaction", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 20);
    await spendAlone(store, ref!);
    for (let expected = 15; expected > 5; expected--) {
      const spending = store.spendCredits(ref!, 1, 0, 0);
      // In one stretch with the spend: the statement comes after them, before the turn ends.
      for (let i = 0; i < 3; i++) void store.findKey("digest-1");
      expect(await spending).toEqual({ ok: true, remaining: expected });
      expect(balance(place, ref!)).toBe(expected);
    }
  });

  it("on a handle of its owner, begins a transaction: inside one of its owner it is refused, not answered early", async () => {
    const db = new Database(path());
    const store = await withApi(sqliteStore(foreignHandle(db)));
    const [ref] = await addKeys(store, 1, 20);
    await spendAlone(store, ref!);
    db.exec("BEGIN");
    await expect(store.spendCredits(ref!, 1, 0, 0)).rejects.toMatchObject({ code: "STORE_FAILED" });
    db.exec("COMMIT");
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 15 });
    db.close();
  });

  it("one that fails is an error, and takes nothing", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 20);
    await spendAlone(store, ref!);
    const trigger =
      "CREATE TRIGGER planted AFTER UPDATE ON keystile_accounts BEGIN SELECT RAISE(ABORT, 'planted'); END";
    inspect(place, (db) => db.exec(trigger));
    expect(await codeOf(() => store.spendCredits(ref!, 1, 0, 0))).toBe("STORE_FAILED");
    expect(balance(place, ref!)).toBe(16);
    inspect(place, (db) => db.exec("DROP TRIGGER planted"));
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 15 });
  });

  /** A key of 20 credits, four of them spent alone, while another connection holds the file. */
  async function locked() {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 20);
    await spendAlone(store, ref!);
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    return { store, ref: ref!, other };
  }

  it("waits for a lock of another process as a group does", async () => {
    const { store, ref, other } = await locked();
    setTimeout(() => other.exec("COMMIT"), 100);
    expect(await store.spendCredits(ref, 1, 0, 0)).toEqual({ ok: true, remaining: 15 });
    other.close();
  });

  it("what met a lock is not tried again before the event loop has gone on", async () => {
    const { store, ref, other } = await locked();
    let isAnswered = false;
    const spending = Promise.resolve(store.spendCredits(ref, 1, 0, 0)).finally(() => (isAnswered = true));
    other.exec("COMMIT");
    for (let i = 0; i < 20; i++) await Promise.resolve();
    expect(isAnswered).toBe(false);
    expect(await spending).toEqual({ ok: true, remaining: 15 });
    other.close();
  });

  it("sees a key that was changed or removed in this process", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1, 20);
    await spendAlone(store, ref!);
    await change(store, "key_000001", { name: "new" });
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 15 });
    await store.write([{ table: "keys", remove: "key_000001", version: 2 }]);
    expect(await store.spendCredits(ref!, 1, 0, 0)).toBeUndefined();
  });
});
