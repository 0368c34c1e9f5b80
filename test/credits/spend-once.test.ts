/**
 * Spends with an idempotency key: always a step of the store, and what this node has leased does not stand in their
 * way.
 */
import { describe, expect, it } from "vitest";
import type { OnceRecord, Store } from "../../src/contracts/store.js";
import { exactSpender } from "../../src/credits/exact-spender.js";
import type { SpendTarget } from "../../src/credits/spender.js";
import { leasedSpender } from "../../src/credits/leased-spender.js";
import { account, eagerSpender, gate, opened, setBalance, settled } from "./support.js";

const BOUNDS = { maxRecords: 10, maxPerWorkspace: 10 };
const LEASES = { size: 40, step: 20, ttl: 1_000 };
const onceOf = (cost: number, now: number, id: string) => {
  const record: OnceRecord = { workspaceId: "ws_1", id, body: "body", until: 1_000 };
  return { cost, now, once: { record, bounds: BOUNDS } };
};

/** A store of one key, and what it was asked to write. */
async function watched(remaining: number) {
  const bed = await opened(remaining);
  const asked = { once: [] as unknown[][], ended: 0 };
  const store: Store = {
    ...bed.store,
    spendOnce(ref, period, request) {
      asked.once.push([ref, request.cost, period, request.now]);
      return bed.store.spendOnce(ref, period, request);
    },
    returnCredits: (...given) => (asked.ended++, bed.store.returnCredits(...given)),
  };
  return { ...bed, asked, store, one: account(bed.record) };
}

describe.each([
  ["exactSpender", exactSpender],
  ["leasedSpender", (store: Store) => leasedSpender(store, LEASES)],
] as const)("spendOnce: %s", (_name, open) => {
  it("takes and records in one step of the store; a repeat takes nothing", async () => {
    const { store, one, asked, balance } = await watched(100);
    const spender = open(store);
    const spend = async (id: string, target: SpendTarget | undefined) => spender.spendOnce(target, onceOf(30, 5, id));
    expect(await spend("a", one)).toEqual({ outcome: "done", spend: { ok: true, remaining: 70 } });
    expect(await spend("a", one)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 70 } });
    expect(await spend("b", undefined)).toEqual({ outcome: "done", spend: { ok: true, remaining: null } });
    const of = (ref: unknown) => [ref, 30, 0, 5];
    expect(asked.once).toEqual([of(one.ref), of(one.ref), of(undefined)]);
    await spender.close();
    expect([await balance(), spender.creditsForfeited()]).toEqual([70, 0]);
  });

  it("counts by the calendar of the key", async () => {
    const { store, one, asked } = await watched(100);
    const daily = { ...one, refill: { interval: "daily", amount: 5 } } as const;
    const DAY = 86_400_000;
    const stale = { outcome: "done", spend: { ok: false, remaining: 0, stale: true } };
    expect(await open(store).spendOnce(daily, onceOf(1, 3 * DAY, "a"))).toEqual(stale);
    expect(asked.once).toEqual([[one.ref, 1, 32_000_000_003, 3 * DAY]]);
  });

  it("a refusal records nothing: the same call may be repeated", async () => {
    const { store, one } = await watched(10);
    const spend = async () => open(store).spendOnce(one, onceOf(11, 0, "a"));
    for (let i = 0; i < 2; i++) expect(await spend()).toEqual({ outcome: "done", spend: { ok: false, remaining: 10 } });
    await setBalance(store, 20);
    expect(await spend()).toEqual({ outcome: "done", spend: { ok: true, remaining: 9 } });
  });
});

