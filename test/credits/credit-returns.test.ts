/** Returns that fail, seen through the spender: what is tried again, what is given up, and what `close` says of it. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { KeystileErrorCode } from "../../src/contracts/errors.js";
import type { KeyRef, Store } from "../../src/contracts/store.js";
import { creditReturns } from "../../src/credits/credit-returns.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createVerifier } from "../../src/verify/verifier.js";
import {
  eagerSpender,
  account,
  accountOf,
  gate,
  hindered,
  opened,
  removeKey,
  setBalance,
  settled,
  storeError,
} from "./support.js";

const CODES: readonly KeystileErrorCode[] = [
  "STORE_BUSY",
  "STORE_FULL",
  "STORE_READ_ONLY",
  "STORE_FAILED",
  "STORE_INVALID",
];
const FAILURES: readonly (readonly [string, Error])[] = [
  ...CODES.map((code) => [code, storeError(code)] as const),
  ["an error of no store", new Error("no answer")],
  ["a RangeError", new RangeError("spent")],
];
const LEASES = { size: 40, step: 20, ttl: 1_000 };

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** What a promise has come to so far. */
function watch(promise: unknown): { state: string; error: unknown } {
  const watched: { state: string; error: unknown } = { state: "waiting", error: undefined };
  void Promise.resolve(promise).then(
    () => (watched.state = "resolved"),
    (error: unknown) => Object.assign(watched, { state: "rejected", error }),
  );
  return watched;
}

/** A spender with one lease of 100 credits: one spent, 19 in hand, 20 in reserve. */
async function leasedOne(options: object = {}) {
  const bed = await opened(100);
  const hinder = hindered(bed.store);
  const spender = eagerSpender(hinder.store, { ...LEASES, ...options });
  const one = account(bed.record);
  expect(await spender.spend(one, 1, 0)).toEqual({ ok: true, remaining: 99 });
  expect(await bed.balance()).toBe(60);
  return { ...bed, hinder, spender, one };
}

describe("returns that fail: tried again", () => {
  it.each(FAILURES)(
    "an idle return that fails with %s goes back when the store takes it, and nothing else is left waiting",
    async (_what, error) => {
      const { hinder, spender, balance } = await leasedOne();
      hinder.returns = error;
      await vi.advanceTimersByTimeAsync(6_000);
      expect(await balance()).toBe(60);
      hinder.returns = undefined;
      await vi.advanceTimersByTimeAsync(1_000);
      expect([await balance(), spender.creditsForfeited(), vi.getTimerCount()]).toEqual([99, 0, 0]);
      await spender.close();
      expect(await balance()).toBe(99);
    },
  );

  it("attempts become rare while the store takes nothing, up to one a second", async () => {
    const { hinder } = await leasedOne();
    hinder.returns = storeError();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(hinder.asked.returns).toBe(1);
    await vi.advanceTimersByTimeAsync(1_500);
    expect(hinder.asked.returns).toBeLessThan(10);
    const before = hinder.asked.returns;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(hinder.asked.returns - before).toBeGreaterThan(50);
    expect(hinder.asked.returns - before).toBeLessThan(65);
  });

  it("close waits until a lock of 6 s is gone, and all is back", async () => {
    const { hinder, spender, balance } = await leasedOne();
    hinder.returns = storeError();
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(6_000);
    expect([closing.state, await balance()]).toEqual(["waiting", 60]);
    hinder.returns = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect([closing.state, await balance(), vi.getTimerCount()]).toEqual(["resolved", 99, 0]);
  });

  it("a return that fails in the middle of tidying stops none of the others", async () => {
    const { store, balance } = await opened(100, 5);
    const [, , third] = await Promise.all([1, 2, 3, 4, 5].map((n) => accountOf(store, n)));
    let isBusy = true;
    const spender = eagerSpender(
      {
        ...store,
        returnCredits(ref, ...given) {
          if (isBusy && ref === third!.ref) throw storeError();
          return store.returnCredits(ref, ...given);
        },
      },
      LEASES,
    );
    for (let n = 1; n <= 5; n++) await spender.spend(await accountOf(store, n), 1, 0);
    const balances = () => Promise.all([1, 2, 3, 4, 5].map((n) => balance(n)));
    await vi.advanceTimersByTimeAsync(2_500);
    expect(await balances()).toEqual([99, 99, 60, 99, 99]);
    isBusy = false;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await balances()).toEqual([99, 99, 99, 99, 99]);
    await spender.close();
  });

  it("a key that is used again gets at what waits to go back", async () => {
    const { store, record, balance } = await opened(20);
    const hinder = hindered(store);
    const spender = eagerSpender(hinder.store, { size: 20, step: 20, ttl: 1_000 });
    const one = account(record);
    expect(await spender.spend(one, 15, 0)).toEqual({ ok: true, remaining: 5 });
    expect(await spender.spend(one, 4, 0)).toEqual({ ok: true, remaining: 1 });
    hinder.returns = storeError();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(hinder.asked.returns).toBeGreaterThan(1);
    hinder.returns = undefined;
    expect(await spender.spend(one, 1, 0)).toEqual({ ok: true, remaining: 0 });
    await spender.close();
    expect(await balance()).toBe(0);
  });

  it("what a draw that failed had in hand stays, and goes back when it is idle", async () => {
    const { hinder, spender, one, balance } = await leasedOne();
    hinder.draws = hinder.returns = storeError();
    await expect(Promise.resolve(spender.spend(one, 30, 0))).rejects.toMatchObject({ code: "STORE_BUSY" });
    hinder.draws = hinder.returns = undefined;
    expect(spender.spend(one, 0, 0)).toEqual({ ok: true, remaining: 99 });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await balance()).toBe(99);
    expect(await spender.spend(one, 99, 0)).toEqual({ ok: true, remaining: 0 });
    await spender.close();
    expect(await balance()).toBe(0);
  });
});

