/** Cached accounts against the reference implementation, a Map of balances, with several connections to one file. */
import Database from "better-sqlite3";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { sqliteStore, type SqliteStore } from "../../../../src/stores/sqlite/index.js";
import { runs } from "../../../runs.js";
import { addKeys, balancesIn, change, inspect, refOf, temporaryPaths, totalIn, withApi } from "../support.js";

const path = temporaryPaths();
const open = (place: string) => sqliteStore(place, { durability: "process" });
const idOf = (key: number) => `key_${String(key + 1).padStart(6, "0")}`;

/** Sets a key's balance, as an administrator would; null: unlimited. */
async function set(store: SqliteStore, key: number, remaining: number | null): Promise<void> {
  const row = (await store.readMany("keys", [idOf(key)]))[0]!;
  if (!Array.isArray(await store.write([{ table: "keys", row, credits: { period: 0, remaining } }])))
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

describe("account session", () => {
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
            const request = {
              holder: `h${move.store}`,
              spent: 0,
              cost: 1,
              step: 3,
              size: 9,
              period: 0,
              now: 0,
              until: 1_000,
            };
            await one.drawCredits(refs[move.key]!, request);
            await one.returnCredits(refs[move.key]!, request);
          } else if (move.do === "remove") {
            const [row] = await one.readMany("keys", [idOf(move.key)]);
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
      }),
      { numRuns: runs(60) },
    );
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
    expect([...inspect(place, balancesIn)]).toEqual([[refs[1], 95]]);
  });

  it("close does not wait for another process that is writing", async () => {
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
});
