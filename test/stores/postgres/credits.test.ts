/** The arithmetic of credits in the database against that of `src/credits/account.ts`. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { KeyRow, Store, WrittenBalance } from "../../../src/contracts/store.js";
import { setDurability } from "../../../src/stores/postgres/credits-alone.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { insert, keyRow, readBalance, readRow, refOf, api } from "../../../src/testing/store/rows.js";
import { runs } from "../../runs.js";
import { pglite } from "./support.js";

const { server, open, newSchema } = pglite();
const MAX = Number.MAX_SAFE_INTEGER;
const DAILY = 32_000_000_000;
const MONTHLY = 15_000_000_000;

const amount = fc.oneof({ weight: 6, arbitrary: fc.nat(60) }, fc.constantFrom(0, 1, MAX, MAX - 1, MAX - 50));
const calendar = fc.constantFrom(0, DAILY, MONTHLY);
const period = fc
  .tuple(calendar, fc.oneof({ weight: 5, arbitrary: fc.nat(6) }, fc.nat(900)))
  .map(([first, count]) => first + count);
const holder = fc.constantFrom("a", "b", "c");
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("spend" as const), cost: amount, period }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("draw" as const),
      holder,
      cost: amount,
      step: fc.nat(40),
      period,
      spent: fc.nat(80),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("end" as const), holder, spent: fc.nat(80) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("reserve" as const), holder, cost: amount, period }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("settle" as const), holder, spent: fc.nat(80) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("change" as const),
      credits: fc.record(
        {
          period,
          remaining: fc.option(amount, { nil: null }),
          add: fc.integer({ min: -80, max: 80 }),
          refillsCounted: period,
          refill: fc.record({ amount, period, rollover: amount }, { requiredKeys: ["amount"] }),
          now: fc.nat(8_000),
        },
        { requiredKeys: ["period"] },
      ),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const histories = fc.array(step, { minLength: 1, maxLength: 12 });

/** Milliseconds that pass between two steps: some leases expire. */
const TICK = 700;

async function apply(store: Store, one: Step, now: number): Promise<unknown> {
  const ref = await refOf(store, "digest-1");
  if (one.kind === "spend") return store.spendCredits(ref, one.cost, one.period, now);
  if (one.kind === "draw") {
    const { kind: _, ...request } = one;
    return store.drawCredits(ref, { ...request, size: 0, now, until: now + 2_000 });
  }
  const id = "holder" in one ? `res_${one.holder}` : "";
  if (one.kind === "reserve")
    return store.reserveCredits(ref, one.period, { cost: one.cost, now, reservation: { id, until: now + 2_000 } });
  if (one.kind === "settle") return store.settleCredits(ref, { id, spent: one.spent, now });
  if (one.kind === "end") return (await store.returnCredits(ref, one)) ?? "ended";
  const row = (await readRow(store, "keys", "key_000001")) as KeyRow;
  const written = await store.write([{ table: "keys", row, credits: one.credits }]);
  // What it says of reserves may still have those of leases that expired; the balance that is read then has not.
  return Array.isArray(written) ? written.map(({ remaining }: WrittenBalance) => remaining) : written;
}

async function opened(store: Store, first: number, at: number, rollover: number | null): Promise<Store> {
  await store.write([{ table: "apis", row: api() }]);
  await insert(store, keyRow(1, { hasCredits: true }), {
    ...{ remaining: first, amount: 7, period: at },
    ...(rollover !== null && { rollover }),
  });
  return store;
}

describe("postgres: credits", () => {
  it(
    "does what the functions of account.ts do, whatever the order of calls (property)",
    { timeout: 120_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(amount, period, fc.option(amount), histories, async (first, at, rollover, steps) => {
          const [store] = await open(1);
          try {
            const inMemory = await opened(memoryStore(), first, at, rollover);
            const inDatabase = await opened(store!, first, at, rollover);
            for (const [i, one] of steps.entries()) {
              const now = i * TICK;
              expect(await apply(inDatabase, one, now), JSON.stringify(one)).toEqual(await apply(inMemory, one, now));
              const [known, stored] = [
                await readBalance(inMemory, "key_000001", at, now),
                await readBalance(inDatabase, "key_000001", at, now),
              ];
              expect(stored, `after ${JSON.stringify(one)}`).toEqual(known);
            }
          } finally {
            await store!.close();
          }
        }),
        { numRuns: runs(200) },
      );
    },
  );
});

