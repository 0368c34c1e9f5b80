import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { exactSpender, leasedSpender, type LeaseOptions } from "../src/leases.js";
import type { KeyRecord, Store } from "../src/store.js";
import { memoryStore } from "../src/stores/memory.js";
import { keyRow } from "./stores/suite.js";

const API = { id: "api_1", workspaceId: "ws_1", version: 0, name: "docs", enabled: true, ipAllowlist: [], deleted: false, createdAt: 0 };

async function opened(remaining = 100, refill = { amount: 0, period: 0 }) {
  const store = memoryStore();
  await store.write([{ table: "apis", row: API }]);
  await store.insertKeys([{ row: keyRow(1, { limited: true }), balance: { remaining, ...refill } }]);
  const record = (await store.findKey("digest-1"))!;
  return { store, record, balance: async () => (await store.readBalance("key_000001", 0))?.remaining };
}

/** Counts draws, and makes each take a turn. */
function slow(store: Store): { store: Store; draws: () => number } {
  let draws = 0;
  return {
    draws: () => draws,
    store: {
      ...store,
      async drawCredits(ref, request) {
        draws++;
        await new Promise((resolve) => setImmediate(resolve));
        return store.drawCredits(ref, request);
      },
    },
  };
}

async function setBalance(store: Store, remaining: number | null): Promise<KeyRecord> {
  const row = (await store.read("keys", "key_000001"))!;
  await store.write([{ table: "keys", row: { ...row, generation: row.generation + 1 }, credits: { period: 0, remaining } }]);
  return (await store.findKey("digest-1"))!;
}

const account = (record: KeyRecord) => ({ record, lease: undefined });
const leased = (store: Store, options: LeaseOptions = {}) => leasedSpender(store, options);

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
    const answers = await Promise.all(Array.from({ length: 600 }, (_, i) => nodes[i % 4]!.spend(account(record), 1, 0)));
    const granted = answers.filter((answer) => answer?.ok).length;
    expect(granted).toBe(600);
    expect(await balance()).toBeLessThan(400);
    for (const node of nodes) await node.close();
    expect(await balance()).toBe(400);
  });

  it("answers the balance after each spend (ruling A6)", async () => {
    const { store, record } = await opened(10);
    const spender = leased(store, { size: 8, step: 4 });
    for (let left = 9; left >= 0; left--) expect(await spender.spend(account(record), 1, 0)).toEqual({ ok: true, remaining: left });
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

  it("a key that became unlimited, or is gone, is said to be", async () => {
    const { store, record } = await opened(5);
    const spender = leased(store);
    await setBalance(store, null);
    expect(await spender.spend(account(record), 50, 0)).toEqual({ ok: true, remaining: null });
    const row = (await store.read("keys", "key_000001"))!;
    await store.write([{ table: "keys", remove: row.id, version: row.version }]);
    expect(await leased(store).spend(account(record), 1, 0)).toBeUndefined();
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

  it("a store that fails to take credits back breaks nothing: they count as spent", async () => {
    const { store, record } = await opened(10);
    const spender = leased({
      ...store,
      returnCredits() {
        throw new Error("disk");
      },
    });
    await spender.spend(account(record), 1, 0);
    await expect(spender.close()).resolves.toBeUndefined();
  });

  it("no more keys are leased than `keys`: for one more the one leased longest is given back, unless it is drawing", async () => {
    const { store } = await opened(50);
    await store.insertKeys([2, 3].map((n) => ({ row: keyRow(n, { limited: true }), balance: { remaining: 50, amount: 0, period: 0 } })));
    const accounts = await Promise.all([1, 2, 3].map(async (n) => account((await store.findKey(`digest-${n}`))!)));
    const spender = leased(slow(store).store, { keys: 2, size: 8, step: 4 });
    const balances = () => Promise.all([1, 2, 3].map(async (n) => (await store.readBalance(`key_00000${n}`, 0))?.remaining));
    await spender.spend(accounts[0]!, 1, 0);
    const drawing = spender.spend(accounts[1]!, 1, 0);
    await spender.spend(accounts[2]!, 1, 0);
    await drawing;
    expect((await balances())[0]).toBe(49);
    expect(await spender.spend(accounts[0]!, 1, 0)).toEqual({ ok: true, remaining: 48 });
    await spender.close();
    expect(await balances()).toEqual([48, 49, 49]);
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

describe("leasedSpender: idle leases", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  it("go back after ttl without use; those in use stay", async () => {
    const { store, record, balance } = await opened(100);
    const spender = leased(store, { size: 40, step: 10, ttl: 1_000 });
    const now = 0;
    await spender.spend(account(record), 1, now);
    vi.advanceTimersByTime(1_000);
    await spender.spend(account(record), 1, now);
    vi.advanceTimersByTime(1_000);
    expect(await balance()).toBeLessThan(98);
    vi.advanceTimersByTime(1_000);
    expect(await balance()).toBe(98);
    expect(vi.getTimerCount()).toBe(0);
    expect(await spender.spend(account(record), 1, now)).toMatchObject({ ok: true, remaining: 97 });
    await spender.close();
    expect(vi.getTimerCount()).toBe(0);
    expect(await balance()).toBe(97);
  });
});
