/**
 * What each draw asks for, whom its reply serves, and when a lease is filled up: by what the store is asked to write.
 */
import { describe, expect, it } from "vitest";
import type { DrawRequest, LeaseReturn, Store } from "../../src/contracts/store.js";
import type { Refill } from "../../src/contracts/types.js";
import { NodeLease } from "../../src/credits/lease.js";
import { periodOf } from "../../src/credits/refill-calendar.js";
import { account, accountOf, eagerSpender, opened, removeKey, setBalance, settled, watched } from "./support.js";

const DAY = 86_400_000;
const DAILY: Refill = { interval: "daily", amount: 1 };
/** A first draw of 4 at most. */
const SMALL = { size: 8, step: 4, firstStep: 4 };
/** Of a large balance it draws 100, and sets 25 of them aside. */
const FULL = { size: 400, step: 100, firstStep: 100 };
const LEFT = { ok: true, remaining: expect.any(Number) as number };

/** Gives the key a refill of 1 a day from 1970 on: its balance stays, and has another calendar. */
async function setRefill(store: Store): Promise<void> {
  const row = (await store.readMany("keys", ["key_000001"]))[0]!;
  const credits = { period: 0, refill: { amount: 1, period: 32_000_000_000 } };
  await store.write([{ table: "keys", row: { ...row, refill: DAILY }, credits }]);
}
const costsOf = ({ asked }: Awaited<ReturnType<typeof watched>>) => asked.draws.map(({ cost }) => cost);

describe("a key's first spend: exact, with the default of firstStep", () => {
  it("one that was refused is followed by another first spend", async () => {
    const { asked, spend, spender } = await watched(5);
    expect(await spend(6)).toEqual({ ok: false, remaining: 5 });
    expect(await spend(2)).toEqual({ ok: true, remaining: 3 });
    expect([asked.exact, asked.draws]).toEqual([2, []]);
    await spender.close();
    expect(asked.returns).toEqual([]);
  });

  it("one of a key that is gone has no answer, and one of a key without a limit begins no steps", async () => {
    const { asked, spend, store, spender } = await watched(5);
    await setBalance(store, null);
    for (let i = 0; i < 2; i++) expect(await spend(2)).toEqual({ ok: true, remaining: null });
    await removeKey(store);
    for (let i = 0; i < 2; i++) expect(await spend(2)).toBeUndefined();
    expect([asked.exact, asked.draws]).toEqual([4, []]);
    await spender.close();
  });

  it("who waits for one that is granted draws no more than it left", async () => {
    const bed = await watched(10);
    const { asked, state, spend, open, spender, balance } = bed;
    state.isLate = true;
    const spends = [spend(3), spend(4), spend(4)].map((spent) => Promise.resolve(spent));
    await settled();
    state.isLate = false;
    await open();
    expect(await Promise.all(spends)).toEqual([
      { ok: true, remaining: 7 },
      { ok: true, remaining: 3 },
      { ok: false, remaining: 3 },
    ]);
    expect([asked.exact, costsOf(bed)]).toEqual([1, [4]]);
    await spender.close();
    expect(await balance()).toBe(3);
  });

  it("who waits for one that was stale draws for all that do, since nothing is known of the balance", async () => {
    const bed = await watched(100);
    const { asked, state, spend, one, open, spender, balance } = bed;
    state.isLate = true;
    const stale = Promise.resolve(spender.spend({ ...one, refill: DAILY }, 5, 0));
    const spends = [spend(5), spend(5)].map((spent) => Promise.resolve(spent));
    await settled();
    state.isLate = false;
    await open();
    expect(await stale).toMatchObject({ ok: false, stale: true });
    expect(await Promise.all(spends)).toEqual([
      { ok: true, remaining: 95 },
      { ok: true, remaining: 90 },
    ]);
    expect([asked.exact, costsOf(bed)]).toEqual([1, [10]]);
    await spender.close();
    expect(await balance()).toBe(90);
  });

  it("a key without a lease remembers none", async () => {
    const { spend, one } = await watched(5);
    expect(await spend(0)).toEqual({ ok: true, remaining: 5 });
    expect(await spend(6)).toEqual({ ok: false, remaining: 5 });
    expect(one.lease).toBeUndefined();
  });
});