describe("spendOnce: what this node has leased", () => {
  /** One credit spent, 19 in memory, 20 in reserve, and 60 in the balance. */
  async function leasedOne() {
    const bed = await watched(100);
    const spender = eagerSpender(bed.store, LEASES);
    expect(await spender.spend(bed.one, 1, 0)).toEqual({ ok: true, remaining: 99 });
    const spendOnce = async (cost: number, target: SpendTarget = bed.one, id = "a") =>
      spender.spendOnce(target, onceOf(cost, 0, id));
    return { ...bed, spender, spendOnce };
  }
  const done = (ok: boolean, remaining: number) => ({ outcome: "done", spend: { ok, remaining } });

  it("stays where the balance covers the cost without it", async () => {
    const { spendOnce, spender, one, asked, balance } = await leasedOne();
    expect(await spendOnce(60)).toEqual(done(true, 0));
    expect([asked.once.length, asked.ended]).toEqual([1, 0]);
    expect(spender.spend(one, 1, 0)).toMatchObject({ ok: true });
    await spender.close();
    expect(await balance()).toBe(38);
  });

  it("goes back where the balance does not, and the store spends again; a refusal then is one of all there is", async () => {
    const { spendOnce, spender, asked, balance } = await leasedOne();
    expect(await spendOnce(61)).toEqual(done(true, 38));
    expect([asked.once.length, asked.ended]).toEqual([2, 1]);
    expect(await spendOnce(39, undefined, "b")).toEqual(done(false, 38));
    // Nothing is leased any more: the first answer is the last.
    expect([asked.once.length, asked.ended]).toEqual([3, 1]);
    await spender.close();
    expect(await balance()).toBe(38);
  });

  it("is back before the store spends again, also where the store takes its time", async () => {
    const bed = await watched(3_000_000_000);
    const { pass, open, count } = gate();
    const returnCredits: Store["returnCredits"] = async (...given) => {
      await pass();
      return bed.store.returnCredits(...given);
    };
    const sizes = { size: 1_000_000_000, step: 1_000_000_000, firstStep: 1_000_000_000 };
    const spender = leasedSpender({ ...bed.store, returnCredits }, sizes);
    const lease = async () => expect(await spender.spend(bed.one, 1, 0)).toMatchObject({ ok: true });
    await lease();
    const once = spender.spendOnce(bed.one, onceOf(2_900_000_000, 0, "a"));
    await settled();
    expect(count()).toBe(1);
    await open();
    expect(await once).toEqual(done(true, 99_999_999));
    await setBalance(bed.store, 3_000_000_000);
    bed.one.generation = (await bed.store.findKey("digest-1"))!.generation;
    await lease();
    // More than a lease may have is spent exactly, and lacks what was leased.
    const large = spender.spend(bed.one, 2_900_000_000, 0);
    await settled();
    expect(count()).toBe(1);
    await open();
    expect(await large).toEqual({ ok: true, remaining: 99_999_999 });
    await spender.close();
  });

  it("does not go back for a repeat, nor for a key that is to be found again", async () => {
    const { spendOnce, one, asked } = await leasedOne();
    expect(await spendOnce(60)).toEqual(done(true, 0));
    expect(await spendOnce(60)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 0 } });
    const daily = { ...one, refill: { interval: "daily", amount: 5 } } as const;
    expect(await spendOnce(90, daily, "b")).toMatchObject({ outcome: "done", spend: { ok: false, stale: true } });
    expect([asked.once.length, asked.ended]).toEqual([3, 0]);
  });

  it("a key that was used and never leased has nothing to give back", async () => {
    const { store, one, asked } = await watched(10);
    const spender = leasedSpender(store, LEASES);
    expect(await spender.spend(one, 1, 0)).toEqual({ ok: true, remaining: 9 });
    expect(await spender.spendOnce(one, onceOf(10, 0, "a"))).toEqual(done(false, 9));
    expect([asked.once.length, asked.ended]).toEqual([1, 0]);
  });

  it("a key that is gone has no answer, and gives nothing back", async () => {
    const { spendOnce, asked, record } = await leasedOne();
    expect(await spendOnce(90, account({ ...record, ref: "key_999999" }))).toEqual({ outcome: "done" });
    expect([asked.once.length, asked.ended]).toEqual([1, 0]);
  });
});

