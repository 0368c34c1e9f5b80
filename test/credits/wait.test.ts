/** untilCovered: against a walk from boundary to boundary, account by account. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NumberedRefill } from "../../src/contracts/store.js";
import { nextBoundary, untilRefilled } from "../../src/credits/refill-calendar.js";
import { type Holding, untilCovered } from "../../src/credits/wait.js";
import { runs } from "../runs.js";

const NOON = Date.UTC(2026, 2, 28, 12);
const DAY = 86_400_000;
const MOST = { hourly: 9_600, daily: 400, weekly: 60, monthly: 24 };

const zones = fc.constantFrom("UTC", "Europe/Berlin", "America/St_Johns");
const refills = fc.record(
  {
    interval: fc.constantFrom("daily" as const, "weekly" as const, "monthly" as const),
    amount: fc.integer({ min: 0, max: 9 }),
    refillDay: fc.integer({ min: 1, max: 7 }),
    timeZone: zones,
    rollover: fc.integer({ min: 0, max: 30 }),
  },
  { requiredKeys: ["interval", "amount", "refillDay"] },
) as fc.Arbitrary<NumberedRefill>;
const holdings = fc.record(
  { remaining: fc.nat(20), refill: refills, expires: fc.integer({ min: NOON - DAY, max: NOON + 60 * DAY }) },
  { requiredKeys: ["remaining"] },
) as fc.Arbitrary<Holding>;
const wallets = fc.array(fc.array(holdings, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 2 });

/** What a holding has from each instant on at which that changes. */
function timeline({ remaining, refill, expires = Infinity }: Holding): (readonly [at: number, has: number])[] {
  const steps: (readonly [number, number])[] = [[NOON, expires > NOON ? remaining : 0]];
  let has = remaining;
  let at = NOON;
  for (let i = 0; refill !== undefined && i < MOST[refill.interval]; i++) {
    at = nextBoundary(refill, at);
    if (at >= expires) break;
    has = Math.min(has, refill.rollover ?? Infinity) + refill.amount;
    steps.push([at, has]);
  }
  if (expires > NOON && expires < Infinity) steps.push([expires, 0]);
  return steps;
}

function walk(all: readonly (readonly Holding[])[], cost: number): number | undefined {
  const lines = all.map((one) => one.map(timeline));
  const instants = [...new Set(lines.flat(2).map(([at]) => at))].sort((a, b) => a - b);
  const hasAt = (line: ReturnType<typeof timeline>, at: number) => line.findLast(([from]) => from <= at)?.[1] ?? 0;
  const first = instants.find((at) =>
    lines.every((wallet) => wallet.reduce((sum, line) => sum + hasAt(line, at), 0) >= cost),
  );
  return first === undefined ? undefined : first - NOON;
}

describe("untilCovered", () => {
  it("is the first instant at which every wallet covers the cost, whatever expires and rolls over until then", () => {
    let [some, none] = [0, 0];
    fc.assert(
      fc.property(wallets, fc.integer({ min: 1, max: 60 }), (all, cost) => {
        const wait = untilCovered(all, cost, NOON);
        expect(wait).toBe(walk(all, cost));
        if (wait === undefined) none++;
        else some++;
      }),
      // All of them always: both outcomes are counted.
      { numRuns: 300 },
    );
    expect(Math.min(some, none)).toBeGreaterThan(20);
  });

  it("of one account it is what untilRefilled says", () => {
    fc.assert(
      fc.property(refills, fc.nat(20), fc.integer({ min: 1, max: 60 }), (refill, remaining, more) => {
        const cost = remaining + more;
        expect(untilCovered([[{ remaining, refill }]], cost, NOON)).toBe(
          untilRefilled(refill, { remaining, cost }, NOON),
        );
      }),
      { numRuns: runs(200) },
    );
  });

  it("a boundary at the end of a grant brings nothing; a plan that starts anew may cover less for a while", () => {
    const daily = { interval: "daily", amount: 5 } as NumberedRefill;
    const midnight = NOON + DAY / 2;
    expect(untilCovered([[{ remaining: 0, refill: daily, expires: midnight }]], 5, NOON)).toBeUndefined();
    expect(untilCovered([[{ remaining: 0, refill: daily, expires: midnight + 1 }]], 5, NOON)).toBe(DAY / 2);
    // The bonus of 8 has expired before the plan has 10 of its own.
    const plan = { remaining: 1, refill: { ...daily, rollover: 5 } };
    expect(untilCovered([[plan, { remaining: 8, expires: midnight + 1 }]], 10, NOON)).toBe(DAY / 2);
    expect(untilCovered([[plan, { remaining: 8, expires: midnight }]], 10, NOON)).toBe(DAY / 2 + DAY);
    expect(untilCovered([[plan, { remaining: 8, expires: midnight }]], 11, NOON)).toBeUndefined();
  });

  it("accounts that cover the cost by now, after a call that they did not, are waited for no longer", () => {
    expect(untilCovered([[{ remaining: 5 }]], 5, NOON)).toBe(0);
  });
});