describe("a lease that is there", () => {
  it("is remembered by every account that spends from it, and by who spent last no longer than it lasts", async () => {
    const { store, spender } = await watched(100, SMALL, 2);
    const [one, two] = [await accountOf(store, 1), await accountOf(store, 2)];
    for (const account of [one, two]) await spender.spend(account, 1, 0);
    const fresh = await accountOf(store, 2);
    expect(spender.spend(fresh, 1, 0)).toEqual({ ok: true, remaining: 98 });
    expect(fresh.lease).toBeInstanceOf(NodeLease);
    expect([fresh.lease === two.lease, two.lease === one.lease]).toEqual([true, false]);
    await spender.close();
    expect([one.lease, fresh.lease]).toEqual([undefined, undefined]);
  });

  it("ends with the first call that knows of a balance set since, also where that costs nothing", async () => {
    const { asked, spend, store, spender, books } = await watched(100, FULL);
    await spend();
    const renewed = account(await setBalance(store, 50));
    expect(await spender.spend(renewed, 0, 0)).toEqual({ ok: true, remaining: 50 });
    expect(asked.returns).toMatchObject([{ spent: 1 }]);
    expect(await books()).toMatchObject({ remaining: 50, reserved: 0 });
  });

  it("stays when a call follows another calendar, with what is in memory", async () => {
    const { asked, spend, one, spender, balance } = await watched(100, { size: 40, step: 20, firstStep: 20 });
    await spend();
    expect(await spender.spend({ ...one, refill: DAILY }, 30, 0)).toMatchObject({ ok: false, stale: true });
    expect(asked.returns).toEqual([]);
    expect(spend()).toEqual({ ok: true, remaining: 98 });
    await spender.close();
    expect(await balance()).toBe(98);
  });

  it("never was, where the first draw finds the key gone, without a limit or under another calendar", async () => {
    const { asked, spend, one, store, spender } = await watched(100, SMALL);
    expect(await spender.spend({ ...one, refill: DAILY }, 1, 0)).toMatchObject({ ok: false, stale: true });
    await setBalance(store, null);
    expect(await spend()).toEqual({ ok: true, remaining: null });
    await removeKey(store);
    expect(await spend()).toBeUndefined();
    await spender.close();
    expect([asked.draws.length, asked.returns]).toEqual([3, []]);
  });
});