it("postgres: a spend alone is an UPDATE where nothing hinders it; what does goes through the function of groups", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  await store.write([{ table: "apis", row: api() }]);
  const balance = { remaining: 100, amount: 5, period: DAILY };
  await store.insertKeys([
    { row: keyRow(1, { hasCredits: true }), balance },
    { row: keyRow(2, { hasCredits: true }), balance },
  ]);
  const refs = [await refOf(store, "digest-1"), await refOf(store, "digest-2")] as const;
  const reservation = { id: "res_1", until: 1_000 };
  await store.reserveCredits(refs[1], DAILY, { cost: 10, now: 0, reservation });
  await server.exec(`CREATE OR REPLACE FUNCTION ${schema}.group_v1(what text, mode text, calls text, skips boolean)
    RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '58000'; END $$`);
  expect(await store.spendCredits(refs[0], 60, DAILY, 0)).toEqual({ ok: true, remaining: 40 });
  // A reservation that has not expired is nobody's hindrance.
  expect(await store.spendCredits(refs[1], 60, DAILY, 999)).toEqual({ ok: true, remaining: 30 });
  const hindered = [
    () => store.spendCredits(refs[0], 41, DAILY, 0),
    () => store.spendCredits(refs[0], 0, DAILY, 0),
    () => store.spendCredits(refs[0], 1, DAILY + 1, 0),
    () => store.spendCredits(refs[0], 1, MONTHLY, 0),
    () => store.spendCredits(refs[1], 1, DAILY, 1_000),
    () => store.spendCredits(-1, 1, DAILY, 0),
    () => store.reserveCredits(refs[0], DAILY, { cost: 1, now: 0, reservation: { ...reservation, id: "res_2" } }),
    () => Promise.all([store.spendCredits(refs[0], 1, DAILY, 0), store.spendCredits(refs[0], 1, DAILY, 0)]),
  ];
  for (const call of hindered) await expect(call()).rejects.toMatchObject({ code: "STORE_FAILED" });
  await store.close();
});

it("postgres: the durability of a spend alone is that of the function of all others, whatever the server's default", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  await store.close();
  for (const mode of ["power", "process", "replicated"] as const)
    for (const before of ["off", "local", "remote_write", "on", "remote_apply"]) {
      const after = async (setting: string): Promise<unknown> =>
        server.transaction(async (session) => {
          await session.exec(`SET LOCAL synchronous_commit = ${before}; SELECT ${setting}`);
          return (await session.query("SHOW synchronous_commit")).rows[0];
        });
      expect(await after(setDurability(mode)), `${mode} ${before}`).toEqual(
        await after(`${schema}.set_durability_v1('${mode}')`),
      );
    }
});

it("postgres: what vanished nodes hold is forfeited once, and not written again at every draw", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  await store.write([{ table: "apis", row: api() }]);
  await store.insertKeys([
    { row: keyRow(1, { hasCredits: true }), balance: { remaining: 1_000, amount: 0, period: 0 } },
  ]);
  const ref = await refOf(store, "digest-1");
  const draw = (holder: string, now: number) =>
    store.drawCredits(ref, { holder, spent: 0, cost: 10, step: 10, size: 10, period: 0, now, until: now + 1_000 });
  const leases = async () =>
    (await server.query(`SELECT holder, ctid::text FROM ${schema}.leases WHERE is_forfeited ORDER BY 1`)).rows;
  await draw("gone", 0);
  await draw("also gone", 0);
  await draw("alive", 2_000);
  const forfeited = await leases();
  expect(forfeited).toHaveLength(2);
  await draw("alive", 2_500);
  expect(await leases()).toEqual(forfeited);
  // After a day they go.
  await draw("alive", 90_000_000);
  expect(await leases()).toEqual([]);
  expect((await readBalance(store, keyRow(1).id, 0, 0))?.totals).toMatchObject({ forfeited: 20 });
  await store.close();
});
