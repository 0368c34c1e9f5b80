/** How much a leased spender draws: steps that grow with use, and a lease that is filled up before it is empty. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { setBalance, settled, storeError, watched } from "./support.js";

describe("leasedSpender: steps", () => {
  it("a key that is used once costs one write, and none to return", async () => {
    const { asked, spend, spender, books } = await watched(100);
    expect(await spend(3)).toEqual({ ok: true, remaining: 97 });
    await spender.close();
    expect(asked).toEqual({ exact: 1, draws: [], returns: [] });
    expect(await books()).toMatchObject({ remaining: 97, reserved: 0, totals: { spent: 3, forfeited: 0 } });
  });

  it.each([
    [1, [2, 4, 8, 16, 32, 40, 40]],
    [3, [6, 12, 24, 40, 40]],
    [50, [40, 40]],
  ])("they begin at the cost of %i and double up to step", async (cost, expected) => {
    const { asked, steps, spendMany, spender, books } = await watched(100_000, { size: 160, step: 40 });
    let calls = 0;
    for (; asked.draws.length < expected.length; calls++) await spendMany(1, cost);
    expect([asked.exact, steps()]).toEqual([1, expected]);
    await spender.close();
    expect(asked.returns).toHaveLength(1);
    expect(await books()).toMatchObject({ remaining: 100_000 - calls * cost, reserved: 0 });
  });

  it("with firstStep they begin there", async () => {
    const { asked, steps, spendMany } = await watched(10_000, { size: 160, step: 40, firstStep: 10 });
    await spendMany(10 + 20 + 40 + 1);
    expect([asked.exact, steps()]).toEqual([0, [10, 20, 40, 40]]);
  });

  it("after the balance is set they go on from the last lease's", async () => {
    const { asked, steps, spend, spendMany, store } = await watched(10_000, { size: 160, step: 40 });
    await spendMany(8);
    await setBalance(store, 500);
    // The key as it was found before: the store tells that its lease is void.
    while (asked.draws.length < 5) await spend();
    expect(steps()).toEqual([2, 4, 8, 16, 16]);
  });

  it("refused or failed draws do not make them grow", async () => {
    const { state, steps, spend, spendMany, spender, balance } = await watched(103, { size: 160, step: 40 });
    await spendMany(3);
    state.failure = storeError();
    for (let i = 0; i < 3; i++) await expect(Promise.resolve(spend())).rejects.toMatchObject({ code: "STORE_BUSY" });
    state.failure = undefined;
    for (let i = 0; i < 3; i++) expect(await spend(101)).toMatchObject({ ok: false });
    expect(await spend()).toEqual({ ok: true, remaining: 99 });
    expect(steps()).toEqual([2, 4, 4, 4, 4, 4, 4, 4]);
    await spender.close();
    expect(await balance()).toBe(99);
  });

  describe("of idle keys", () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
    afterEach(() => void vi.useRealTimers());

    it("shrink back: after ttl without use a key begins again", async () => {
      const { asked, steps, spendMany, spender, balance } = await watched(10_000, { size: 160, step: 40, ttl: 1_000 });
      await spendMany(4);
      vi.advanceTimersByTime(2_000);
      expect([asked.returns.length, await balance()]).toEqual([1, 9_996]);
      await spendMany(2);
      expect([asked.exact, steps()]).toEqual([2, [2, 4, 2]]);
      await spender.close();
      expect(await balance()).toBe(9_994);
    });

    it("end without a write if they were used once", async () => {
      const { asked, spendMany } = await watched(100, { ttl: 1_000 });
      await spendMany(1);
      expect(vi.getTimerCount()).toBe(1);
      vi.advanceTimersByTime(2_000);
      expect(vi.getTimerCount()).toBe(0);
      expect(asked).toEqual({ exact: 1, draws: [], returns: [] });
    });
  });
});

describe("leasedSpender: filling up", () => {
  const FULL = { size: 400, step: 100, firstStep: 100 };

  it("begins with the last quarter, and no call waits for it", async () => {
    const { asked, state, spend, spendMany, open, spender, balance } = await watched(10_000, FULL);
    await spendMany(75);
    state.isGated = true;
    for (let left = 10_000 - 76; left >= 10_000 - 100; left--) expect(spend()).toEqual({ ok: true, remaining: left });
    expect(asked.draws.map(({ cost, step, spent }) => [cost, step, spent])).toEqual([
      [1, 100, 0],
      [1, 76, 76],
    ]);
    await open();
    state.isGated = false;
    expect(spend()).toEqual({ ok: true, remaining: 10_000 - 101 });
    await spender.close();
    expect(await balance()).toBe(10_000 - 101);
  });

  it("who comes when all is spent waits for it, and draws only what it lacks then", async () => {
    const { asked, state, spend, spendMany, open, count, spender, balance } = await watched(10_000, FULL);
    await spendMany(75);
    state.isGated = true;
    const spends = [...Array.from({ length: 30 }, () => spend()), spend(90)];
    expect(count()).toBe(1);
    await open();
    // 76 came: five for those that waited, and of the rest the last lacks nineteen.
    expect([count(), asked.draws.at(-1)!.cost]).toEqual([1, 19]);
    await open();
    for (const spent of await Promise.all(spends)) expect(spent).toMatchObject({ ok: true });
    await spender.close();
    expect(await balance()).toBe(10_000 - 75 - 30 - 90);
  });

  it("never has more than step in memory, which is what a crash loses", async () => {
    for (const options of [FULL, { size: 400, step: 100 }]) {
      const { state, asked, spend } = await watched(100_000, options);
      let granted = 0;
      let most = 0;
      for (let i = 0; i < 2_000; i++) {
        const cost = 1 + (i % 7);
        const first = asked.exact;
        expect(await spend(cost)).toMatchObject({ ok: true });
        granted += asked.exact === first ? cost : 0;
        await settled();
        most = Math.max(most, state.drawn - granted);
      }
      expect(most).toBeGreaterThan(90);
      expect(most).toBeLessThanOrEqual(100);
      // Each but the first few brings three quarters of the step.
      expect(asked.draws.length).toBeLessThan((1.1 * granted) / 75);
    }
  });

  it("fails only who waits for it; the lease goes on", async () => {
    const { state, spend, spendMany, open, spender, balance } = await watched(10_000, FULL);
    await spendMany(75);
    state.isGated = true;
    state.failure = storeError();
    const inHand = Array.from({ length: 25 }, () => spend());
    const waiting = Promise.resolve(spend());
    const failing = expect(waiting).rejects.toMatchObject({ code: "STORE_BUSY" });
    await open();
    await failing;
    for (const spent of inHand) expect(spent).toMatchObject({ ok: true });
    state.isGated = false;
    state.failure = undefined;
    expect(await spend()).toEqual({ ok: true, remaining: 10_000 - 101 });
    await spender.close();
    expect(await balance()).toBe(10_000 - 101);
  });

  it("brings nothing of a balance that was set meanwhile", async () => {
    const { state, spend, spendMany, open, store, spender, books } = await watched(10_000, FULL);
    await spendMany(75);
    state.isGated = true;
    expect(spend()).toMatchObject({ ok: true });
    await setBalance(store, 50);
    await open();
    state.isGated = false;
    expect(await spend()).toEqual({ ok: true, remaining: 49 });
    await spender.close();
    expect(await books()).toMatchObject({ remaining: 49, reserved: 0 });
  });

  it("is waited for by close, which returns what it brought", async () => {
    const { state, spend, spendMany, open, spender, books } = await watched(10_000, FULL);
    await spendMany(75);
    state.isGated = true;
    void spend();
    const closing = spender.close();
    await open();
    await closing;
    expect(await books()).toMatchObject({ remaining: 10_000 - 76, reserved: 0, totals: { spent: 76, forfeited: 0 } });
  });
});
