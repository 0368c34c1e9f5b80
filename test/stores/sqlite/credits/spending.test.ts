import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DrawRequest } from "../../../../src/contracts/store.js";
import { memoryStore } from "../../../../src/stores/memory.js";
import { sqliteStore, type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import { runs } from "../../../runs.js";
import { keyRow } from "../../suite.js";
import {
  addKeys,
  change,
  foreignHandle,
  inspect,
  nextTurn,
  openStores,
  temporaryPaths,
  totalIn,
  withApi,
} from "../support.js";

const path = temporaryPaths();
const openStore = openStores();
const open = (place = path()) => openStore(place);
const draw = (over: Partial<DrawRequest> = {}): DrawRequest => ({
  holder: "a",
  spent: 0,
  cost: 1,
  step: 10,
  size: 40,
  period: 0,
  now: 0,
  until: 1000,
  ...over,
});

describe("sqliteStore: credits", () => {
  it("the spends of a turn share one transaction, and each balance is written once", async () => {
    const db = new Database(":memory:");
    const ran: string[] = [];
    const store = await withApi(sqliteStore(foreignHandle(db, (sql) => ran.push(sql))));
    const refs = await addKeys(store, 5);
    ran.length = 0;
    await Promise.all(Array.from({ length: 90 }, (_, i) => store.spendCredits(refs[i % 5]!, 1, 0, 0)));
    // Trap 4: a transaction that reads first and writes later would fail under contention.
    expect(ran.filter((sql) => sql.startsWith("BEGIN"))).toEqual(["BEGIN IMMEDIATE"]);
    expect(ran.filter((sql) => sql === "COMMIT")).toHaveLength(1);
    expect(ran.filter((sql) => /^(INSERT|UPDATE|DELETE)/.test(sql))).toHaveLength(refs.length);
    expect(totalIn(db)).toBe(410);
    db.close();
  });

  it("answers only after the commit returned", async () => {
    const db = new Database(":memory:");
    const order: string[] = [];
    const store = await withApi(sqliteStore(foreignHandle(db, (sql) => sql === "COMMIT" && order.push("commit"))));
    const [ref] = await addKeys(store, 1);
    order.length = 0;
    await Promise.all([1, 2].map(async () => (await store.spendCredits(ref!, 1, 0, 0)) && order.push("answer")));
    expect(order).toEqual(["commit", "answer", "answer"]);
    db.close();
  });

  it("clause 6: a cost of 0 is read at once, without a transaction", async () => {
    const db = new Database(":memory:");
    const ran: string[] = [];
    const store = await withApi(sqliteStore(foreignHandle(db, (sql) => ran.push(sql))));
    const [ref] = await addKeys(store, 1, 5, { amount: 10, period: 3 });
    ran.length = 0;
    expect(store.spendCredits(ref!, 0, 5, 0)).toEqual({ ok: true, remaining: 25 });
    for (const sql of ran) expect(sql).toMatch(/^(prepare )?SELECT/);
    ran.length = 0;
    expect(store.spendCredits(ref!, 0, 6, 0)).toEqual({ ok: true, remaining: 35 });
    // Nothing is reserved, so that no reserve may have expired.
    expect(ran).toHaveLength(1);
    db.close();
  });

  it("more work than one transaction takes leaves the event loop its turns", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1, 5_000);
    let settled = 0;
    const all = Promise.all(
      Array.from({ length: 3_000 }, async () => (await store.spendCredits(ref!, 1, 0, 0)) && settled++),
    );
    await nextTurn();
    await nextTurn();
    expect(settled).toBeGreaterThan(0);
    expect(settled).toBeLessThan(3_000);
    await all;
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(2_000);
  });

  it("a cost, period or amount that is not a whole number throws before anything is stored", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1);
    const wrong = [NaN, Infinity, -Infinity, 1.5, 2 ** 53, "5", 5n, null, undefined, { valueOf: () => 5 }] as number[];
    for (const value of [...wrong, -1])
      expect(() => store.spendCredits(ref!, value, 0, 0), String(value)).toThrow(RangeError);
    for (const value of wrong) expect(() => store.spendCredits(ref!, 1, value, 0), String(value)).toThrow(RangeError);
    for (const value of wrong)
      expect(() => store.readBalances([{ keyId: "key_000001", period: value }], 0)).toThrow(RangeError);
    for (const name of ["spent", "cost", "step", "size", "period", "now", "until"] as const)
      expect(() => store.drawCredits(ref!, draw({ [name]: NaN })), name).toThrow(RangeError);
    for (const value of [...wrong, -1])
      expect(() => store.returnCredits(ref!, { holder: "a", spent: value }), String(value)).toThrow(RangeError);
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(100);
  });

  it("clause 1: a handle of another kind is of no key here", async () => {
    const store = await withApi(open());
    await addKeys(store, 1);
    for (const ref of ["1", "key_000001", 99]) {
      expect(await store.spendCredits(ref, 1, 0, 0)).toBeUndefined();
      expect(await store.spendCredits(ref, 0, 0, 0)).toBeUndefined();
      expect(await store.drawCredits(ref, draw())).toBeUndefined();
      expect(await store.returnCredits(ref, { holder: "a", spent: 0 })).toBeUndefined();
      expect(await store.adoptDigest(ref, "x")).toBe(false);
    }
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(100);
  });

  it("the number of a removed key is never given to another (KeyRef)", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1);
    await store.drawCredits(ref!, draw());
    await store.write([{ table: "keys", remove: "key_000001", version: 1 }]);
    const [again] = await addKeys(store, 1);
    expect(again).toBeGreaterThan(ref!);
    expect(await store.spendCredits(ref!, 1, 0, 0)).toBeUndefined();
  });

  it("permanent removal takes credits and leases with it", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1);
    await store.drawCredits(ref!, draw());
    const rows = () =>
      inspect(place, (db) =>
        ["accounts", "leases"].map((table) => db.prepare(`SELECT count(*) FROM keystile_${table}`).pluck().get()),
      );
    expect(rows()).toEqual([1, 1]);
    await store.write([{ table: "keys", remove: "key_000001", version: 1 }]);
    expect(rows()).toEqual([0, 0]);
  });

  it("an API that has keys cannot be removed; without any it can", async () => {
    const store = await withApi(open());
    await addKeys(store, 1);
    await expect(store.write([{ table: "apis", remove: "api_1", version: 1 }])).rejects.toMatchObject({
      code: "CONFLICT",
    });
    await store.write([{ table: "keys", remove: "key_000001", version: 1 }]);
    expect(await store.write([{ table: "apis", remove: "api_1", version: 1 }])).toBe("written");
    await expect(store.insertKeys([{ row: keyRow(1) }])).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("clause 5: what another connection spent in between is seen, though balances are remembered", async () => {
    const place = path();
    const [one, two] = [await withApi(open(place)), open(place)];
    const [ref] = await addKeys(one, 1, 10);
    const granted = [];
    for (let i = 0; i < 8; i++)
      granted.push(await one.spendCredits(ref!, 1, 0, 0), await two.spendCredits(ref!, 1, 0, 0));
    expect(granted.map((answer) => answer?.remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0]);
    expect(granted.filter((answer) => answer?.ok)).toHaveLength(10);
  });

  it("clause 5: what an administrator set in between is seen, in this process and by another connection", async () => {
    const place = path();
    const [one, two] = [await withApi(open(place)), open(place)];
    const [ref] = await addKeys(one, 1, 10);
    await one.spendCredits(ref!, 1, 0, 0);
    const set = async (store: SqliteStore, remaining: number | null) => {
      const row = (await store.readMany("keys", ["key_000001"]))[0]!;
      await store.write([{ table: "keys", row, credits: { period: 0, remaining } }]);
    };
    await set(one, 50);
    expect(await one.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 49 });
    await set(two, 5);
    expect(await one.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 4 });
    await set(two, null);
    expect(await one.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: null });
    expect(await one.drawCredits(ref!, draw({ cost: 7 }))).toMatchObject({ drawn: 7, remaining: null });
    await set(one, 3);
    expect(await two.spendCredits(ref!, 4, 0, 0)).toEqual({ ok: false, remaining: 3 });
  });

  it("a group that fails leaves nothing of it in what is remembered", async () => {
    const place = path();
    const store = await withApi(open(place));
    const refs = await addKeys(store, 2);
    inspect(place, (db) =>
      db.exec(
        "CREATE TRIGGER t BEFORE UPDATE ON keystile_accounts WHEN NEW.period = 7 BEGIN SELECT RAISE(ABORT, 'no'); END",
      ),
    );
    await store.spendCredits(refs[0]!, 1, 0, 0);
    const answers = await Promise.allSettled([
      store.spendCredits(refs[0]!, 5, 0, 0),
      store.spendCredits(refs[1]!, 1, 7, 0),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await store.spendCredits(refs[0]!, 1, 0, 0)).toEqual({ ok: true, remaining: 98 });
  });

  it("clause 14: a set balance voids the leases of all holders, and each stays until its node has reported", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1);
    await store.drawCredits(ref!, draw());
    await store.drawCredits(ref!, draw({ holder: "b" }));
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    const leases = () =>
      inspect(place, (db) => db.prepare("SELECT reserved > 0, held FROM keystile_leases ORDER BY holder").raw().all());
    await store.write([{ table: "keys", row, credits: { period: 0, add: 1 } }]);
    const drawn = leases().map((lease) => (lease as number[])[1]);
    expect(leases()).toEqual(drawn.map((held) => [1, held]));
    await store.write([{ table: "keys", row: { ...row, version: 2 }, credits: { period: 0, remaining: 9 } }]);
    expect(leases()).toEqual(drawn.map((held) => [0, held]));
    for (const holder of ["a", "b"]) await store.returnCredits(ref!, { holder, spent: 1 });
    expect(leases()).toEqual([]);
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]).toMatchObject({
      remaining: 9,
      reserved: 0,
    });
  });

  it("clause 14: leases of two connections come from one balance", async () => {
    const place = path();
    const [one, two] = [await withApi(open(place)), open(place)];
    const [ref] = await addKeys(one, 1, 100);
    let held = 0;
    for (let i = 0; i < 40; i++) {
      held += (await (i % 2 ? one : two).drawCredits(ref!, draw({ holder: i % 2 ? "one" : "two" })))?.drawn ?? 0;
      const leased = inspect(place, (db) =>
        db
          .prepare("SELECT coalesce(sum(reserved), 0) AS reserved, coalesce(sum(held), 0) AS held FROM keystile_leases")
          .get(),
      ) as { reserved: number; held: number };
      const { remaining, reserved } = (await one.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]!;
      expect([leased.held, reserved, remaining]).toEqual([held, held + leased.reserved, 100 - reserved]);
    }
    expect(held).toBe(100);
    await two.returnCredits(ref!, { holder: "two", spent: 1 });
    await one.returnCredits(ref!, { holder: "one", spent: 2 });
    expect((await one.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]).toMatchObject({
      remaining: 97,
      reserved: 0,
    });
  });

  it("a lease that drew nothing leaves no row, and one that ended neither", async () => {
    const place = path();
    const store = await withApi(open(place));
    const [ref] = await addKeys(store, 1, 1);
    const leases = () => inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_leases").pluck().get());
    expect(await store.drawCredits(ref!, draw())).toEqual({ drawn: 1, generation: 0, remaining: 0 });
    expect(await store.drawCredits(ref!, draw({ holder: "b" }))).toEqual({ drawn: 0, generation: 0, remaining: 0 });
    expect(leases()).toBe(1);
    await store.returnCredits(ref!, { holder: "a", spent: 0 });
    expect(leases()).toBe(0);
    expect((await store.drawCredits(ref!, draw()))!.drawn).toBe(1);
    expect(leases()).toBe(1);
    await store.returnCredits(ref!, { holder: "a", spent: 0 });
    expect(leases()).toBe(0);
  });

  it("property: any history of turns answers as the memory store does, in every order within a turn", async () => {
    const act = fc.record({
      kind: fc.constantFrom("spend", "spend", "spend", "draw", "return", "set", "forget"),
      key: fc.integer({ min: 0, max: 2 }),
      cost: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.constant(2 ** 40)),
      period: fc.integer({ min: -1, max: 6 }),
      holder: fc.constantFrom("a", "b"),
      now: fc.integer({ min: 0, max: 3000 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(act, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 6 }),
        async (turns) => {
          const place = path();
          const stores = [
            await withApi(sqliteStore(place, { durability: "process" })),
            sqliteStore(place, { durability: "process" }),
          ] as const;
          const oracle = await withApi(memoryStore());
          const refs = await addKeys(stores[0], 3, 60, { amount: 7, period: 0 });
          await addKeys(oracle, 3, 60, { amount: 7, period: 0 });
          for (const [t, turn] of turns.entries()) {
            // Turns alternate between two connections; the acts of a turn are in flight together.
            const one = stores[t % 2]!;
            const perform = async (
              store: SqliteStore | typeof oracle,
              ref: number | string,
              { kind, cost, period, holder, now, key }: (typeof turn)[0],
            ) => {
              const id = `key_00000${key + 1}`;
              if (kind === "draw")
                return store.drawCredits(ref, {
                  holder,
                  spent: cost,
                  cost: cost + 1,
                  step: 9,
                  size: 30,
                  period,
                  now,
                  until: now + 500,
                });
              if (kind === "return") return store.returnCredits(ref, { holder, spent: cost });
              if (kind === "spend") return cost === 0 ? undefined : store.spendCredits(ref, cost, period, now);
              return store.readBalances([{ keyId: id, period }], now);
            };
            const acts = turn.filter(({ kind }) => kind !== "set");
            const answers = await Promise.all(acts.map((each) => perform(one, refs[each.key]!, each)));
            const expected = [];
            for (const each of acts) expected.push(await perform(oracle, `key_00000${each.key + 1}`, each));
            for (const [i, { kind }] of acts.entries()) if (kind !== "forget") expect(answers[i]).toEqual(expected[i]);
            for (const { key, cost, period } of turn.filter(({ kind }) => kind === "set")) {
              const id = `key_00000${key + 1}`;
              for (const store of [one, oracle]) {
                const row = (await store.readMany("keys", [id]))[0]!;
                await store.write([
                  { table: "keys", row, credits: { period, ...(cost % 2 ? { remaining: cost } : { add: cost - 20 }) } },
                ]);
              }
            }
            for (const id of ["key_000001", "key_000002", "key_000003"])
              expect((await one.readBalances([{ keyId: id, period: 3 }], 0))[0]).toEqual(
                (await oracle.readBalances([{ keyId: id, period: 3 }], 0))[0],
              );
          }
          await Promise.all(stores.map((store) => store.close()));
        },
      ),
      { numRuns: runs(60) },
    );
  });

  it("spends, changes and new keys of one turn all go in", async () => {
    const store = await withApi(open());
    const [ref] = await addKeys(store, 1, 10);
    const spent = [store.spendCredits(ref!, 1, 0, 0), store.spendCredits(ref!, 1, 0, 0)];
    const changed = change(store, "key_000001", { name: "new" });
    const inserted = store.insertKeys([{ row: keyRow(7) }]);
    await Promise.all([...spent, changed, inserted]);
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(8);
    expect(await store.findKey("digest-1")).toMatchObject({ name: "new" });
    expect(await store.findKey("digest-7")).toBeDefined();
  });
});