describe("returns that fail: given up", () => {
  it("a failure after the commit is tried again, and makes no credit of nothing", async () => {
    const { store, record, balance } = await opened(100);
    let attempts = 0;
    const spender = eagerSpender(
      {
        ...store,
        async returnCredits(...given) {
          await store.returnCredits(...given);
          if (++attempts < 5) throw storeError("STORE_FAILED");
        },
      },
      LEASES,
    );
    await spender.spend(account(record), 1, 0);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([attempts, await balance(), spender.creditsForfeited()]).toEqual([5, 99, 0]);
    await spender.close();
    expect(await balance()).toBe(99);
  });

  it("a store that was closed ends it at once: nothing is tried again, and close says what is lost", async () => {
    const { store, balance } = await opened(100, 3);
    const hinder = hindered(store);
    const spender = eagerSpender(hinder.store, LEASES);
    for (let n = 1; n <= 3; n++) await spender.spend(await accountOf(store, n), 1, 0);
    hinder.returns = storeError();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(hinder.asked.returns).toBe(3);
    hinder.returns = storeError("STORE_CLOSED");
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(1_000);
    expect(closing.state).toBe("rejected");
    expect(closing.error).toMatchObject({ code: "CREDITS_NOT_RETURNED", cause: { code: "STORE_CLOSED" } });
    expect(String(closing.error)).toContain("57 leased credits (leases: 3, spends in flight: 0)");
    const { returns } = hinder.asked;
    await vi.advanceTimersByTimeAsync(60_000);
    expect([hinder.asked.returns, spender.creditsForfeited(), vi.getTimerCount()]).toEqual([returns, 57, 0]);
    expect(await balance()).toBe(60);
  });

  it("a key that was deleted meanwhile ends it quietly, and so does a balance that was set", async () => {
    for (const [act, expected] of [
      [removeKey, undefined],
      [(store: Store) => setBalance(store, 7), 7],
    ] as const) {
      const { store, hinder, spender, balance } = await leasedOne();
      hinder.returns = storeError();
      await vi.advanceTimersByTimeAsync(2_000);
      await act(store);
      hinder.returns = undefined;
      await vi.advanceTimersByTimeAsync(1_000);
      expect([await balance(), spender.creditsForfeited(), vi.getTimerCount()]).toEqual([expected, 0, 0]);
      await spender.close();
    }
  });
});

