/** When leases go back, seen through the spender. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createLeaseManager } from "../../src/credits/lease-manager.js";
import { NONE } from "../../src/lib/fingerprint-index.js";
import { memoryStore } from "../../src/stores/memory.js";
import { eagerSpender, accountOf, opened, slow, storeError, account as toAccount } from "./support.js";

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

describe("createLeaseManager", () => {
  /** A manager, and the ends that its store is told of. */
  function managed(keys = 2) {
    const ended: unknown[][] = [];
    const store: Store = {
      ...memoryStore(),
      returnCredits: (ref, { holder, spent }) => void ended.push([ref, holder, spent]),
    };
    const manager = createLeaseManager(store, { node: () => "node_1", keys, ttl: 1_000, closeTimeout: 0 });
    const drawn = (entry: number, credits: number) => {
      manager.table.deposit(entry, credits);
      manager.table.refresh(entry, 1, 0);
    };
    return { manager, ended, drawn };
  }

  it("a lease that a draw holds does not end meanwhile, and afterwards only if it has drawn nothing", () => {
    const { manager, ended, drawn } = managed();
    const entry = manager.hold(7);
    drawn(entry, 5);
    void manager.end(7);
    expect([ended, manager.table.find(7)]).toEqual([[], entry]);
    manager.release(7);
    expect(manager.table.find(7)).toBe(entry);
    void manager.end(7);
    expect([ended, manager.table.find(7)]).toEqual([[[7, "node_1.1", 0]], NONE]);
    // One that never drew is unknown to the store.
    manager.hold(8);
    manager.release(8);
    expect([ended.length, manager.table.find(8)]).toEqual([1, NONE]);
  });

  it("at the bound a lease that is held is not evicted; where all are held there is no space", () => {
    const { manager, ended, drawn } = managed(2);
    for (const ref of [1, 2]) drawn(manager.hold(ref), 5);
    expect([manager.hold(3), ended]).toEqual([NONE, []]);
    manager.release(2);
    expect(manager.hold(3)).not.toBe(NONE);
    expect(ended).toEqual([[2, "node_1.2", 0]]);
    expect(manager.table.find(1)).not.toBe(NONE);
  });

  it("a key without a lease has none to end", () => {
    const { manager, ended, drawn } = managed();
    drawn(manager.hold(7), 5);
    for (const act of [manager.end, manager.release]) act(99);
    expect([ended, manager.table.count]).toEqual([[], 1]);
  });

  it("looks at 32 leases to find one to evict; the next that needs one looks on from there", () => {
    const { manager, ended, drawn } = managed(40);
    for (let ref = 1; ref <= 40; ref++) drawn(manager.hold(ref), 5);
    for (let ref = 33; ref <= 40; ref++) manager.release(ref);
    expect([manager.hold(99), ended]).toEqual([NONE, []]);
    expect([manager.hold(99) === NONE, ended]).toEqual([false, [[33, "node_1.33", 0]]]);
  });

  it("while a thousand returns wait, only keys may lease that have a lease, or a draw in flight", () => {
    let isBusy = true;
    const store: Store = {
      ...memoryStore(),
      returnCredits() {
        if (isBusy) throw storeError();
      },
    };
    const options = { node: () => "node_1", keys: 10, ttl: 1_000, closeTimeout: 0 };
    const manager = createLeaseManager(store, options);
    manager.table.refresh(manager.hold(1), 1, 0);
    manager.release(1);
    // Spent from once, and not leased.
    manager.table.noteStep(manager.hold(2), 1);
    manager.release(2);
    manager.hold(3);
    const may = () => [1, 2, 3, 4].map((ref) => manager.mayLease(ref));
    for (let i = 0; i < 1_000; i++) {
      expect(may()).toEqual([true, true, true, true]);
      void manager.returns.add({ ref: 5, holder: `node_1.${i + 10}`, spent: 0, credits: 1 });
    }
    expect(may()).toEqual([true, false, true, false]);
    isBusy = false;
    manager.returns.retry(5);
    expect(may()).toEqual([true, true, true, true]);
  });

  it("renews a held lease: its end tells what it spent, and the next has another id and nothing of it", async () => {
    const { manager, ended, drawn } = managed();
    const entry = manager.hold(7);
    drawn(entry, 5);
    manager.table.take(entry, 7, 1, 2);
    void manager.renew(entry);
    expect(ended).toEqual([[7, "node_1.1", 2]]);
    const { table } = manager;
    expect([manager.holderOf(entry), table.inHand(entry), table.spent(entry)]).toEqual(["node_1.2", 0, 0]);
    drawn(entry, 3);
    manager.release(7);
    await manager.close();
    expect(ended.slice(1)).toEqual([[7, "node_1.2", 0]]);
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
