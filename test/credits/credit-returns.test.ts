/** Returns that fail, seen through the spender: what is tried again, what is given up, and what `close` says of it. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { KeystileErrorCode } from "../../src/contracts/errors.js";
import type { KeyRef, Store } from "../../src/contracts/store.js";
import { creditReturns } from "../../src/credits/credit-returns.js";
import { leasedSpender } from "../../src/credits/spender.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { account, accountOf, gate, hindered, opened, removeKey, setBalance, settled, storeError } from "./support.js";

const RETRIED: readonly KeystileErrorCode[] = ["STORE_BUSY", "STORE_FULL", "STORE_READ_ONLY"];
const UNKNOWN: readonly Error[] = [
  storeError("STORE_FAILED"),
  storeError("STORE_INVALID"),
  new Error("no answer"),
  new RangeError("unspent"),
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
  const spender = leasedSpender(hinder.store, { ...LEASES, ...options });
  const one = account(bed.record);
  expect(await spender.spend(one, 1, 0)).toEqual({ ok: true, remaining: 99 });
  expect(await bed.balance()).toBe(60);
  return { ...bed, hinder, spender, one };
}

describe("returns that fail: tried again", () => {
  it.each(RETRIED)(
    "an idle return that fails with %s goes back when the store takes it, and nothing else is left waiting",
    async (code) => {
      const { hinder, spender, balance } = await leasedOne();
      hinder.returns = storeError(code);
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
    const spender = leasedSpender(
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
    const spender = leasedSpender(hinder.store, { size: 20, step: 20, ttl: 1_000 });
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

  it("what a draw that failed had in hand goes back later if the store is busy", async () => {
    const { hinder, spender, one, balance } = await leasedOne();
    hinder.draws = hinder.returns = storeError();
    await expect(Promise.resolve(spender.spend(one, 30, 0))).rejects.toMatchObject({ code: "STORE_BUSY" });
    hinder.draws = hinder.returns = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await balance()).toBe(99);
    expect(await spender.spend(one, 99, 0)).toEqual({ ok: true, remaining: 0 });
    await spender.close();
    expect(await balance()).toBe(0);
  });
});

describe("returns that fail: given up", () => {
  it.each(UNKNOWN)(
    "%s: tried once, since the store may have taken them; counted, and close resolves",
    async (error) => {
      const { hinder, spender, balance } = await leasedOne();
      hinder.returns = error;
      await vi.advanceTimersByTimeAsync(2_000);
      hinder.returns = undefined;
      await vi.advanceTimersByTimeAsync(60_000);
      expect([hinder.asked.returns, await balance(), spender.creditsForfeited()]).toEqual([1, 60, 19]);
      await expect(Promise.resolve(spender.close())).resolves.toBeUndefined();
    },
  );

  it("a failure after the commit makes no credit of nothing", async () => {
    const { store, record, balance } = await opened(100);
    const spender = leasedSpender(
      {
        ...store,
        async returnCredits(...given) {
          await store.returnCredits(...given);
          throw storeError("STORE_FAILED");
        },
      },
      LEASES,
    );
    await spender.spend(account(record), 1, 0);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([await balance(), spender.creditsForfeited()]).toEqual([99, 19]);
    await spender.close();
    expect(await balance()).toBe(99);
  });

  it("a store that was closed ends it at once: nothing is tried again, and close says what is lost", async () => {
    const { store, balance } = await opened(100, 3);
    const hinder = hindered(store);
    const spender = leasedSpender(hinder.store, LEASES);
    for (let n = 1; n <= 3; n++) await spender.spend(await accountOf(store, n), 1, 0);
    hinder.returns = storeError();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(hinder.asked.returns).toBe(3);
    hinder.returns = storeError("STORE_CLOSED");
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(1_000);
    expect(closing.state).toBe("rejected");
    expect(closing.error).toMatchObject({ code: "CREDITS_NOT_RETURNED", cause: { code: "STORE_CLOSED" } });
    expect(String(closing.error)).toContain("57 leased credits (keys: 3, spends in flight: 0)");
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
      "the store did not take back 19 leased credits (keys: 1, spends in flight: 0); they are lost unless a later attempt of this process " +
        "succeeds, and reserves come back by themselves after 1000 ms",
    );
    expect(spender.creditsForfeited()).toBe(0);
    hinder.returns = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect([await balance(), vi.getTimerCount()]).toEqual([99, 0]);
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
    const spender = leasedSpender(store, LEASES);
    for (let ref = 0; ref < KEYS; ref++) await spender.spend(account({ ref, generation: 0 }), 1, 0);
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(String(closing.error)).toContain(`${4 * KEYS} leased credits (keys: ${KEYS}, spends in flight: 0)`);
  });

  it("waits for draws in flight, and returns what they leave over", async () => {
    const { store, record, balance } = await opened(100);
    const { pass, open } = gate();
    const hinder = hindered(store);
    const drawing: Store = {
      ...hinder.store,
      drawCredits: (ref, request) => pass().then(() => store.drawCredits(ref, request)),
    };
    const spender = leasedSpender(drawing, LEASES);
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
    const spender = leasedSpender(drawing, LEASES);
    const spend = Promise.resolve(spender.spend(account(record), 1, 0));
    const closing = watch(spender.close());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(String(closing.error)).toContain("0 leased credits (keys: 0, spends in flight: 1)");
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
    const credits = { mode: "leased", ...LEASES, closeTimeout: 500 } as const;
    const verifier = createVerifier(hinder.store, { credits, onOutcome: ({ code }) => told.push(code) });
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 99 });
    hinder.returns = storeError("STORE_FAILED");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(verifier.counters()).toEqual({ degraded: 0, outcomesDropped: 0, creditsForfeited: 19 });
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
  /** Returns that end when the test says so. */
  function manual() {
    const calls: { ref: KeyRef; generation: number; credits: number; end: (error?: Error) => Promise<void> }[] = [];
    const store: Store = {
      ...memoryStore(),
      returnCredits: (ref, _holder, generation, credits) =>
        new Promise((resolve, reject) => {
          const end = (error?: Error) => {
            if (error === undefined) resolve();
            else reject(error);
            return settled();
          };
          calls.push({ ref, generation, credits, end });
        }),
    };
    return { calls, returns: creditReturns(store, () => "node_1") };
  }
  const summary = (calls: ReturnType<typeof manual>["calls"]) =>
    calls.map(({ ref, generation, credits }) => [ref, generation, credits]);

  it("one attempt per key at a time; what comes meanwhile is added up and follows, in one", async () => {
    const { calls, returns } = manual();
    returns.add("a", 1, 5);
    returns.add("a", 1, 6);
    returns.add("a", 1, 7);
    returns.add("b", 1, 1);
    returns.retry("a");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(summary(calls)).toEqual([
      ["a", 1, 5],
      ["b", 1, 1],
    ]);
    expect(returns.outstanding()).toEqual({ credits: 19, keys: 2 });
    await calls[0]!.end();
    expect(summary(calls).slice(2)).toEqual([["a", 1, 13]]);
  });

  it("what failed joins what came meanwhile", async () => {
    const { calls, returns } = manual();
    returns.add("a", 1, 5);
    returns.add("a", 1, 6);
    await calls[0]!.end(storeError());
    expect(calls).toHaveLength(1);
    returns.add("a", 1, 7);
    await vi.advanceTimersByTimeAsync(20);
    expect(summary(calls).slice(1)).toEqual([["a", 1, 18]]);
    await calls[1]!.end();
    expect([returns.size(), returns.outstanding(), vi.getTimerCount()]).toEqual([0, { credits: 0, keys: 0 }, 0]);
  });

  it("of two generations the older is void, whichever comes first", async () => {
    const { calls, returns } = manual();
    returns.add("a", 1, 5);
    returns.add("a", 3, 6);
    returns.add("a", 2, 100);
    await calls[0]!.end(storeError());
    returns.add("a", 3, 7);
    returns.retry("a");
    expect(summary(calls).slice(1)).toEqual([["a", 3, 13]]);
  });

  it("port clause 7: a sum stops where balances do", async () => {
    const { calls, returns } = manual();
    returns.add("a", 1, Number.MAX_SAFE_INTEGER);
    returns.add("a", 1, 5);
    await calls[0]!.end(storeError());
    returns.retry("a");
    expect(summary(calls).slice(1)).toEqual([["a", 1, Number.MAX_SAFE_INTEGER]]);
  });

  it("after an error that says nothing, only what came meanwhile follows", async () => {
    const { calls, returns } = manual();
    returns.add("a", 1, 5);
    returns.add("a", 1, 6);
    await calls[0]!.end(storeError("STORE_FAILED"));
    expect(summary(calls).slice(1)).toEqual([["a", 1, 6]]);
    expect(returns.forfeited()).toEqual({ credits: 5, keys: 1 });
  });

  it("once the store was closed, what is in flight or comes later is given up without another call", async () => {
    const { calls, returns } = manual();
    for (const ref of ["a", "b", "c"]) returns.add(ref, 1, 5);
    await calls[0]!.end(storeError());
    await calls[1]!.end(storeError("STORE_CLOSED"));
    await calls[2]!.end(storeError());
    returns.add("d", 1, 5);
    await vi.advanceTimersByTimeAsync(5_000);
    expect([calls.length, returns.size(), returns.forfeited(), vi.getTimerCount()]).toEqual([
      3,
      0,
      { credits: 20, keys: 4 },
      0,
    ]);
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
    const returns = creditReturns(store, () => "node_1");
    returns.add("stuck", 1, 5);
    for (let i = 0; i < 1_000; i++) {
      returns.add("other", 1, 5);
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
    const spender = leasedSpender(hinder.store, { ...LEASES, keys: 2_000 });
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
