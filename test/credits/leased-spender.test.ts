import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { exactSpender } from "../../src/credits/exact-spender.js";
import { NodeLease } from "../../src/credits/lease.js";
import type { LeaseOptions } from "../../src/credits/leased-spender.js";
import {
  eagerSpender,
  account,
  accountOf,
  gate,
  numbered,
  opened,
  removeKey,
  setBalance,
  settled,
  slow,
} from "./support.js";

const leased = (store: Store, options: LeaseOptions = {}) => eagerSpender(store, options);

describe("exactSpender", () => {
  it("ruling D1: every spend is a step of the store", async () => {
    const { store, record, balance } = await opened(1);
    const spender = exactSpender(store);
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: false, remaining: 0 });
    expect(await balance()).toBe(0);
    await spender.close();
  });
});

describe("leasedSpender", () => {
  it("spends from memory, grants what was there to the last credit, and not one more", async () => {
    const { store, record, balance } = await opened(100);
    const watched = slow(store);
    const spender = leased(watched.store, { size: 40, step: 10 });
    const answers = await Promise.all(Array.from({ length: 300 }, () => spender.spend(account(record), 1, 0)));
    expect(answers.filter((answer) => answer?.ok)).toHaveLength(100);
    expect(watched.draws()).toBeLessThan(300);
    expect(await balance()).toBe(0);
    await spender.close();
    expect(await balance()).toBe(0);
  });

  it("several nodes together never grant more than was there, and a clean close returns the rest", async () => {
    const { store, record, balance } = await opened(1_000);
    const nodes = Array.from({ length: 4 }, () => leased(slow(store).store, { size: 100 }));
    const answers = await Promise.all(
      Array.from({ length: 600 }, (_, i) => nodes[i % 4]!.spend(account(record), 1, 0)),
    );
    const granted = answers.filter((answer) => answer?.ok).length;
    expect(granted).toBe(600);
    for (const node of nodes) expect(await node.spend(account(record), 1, 0)).toMatchObject({ ok: true });
    expect(await balance()).toBeLessThan(396);
    for (const node of nodes) await node.close();
    expect(await balance()).toBe(396);
  });

  it("answers the balance after each spend (ruling A6)", async () => {
    const { store, record } = await opened(10);
    const spender = leased(store, { size: 8, step: 4 });
    for (let left = 9; left >= 0; left--)
      expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: left });
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: false, remaining: 0 });
    expect(await spender.spend(account(record), 0, 0)).toEqual({ ok: true, remaining: 0 });
  });

  it("a cost of 0 draws nothing, also while a draw is under way", async () => {
    const { store, record, balance } = await opened(10);
    const watched = slow(store);
    const spender = leased(watched.store);
    expect(await spender.spend(account(record), 0, 0)).toEqual({ ok: true, remaining: 10 });
    expect(watched.draws()).toBe(0);
    const spending = spender.spend(account(record), 3, 0);
    expect(await spender.spend(account(record), 0, 0)).toEqual({ ok: true, remaining: 10 });
    expect(await spending).toEqual({ ok: true, remaining: 7 });
    await spender.close();
    expect(await balance()).toBe(7);
  });

  it("a cost above all that is there takes nothing", async () => {
    const { store, record, balance } = await opened(10);
    const spender = leased(store);
    await spender.spend(account(record), 1, 0);
    expect(await spender.spend(account(record), 10, 0)).toEqual({ ok: false, remaining: 9 });
    expect(await spender.spend(account(record), 9, 0)).toEqual({ ok: true, remaining: 0 });
    await spender.close();
    expect(await balance()).toBe(0);
  });

  it("A153: after the balance is set, what was in hand is void", async () => {
    const { store, record, balance } = await opened(100);
    const spender = leased(store, { size: 40, step: 20 });
    await spender.spend(account(record), 1, 0);
    const renewed = await setBalance(store, 50);
    expect(await spender.spend(account(renewed), 1, 0)).toEqual({ ok: true, remaining: 49 });
    await spender.close();
    expect(await balance()).toBe(49);
  });

  it("A153: void credits do not count as asked for: the few that are left are granted", async () => {
    const { store, record, balance } = await opened(100);
    const spender = leased(store, { size: 40, step: 20 });
    await spender.spend(account(record), 1, 0);
    const renewed = account(await setBalance(store, 3));
    expect(await spender.spend(renewed, 1, 0)).toEqual({ ok: true, remaining: 2 });
    await spender.close();
    expect(await balance()).toBe(2);
  });

  it("A153: also when it is set while a draw is under way", async () => {
    const { store, record, balance } = await opened(100);
    const spender = leased(slow(store).store, { size: 40, step: 20 });
    await spender.spend(account(record), 1, 0);
    const draining = Promise.all(Array.from({ length: 30 }, () => spender.spend(account(record), 1, 0)));
    const renewed = await setBalance(store, 5);
    await draining;
    const answers = await Promise.all(Array.from({ length: 10 }, () => spender.spend(account(renewed), 1, 0)));
    expect(answers.filter((answer) => answer?.ok).length).toBeLessThanOrEqual(5);
    await spender.close();
    expect(await balance()).toBeLessThanOrEqual(5);
  });

  it("A153: also in the hand while a draw is under way", async () => {
    const { store, record, balance } = await opened(100);
    const spender = leased(slow(store).store, { size: 40, step: 20 });
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 99 });
    const drawing = spender.spend(account(record), 30, 0);
    const renewed = account(await setBalance(store, 0));
    expect(await spender.spend(renewed, 1, 0)).toEqual({ ok: false, remaining: 0 });
    expect(await drawing).toEqual({ ok: false, remaining: 0 });
    await spender.close();
    expect(await balance()).toBe(0);
  });

  it("what a draw counts on is not spent by others meanwhile, and is shown all the same", async () => {
    const { store, record, balance } = await opened(100);
    const watched = slow(store);
    const spender = leased(watched.store, { size: 10, step: 4 });
    const one = account(record);
    expect(await spender.spend(one, 1, 0)).toEqual({ ok: true, remaining: 99 });
    // Three are in hand: it asks for two more, and gets four.
    const large = spender.spend(one, 5, 0);
    const small = spender.spend(one, 2, 0);
    expect(spender.spend(one, 0, 0)).toEqual({ ok: true, remaining: 99 });
    expect(await large).toEqual({ ok: true, remaining: 94 });
    expect(await small).toEqual({ ok: true, remaining: 92 });
    expect(watched.draws()).toBe(2);
    await spender.close();
    expect(await balance()).toBe(92);
  });

  it("a draw that the setting of the balance made too small is followed by another", async () => {
    const { store, record, balance } = await opened(100);
    const watched = slow(store);
    const spender = leased(watched.store, { size: 40, step: 20 });
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 99 });
    const drawing = spender.spend(account(record), 30, 0);
    await setBalance(store, 50);
    expect(await drawing).toEqual({ ok: true, remaining: 20 });
    expect(watched.draws()).toBe(3);
    await spender.close();
    expect(await balance()).toBe(20);
  });

  it("a refusal shows what others left, and later calls at cost 0 show the same", async () => {
    const { store, record } = await opened(10);
    const [one, other] = [leased(store, { size: 2, step: 1 }), leased(store)];
    // One credit drawn and spent, one in reserve: its hand is empty.
    expect(await one.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 9 });
    expect(await other.spend(account(record), 8, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await one.spend(account(record), 0, 0)).toEqual({ ok: true, remaining: 9 });
    expect(await one.spend(account(record), 9, 0)).toEqual({ ok: false, remaining: 1 });
    expect(await one.spend(account(record), 0, 0)).toEqual({ ok: true, remaining: 1 });
  });

  it("a key that has nothing gets no lease", async () => {
    const { store, record } = await opened(0);
    const returned: unknown[] = [];
    const spender = leased({ ...store, returnCredits: (ref) => void returned.push(ref) });
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: false, remaining: 0 });
    await spender.close();
    expect(returned).toEqual([]);
  });

  it("an account remembers its lease", async () => {
    const { store } = await opened(10, 2);
    const spender = leased(store, { size: 8, step: 2 });
    const accounts = await Promise.all([1, 2].map((n) => accountOf(store, n)));
    for (let call = 0; call < 2; call++) for (const one of accounts) await spender.spend(one, 1, 0);
    for (const { lease } of accounts) expect(lease).toBeInstanceOf(NodeLease);
    expect(accounts[0]!.lease).not.toBe(accounts[1]!.lease);
  });

  it("a spend from memory is answered at once, by accounts that remember the lease and by those that do not", async () => {
    const { store, record } = await opened(100);
    for (const [one, from] of [
      [account(record), store],
      [await accountOf(numbered(store), 1), numbered(store)],
    ] as const) {
      const spender = leased(from, { size: 40, step: 20 });
      const first = await spender.spend(one, 1, 0);
      expect(spender.spend(one, 1, 0)).toEqual({ ok: true, remaining: first!.remaining! - 1 });
      expect(spender.spend({ ...one, lease: undefined }, 1, 0)).toEqual({ ok: true, remaining: first!.remaining! - 2 });
      await spender.close();
    }
  });

  it("a key that became unlimited, or is gone, is said to be; nothing of it stays in hand", async () => {
    const { store, record } = await opened(100);
    const spender = leased(store, { size: 40, step: 20 });
    await spender.spend(account(record), 1, 0);
    const unlimited = account(await setBalance(store, null));
    for (let i = 0; i < 2; i++) expect(await spender.spend(unlimited, 50, 0)).toEqual({ ok: true, remaining: null });
    // One that a stale record knows as limited.
    for (let i = 0; i < 2; i++)
      expect(await leased(store).spend(account(record), 50, 0)).toEqual({ ok: true, remaining: null });
    const limited = account(await setBalance(store, 100));
    expect(await spender.spend(limited, 1, 0)).toEqual({ ok: true, remaining: 99 });
    await removeKey(store);
    expect(await spender.spend(limited, 1_000, 0)).toBeUndefined();
    expect(await spender.spend(limited, 1, 0)).toBeUndefined();
    expect(await leased(store).spend(limited, 1, 0)).toBeUndefined();
  });

  it("a lease that is held when its key becomes unlimited ends", async () => {
    const { store, record } = await opened(100);
    const ended: number[] = [];
    const spender = leased(
      { ...store, returnCredits: (_ref, { spent }) => void ended.push(spent) },
      { size: 40, step: 20 },
    );
    await spender.spend(account(record), 1, 0);
    await setBalance(store, null);
    expect(await spender.spend(account(record), 50, 0)).toEqual({ ok: true, remaining: null });
    expect(ended).toEqual([1]);
  });

  it.each([-1, NaN])("a cost of %s is refused by the store, whatever is in hand", async (cost) => {
    const { store, record, balance } = await opened(10);
    const spender = leased(store, { size: 8, step: 4 });
    const spend = async (): Promise<unknown> => spender.spend(account(record), cost, 0);
    await expect(spend()).rejects.toThrow(RangeError);
    await spender.spend(account(record), 1, 0);
    await expect(spend()).rejects.toThrow(RangeError);
    await spender.close();
    expect(await balance()).toBe(9);
  });

  it("a draw that fails rejects the spend and is not remembered; no credit is granted for it", async () => {
    const { store, record, balance } = await opened(10);
    let broken = true;
    const spender = leased({
      ...store,
      drawCredits: (ref, request) => (broken ? Promise.reject(new Error("disk")) : store.drawCredits(ref, request)),
    });
    const spends = [spender.spend(account(record), 1, 0), spender.spend(account(record), 1, 0)].map((spend) =>
      Promise.resolve(spend).catch(() => "failed"),
    );
    expect(await Promise.all(spends)).toEqual(["failed", "failed"]);
    broken = false;
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 9 });
    await spender.close();
    expect(await balance()).toBe(9);
  });

  it("what is in hand when a draw fails stays there, and is not shown twice", async () => {
    const { store, record, balance } = await opened(100);
    let broken = false;
    const failing: Store = {
      ...store,
      drawCredits(ref, request) {
        if (broken) throw new Error("disk");
        return store.drawCredits(ref, request);
      },
    };
    const spender = leased(failing, { size: 40, step: 20 });
    await spender.spend(account(record), 1, 0);
    broken = true;
    await expect(Promise.resolve(spender.spend(account(record), 30, 0))).rejects.toThrow("disk");
    expect(await balance()).toBe(60);
    expect(spender.spend(account(record), 0, 0)).toEqual({ ok: true, remaining: 99 });
    broken = false;
    expect(await spender.spend(account(record), 2, 0)).toEqual({ ok: true, remaining: 97 });
    await spender.close();
    expect(await balance()).toBe(97);
  });

  it("close says what a store did not take back, and an end that comes later is no loss", async () => {
    const { store, record, balance } = await opened(100);
    let broken = true;
    const spender = leased(
      {
        ...store,
        returnCredits(...given) {
          if (broken) throw new Error("disk");
          return store.returnCredits(...given);
        },
      },
      { closeTimeout: 20 },
    );
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 99 });
    await expect(Promise.resolve(spender.close())).rejects.toMatchObject({
      code: "CREDITS_NOT_RETURNED",
      cause: new Error("disk"),
    });
    // Of 100 a node gets a quarter in hand and a quarter of the rest in reserve.
    expect([spender.creditsForfeited(), await balance()]).toEqual([0, 57]);
    broken = false;
    await expect.poll(balance).toBe(99);
  });

  it("a cost above 1e9 is spent exactly, whatever is leased", async () => {
    const { store, record, balance } = await opened(3e9);
    const watched = slow(store);
    const spender = leased(watched.store, { size: 40, step: 20 });
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 3e9 - 1 });
    expect(await spender.spend(account(record), 1e9 + 1, 0)).toEqual({ ok: true, remaining: 2e9 - 2 });
    expect([watched.draws(), await balance()]).toEqual([1, 2e9 - 2]);
    expect(await spender.spend(account(record), 1e9, 0)).toEqual({ ok: true, remaining: 1e9 - 2 });
    expect(watched.draws()).toBe(2);
    await spender.close();
    expect(await balance()).toBe(1e9 - 2);
  });

  it("each draw and the end report what the lease has spent since it began, and another lease has another id", async () => {
    const { store, record } = await opened(100);
    const told: [string, number][] = [];
    const spender = leased(
      {
        ...store,
        drawCredits: (ref, request) => (told.push([request.holder, request.spent]), store.drawCredits(ref, request)),
        returnCredits: (ref, ended) => (told.push([ended.holder, ended.spent]), store.returnCredits(ref, ended)),
      },
      { size: 4, step: 2 },
    );
    for (let i = 0; i < 5; i++) await spender.spend(account(record), 1, 0);
    const renewed = account(await setBalance(store, 50));
    await spender.spend(renewed, 1, 0);
    await spender.close();
    const [first, other] = [told[0]![0], told.at(-1)![0]];
    expect(other).not.toBe(first);
    for (const id of [first, other]) expect(id).toMatch(/^node_\w{22,}\.\d+$/);
    expect(told).toEqual([
      [first, 0],
      [first, 2],
      [first, 4],
      [first, 5],
      [other, 0],
      [other, 1],
    ]);
  });

  it("a lease that has spent more than 1e12 ends at its next draw, and another begins", async () => {
    const { store, record } = await opened(Number.MAX_SAFE_INTEGER);
    const draws: { holder: string; spent: number }[] = [];
    const spender = leased({
      ...store,
      drawCredits(ref, request) {
        draws.push({ holder: request.holder, spent: request.spent });
        return store.drawCredits(ref, request);
      },
    });
    for (let i = 0; i < 1_004; i++) expect((await spender.spend(account(record), 1e9, 0))?.ok).toBe(true);
    const holders = new Set(draws.map(({ holder }) => holder));
    expect(holders.size).toBe(2);
    expect(Math.max(...draws.map(({ spent }) => spent))).toBe(1e12);
    await spender.close();
    const { totals, reserved } = (await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]!;
    expect([totals!.spent, reserved]).toEqual([1_004e9, 0]);
  });

  describe("A153: a balance that is set while a draw is in flight", () => {
    /** @param when the draw reaches the store */
    async function setDuringDraw(firstCost: number, when: "before" | "after") {
      const { store, record } = await opened(100);
      const { pass, open, count } = gate();
      let isLate = false;
      const spender = leased(
        {
          ...store,
          async drawCredits(ref, request) {
            if (isLate && when === "after") await pass();
            const drawn = await store.drawCredits(ref, request);
            if (isLate && when === "before") await pass();
            return drawn;
          },
        },
        { size: 2, step: 2 },
      );
      expect(await spender.spend(account(record), 2, 0)).toEqual({ ok: true, remaining: 98 });
      isLate = true;
      const first = spender.spend(account(record), firstCost, 0);
      await settled();
      expect(count()).toBe(1);
      const second = spender.spend(account(await setBalance(store, 200)), 3, 0);
      isLate = false;
      await open();
      const spent = [await first, await second];
      await spender.close();
      const { remaining, totals, reserved } = (await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]!;
      return { spent, books: [remaining, reserved, totals!.spent] };
    }

    it("what the draw brought from the old one serves who asked before, and who asks now draws from the new one", async () => {
      expect(await setDuringDraw(50, "before")).toEqual({
        spent: [
          { ok: true, remaining: 48 },
          { ok: true, remaining: 197 },
        ],
        books: [197, 0, 55],
      });
    });

    it("a draw that the old balance refused refuses nobody who asks now", async () => {
      expect(await setDuringDraw(150, "before")).toEqual({
        spent: [
          { ok: false, remaining: 98 },
          { ok: true, remaining: 197 },
        ],
        books: [197, 0, 5],
      });
    });

    it.each([50, 150])(
      "a draw of %i that reaches the new one is void, and all draw again under a new lease",
      async (cost) => {
        expect(await setDuringDraw(cost, "after")).toEqual({
          spent: [
            { ok: true, remaining: expect.any(Number) as number },
            { ok: true, remaining: 197 - cost },
          ],
          books: [197 - cost, 0, cost + 5],
        });
      },
    );
  });

  it("a store that draws less than the cost is asked for the rest, and nothing is granted before it is there", async () => {
    const { store, record, balance } = await opened(10);
    const costs: number[] = [];
    const spender = leased({
      ...store,
      drawCredits(ref, request) {
        costs.push(request.cost);
        return store.drawCredits(ref, { ...request, cost: 1, step: 1, size: 1 });
      },
    });
    expect(await spender.spend(account(record), 3, 0)).toEqual({ ok: true, remaining: 7 });
    expect(costs).toEqual([3, 2, 1]);
    expect(await spender.spend(account(record), 8, 0)).toEqual({ ok: false, remaining: 7 });
    await spender.close();
    expect(await balance()).toBe(7);
  });

  it("a draw that comes to the store after the end of its lease leaves nothing there", async () => {
    const { store, record, balance } = await opened(100);
    const { pass, open } = gate();
    let isGated = false;
    const spender = leased(
      {
        ...store,
        async drawCredits(ref, request) {
          if (isGated && request.cost > 60) await pass();
          return store.drawCredits(ref, request);
        },
      },
      { size: 4, step: 4 },
    );
    await spender.spend(account(record), 2, 0);
    isGated = true;
    const late = Promise.resolve(spender.spend(account(record), 70, 0));
    await settled();
    const renewed = await setBalance(store, 100);
    // This one finds the lease void, and ends it before the other draw arrives.
    const waiting = Promise.resolve(spender.spend(account(renewed), 5, 0));
    await settled();
    isGated = false;
    await open();
    expect([await late, await waiting].map((spend) => spend?.ok)).toEqual([true, true]);
    await spender.close();
    expect(await balance()).toBe(25);
    const { totals, reserved } = (await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]!;
    expect([totals!.spent, reserved]).toEqual([77, 0]);
  });

  it("after close, spends go straight to the store, and those under way settle", async () => {
    const { store, record, balance } = await opened(10);
    const spender = leased(slow(store).store);
    const spending = spender.spend(account(record), 4, 0);
    await spender.close();
    expect(await spending).toEqual({ ok: true, remaining: 6 });
    expect(await balance()).toBe(6);
    expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: 5 });
    expect(await balance()).toBe(5);
  });
});