describe("returns that fail: close", () => {
  it("rejects after closeTimeout with what is still out; an attempt that succeeds later is no loss", async () => {
    const { hinder, spender, balance } = await leasedOne({ closeTimeout: 3_000 });
    hinder.returns = storeError();
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(2_999);
    expect(closing.state).toBe("waiting");
    await vi.advanceTimersByTimeAsync(1);
    expect(closing.error).toMatchObject({
      name: "KeystileError",
      code: "CREDITS_NOT_RETURNED",
      status: 500,
      cause: { code: "STORE_BUSY" },
    });
    expect((closing.error as Error).message).toBe(
      "the store did not take back 19 leased credits (leases: 1, spends in flight: 0); they are lost unless a later attempt of this process " +
        "succeeds, and reserves come back by themselves after 1000 ms",
    );
    expect(spender.creditsForfeited()).toBe(0);
    hinder.returns = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect([await balance(), vi.getTimerCount()]).toEqual([99, 0]);
  });

  describe("while the store takes one lease after the other", () => {
    /** Three leases of 19 credits in memory that are closed, and their ends. */
    async function closingThree() {
      const { store, balance } = await opened(100, 3);
      const ends: (() => void)[] = [];
      const returning: Store = {
        ...store,
        returnCredits: (...given) =>
          new Promise<void>((resolve) => ends.push(resolve)).then(() => store.returnCredits(...given)),
      };
      const spender = eagerSpender(returning, { ...LEASES, closeTimeout: 1_000 });
      for (let n = 1; n <= 3; n++) await spender.spend(await accountOf(store, n), 1, 0);
      return { closing: watch(spender.close()), ends, balance };
    }

    it("goes on waiting, however long it takes", async () => {
      const { closing, ends, balance } = await closingThree();
      for (let left = 3; left > 0; left--) {
        await vi.advanceTimersByTimeAsync(600);
        expect([closing.state, ends.length]).toEqual(["waiting", left]);
        ends.shift()!();
      }
      await vi.advanceTimersByTimeAsync(0);
      expect([closing.state, vi.getTimerCount()]).toEqual(["resolved", 0]);
      expect(await Promise.all([1, 2, 3].map((n) => balance(n)))).toEqual([99, 99, 99]);
    });

    it("rejects once it has taken none for closeTimeout", async () => {
      const { closing, ends } = await closingThree();
      await vi.advanceTimersByTimeAsync(600);
      ends.shift()!();
      await vi.advanceTimersByTimeAsync(1_399);
      expect(closing.state).toBe("waiting");
      await vi.advanceTimersByTimeAsync(1);
      expect(String(closing.error)).toContain("38 leased credits (leases: 2, spends in flight: 0)");
    });
  });

  it("says nothing of what was given up before", async () => {
    const { hinder, spender, store } = await leasedOne();
    hinder.returns = storeError("STORE_CLOSED");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(spender.creditsForfeited()).toBe(19);
    // Another draw, of which 15 are left.
    await spender.spend(await accountOf(store, 1), 5, 0);
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(1_000);
    expect(String(closing.error)).toContain("take back 10 leased credits (leases: 1, spends in flight: 0)");
    expect(spender.creditsForfeited()).toBe(29);
  });

  it("rejects also for a spend in flight of a key that has no lease", async () => {
    const { store, balance } = await opened(100, 2);
    const [draws, spends] = [gate(), gate()];
    const waiting: Store = {
      ...store,
      drawCredits: (ref, request) => draws.pass().then(() => store.drawCredits(ref, request)),
      spendCredits: (...given) => spends.pass().then(() => store.spendCredits(...given)),
    };
    const spender = eagerSpender(waiting, { ...LEASES, keys: 1, closeTimeout: 3_000 });
    const drawing = Promise.resolve(spender.spend(await accountOf(store, 1), 1, 0));
    // The only lease is in use: this one is spent from the store.
    const exact = Promise.resolve(spender.spend(await accountOf(store, 2), 1, 0));
    const closing = watch(spender.close());
    await draws.open();
    expect(await drawing).toEqual({ ok: true, remaining: 99 });
    // The lease goes back as any that is idle does.
    await vi.advanceTimersByTimeAsync(5_999);
    expect([closing.state, await balance(1)]).toEqual(["waiting", 99]);
    await vi.advanceTimersByTimeAsync(1);
    expect(String(closing.error)).toContain("0 leased credits (leases: 0, spends in flight: 1)");
    await spends.open();
    expect(await exact).toEqual({ ok: true, remaining: 99 });
  });

  it("waits 10 s without the option", async () => {
    const { hinder, spender } = await leasedOne();
    hinder.returns = storeError();
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(9_999);
    expect(closing.state).toBe("waiting");
    await vi.advanceTimersByTimeAsync(1);
    expect(closing.state).toBe("rejected");
  });

  it("says what is in leases that it had no chance to return", async () => {
    const KEYS = 2_500;
    const store: Store = {
      ...memoryStore(),
      drawCredits: () => ({ drawn: 5, generation: 0, remaining: 100 }),
      returnCredits: () => Promise.reject(storeError()),
    };
    const spender = eagerSpender(store, LEASES);
    for (let ref = 0; ref < KEYS; ref++) await spender.spend(account({ ref, generation: 0 }), 1, 0);
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(String(closing.error)).toContain(`${4 * KEYS} leased credits (leases: ${KEYS}, spends in flight: 0)`);
  });

  it("waits for draws in flight, and returns what they leave over", async () => {
    const { store, record, balance } = await opened(100);
    const { pass, open } = gate();
    const hinder = hindered(store);
    const drawing: Store = {
      ...hinder.store,
      drawCredits: (ref, request) => pass().then(() => store.drawCredits(ref, request)),
    };
    const spender = eagerSpender(drawing, LEASES);
    const spends = [1, 2, 3].map((cost) => Promise.resolve(spender.spend(account(record), cost, 0)));
    hinder.returns = storeError();
    const closing = watch(spender.close());
    await open();
    expect((await Promise.all(spends)).map((spend) => spend?.ok)).toEqual([true, true, true]);
    expect(closing.state).toBe("waiting");
    hinder.returns = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect([closing.state, await balance()]).toEqual(["resolved", 94]);
  });

  it("rejects when a draw does not end in time, and says that it is in flight", async () => {
    const { store, record } = await opened(100);
    const { pass, open } = gate();
    const drawing: Store = {
      ...store,
      drawCredits: (ref, request) => pass().then(() => store.drawCredits(ref, request)),
    };
    const spender = eagerSpender(drawing, LEASES);
    const spend = Promise.resolve(spender.spend(account(record), 1, 0));
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(String(closing.error)).toContain("0 leased credits (leases: 1, spends in flight: 1)");
    expect(closing.error).not.toHaveProperty("cause");
    await open();
    expect(await spend).toEqual({ ok: true, remaining: 99 });
  });

  it("a verifier closed twice tells both the same, is closed all the same, and counts what was given up", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { key } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    let subscriptions = 0;
    const hinder = hindered({
      ...store,
      subscribe(listener) {
        subscriptions++;
        const end = store.subscribe(listener);
        return () => {
          subscriptions--;
          end();
        };
      },
    });
    const told: string[] = [];
    const credits = { mode: "leased", ...LEASES, firstStep: LEASES.step, closeTimeout: 500 } as const;
    const verifier = createVerifier(hinder.store, { credits, onOutcome: ({ code }) => told.push(code) });
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 99 });
    hinder.returns = storeError("STORE_CLOSED");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(verifier.counters()).toEqual({
      degraded: 0,
      outcomesDropped: 0,
      creditsForfeited: 19,
      settlementsLate: 0,
      outcomesFolded: 0,
      outcomesUncounted: 0,
      newcomersRefused: 0,
      bucketsDisplaced: 0,
    });
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID" });
    expect(subscriptions).toBeGreaterThan(0);
    hinder.returns = storeError();
    const closings = [verifier.close(), verifier.close()];
    const watched = closings.map(watch);
    await vi.advanceTimersByTimeAsync(500);
    expect(watched.map(({ error }) => error)).toEqual(
      Array(2).fill(expect.objectContaining({ code: "CREDITS_NOT_RETURNED" })),
    );
    await expect(verifier.verify({ key })).rejects.toMatchObject({ code: "VERIFIER_CLOSED" });
    expect([told, subscriptions]).toEqual([["VALID", "VALID"], 0]);
  });
});