describe("what this node has leased, while its lease is filled up", () => {
  const TOTAL = 3_000_000_000;
  /** 76 credits spent of a lease of 100, so that one draw is in flight that no call waits for. */
  async function filling() {
    const bed = await watched(TOTAL);
    const { pass, open, count } = gate();
    const state = { draws: 0, failure: undefined as Error | undefined };
    const drawCredits: Store["drawCredits"] = async (...given) => {
      if (state.draws++ > 0) await pass();
      if (state.failure !== undefined) throw state.failure;
      return bed.store.drawCredits(...given);
    };
    const spender = leasedSpender({ ...bed.store, drawCredits }, { size: 400, step: 100, firstStep: 100, ttl: 1_000 });
    for (let i = 0; i < 76; i++) expect(await spender.spend(bed.one, 1, 0)).toMatchObject({ ok: true });
    expect([state.draws, count()]).toEqual([2, 1]);
    return { ...bed, spender, state, open, count, left: TOTAL - 76 };
  }
  type Filling = Awaited<ReturnType<typeof filling>>;
  const ways: [string, (bed: Filling, cost: number) => Promise<unknown>][] = [
    [
      "a call with an idempotency key",
      async ({ spender, one }, cost) => (await spender.spendOnce(one, onceOf(cost, 0, "a"))).spend,
    ],
    ["a cost above what a lease may have", async ({ spender, one }, cost) => spender.spend(one, cost, 0)],
  ];

  it.each(ways)("%s waits for the draw, and is served", async (_name, spend) => {
    const bed = await filling();
    const spending = spend(bed, bed.left - 10);
    await settled();
    await bed.open();
    expect(await spending).toEqual({ ok: true, remaining: 10 });
    await bed.spender.close();
    expect(await bed.balance()).toBe(10);
  });

  it.each(ways)("%s is refused by all there is", async (_name, spend) => {
    const bed = await filling();
    const spending = spend(bed, bed.left + 1);
    await settled();
    await bed.open();
    expect(await spending).toEqual({ ok: false, remaining: bed.left });
    await bed.spender.close();
    expect(await bed.balance()).toBe(bed.left);
  });

  it.each(ways)("%s is served also where the draw fails", async (_name, spend) => {
    const bed = await filling();
    bed.state.failure = new Error("planted failure");
    const spending = spend(bed, bed.left - 10);
    await settled();
    await bed.open();
    expect(await spending).toEqual({ ok: true, remaining: 10 });
    await bed.spender.close();
    expect(await bed.balance()).toBe(10);
  });

  it("calls with idempotency keys and others take turns", async () => {
    const bed = await filling();
    const [spendOnce, spendLarge] = [ways[0]![1], ways[1]![1]];
    const spends = [spendOnce(bed, bed.left + 1), bed.spender.spend(bed.one, 150, 0), spendLarge(bed, bed.left + 2)];
    for (let i = 0; i < 3; i++) {
      await settled();
      spends.push(spendLarge(bed, bed.left + 3 + i), Promise.resolve(bed.spender.spend(bed.one, 30, 0)));
      await bed.open();
    }
    while (bed.count() > 0) await bed.open();
    const results = (await Promise.all(spends)) as { readonly ok: boolean }[];
    expect(results.map(({ ok }) => ok)).toEqual([false, true, false, false, true, false, true, false, true]);
    await bed.spender.close();
    expect(await bed.balance()).toBe(bed.left - 150 - 90);
  });

  it.each(ways)("%s waits for no further draw, where other calls need one", async (_name, spend) => {
    const bed = await filling();
    const spending = spend(bed, bed.left - 200);
    // 24 are in hand.
    const other = bed.spender.spend(bed.one, 150, 0);
    await settled();
    await bed.open();
    expect(await spending).toEqual({ ok: true, remaining: 200 });
    await bed.open();
    expect(await other).toMatchObject({ ok: true, remaining: 50 });
    await bed.spender.close();
    expect(await bed.balance()).toBe(50);
  });
});

describe("what this node has leased, on a store whose answers come later than its changes", () => {
  async function leasing() {
    const bed = await watched(100);
    const later = async <T>(work: () => T): Promise<Awaited<T>> => {
      await settled();
      const result = await work();
      await settled();
      return result;
    };
    const store: Store = {
      ...bed.store,
      spendOnce: (...given) => later(() => bed.store.spendOnce(...given)),
      drawCredits: (...given) => later(() => bed.store.drawCredits(...given)),
      returnCredits: (...given) => later(() => bed.store.returnCredits(...given)),
    };
    const spender = leasedSpender(store, { size: 100, step: 25, firstStep: 25, ttl: 1_000 });
    const spendOnce = async (cost: number, id: string) => (await spender.spendOnce(bed.one, onceOf(cost, 0, id))).spend;
    return { ...bed, spender, spendOnce };
  }

  it("two calls with idempotency keys at once are both served by what one of them gives back", async () => {
    const { spender, spendOnce, one, balance } = await leasing();
    await spender.spend(one, 1, 0);
    await spendOnce(50, "first");
    expect(await Promise.all([spendOnce(10, "a"), spendOnce(10, "b")])).toEqual([
      { ok: true, remaining: 39 },
      { ok: true, remaining: 29 },
    ]);
    await spender.close();
    expect(await balance()).toBe(29);
  });

  it("a call that comes while a lease goes back draws afterwards", async () => {
    const { spender, spendOnce, one, balance } = await leasing();
    await spender.spend(one, 1, 0);
    const once = spendOnce(90, "a");
    for (let i = 0; i < 3; i++) await settled();
    const other = spender.spend(one, 1, 0);
    expect(await once).toEqual({ ok: true, remaining: 9 });
    expect(await other).toEqual({ ok: true, remaining: 8 });
    await spender.close();
    expect(await balance()).toBe(8);
  });

  it("a call waits for the key's first draw; so does close, for the call", async () => {
    const { spender, spendOnce, one, balance } = await leasing();
    const first = spender.spend(one, 1, 0);
    const once = spendOnce(90, "a");
    await first;
    await settled();
    await spender.close();
    expect(await balance()).toBe(9);
    expect(await once).toEqual({ ok: true, remaining: 9 });
  });
});

describe("exactSpender: a store that answers later", () => {
  it("its answer is that of the store, whatever makes it wait", async () => {
    const { store, one } = await watched(100);
    const { pass, open } = gate();
    const late = exactSpender({
      ...store,
      spendCredits: (...given) => pass().then(() => store.spendCredits(...given)),
    });
    const spending = Promise.resolve(late.spend(one, 5, 0));
    await settled();
    await open();
    expect(await spending).toEqual({ ok: true, remaining: 95 });
    expect(late.creditsForfeited()).toBe(0);
  });
});
