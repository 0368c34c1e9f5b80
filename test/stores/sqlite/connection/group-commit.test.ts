import { readFileSync } from "node:fs";
import Database, { type Statement } from "better-sqlite3";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { sqliteStore, type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import {
  addKeys,
  balancesIn,
  change,
  codeOf,
  foreignHandle,
  inspect,
  nextTurn,
  openStores,
  temporaryPaths,
  withApi,
} from "../support.js";

const path = temporaryPaths();
const openStore = openStores();
const open = (place = path()) => openStore(place);

/** Spends one after the other, so that the account is known. */
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

/** What better-sqlite3 runs of statements that change something; of stores that are opened from then on. */
function watchStatements() {
  const db = new Database(":memory:");
  const prototype = Object.getPrototypeOf(db.prepare("SELECT 1")) as Statement;
  db.close();
  const run = vi.spyOn(prototype, "run");
  onTestFinished(() => run.mockRestore());
  /** Of what runs while `act` does. */
  return async (act: () => unknown): Promise<string[]> => {
    run.mockClear();
    await act();
    return run.mock.contexts.map((statement) => (statement as Statement & { source: string }).source);
  };
}

describe("group commit: a spend alone", () => {
  it("is one statement without a transaction, once its account is known", async () => {
    const place = path();
    const statementsOf = watchStatements();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 10);
    const spend = (cost: number) => store.spendCredits(ref!, cost, 0, 0);
    const [first, second] = [await statementsOf(() => spend(1)), await statementsOf(() => spend(4))];
    expect([first[0], first.at(-1)]).toEqual(["BEGIN IMMEDIATE", "COMMIT"]);
    expect(second).toEqual([expect.stringMatching(/^UPDATE keystile_accounts /)]);
    expect(await spend(6)).toEqual({ ok: false, remaining: 5 });
    expect(await spend(5)).toEqual({ ok: true, remaining: 0 });
    expect(await spend(1)).toEqual({ ok: false, remaining: 0 });
    expect(balance(place, ref!)).toBe(0);
  });

  it("calls of one turn share a transaction, whether they come from one callback or several", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 3, 100);
    await spendAlone(store, refs[0]!);
    for (const start of [() => undefined, nextTurn]) {
      const before = commits(place);
      const spends = Array.from({ length: 30 }, async (_, i) => {
        await start();
        return store.spendCredits(refs[i % 3]!, 1, 0, 0);
      });
      expect((await Promise.all(spends)).every((spent) => spent?.ok)).toBe(true);
      expect(commits(place)).toBe(before + 1);
    }
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
    expect(turns).toBeGreaterThanOrEqual(320);
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
    await nextTurn();
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

it("a store that is being closed settles what it began, and begins nothing more", async () => {
  const store = await withApi(open());
  const [ref] = await addKeys(store, 1, 10);
  const begun = Promise.resolve(store.spendCredits(ref!, 1, 0, 0));
  const closing = store.close();
  for (const late of [
    () => store.spendCredits(ref!, 1, 0, 0),
    () => store.spendCredits(ref!, 0, 0, 0),
    () => store.recordUses([{ keyId: "key_000001", usedAt: 0 }]),
  ])
    expect(await codeOf(late)).toBe("STORE_CLOSED");
  expect(await begun).toMatchObject({ ok: true, remaining: 9 });
  await closing;
});