describe("a draw", () => {
  it("asks for what the lease lacks, in cost and in size", async () => {
    const { asked, spendMany, spend } = await watched(100, SMALL);
    await spendMany(1);
    expect(await spend(5)).toStrictEqual({ ok: true, remaining: 94 });
    expect(asked.draws.map(({ cost, size }) => [cost, size])).toEqual([
      [1, 8],
      [2, 5],
    ]);
  });

  it("for calls of different times has the latest of them", async () => {
    const { asked, state, one, spender, open } = await watched(100, { ...SMALL, ttl: 1_000 });
    state.isGated = true;
    const spends = [0, 5, 9, 7].map((now) => Promise.resolve(spender.spend(one, 4, now)));
    await settled();
    state.isGated = false;
    await open();
    expect(await Promise.all(spends)).toMatchObject(Array(4).fill({ ok: true }));
    expect(asked.draws.map(({ now, until }) => [now, until])).toEqual([
      [0, 1_000],
      [9, 1_009],
    ]);
  });

  it("tells one of the calls that it serves how many refills were left out", async () => {
    const { state, store, one, spender, open, books } = await watched(10, { size: 1_000, step: 250, firstStep: 250 });
    await setRefill(store);
    const daily = { ...one, refill: DAILY };
    state.isGated = true;
    // The first is of a calendar that was replaced; behind it the others share a draw.
    const stale = Promise.resolve(spender.spend(one, 1, 0));
    const spends = [200, 200].map((cost) => Promise.resolve(spender.spend(daily, cost, 402 * DAY)));
    await settled();
    state.isGated = false;
    await open();
    expect(await stale).toMatchObject({ stale: true });
    expect(await Promise.all(spends)).toEqual([
      { ok: true, remaining: 210, forfeited: 2 },
      { ok: true, remaining: 10 },
    ]);
    expect(await spender.spend(daily, 1, 402 * DAY)).toEqual({ ok: true, remaining: 9 });
    await spender.close();
    expect(await books()).toMatchObject({ remaining: 9, totals: { refilled: 400, spent: 401 } });
  });

  it("for a call that knows of a balance set since is under a new lease, also if it is for others too", async () => {
    const bed = await watched(100, { size: 2, step: 2, firstStep: 2 });
    const { asked, state, spend, store, spender, open, books } = bed;
    expect(await spend(2)).toEqual({ ok: true, remaining: 98 });
    state.isLate = true;
    const first = Promise.resolve(spend(10));
    await settled();
    const renewed = account(await setBalance(store, 200));
    const both = [spender.spend(renewed, 3, 0), spend(30)].map((spent) => Promise.resolve(spent));
    state.isLate = false;
    await open();
    expect(await first).toEqual({ ok: true, remaining: 88 });
    expect(await Promise.all(both)).toEqual([
      { ok: true, remaining: 197 },
      { ok: true, remaining: 167 },
    ]);
    const holders = asked.draws.map(({ holder }) => holder);
    expect([holders.length, holders[0] === holders[1], holders[1] === holders[2]]).toEqual([3, true, false]);
    await spender.close();
    expect(await books()).toMatchObject({ remaining: 167, reserved: 0 });
  });

  it("refuses nobody whose cost is just what is left", async () => {
    const { state, spend, one, spender, open, balance } = await watched(6, SMALL);
    state.isGated = true;
    const stale = Promise.resolve(spender.spend({ ...one, refill: DAILY }, 1, 0));
    const spends = [spend(6), spend(5)].map((spent) => Promise.resolve(spent));
    await settled();
    state.isGated = false;
    await open();
    expect(await stale).toMatchObject({ stale: true });
    expect(await Promise.all(spends)).toEqual([
      { ok: true, remaining: 0 },
      { ok: false, remaining: 0 },
    ]);
    await spender.close();
    expect(await balance()).toBe(0);
  });

  it("is for the first of the cheapest, where no call fits what there was", async () => {
    const bed = await watched(10, { size: 1, step: 1, firstStep: 1 });
    const { state, spend, store, spender, open, balance } = bed;
    state.isLate = true;
    // It leaves 7, and the others need more: until it has answered the balance grows by 1.
    const spends = [spend(3), spend(9), spend(8), spend(8)].map((spent) => Promise.resolve(spent));
    await settled();
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    await store.write([{ table: "keys", row, credits: { period: 0, add: 1 } }]);
    state.isLate = false;
    await open();
    expect((await Promise.all(spends)).map((spent) => spent?.ok)).toEqual([true, false, true, false]);
    expect(costsOf(bed)).toEqual([3, 8]);
    await spender.close();
    expect(await balance()).toBe(0);
  });
});

