/** Credits of several accounts in the database: against a list of credits, and leased from a server. */
import { describe, expect, it } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import { periodOf } from "../../../src/credits/refill-calendar.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { api, balance, insert, keyRow, refOf } from "../../../src/testing/store/rows.js";
import { playWalletLeases } from "../../credits/wallet-leases-play.js";
import { playWallets } from "../../credits/wallet-play.js";
import { dice, seedsOf } from "../../model/dice.js";
import { runs } from "../../runs.js";
import { noPostgres } from "../../servers/postgres.js";
import { pglite, postgresServer } from "./support.js";

const { open } = pglite();

describe("wallets: random histories against a list of credits", () => {
  it.each(seedsOf(2_028, runs(80)))("postgres, seed %i", async (seed) => {
    await playWallets((await open(1))[0]!, seed, 100);
  });
});

it.each(seedsOf(2_030, runs(30)))("calls at once take what they take one after the other, seed %i", async (seed) => {
  const { below, chance, pick } = dice(seed);
  const DAY = 86_400_000;
  const refill = { interval: "daily", amount: 3 } as const;
  // The second is refilled, and the third and the fourth end.
  const ends = [undefined, undefined, 1 + below(3 * DAY), 1 + below(3 * DAY)];
  const given = ends.map(() => below(60));
  const bedOf = async (store: Store) => {
    await store.write([{ table: "apis", row: api() }]);
    for (const [i, remaining] of given.entries()) {
      const row = keyRow(i, { hasCredits: true, ...(i === 1 && { refill }) });
      await insert(store, row, balance(remaining, i === 1 ? { amount: 3, period: periodOf(refill, 0) } : {}));
    }
    const refs = await Promise.all(given.map((_, i) => refOf(store, `digest-${i}`)));
    const walletsAt = (lists: readonly (readonly number[])[], now: number) =>
      lists.map((list) =>
        list.map((i) => {
          const of = { ref: refs[i]!, period: i === 1 ? periodOf(refill, now) : 0 };
          return ends[i] === undefined ? of : { ...of, expires: ends[i] };
        }),
      );
    return { store, walletsAt };
  };
  const [together, apart] = [await bedOf((await open(1))[0]!), await bedOf(memoryStore())];
  let now = 0;
  for (let step = 0; step < 12; step++) {
    const calls = Array.from({ length: 2 + below(12) }, () => ({
      lists: pick([[[2, 1]], [[0], [3, 1]], [[0], [1]], [[3, 2, 0]], [[1]]]),
      request: { cost: 1 + below(chance(0.1) ? 40 : 3), now },
    }));
    const spend = async ({ store, walletsAt }: typeof apart, { lists, request }: (typeof calls)[number]) =>
      store.spendWallets!(walletsAt(lists, now), request);
    const expected = [];
    for (const call of calls) expected.push(await spend(apart, call));
    expect(await Promise.all(calls.map((call) => spend(together, call)))).toEqual(expected);
    now += below(DAY);
  }
  const queries = given.map((_, i) => ({ keyId: keyRow(i).id, period: i === 1 ? periodOf(refill, now) : 0 }));
  expect(await together.store.readBalances(queries, now)).toEqual(await apart.store.readBalances(queries, now));
  for (const { store } of [together, apart]) await store.close();
});

describe.skipIf(noPostgres)("on a server", () => {
  const server = postgresServer();
  playWalletLeases("PostgreSQL", { open: async () => (await server.open(1))[0]!, whole: 12, steps: 60 });
});
