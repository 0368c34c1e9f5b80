/** When leases go back, seen through the spender. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { KeyRef, Store } from "../../src/contracts/store.js";
import { exactSpender } from "../../src/credits/exact-spender.js";
import { LeaseManager } from "../../src/credits/lease-manager.js";
import { memoryStore } from "../../src/stores/memory.js";
import { eagerSpender, accountOf, gate, opened, settled, slow, storeError, account as toAccount } from "./support.js";

describe("leasedSpender: at the bound", () => {
  it("for one more key the one leased longest is given back", async () => {
    const { store, balance } = await opened(50, 4);
    const spender = eagerSpender(store, { keys: 2, size: 8, step: 4 });
    const held: number[][] = [];
    for (const n of [1, 2, 3, 4, 3, 1]) {
      await spender.spend(await accountOf(store, n), 1, 0);
      const balances = await Promise.all([1, 2, 3, 4].map((each) => balance(each)));
      held.push([1, 2, 3, 4].filter((each) => balances[each - 1]! < 48));
    }
    expect(held).toEqual([[1], [1, 2], [2, 3], [3, 4], [3, 4], [1, 4]]);
    await spender.close();
    expect(await Promise.all([1, 2, 3, 4].map((n) => balance(n)))).toEqual([48, 49, 48, 49]);
  });

  it("one that is drawing is passed over", async () => {
    const { store, balance } = await opened(50, 3);
    const spender = eagerSpender(slow(store).store, { keys: 2, size: 8, step: 4 });
    const [one, two, three] = await Promise.all([1, 2, 3].map((n) => accountOf(store, n)));
    await spender.spend(one!, 1, 0);
    await spender.spend(two!, 1, 0);
    const newcomer = spender.spend(three!, 1, 0);
    const drawing = spender.spend(one!, 20, 0);
    await newcomer;
    expect(await balance(2)).toBe(49);
    expect(await drawing).toEqual({ ok: true, remaining: 29 });
    await spender.close();
    expect(await Promise.all([1, 2, 3].map((n) => balance(n)))).toEqual([29, 49, 49]);
  });

  it("unless all are; then a newcomer spends exactly", async () => {
    const { store, balance } = await opened(50, 2);
    const spender = eagerSpender(slow(store).store, { keys: 1, size: 8, step: 4 });
    const [one, two] = await Promise.all([1, 2].map((n) => accountOf(store, n)));
    await spender.spend(one!, 1, 0);
    const newcomer = spender.spend(two!, 1, 0);
    const drawing = spender.spend(one!, 20, 0);
    expect(await newcomer).toEqual({ ok: true, remaining: 49 });
    expect(await drawing).toEqual({ ok: true, remaining: 29 });
    await spender.close();
    expect([await balance(1), await balance(2)]).toEqual([29, 49]);
  });
});

describe("LeaseManager", () => {
  /** A manager, ways to lease, and the ends that its store is told of. */
  function managed(keys = 2) {
    const ended: unknown[][] = [];
    const { pass, open } = gate();
    const state = { isGated: false, failure: undefined as Error | undefined };
    const store: Store = {
      ...memoryStore(),
      async drawCredits(_ref, { cost }) {
        if (state.isGated) await pass();
        return { drawn: Math.max(cost, 5), generation: 1, remaining: 100 };
      },
      returnCredits(ref, { holder, spent }) {
        if (state.failure !== undefined) throw state.failure;
        ended.push([ref, holder.replace(/^node_\w+/, "node"), spent]);
      },
    };
    const sizes = { size: 5, step: 5, firstStep: 5, ttl: 1_000, keys, closeTimeout: 0 };
    const manager = new LeaseManager(store, exactSpender(store), sizes);
    const draw = (ref: KeyRef, cost = 1) =>
      manager.findOrBegin(ref)?.draw(toAccount({ ref, generation: 1 }), cost, 0) ??
      Promise.reject(new Error("no space"));
    return { manager, ended, state, open, draw };
  }

  it("a lease that is drawing does not end meanwhile, and ends afterwards if it has drawn nothing", async () => {
    const { manager, ended, state, open, draw } = managed();
    state.isGated = true;
    const drawing = draw(7);
    const lease = manager.find(7)!;
    expect([lease.state, lease.end(), lease.state, ended]).toEqual(["drawing", undefined, "drawing", []]);
    await open();
    await drawing;
    expect([lease.state, lease.available, manager.find(7) === lease]).toEqual(["open", 4, true]);
    void lease.end();
    void lease.end();
    expect([lease.state, lease.available, manager.find(7), ended]).toEqual(["ended", 0, undefined, [[7, "node.1", 1]]]);
    // One that never drew is unknown to the store.
    await manager.findOrBegin(8)!.withdraw(() => undefined);
    await settled();
    expect([ended.length, manager.find(8)]).toEqual([1, undefined]);
  });

  it("an ended lease has nothing for those who remember it, whatever the cost", async () => {
    const { manager, draw } = managed();
    await draw(7);
    const lease = manager.find(7)!;
    expect(lease.take(1, 0, 0)).toEqual({ ok: true, remaining: 104 });
    void lease.end();
    expect([lease.take(1, 0, 0), lease.take(0, 1, 0)]).toEqual([undefined, undefined]);
    expect(manager.findOrBegin(7)).not.toBe(lease);
  });

  it("at the bound a lease that is drawing is not evicted; where all are there is no space", async () => {
    const { manager, ended, state, open, draw } = managed(2);
    await draw(1);
    await draw(2);
    state.isGated = true;
    const drawing = [1, 2].map((ref) => draw(ref, 9));
    expect([manager.findOrBegin(3), ended]).toEqual([undefined, []]);
    await open();
    await Promise.all(drawing);
    expect(manager.findOrBegin(3)?.state).toBe("empty");
    expect(ended).toEqual([[1, "node.1", 10]]);
    expect(manager.find(2)?.state).toBe("open");
  });

  it("looks at 32 leases to find one to evict; the next that needs one looks on from there", async () => {
    const { manager, ended, state, draw } = managed(40);
    for (let ref = 1; ref <= 40; ref++) await draw(ref);
    state.isGated = true;
    for (let ref = 1; ref <= 32; ref++) void draw(ref, 9);
    expect([manager.findOrBegin(99), ended]).toEqual([undefined, []]);
    expect([manager.findOrBegin(99)?.state, ended]).toEqual(["empty", [[33, "node.33", 1]]]);
  });

  it("at the bound who came first has its turn first, and a newcomer waits a whole round", async () => {
    const { ended, draw } = managed(3);
    for (const ref of [10, 11, 12, 13, 14, 15, 16, 17]) await draw(ref);
    expect(ended.map(([ref]) => ref)).toEqual([10, 11, 12, 13, 14]);
  });

  it("while a thousand returns wait, only keys may draw that have a lease, or a draw in flight", async () => {
    const { manager, state, draw } = managed(10);
    state.failure = storeError();
    await draw(1);
    expect(manager.findOrBegin(2)?.state).toBe("empty");
    state.isGated = true;
    void draw(3);
    const may = () => [1, 2, 3, 4].map((ref) => manager.findOrBegin(ref) !== undefined);
    for (let i = 0; i < 1_000; i++) {
      expect(may()).toEqual([true, true, true, true]);
      void manager.returns.add({ ref: 5, holder: `node_1.${i + 10}`, spent: 0, credits: 1 });
    }
    expect(may()).toEqual([true, false, true, false]);
    state.failure = undefined;
    manager.returns.retry(5);
    expect(may()).toEqual([true, true, true, true]);
  });

  it.each<KeyRef[]>([
    [7, 8],
    ["seven", "eight"],
    [7, "7"],
    [0.5, 1.5],
    [0, 2 ** 32],
    ["__proto__", ""],
  ])("a key has its own lease: %s and %s", async (one, two) => {
    const { manager, draw } = managed();
    await draw(one);
    expect(manager.find(two)).toBeUndefined();
    await draw(two);
    await draw(two);
    expect([manager.find(one)?.available, manager.find(two)?.available]).toEqual([4, 3]);
  });
});