describe("creditReturns", () => {
  /** Ends that resolve when the test says so. */
  function manual() {
    const calls: { ref: KeyRef; holder: string; spent: number; end: (error?: Error) => Promise<void> }[] = [];
    const store: Store = {
      ...memoryStore(),
      returnCredits: (ref, { holder, spent }) =>
        new Promise<void>((resolve, reject) => {
          const end = (error?: Error) => {
            if (error === undefined) resolve();
            else reject(error);
            return settled();
          };
          calls.push({ ref, holder, spent, end });
        }),
    };
    return { calls, returns: creditReturns(store) };
  }
  const lease = (ref: KeyRef, n: number, credits = 5) => ({ ref, holder: `node.${n}`, spent: n, credits });
  const summary = (calls: ReturnType<typeof manual>["calls"]) =>
    calls.map(({ ref, holder, spent }) => [ref, holder, spent]);

  it("each lease is ended for itself, also those of one key, and in flight once", async () => {
    const { calls, returns } = manual();
    for (const ended of [lease("a", 1), lease("a", 2), lease("b", 3)]) void returns.add(ended);
    returns.retry("a");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(summary(calls)).toEqual([
      ["a", "node.1", 1],
      ["a", "node.2", 2],
      ["b", "node.3", 3],
    ]);
    expect([returns.outstanding(), returns.size()]).toEqual([{ credits: 15, leases: 3 }, 3]);
    for (const { end } of calls) await end();
    expect([returns.size(), returns.outstanding(), vi.getTimerCount()]).toEqual([0, { credits: 0, leases: 0 }, 0]);
  });

  it("one that failed is repeated as it was, after a pause or at the next use of its key", async () => {
    const { calls, returns } = manual();
    for (const ended of [lease("a", 1), lease("b", 2)]) void returns.add(ended);
    for (const { end } of [...calls]) await end(new Error("unknown"));
    expect([returns.size(), returns.lastError()]).toEqual([2, new Error("unknown")]);
    returns.retry("a");
    expect(summary(calls).slice(2)).toEqual([["a", "node.1", 1]]);
    await vi.advanceTimersByTimeAsync(20);
    expect(summary(calls).slice(3)).toEqual([["b", "node.2", 2]]);
    for (const { end } of calls.slice(2)) await end();
    expect([returns.size(), returns.forfeited(), vi.getTimerCount()]).toEqual([0, { credits: 0, leases: 0 }, 0]);
  });

  it("attempts become frequent again once any has succeeded", async () => {
    const { calls, returns } = manual();
    for (const ended of [lease("a", 1), lease("b", 2)]) void returns.add(ended);
    const failAll = async () => {
      for (const { end } of calls.splice(0)) await end(storeError());
    };
    await failAll();
    // The pauses: 10, 20, 40 ms.
    for (const pause of [10, 20]) {
      await vi.advanceTimersByTimeAsync(pause - 1);
      expect(calls).toEqual([]);
      await vi.advanceTimersByTimeAsync(1);
      expect(calls).toHaveLength(2);
      await failAll();
    }
    returns.retry("a");
    await calls.splice(0)[0]!.end();
    await vi.advanceTimersByTimeAsync(40);
    await failAll();
    await vi.advanceTimersByTimeAsync(10);
    expect(summary(calls)).toEqual([["b", "node.2", 2]]);
    await calls[0]!.end();
    expect([returns.size(), vi.getTimerCount()]).toEqual([0, 0]);
  });

  it("once the store was closed, what is in flight or comes later is given up without another call", async () => {
    const { calls, returns } = manual();
    for (const [i, ref] of ["a", "b", "c"].entries()) void returns.add(lease(ref, i));
    await calls[0]!.end(storeError());
    await calls[1]!.end(storeError("STORE_CLOSED"));
    await calls[2]!.end(storeError());
    void returns.add(lease("d", 4));
    await vi.advanceTimersByTimeAsync(5_000);
    expect([calls.length, returns.size(), returns.forfeited(), vi.getTimerCount()]).toEqual([
      3,
      0,
      { credits: 20, leases: 4 },
      0,
    ]);
  });

  it("attempts are frequent again after all has gone back", async () => {
    const { calls, returns } = manual();
    void returns.add(lease("a", 1));
    for (const pause of [10, 20, 40]) {
      await calls.pop()!.end(storeError());
      await vi.advanceTimersByTimeAsync(pause);
      expect(calls).toHaveLength(1);
    }
    await calls.pop()!.end();
    void returns.add(lease("b", 2));
    await calls.pop()!.end(storeError());
    await vi.advanceTimersByTimeAsync(10);
    expect(summary(calls)).toEqual([["b", "node.2", 2]]);
  });

  it("a round tries again no more than makes a thousand in flight, and none where there are more", async () => {
    const { calls, returns } = manual();
    for (let i = 0; i < 2_200; i++) void returns.add(lease("a", i));
    const inFlight = calls.splice(0);
    await Promise.all(inFlight.splice(0, 1_000).map(({ end }) => end(storeError())));
    await vi.advanceTimersByTimeAsync(10);
    expect([calls.length, returns.size(), returns.isBlocked()]).toEqual([0, 2_200, true]);
    await Promise.all(inFlight.splice(0, 1_000).map(({ end }) => end()));
    await vi.advanceTimersByTimeAsync(20);
    expect([calls.length, returns.size(), returns.isBlocked()]).toEqual([800, 1_200, false]);
  });

  it("an end that the store answers at once is never in flight", () => {
    const ended: unknown[] = [];
    const store: Store = { ...memoryStore(), returnCredits: (ref) => void ended.push(ref) };
    const returns = creditReturns(store);
    void returns.add(lease("a", 1));
    expect([ended, returns.size(), returns.outstanding()]).toEqual([["a"], 0, { credits: 0, leases: 0 }]);
  });

  it("a key that alone is refused becomes rare as well, while others go back", async () => {
    const asked = { stuck: 0, other: 0 };
    const store: Store = {
      ...memoryStore(),
      returnCredits(ref) {
        asked[ref as "stuck" | "other"]++;
        return ref === "stuck" ? Promise.reject(storeError()) : undefined;
      },
    };
    const returns = creditReturns(store);
    void returns.add({ ref: "stuck", holder: "node.0", spent: 0, credits: 5 });
    for (let i = 0; i < 1_000; i++) {
      void returns.add({ ref: "other", holder: `node.${i + 1}`, spent: 0, credits: 5 });
      await vi.advanceTimersByTimeAsync(10);
    }
    expect(asked.other).toBe(1_000);
    expect(asked.stuck).toBeLessThan(20);
  });
});

