/** The log of spends against its reference implementation, a Map of balances, with several connections to one file. */
import Database from "better-sqlite3";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Handle } from "../../../../src/stores/sqlite/connection/handle.js";
import { createBalances } from "../../../../src/stores/sqlite/credits/balance-table.js";
import { createSpendLog } from "../../../../src/stores/sqlite/credits/spend-log.js";
import { sqliteStore, type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import { runs } from "../../../runs.js";
import {
  addEntry,
  addKeys,
  balancesIn,
  change,
  codeOf,
  entriesIn,
  foreignHandle,
  inspect,
  refOf,
  temporaryPaths,
  totalIn,
  withApi,
} from "../support.js";

const path = temporaryPaths();
const open = (place: string) => sqliteStore(place, { durability: "process" });
const rowsIn = (place: string) =>
  inspect(
    place,
    (db) => new Map(db.prepare("SELECT n, remaining FROM keystile_balances").raw().all() as [number, number][]),
  );
const entries = (place: string) => inspect(place, entriesIn).length;
const idOf = (key: number) => `key_${String(key + 1).padStart(6, "0")}`;

/** Sets a key's balance, as an administrator would; null: unlimited. */
async function set(store: SqliteStore, key: number, remaining: number | null): Promise<void> {
  const row = (await store.readMany("keys", [idOf(key)]))[0]!;
  if ((await store.write([{ table: "keys", row, credits: { period: 0, remaining } }])) !== "written")
    throw new Error("the key changed meanwhile");
}

/** Six keys, and what spends from all of them at once. */
async function sixKeys(credits = 100) {
  const place = path();
  const store = await withApi(open(place));
  const refs = await addKeys(store, 6, credits);
  const group = () => Promise.allSettled(refs.map((ref) => store.spendCredits(ref, 1, 0, 0)));
  return { place, store, refs, group };
}

const balanceOf = (remaining: number) => ({ unlimited: false, remaining, amount: 0, period: 0, generation: 0 });

/** A file with the tables of a store. */
function fileWithLog(): Database.Database {
  const place = path();
  void open(place).close();
  return new Database(place);
}

/** Eight keys, and how often the file was asked whether others have changed it. */
async function countedKeys() {
  // A commit that takes longer than 1 ms would end what is known of this turn.
  vi.useFakeTimers({ toFake: ["performance", "Date"] });
  let asked = 0;
  const prepare = vi.spyOn(Database.prototype, "prepare").mockImplementation(function (
    this: Database.Database,
    sql: string,
  ) {
    const statement = original.call(this, sql);
    if (sql !== "PRAGMA data_version") return statement;
    const get = statement.get.bind(statement) as () => unknown;
    return Object.assign(statement, { get: () => (asked++, get()) });
  });
  try {
    const store = await withApi(open(path()));
    return { asked: () => asked, store, refs: await addKeys(store, 8, 100) };
  } finally {
    prepare.mockRestore();
  }
}
const original = Database.prototype.prepare;

describe("the log of spends", () => {
  afterEach(() => void vi.useRealTimers());

  const KEYS = 5;
  const key = fc.nat(KEYS - 1);
  const store = fc.nat(2);
  const cost = fc.integer({ min: 1, max: 30 });
  const step = fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant("alone" as const),
        store,
        key,
        cost,
        times: fc.integer({ min: 1, max: 6 }),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant("group" as const),
        store,
        spends: fc.array(fc.record({ key, cost }), { minLength: 2, maxLength: 12 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("set" as const), store, key, to: fc.constantFrom(null, 0, 40, 1_000) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("draw" as const), store, key }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("remove" as const), store, key }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("reopen" as const), store }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant("read" as const), store, key }) },
  );

  it("any history of three connections ends in the balances of a Map", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
        const place = path();
        const stores = [await withApi(open(place)), open(place), open(place)];
        const refs = await addKeys(stores[0]!, KEYS, 200);
        /** null: unlimited. */
        const reference = new Map<number, number | null>(refs.map((_, i) => [i, 200]));
        const spend = (i: number, amount: number) => {
          const before = reference.get(i);
          if (before === undefined) return undefined;
          if (before === null) return { ok: true, remaining: null };
          if (amount > before) return { ok: false, remaining: before };
          reference.set(i, before - amount);
          return { ok: true, remaining: before - amount };
        };
        for (const move of steps) {
          const one = stores[move.store]!;
          if (move.do === "alone") {
            for (let i = 0; i < move.times; i++) {
              expect(await one.spendCredits(refs[move.key]!, move.cost, 0, 0)).toEqual(spend(move.key, move.cost));
            }
          } else if (move.do === "group") {
            const answers = await Promise.all(
              move.spends.map((each) => one.spendCredits(refs[each.key]!, each.cost, 0, 0)),
            );
            expect(answers).toEqual(move.spends.map((each) => spend(each.key, each.cost)));
          } else if (move.do === "set") {
            if (reference.has(move.key)) await set(one, move.key, move.to).then(() => reference.set(move.key, move.to));
          } else if (move.do === "draw") {
            // Drawn and given back whole: the balance is as it was, by way of a lease.
            const request = { holder: `h${move.store}`, cost: 1, step: 3, size: 9, period: 0, now: 0, until: 1_000 };
            const drawn = await one.drawCredits(refs[move.key]!, request);
            if (drawn !== undefined && drawn.remaining !== null) {
              await one.returnCredits(refs[move.key]!, request.holder, drawn.generation, drawn.drawn);
            }
          } else if (move.do === "remove") {
            const row = (await one.readMany("keys", [idOf(move.key)]))[0];
            if (row !== undefined) await one.write([{ table: "keys", remove: row.id, version: row.version }]);
            reference.delete(move.key);
          } else if (move.do === "reopen") {
            await one.close();
            stores[move.store] = open(place);
          } else {
            const remaining = (await one.readBalances([{ keyId: idOf(move.key), period: 0 }], 0))[0]?.remaining;
            expect(remaining).toBe(reference.get(move.key));
            expect(await one.spendCredits(refs[move.key]!, 0, 0, 0)).toEqual(
              reference.has(move.key) ? { ok: true, remaining } : undefined,
            );
          }
        }
        const limited = [...reference]
          .filter(([, remaining]) => remaining !== null)
          .map(([i, remaining]) => [refs[i], remaining]);
        expect(inspect(place, (db) => [...balancesIn(db)].sort(([a], [b]) => a - b))).toEqual(limited);
        for (const each of stores) await each.close();
        const rows = rowsIn(place);
        for (const [n, remaining] of limited) expect(rows.get(n as number)).toBe(remaining);
      }),
      { numRuns: runs(60) },
    );
  });

  it("holds what groups spend, and is checkpointed once it has grown", async () => {
    const place = path();
    const [one, two] = [await withApi(open(place)), open(place)];
    const refs = await addKeys(one, 64, 1_000);
    let most = 0;
    for (let i = 0; i < 600; i++) {
      const spender = i % 3 === 0 ? two : one;
      await Promise.all(refs.map((ref) => spender.spendCredits(ref, 1, 0, 0)));
      most = Math.max(most, entries(place));
    }
    // In the first round no slot holds an end.
    expect(most).toBe(256);
    expect(inspect(place, totalIn)).toBe(64 * 400);
    for (const store of [one, two, open(place)]) {
      expect(await store.spendCredits(refs[63]!, 0, 0, 0)).toEqual({ ok: true, remaining: 400 });
      await store.close();
    }
  });

  it("a connection that was left behind by more entries than there are slots reads all of them anew", async () => {
    const place = path();
    const [one, two] = [await withApi(open(place)), open(place)];
    const refs = await addKeys(one, 64, 1_000);
    const group = (store: SqliteStore) => Promise.all(refs.map((ref) => store.spendCredits(ref, 1, 0, 0)));
    await group(two);
    for (let i = 0; i < 300; i++) await group(one);
    expect(await two.spendCredits(refs[0]!, 0, 0, 0)).toEqual({ ok: true, remaining: 699 });
    for (let i = 0; i < 256; i++) await group(one);
    expect((await group(two)).every((answer) => answer?.remaining === 442)).toBe(true);
    // Exactly one round further: the slot of the newest that is known holds another.
    for (let i = 0; i < 256; i++) await group(one);
    expect(await two.spendCredits(refs[0]!, 1, 0, 0)).toEqual({ ok: true, remaining: 185 });
    expect(inspect(place, totalIn)).toBe(64 * 186 - 1);
    await two.close();
    await one.close();
  });

  it("an entry changes one page, once there is one in each slot", async () => {
    const { place, store, group } = await sixKeys(1_000);
    for (let i = 0; i < 300; i++) await group();
    const pagesInLog = () => inspect(place, (db) => (db.pragma("wal_checkpoint(PASSIVE)") as [{ log: number }])[0].log);
    inspect(place, (db) => db.pragma("wal_checkpoint(TRUNCATE)"));
    for (let i = 0; i < 20; i++) await group();
    expect(pagesInLog()).toBe(20);
    await store.close();
  });

  it("asks once for changes of others where a group of verifications is answered and begun anew in one turn", async () => {
    const { asked, store, refs } = await countedKeys();
    await Promise.all(refs.map((ref) => store.spendCredits(ref, 1, 0, 0)));
    const before = asked();
    await Promise.all(
      refs.map(async (ref) => {
        await store.spendCredits(ref, 1, 0, 0);
        await store.pollChanges(Date.now());
      }),
    );
    expect(asked() - before).toBe(1);
    await store.close();
  });

  it("a group after a change by others spares no question: they are told to whoever asks in its turn", async () => {
    const place = path();
    const [one, two] = [await withApi(open(place)), open(place)];
    const refs = await addKeys(one, 8, 100);
    const notified: unknown[] = [];
    one.subscribe((change) => void notified.push(change));
    await change(two, idOf(0), { enabled: false });
    await Promise.all(refs.map((ref) => one.spendCredits(ref, 1, 0, 0)));
    await one.pollChanges(Date.now());
    expect(notified).toEqual([{ digest: "digest-1" }]);
    await two.close();
    await one.close();
  });

  it("reads all anew where others write over what comes next while it reads", () => {
    const db = fileWithLog();
    const other = createSpendLog(db as Handle);
    other.begin(true);
    const append = (n: number, remaining: number) => other.append([{ n, balance: balanceOf(remaining) }]);
    let reads = 0;
    const log = createSpendLog(
      foreignHandle(db, (sql) => {
        if (sql.includes("WHERE slot") && ++reads === 2) for (let i = 1; i <= 300; i++) append(i, i);
      }),
    );
    append(1, 1_000);
    log.poll();
    append(1, 999);
    append(1, 998);
    log.poll();
    // The last 256 stand: of each key one.
    for (const n of [45, 46, 299, 300]) expect(log.get(n)?.remaining).toBe(n);
    expect(log.newest()).toBe(other.newest());
    db.close();
  });

  it("an older file that was put back is read anew", async () => {
    const { place, store, refs, group } = await sixKeys();
    for (let i = 0; i < 3; i++) await group();
    const copy = async (from: string, to: string) => {
      const db = new Database(from);
      await db.backup(to);
      db.close();
    };
    const backup = path();
    await copy(place, backup);
    for (let i = 0; i < 20; i++) await group();
    await copy(backup, place);
    const other = open(place);
    await group();
    for (const one of [store, other])
      expect(await one.spendCredits(refs[0]!, 0, 0, 0)).toEqual({ ok: true, remaining: 96 });
    await other.close();
    await store.close();
  });

  it("what another tool writes elsewhere than in its slot, or past the numbers of JavaScript, the file refuses", () => {
    const db = fileWithLog();
    const insert = db.prepare("INSERT INTO keystile_spends (slot, seq, balances) VALUES (?, ?, x'')");
    for (const [slot, seq] of [
      [5, 4],
      [0, 2n ** 53n],
      [0, 0],
      [-1, -1],
    ] as const) {
      expect(() => insert.run(slot, seq)).toThrow("CHECK constraint failed");
    }
    db.close();
  });

  it("after a bad entry nothing counts as known: not what came before it, nor what comes once it is gone", () => {
    const db = fileWithLog();
    for (const numbers of [
      [1, 90, 0],
      [1, NaN, 0],
      [1, 70, 0],
    ]) {
      addEntry(db, numbers);
    }
    const log = createSpendLog(db as Handle);
    for (let i = 0; i < 2; i++) expect(() => log.poll()).toThrow("whole numbers");
    expect(log.newest()).toBeNaN();
    db.exec("DELETE FROM keystile_spends WHERE seq = 2");
    log.poll();
    expect([log.newest(), log.get(1)?.remaining]).toEqual([3, 70]);
    db.close();
  });

  it("an entry that was written around it is not written over", () => {
    const db = fileWithLog();
    const log = createSpendLog(db as Handle);
    log.begin(true);
    addEntry(db, [1, 5, 0]);
    expect(() => log.append([{ n: 1, balance: balanceOf(9) }])).toThrow("changed inside a transaction");
    expect(entriesIn(db)).toEqual([[[1, 5]]]);
    db.close();
  });

  it("a spend alone takes nothing before anything is known of the log", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 100);
    await store.close();
    inspect(place, (db) => {
      const balances = createBalances(db as Handle);
      expect(balances.compareAndSet({ n: ref!, balance: balanceOf(100) }, 99)).toBe(false);
      balances.begin(true);
      expect(balances.compareAndSet({ n: ref!, balance: balanceOf(100) }, 99)).toBe(true);
    });
  });

  it("a group that comes when it speaks of more keys than it should is written to the rows, and all else with it", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 2_000, 10);
    const answers = await Promise.all(refs.map((ref) => store.spendCredits(ref, 3, 0, 0)));
    expect(answers.every((answer) => answer?.ok === true && answer.remaining === 7)).toBe(true);
    expect(inspect(place, totalIn)).toBe(14_000);
    expect(entries(place)).toBe(Math.ceil(1_024 / 64) + Math.ceil(976 / 64));
    await Promise.all(refs.slice(0, 8).map((ref) => store.spendCredits(ref, 3, 0, 0)));
    expect(entries(place)).toBe(0);
    expect([...rowsIn(place).values()].reduce((sum, remaining) => sum + remaining, 0)).toBe(14_000 - 8 * 3);
    await store.close();
  });

  it("a spend alone does not take from the row of a key that the log speaks of, though both say the same", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [alone, ...refs] = await addKeys(store, 5, 100);
    const request = { holder: "h", spent: 0, cost: 1, step: 1, size: 1, period: 0, now: 0, until: 1_000 };
    const drawn = await Promise.all(refs.map((ref) => store.drawCredits(ref, request)));
    await Promise.all(refs.map((ref, i) => store.returnCredits(ref, { holder: "h", spent: 0 })));
    for (let i = 0; i < 5; i++) await store.spendCredits(alone!, 1, 0, 0);
    expect(await store.spendCredits(refs[0]!, 1, 0, 0)).toEqual({ ok: true, remaining: 99 });
    expect(await store.spendCredits(refs[0]!, 0, 0, 0)).toEqual({ ok: true, remaining: 99 });
    expect(inspect(place, totalIn)).toBe(95 + 99 + 300);
    await store.close();
  });

  it("a spend alone takes nothing from a key that another connection removed, or made anew", async () => {
    const place = path();
    const [one, other] = [await withApi(open(place)), open(place)];
    const refs = await addKeys(one, 2, 100);
    for (const ref of refs) for (let i = 0; i < 4; i++) await one.spendCredits(ref, 1, 0, 0);
    await other.write([{ table: "keys", remove: idOf(0), version: 1 }]);
    expect(await one.spendCredits(refs[0]!, 1, 0, 0)).toBeUndefined();
    await set(other, 1, 96);
    expect(await one.spendCredits(refs[1]!, 1, 0, 0)).toEqual({ ok: true, remaining: 95 });
    await other.close();
    await one.close();
    expect([...rowsIn(place)]).toEqual([[refs[1], 95]]);
  });

  it("a group that fails leaves nothing of it in what is known of the log", async () => {
    const { place, store, refs, group } = await sixKeys();
    await group();
    inspect(place, (db) =>
      db.exec("CREATE TRIGGER t AFTER INSERT ON keystile_spends BEGIN SELECT RAISE(ABORT, 'no'); END"),
    );
    expect((await group()).map(({ status }) => status)).toEqual(Array(6).fill("rejected"));
    expect(await store.spendCredits(refs[0]!, 0, 0, 0)).toEqual({ ok: true, remaining: 99 });
    inspect(place, (db) => db.exec("DROP TRIGGER t"));
    expect(await group()).toEqual(Array(6).fill({ status: "fulfilled", value: { ok: true, remaining: 98 } }));
    await store.close();
  });

  it("an entry that is half bad says nothing, also after it was taken out", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 2, 4);
    inspect(place, (db) => addEntry(db, [refs[0]!, 1_000, 0, refs[1]!, NaN, 0]));
    expect(await codeOf(() => store.spendCredits(refs[0]!, 0, 0, 0))).toBe("STORE_INVALID");
    inspect(place, (db) => db.exec("DELETE FROM keystile_spends"));
    expect(await store.spendCredits(refs[0]!, 5, 0, 0)).toEqual({ ok: false, remaining: 4 });
    await store.close();
  });

  it("a log whose numbers another tool spoiled holds nobody up", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 4);
    await store.spendCredits(ref!, 1, 0, 0);
    for (const spoil of ["UPDATE keystile_spends SET seq = -seq", "DELETE FROM keystile_spends"]) {
      inspect(place, (db) => db.exec(`PRAGMA ignore_check_constraints = ON; ${spoil}`));
      expect(await store.spendCredits(ref!, 0, 0, 0)).toEqual({ ok: true, remaining: 3 });
      expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]).toMatchObject({ remaining: 3 });
    }
    await store.close();
  });

  it("what an administrator sets fills the log no further than spends do", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 5, 100);
    await Promise.all(refs.map((ref) => store.spendCredits(ref, 1, 0, 0)));
    for (let i = 0; i < 5; i++) await set(store, 0, i);
    expect(entries(place)).toBe(0);
    expect(inspect(place, totalIn)).toBe(4 + 4 * 99);
    await store.close();
  });

  it("a carry-over that was rolled back is made up for at close", async () => {
    const { place, store, refs, group } = await sixKeys();
    await group();
    const trigger =
      "CREATE TRIGGER t BEFORE UPDATE ON keystile_balances WHEN NEW.remaining = 98 BEGIN SELECT RAISE(ABORT, 'no'); END";
    inspect(place, (db) => db.exec(trigger));
    expect(await codeOf(() => store.spendCredits(refs[0]!, 1, 0, 0))).toBe("STORE_FAILED");
    inspect(place, (db) => db.exec("DROP TRIGGER t"));
    await store.close();
    expect([...rowsIn(place).values()]).toEqual(Array(6).fill(99));
  });

  it("an entry that is not written is an error, and nothing was spent", async () => {
    const { place, store, group } = await sixKeys();
    inspect(place, (db) =>
      db.exec("CREATE TRIGGER t BEFORE INSERT ON keystile_spends BEGIN SELECT RAISE(IGNORE); END"),
    );
    for (const answer of await group())
      expect(answer).toMatchObject({ status: "rejected", reason: { code: "STORE_FAILED" } });
    inspect(place, (db) => db.exec("DROP TRIGGER t"));
    expect(inspect(place, totalIn)).toBe(600);
    await group();
    expect(inspect(place, totalIn)).toBe(594);
    await store.close();
  });

  it("is empty after close, so that the rows alone tell all balances", async () => {
    const { place, store, group } = await sixKeys();
    await group();
    expect([...rowsIn(place).values()]).toEqual(Array(6).fill(100));
    await store.close();
    expect([...rowsIn(place).values()]).toEqual(Array(6).fill(99));
    expect(entries(place)).toBe(0);
  });

  it("close does not wait for another process that is writing: the log is as good", async () => {
    const { place, store, group } = await sixKeys();
    await group();
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    await store.close();
    other.exec("COMMIT");
    other.close();
    expect(inspect(place, totalIn)).toBe(594);
    const again = open(place);
    expect(await again.spendCredits(await refOf(again, "digest-1"), 1, 0, 0)).toEqual({ ok: true, remaining: 98 });
    await again.close();
  });

  it("hostile A035: an entry that holds no balance is STORE_INVALID, each time, and never more credits", async () => {
    for (const [numbers, length] of [
      [[1, NaN, 0]],
      [[1, -1, 0]],
      [[1, 1.5, 0]],
      [[1, 2 ** 53, 0]],
      [[1, 5, NaN]],
      [[1.5, 5, 0]],
      [[1, 5, 0], 24],
      [[], 0],
    ] as const) {
      const place = path();
      const store = await withApi(open(place));
      const [ref] = await addKeys(store, 1, 100);
      inspect(place, (db) => addEntry(db, numbers, length));
      for (let i = 0; i < 2; i++) {
        expect(await codeOf(() => store.spendCredits(ref!, 1, 0, 0))).toBe("STORE_INVALID");
        expect(await codeOf(() => store.spendCredits(ref!, 0, 0, 0))).toBe("STORE_INVALID");
        expect(await codeOf(() => store.readBalances([{ keyId: "key_000001", period: 0 }], 0))).toBe("STORE_INVALID");
      }
      await store.close();
    }
  });
});
