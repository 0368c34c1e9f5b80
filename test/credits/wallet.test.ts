/** Wallets: the order of accounts, and random histories on stores against a list of credits. */
import { describe, expect, it } from "vitest";
import type { DrawnAccount, OwnedWallet } from "../../src/contracts/store.js";
import { assertRefs, drawOrders, inDrawOrder } from "../../src/credits/wallet.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { dice, seedsOf } from "../model/dice.js";
import { runs } from "../runs.js";
import { playWallets } from "./wallet-play.js";

const DAY = 86_400_000;
const NOON = Date.UTC(2026, 2, 10, 12);

describe("inDrawOrder", () => {
  const main = { priority: 100, createdAt: 5 };
  const grant = (grantId: string, over: object = {}) => ({ grantId, priority: 100, createdAt: 1, ...over });
  const namesOf = (
    ...accounts: readonly (Omit<DrawnAccount, "ref" | "generation"> & { readonly grantId?: string })[]
  ) => inDrawOrder(accounts, NOON).map(({ grantId = "main" }) => grantId);

  it("a lower priority comes first, whatever expires", () => {
    expect(namesOf(grant("b", { expires: 1 }), main, grant("a", { priority: 99 }))).toEqual(["a", "b", "main"]);
    expect(namesOf(grant("last", { priority: 101, expires: 1 }), main)).toEqual(["main", "last"]);
  });

  it("of one priority what expires soonest comes first, and what never expires last", () => {
    const [soon, late, never] = [grant("soon", { expires: 7 }), grant("late", { expires: 8 }), grant("never")];
    expect(namesOf(never, main, late, soon)).toEqual(["soon", "late", "main", "never"]);
  });

  it("credits with a rollover expire at the next boundary, in its time zone, and those without never", () => {
    const refill = { interval: "daily", amount: 1 } as const;
    const [noon, midnight] = [grant("noon", { expires: NOON + 1 }), NOON + DAY / 2];
    const [before, after] = [grant("before", { expires: midnight - 1 }), grant("after", { expires: midnight + 1 })];
    const plan = { ...main, refill: { ...refill, rollover: 0 } };
    expect(namesOf(after, plan, before, noon)).toEqual(["noon", "before", "main", "after"]);
    const there = { ...main, refill: { ...plan.refill, timeZone: "Asia/Tokyo" } };
    expect(namesOf(before, there, noon)).toEqual(["noon", "main", "before"]);
    expect(namesOf({ ...main, refill }, after)).toEqual(["after", "main"]);
    const daily = grant("daily", { ...plan, expires: NOON + 2 });
    expect(namesOf(plan, daily)).toEqual(["daily", "main"]);
  });

  it("of one expiry the main account comes before grants, and the older grant before the newer", () => {
    expect(namesOf(grant("b", { createdAt: 2 }), grant("c", { createdAt: 3 }), main, grant("a"))).toEqual([
      "main",
      "a",
      "b",
      "c",
    ]);
    expect(namesOf(grant("b"), grant("a"))).toEqual(["a", "b"]);
  });
});

describe("drawOrders", () => {
  it.each(seedsOf(2_029, runs(60)))("an order that is remembered is the one made anew, seed %i", (seed) => {
    const { below, chance, pick } = dice(seed);
    const around = (instant: number) => instant + below(3) - 1;
    const expiries = Array.from({ length: 3 }, () => NOON + below(2 * DAY));
    const grant = (i: number): DrawnAccount => {
      const timeZone = pick(["UTC", "Asia/Tokyo", "America/New_York"]);
      const refill = { interval: pick(["hourly", "daily"] as const), amount: 1, timeZone };
      return {
        ...{ ref: i, generation: 0, priority: pick([50, 100]), createdAt: i, grantId: `grant ${i}` },
        ...(chance(0.5) && { expires: pick(expiries) }),
        ...(chance(0.5) && { refill: chance(0.7) ? { ...refill, rollover: 0 } : refill }),
      };
    };
    const wallet = (first: number): OwnedWallet => {
      const { grantId: _, ...main } = grant(first);
      return {
        owner: "identity",
        accounts: [main, ...Array.from({ length: below(4) }, (_, i) => grant(first + 1 + i))],
      };
    };
    const wallets = chance(0.5) ? [wallet(0)] : [wallet(0), wallet(10)];
    const orderOf = drawOrders();
    let kept = 0;
    let last: unknown;
    for (let step = 0; step < 200; step++) {
      const hour = NOON + below(48) * 3_600_000;
      const now = around(chance(0.5) ? hour : chance(0.5) ? pick(expiries) : NOON + below(2 * DAY));
      for (const at of [now, now + below(100)]) {
        const order = orderOf(wallets, at);
        const { wallets: expected, isOfSeveral } = drawOrders()(wallets, at);
        expect({ wallets: order.wallets, isOfSeveral: order.isOfSeveral }).toEqual({ wallets: expected, isOfSeveral });
        if (order === last) kept++;
        last = order;
      }
    }
    expect(kept).toBeGreaterThan(50);
  });
});

it("a step has at most two wallets, each of 1 to 17 accounts, and no account twice", () => {
  const many = Array.from({ length: 18 }, (_, i) => i);
  for (const wallets of [[[1], [2], [3]], [[1], []], [many], [[1], [2, 1]]])
    expect(() => assertRefs(wallets), JSON.stringify(wallets)).toThrow(RangeError);
  const accounts = memoryStore();
  const settle = { id: "res_1", spent: 0, now: 0 };
  expect(accounts.settleWallets!([["gone"]], settle)).toEqual({ settled: false, reason: "unknown" });
});

describe("wallets: random histories against a list of credits", () => {
  it.each(seedsOf(2_026, runs(200)))("memory, seed %i", (seed) => playWallets(memoryStore(), seed, 150));
  it.each(seedsOf(2_027, runs(100)))("SQLite, seed %i", (seed) => playWallets(sqliteStore(":memory:"), seed, 150));
});
