import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { boundaryOf, periodOf } from "../src/credits.js";
import type { Refill } from "../src/types.js";
import { runs } from "./runs.js";

const DAY = 86_400_000;
const LAST_INSTANT = 8.64e15;
const at = (text: string): number => Date.parse(text);
const daily: Refill = { interval: "daily", amount: 1 };
const monthly = (refillDay: number): Refill => ({ interval: "monthly", amount: 1, refillDay });

/** Boundaries between two instants. */
const passed = (refill: Refill, from: string, to: string): number => periodOf(refill, at(to)) - periodOf(refill, at(from));

/** Walks month by month and asks the host's calendar: slow and plain. */
function naiveMonthly(refillDay: number, now: number): number {
  for (let month = 0; ; month++) {
    const lastDay = new Date(Date.UTC(1970, month + 1, 0)).getUTCDate();
    if (Date.UTC(1970, month, Math.min(refillDay, lastDay)) > now) return month;
  }
}

describe("periodOf: daily", () => {
  it("ruling D3: counts 00:00 UTC at its very millisecond", () => {
    expect(periodOf(daily, DAY - 1)).toBe(0);
    expect(periodOf(daily, DAY)).toBe(1);
    expect(passed(daily, "2024-02-28T23:59:59.999Z", "2024-02-29T00:00:00.000Z")).toBe(1);
    expect(passed(daily, "2024-02-28T12:00:00Z", "2024-03-01T12:00:00Z")).toBe(2);
  });

  it("ruling D4: refillDay has no effect", () => {
    const now = at("2024-02-29T12:00:00Z");
    expect(periodOf({ ...daily, refillDay: 31 }, now)).toBe(periodOf(daily, now));
  });
});

describe("periodOf: monthly", () => {
  it("ruling D3: counts 00:00 UTC of refillDay at its very millisecond", () => {
    expect(passed(monthly(15), "2023-05-14T23:59:59.998Z", "2023-05-14T23:59:59.999Z")).toBe(0);
    expect(passed(monthly(15), "2023-05-14T23:59:59.999Z", "2023-05-15T00:00:00.000Z")).toBe(1);
    expect(passed(monthly(15), "2023-05-15T00:00:00.000Z", "2023-06-14T23:59:59.999Z")).toBe(0);
    expect(passed(monthly(1), "2023-12-31T23:59:59.999Z", "2024-01-01T00:00:00.000Z")).toBe(1);
  });

  it("ruling D3: counts boundaries missed while idle", () => {
    expect(passed(monthly(10), "2020-01-10T00:00:00Z", "2023-01-09T23:59:59Z")).toBe(35);
    expect(passed(monthly(10), "2020-01-10T00:00:00Z", "2023-01-10T00:00:00Z")).toBe(36);
  });

  it.each([
    [29, "2023-02-28"],
    [29, "2024-02-29"],
    [30, "2023-02-28"],
    [30, "2024-02-29"],
    [31, "2023-02-28"],
    [31, "2024-02-29"],
    [31, "2023-04-30"],
    [31, "2023-06-30"],
    [31, "2023-09-30"],
    [31, "2023-11-30"],
    [31, "2023-12-31"],
    [30, "2023-12-30"],
    [29, "2000-02-29"],
    [29, "2100-02-28"],
    [31, "2100-02-28"],
    [31, "2400-02-29"],
  ] as const)("spec §2.3: refillDay %i falls on %s", (refillDay, day) => {
    const boundary = at(`${day}T00:00:00Z`);
    const refill = monthly(refillDay);
    expect(periodOf(refill, boundary) - periodOf(refill, boundary - 1)).toBe(1);
    expect(periodOf(refill, boundary + DAY) - periodOf(refill, boundary)).toBe(0);
  });

  it("ruling D3: agrees with a walk through the host's calendar", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 31 }), fc.integer({ min: 0, max: at("2500-01-01T00:00:00Z") }), (refillDay, now) => {
        expect(periodOf(monthly(refillDay), now)).toBe(naiveMonthly(refillDay, now));
      }),
      { numRuns: runs(300) },
    );
  });

  it("ruling D3: agrees with the host's calendar on every day of 400 years", () => {
    for (const refillDay of [1, 2, 15, 28, 29, 30, 31]) {
      let count = 0;
      for (let day = 0; day < 146_097; day++) {
        const date = new Date(day * DAY);
        const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
        if (date.getUTCDate() === Math.min(refillDay, lastDay)) count++;
        if (periodOf(monthly(refillDay), day * DAY) !== count) expect.fail(`refillDay ${refillDay}, ${date.toISOString()}`);
      }
      expect(count).toBe(4800);
    }
  });
});