describe("returns that fail: bounded", () => {
  it("while a thousand wait, other leases stay, and keys without one are spent from the store; then all goes back", async () => {
    const KEYS = 3_000;
    const { store, balance } = await opened(100, KEYS);
    const hinder = hindered(store);
    const spender = eagerSpender(hinder.store, { ...LEASES, keys: 2_000 });
    const accounts = await Promise.all(Array.from({ length: KEYS }, (_, i) => accountOf(store, i + 1)));
    hinder.returns = storeError();
    for (const one of accounts) await spender.spend(one, 1, 0);
    // The bound gave back a thousand leases, in vain. Now nothing more is drawn for other keys.
    const { draws } = hinder.asked;
    expect(await spender.spend(accounts[0]!, 1, 0)).toMatchObject({ ok: true });
    expect(hinder.asked.draws).toBe(draws);
    await vi.advanceTimersByTimeAsync(10_000);
    // One that kept its lease spends from memory still, and draws when that is not enough.
    expect(spender.spend(accounts[KEYS - 1]!, 1, 0)).toEqual({ ok: true, remaining: 98 });
    expect(await spender.spend(accounts[KEYS - 1]!, 97, 0)).toEqual({ ok: true, remaining: 1 });
    hinder.returns = undefined;
    await vi.advanceTimersByTimeAsync(10_000);
    await spender.close();
    const balances = await Promise.all(accounts.map((_, i) => balance(i + 1)));
    expect([balances[0], balances[KEYS - 1], ...new Set(balances.slice(1, -1))]).toEqual([98, 1, 99]);
  });
});