describe("a lease is filled up", () => {
  it("from a step of 64 on: when three quarters of it are spent, and with a smaller one never", async () => {
    for (const [step, calls] of [
      [63, 63],
      [64, 48],
    ] as const) {
      const { asked, spendMany } = await watched(10_000, { size: 256, step, firstStep: step });
      await spendMany(calls);
      expect(asked.draws).toHaveLength(1);
      await spendMany(1);
      expect(asked.draws.map(({ spent }) => spent)).toEqual([0, step === 63 ? 63 : 49]);
    }
  });

  it("no earlier for calls that find their key anew", async () => {
    const { asked, spender, store } = await watched(10_000, FULL, 2);
    await spender.spend(await accountOf(store, 1), 1, 0);
    asked.draws.length = 0;
    const record = (await store.findKey("digest-2"))!;
    const spendAnew = () => spender.spend(account(record), 1, 0);
    await spendAnew();
    for (let i = 2; i <= 75; i++) expect(spendAnew()).toEqual({ ok: true, remaining: 10_000 - i });
    expect(asked.draws).toHaveLength(1);
    expect(spendAnew()).toEqual(LEFT);
    expect(asked.draws.map(({ step, size }) => [step, size])).toEqual([
      [100, 400],
      [76, 376],
    ]);
  });

  it("not for a call that needs more than is in memory: it draws for itself", async () => {
    const bed = await watched(10_000, FULL);
    await bed.spendMany(10);
    expect(await bed.spend(95)).toEqual({ ok: true, remaining: 10_000 - 105 });
    expect(costsOf(bed)).toEqual([1, 5]);
  });

  it("not where it has little: all that it has is spent first", async () => {
    const { asked, spendMany, spend } = await watched(30, FULL);
    await spendMany(1);
    // A quarter of 30 was drawn.
    for (let left = 28; left >= 23; left--) expect(spend()).toEqual({ ok: true, remaining: left });
    expect(asked.draws).toHaveLength(1);
  });

  it("not once it is to be closed", async () => {
    const { asked, state, store, spend, spendMany, spender, open, books } = await watched(10_000, FULL, 2);
    await spendMany(75);
    state.isGated = true;
    const other = Promise.resolve(spender.spend(await accountOf(store, 2), 1, 0));
    const closing = spender.close();
    // It waits for the draw of the other key. Until then leases are spent from.
    expect(spend()).toEqual({ ok: true, remaining: 10_000 - 76 });
    expect(asked.draws).toHaveLength(2);
    await open();
    await closing;
    expect(await other).toEqual({ ok: true, remaining: 9_999 });
    expect(asked.draws).toHaveLength(2);
    expect(await books()).toMatchObject({ remaining: 10_000 - 76, reserved: 0 });
  });

  it("not after it has spent more than 1e12: then it ends at the next draw", async () => {
    const { asked, spend, spender, books } = await watched(Number.MAX_SAFE_INTEGER, {
      ...{ size: 1e9, step: 1e9, firstStep: 1e9 },
    });
    const CALLS = 4_020;
    for (let i = 0; i < CALLS; i++) expect((await spend(2.5e8))?.ok).toBe(true);
    expect(Math.max(...asked.draws.map(({ spent }) => spent))).toBe(1e12);
    // At just 1e12 it was filled up once more: 1 is the cost of a draw that no call waits for.
    expect(asked.draws.filter(({ spent }) => spent === 1e12).map(({ cost }) => cost)).toEqual([1]);
    expect(new Set(asked.draws.map(({ holder }) => holder)).size).toBe(2);
    await spender.close();
    expect(await books()).toMatchObject({ reserved: 0, totals: { spent: CALLS * 2.5e8 } });
  });

  it.each<[string, (store: Store) => Promise<unknown>, object | undefined]>([
    ["is gone", removeKey, undefined],
    ["has no limit any more", (store) => setBalance(store, null), { ok: true, remaining: null }],
    ["follows another calendar", setRefill, { ok: false, remaining: 0, stale: true }],
  ])(
    "and where its key %s, the next draw finds that out: what is in memory stays until then",
    async (_what, act, next) => {
      const { asked, state, store, spend, spendMany, open, spender } = await watched(10_000, FULL);
      await spendMany(75);
      state.isGated = true;
      expect(spend()).toEqual({ ok: true, remaining: 10_000 - 76 });
      await act(store);
      await open();
      expect([asked.draws.length, asked.returns]).toEqual([2, []]);
      expect(spend(0)).toEqual({ ok: true, remaining: 10_000 - 76 });
      const waiting = Promise.resolve(spend(30));
      await open();
      expect(await waiting).toEqual(next);
      state.isGated = false;
      await spender.close();
    },
  );

  it.each<[string, (store: Store) => Promise<unknown>, object | undefined]>([
    ["is gone", removeKey, undefined],
    ["has no limit any more", (store) => setBalance(store, null), { ok: true, remaining: null }],
    ["follows another calendar", setRefill, { ok: false, remaining: 0, stale: true }],
  ])("and who waits for that while its key %s has the answer of the next draw", async (_what, act, next) => {
    const { asked, state, store, spend, spendMany, open, spender } = await watched(10_000, FULL);
    await spendMany(75);
    state.isGated = true;
    expect(spend()).toMatchObject({ ok: true });
    const waiting = Promise.resolve(spend(30));
    await act(store);
    state.isGated = false;
    await open();
    expect(await waiting).toEqual(next);
    expect(asked.draws).toHaveLength(3);
    await spender.close();
  });
});