describe("leasedSpender: idle leases", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  it("go back after ttl without use; those in use stay", async () => {
    const { store, balance } = await opened(100);
    const spender = eagerSpender(store, { size: 40, step: 10, ttl: 1_000 });
    const account = () => accountOf(store, 1);
    await spender.spend(await account(), 1, 0);
    vi.advanceTimersByTime(1_000);
    await spender.spend(await account(), 1, 0);
    vi.advanceTimersByTime(1_000);
    expect(await balance()).toBeLessThan(98);
    vi.advanceTimersByTime(1_000);
    expect(await balance()).toBe(98);
    expect(vi.getTimerCount()).toBe(0);
    expect(await spender.spend(await account(), 1, 0)).toMatchObject({ ok: true, remaining: 97 });
    expect(vi.getTimerCount()).toBe(1);
    await spender.close();
    expect(vi.getTimerCount()).toBe(0);
    expect(await balance()).toBe(97);
  });

  it("one that is drawing stays", async () => {
    const { store, balance } = await opened(100);
    const returned: unknown[] = [];
    const watched: Store = {
      ...slow(store).store,
      returnCredits: (...given) => void returned.push(given[0], store.returnCredits(...given)),
    };
    const spender = eagerSpender(watched, { size: 40, step: 10, ttl: 1_000 });
    const account = await accountOf(store, 1);
    await spender.spend(account, 1, 0);
    vi.advanceTimersByTime(1_000);
    const drawing = spender.spend(account, 30, 0);
    vi.advanceTimersByTime(1_000);
    expect(returned).toEqual([]);
    expect(await drawing).toEqual({ ok: true, remaining: 69 });
    await spender.close();
    expect(await balance()).toBe(69);
  });

  /**
   * A spender of keys 0…`keys` − 1, all leased, on a store that only counts: refs that are numbers, and credits without
   * end.
   */
  async function crowd(keys: number) {
    const counts = { returned: 0, underWay: 0, most: 0 };
    const { store } = await opened();
    const counting: Store = {
      ...store,
      drawCredits: (_ref, { cost, step }) => ({ drawn: Math.max(cost, step), generation: 0, remaining: 100 }),
      async returnCredits() {
        counts.returned++;
        counts.most = Math.max(counts.most, ++counts.underWay);
        await Promise.resolve();
        counts.underWay--;
      },
    };
    const spender = eagerSpender(counting, { keys, ttl: 1_000 });
    for (let ref = 0; ref < keys; ref++) await spender.spend(toAccount({ ref, generation: 0 }), 1, 0);
    return { spender, counts };
  }

  it("go back some in each turn of the event loop, the rest in the next", async () => {
    const { spender, counts } = await crowd(2_500);
    vi.advanceTimersByTime(1_999);
    expect(counts.returned).toBe(0);
    vi.advanceTimersToNextTimer();
    expect(counts.returned).toBeGreaterThan(900);
    expect(counts.returned).toBeLessThanOrEqual(1_000);
    vi.advanceTimersToNextTimer();
    expect(counts.returned).toBeLessThanOrEqual(2_000);
    vi.advanceTimersByTime(10);
    expect(counts.returned).toBe(2_500);
    await spender.spend(toAccount({ ref: 2_499, generation: 0 }), 1, 0);
    vi.advanceTimersByTime(2_000);
    expect(counts.returned).toBe(2_501);
    await spender.close();
  });

  it("a close gives back some at once, the rest when those are back", async () => {
    const { spender, counts } = await crowd(2_500);
    await spender.close();
    expect(counts).toEqual({ returned: 2_500, underWay: 0, most: 1_000 });
    expect(vi.getTimerCount()).toBe(0);
  });
});