describe("periodOf: any clock", () => {
  afterEach(() => void vi.unstubAllGlobals());

  it("ruling D3: is 0 without refill", () => {
    expect(periodOf(undefined, at("2024-02-29T00:00:00Z"))).toBe(0);
  });

  it("ruling A7: never falls while the clock moves forward", () => {
    const instant = fc.double({ min: 0, max: LAST_INSTANT, noNaN: true });
    const refill = fc.oneof(fc.constant(daily), fc.integer({ min: 1, max: 31 }).map(monthly));
    fc.assert(
      fc.property(refill, instant, fc.oneof(instant, fc.integer({ min: 0, max: 40 * DAY })), (calendar, now, more) => {
        const before = periodOf(calendar, now);
        expect(Number.isSafeInteger(before) && before >= 0).toBe(true);
        expect(periodOf(calendar, now + more)).toBeGreaterThanOrEqual(before);
      }),
    );
  });

  it("ruling D3: reaches the last instant, and clamps what lies outside", () => {
    expect(periodOf(daily, LAST_INSTANT)).toBe(100_000_000);
    // 13 September 275760
    expect(periodOf(monthly(13), LAST_INSTANT)).toBe((275_760 - 1970) * 12 + 9);
    expect(periodOf(monthly(14), LAST_INSTANT)).toBe((275_760 - 1970) * 12 + 8);
    for (const refill of [daily, monthly(1), monthly(31)]) {
      for (const late of [LAST_INSTANT + 1, Number.MAX_VALUE, Infinity])
        expect(periodOf(refill, late)).toBe(periodOf(refill, LAST_INSTANT));
      for (const early of [-1, -Infinity, NaN, -0]) expect(periodOf(refill, early)).toBe(periodOf(refill, 0));
    }
    expect(periodOf(monthly(1), 0)).toBe(1);
    expect(periodOf(monthly(2), 0)).toBe(0);
  });

  it("ruling G5: asks no host calendar and so no time zone", () => {
    const now = at("2024-03-31T00:30:00Z");
    const answers = [daily, monthly(31), monthly(1)].map((refill) => periodOf(refill, now));
    const forbidden = (): never => expect.fail("the host's calendar was asked");
    vi.stubGlobal("Date", new Proxy(Date, { construct: forbidden, apply: forbidden, get: forbidden }));
    vi.stubGlobal("Intl", new Proxy(Intl, { get: forbidden }));
    expect([daily, monthly(31), monthly(1)].map((refill) => periodOf(refill, now))).toEqual(answers);
  });
});

describe("boundaryOf: the instant of a count", () => {
  it("ruling A7: is the first instant that has counted so much", () => {
    const instant = fc.integer({ min: 0, max: LAST_INSTANT });
    const refill = fc.oneof(fc.constant(daily), fc.integer({ min: 1, max: 31 }).map(monthly));
    fc.assert(
      fc.property(refill, instant, (calendar, now) => {
        const period = periodOf(calendar, now);
        const boundary = boundaryOf(calendar, period);
        expect(boundary).toBeLessThanOrEqual(now);
        expect(periodOf(calendar, boundary)).toBe(period);
        if (boundary > 0) expect(periodOf(calendar, boundary - 1)).toBe(period - 1);
      }),
    );
  });

  it("is 0 where nothing was counted, and stays a time whatever the count", () => {
    expect([boundaryOf(undefined, 7), boundaryOf(daily, 0), boundaryOf(monthly(2), 0), boundaryOf(daily, -3)]).toEqual([0, 0, 0, 0]);
    expect(boundaryOf(monthly(31), 2)).toBe(at("1970-02-28T00:00:00Z"));
    for (const calendar of [daily, monthly(31)]) expect(boundaryOf(calendar, Number.MAX_SAFE_INTEGER)).toBe(LAST_INSTANT);
  });
});