describe("credits that expire", () => {
  const HOUR = 3_600_000;
  const EXPIRING: Refill = { interval: "hourly", amount: 100, rollover: 0 };
  const until = (now: number) => periodOf(EXPIRING, now);

  /** A key with 400 credits that expire each hour, and a spender whose clock is turned. */
  async function expiring() {
    const { store } = await opened(400);
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    const credits = { period: 0, refill: { amount: 100, period: until(0), rollover: 0 } };
    await store.write([{ table: "keys", row: { ...row, refill: EXPIRING }, credits }]);
    const asked = { draws: [] as DrawRequest[], returns: [] as LeaseReturn[] };
    const spender = eagerSpender(
      {
        ...store,
        drawCredits: (ref, request) => (asked.draws.push(request), store.drawCredits(ref, request)),
        returnCredits: (ref, lease) => (asked.returns.push(lease), store.returnCredits(ref, lease)),
      },
      { size: 80, step: 40, ttl: 10 * HOUR },
    );
    const target = await accountOf(store, 1);
    const left = async (now: number) =>
      (await store.readBalances([{ keyId: "key_000001", period: until(now) }], now))[0]?.remaining;
    return {
      store,
      asked,
      spender,
      target,
      left,
      spend: (cost: number, now: number) => spender.spend(target, cost, now),
    };
  }

  it("a lease ends with the hour: nothing of it is granted afterwards, and what is left expires", async () => {
    const { asked, spend, spender, left } = await expiring();
    expect(await spend(10, 5)).toMatchObject({ ok: true });
    expect(await spend(10, HOUR - 1)).toMatchObject({ ok: true });
    expect(asked.draws.map(({ until: end }) => end)).toEqual([HOUR]);
    expect(await spend(60, HOUR)).toEqual({ ok: true, remaining: 40 });
    expect(asked.returns).toMatchObject([{ spent: 20 }]);
    expect(await spend(40, HOUR)).toEqual({ ok: true, remaining: 0 });
    expect(await spend(1, HOUR)).toMatchObject({ ok: false, remaining: 0 });
    await spender.close();
    expect(await left(HOUR)).toBe(0);
  });

  it("a draw that was refused as one of before the hour begins another lease", async () => {
    const { asked, spend, spender, store, target } = await expiring();
    expect(await spend(10, HOUR - 2)).toMatchObject({ ok: true });
    // Another node's clock is ahead, and counts the hour.
    expect(await store.spendCredits(target.ref, 5, until(HOUR), HOUR)).toEqual({ ok: true, remaining: 95 });
    expect(await spend(60, HOUR - 1)).toEqual({ ok: true, remaining: 35 });
    expect(new Set(asked.draws.map(({ holder }) => holder)).size).toBe(2);
    expect(asked.returns).toMatchObject([{ spent: 10 }]);
    await spender.close();
  });

  it("a rollover that was added ends the leases of before", async () => {
    const { store } = await opened(400);
    const asked: LeaseReturn[] = [];
    const spender = eagerSpender(
      { ...store, returnCredits: (ref, lease) => (asked.push(lease), store.returnCredits(ref, lease)) },
      { size: 80, step: 40 },
    );
    const before = await accountOf(store, 1);
    expect(await spender.spend(before, 10, 0)).toMatchObject({ ok: true });
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    const credits = { period: 0, refill: { amount: 100, period: until(0), rollover: 0 } };
    await store.write([{ table: "keys", row: { ...row, refill: EXPIRING }, credits }]);
    const after = await accountOf(store, 1);
    expect(await spender.spend(after, 10, 0)).toMatchObject({ ok: true });
    expect(asked).toMatchObject([{ spent: 10 }]);
    expect(await spender.spend(after, 100, HOUR)).toEqual({ ok: true, remaining: 0 });
    await spender.close();
  });
});
