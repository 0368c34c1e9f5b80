import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { NumberedRefill } from "../../src/contracts/store.js";
import type { Refill } from "../../src/contracts/types.js";
import {
  boundariesBetween,
  boundaryOf,
  calendarOf,
  nextBoundary,
  periodOf,
  untilRefilled,
} from "../../src/credits/refill-calendar.js";
import { runs } from "../runs.js";

const DAY = 86_400_000;
const LAST_INSTANT = 8.64e15;
const at = (text: string): number => Date.parse(text);
const daily: Refill = { interval: "daily", amount: 1 };
const monthly = (refillDay: number): Refill => ({ interval: "monthly", amount: 1, refillDay });

const START = at("2026-01-10T00:00:00Z");

/** Boundaries since the epoch, without the calendar. */
const countOf = (refill: NumberedRefill, now: number): number => periodOf(refill, now) % 1_000_000_000;

/** Boundaries between two instants. */
const passed = (refill: Refill, from: string, to: string): number =>
  periodOf(refill, at(to)) - periodOf(refill, at(from));

const MONTH_LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** The calendar repeats after 400 years: so many days, and 4,800 months. */
const ERA = 146_097 * DAY;

/** Walks month by month with the leap rule alone: asks no calendar. */
function naiveMonthly(refillDay: number, now: number): number {
  let firstDay = 0;
  for (let month = 0; ; month++) {
    const year = 1970 + Math.floor(month / 12);
    const isLeapDay = month % 12 === 1 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
    const length = (MONTH_LENGTHS[month % 12] ?? 0) + (isLeapDay ? 1 : 0);
    if ((firstDay + Math.min(refillDay, length) - 1) * DAY > now % ERA) return month + Math.floor(now / ERA) * 4_800;
    firstDay += length;
  }
}

describe("periodOf: daily", () => {
  it("ruling D3: counts 00:00 UTC at its very millisecond", () => {
    expect(countOf(daily, DAY - 1)).toBe(0);
    expect(countOf(daily, DAY)).toBe(1);
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
  ] as const)("contract 2.3: refillDay %i falls on %s", (refillDay, day) => {
    const boundary = at(`${day}T00:00:00Z`);
    const refill = monthly(refillDay);
    expect(periodOf(refill, boundary) - periodOf(refill, boundary - 1)).toBe(1);
    expect(periodOf(refill, boundary + DAY) - periodOf(refill, boundary)).toBe(0);
  });

  it("agrees with a walk by the leap rule over all the time that dates know (property)", () => {
    // Most faults lie at the turn of a day.
    const instant = fc.oneof(
      fc.integer({ min: 0, max: LAST_INSTANT }),
      fc
        .tuple(fc.integer({ min: 1, max: LAST_INSTANT / DAY }), fc.integer({ min: -1, max: 0 }))
        .map(([day, more]) => day * DAY + more),
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 31 }), instant, (refillDay, now) => {
        expect(countOf(monthly(refillDay), now)).toBe(naiveMonthly(refillDay, now));
      }),
      { numRuns: runs(1_000) },
    );
  });

  it("ruling D3: agrees with the host's calendar on every day of 400 years", () => {
    for (const refillDay of [1, 2, 15, 28, 29, 30, 31]) {
      let count = 0;
      for (let day = 0; day < 146_097; day++) {
        const date = new Date(day * DAY);
        const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
        if (date.getUTCDate() === Math.min(refillDay, lastDay)) count++;
        if (countOf(monthly(refillDay), day * DAY) !== count)
          expect.fail(`refillDay ${refillDay}, ${date.toISOString()}`);
      }
      expect(count).toBe(4800);
    }
  });
});

describe("periodOf: any clock", () => {
  afterEach(() => void vi.unstubAllEnvs());

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
    expect(countOf(daily, LAST_INSTANT)).toBe(100_000_000);
    // 13 September 275760
    expect(countOf(monthly(13), LAST_INSTANT)).toBe((275_760 - 1970) * 12 + 9);
    expect(countOf(monthly(14), LAST_INSTANT)).toBe((275_760 - 1970) * 12 + 8);
    for (const refill of [daily, monthly(1), monthly(31)]) {
      for (const late of [LAST_INSTANT + 1, Number.MAX_VALUE, Infinity])
        expect(periodOf(refill, late)).toBe(periodOf(refill, LAST_INSTANT));
      for (const early of [-1, -Infinity, NaN, -0]) expect(periodOf(refill, early)).toBe(periodOf(refill, 0));
    }
    expect(countOf(monthly(1), 0)).toBe(1);
    expect(countOf(monthly(2), 0)).toBe(0);
  });

  it("is the same in every time zone", () => {
    // Elsewhere the month before, the month after, the day before.
    const instants = [at("2024-04-01T00:30:00Z"), at("2024-03-31T23:30:00Z"), at("2024-03-15T00:30:00Z")];
    const counts = () =>
      instants.flatMap((now) => [daily, monthly(31), monthly(1), monthly(15)].map((refill) => periodOf(refill, now)));
    const expected = counts();
    const hours = ["Pacific/Kiritimati", "America/Los_Angeles"].map((zone) => {
      vi.stubEnv("TZ", zone);
      expect(counts(), zone).toEqual(expected);
      return new Date(0).getHours();
    });
    expect(hours, "the zones took effect").toEqual([13, 16]);
  });
});

describe("boundaryOf: the instant of a count", () => {
  it("ruling A7: is the first instant that has counted so much", () => {
    const instant = fc.integer({ min: 0, max: LAST_INSTANT });
    const refill = fc.oneof(fc.constant(daily), fc.integer({ min: 1, max: 31 }).map(monthly));
    fc.assert(
      fc.property(refill, instant, (calendar, now) => {
        const period = periodOf(calendar, now);
        const boundary = boundaryOf(period);
        expect(boundary).toBeLessThanOrEqual(now);
        expect(periodOf(calendar, boundary)).toBe(period);
        if (boundary > 0) expect(periodOf(calendar, boundary - 1)).toBe(period - 1);
      }),
    );
  });

  it("ruling D3: is the last day of a month that is shorter by any number of days", () => {
    for (const [day, noon] of [
      [31, "2026-04-30T12:00:00Z"],
      [29, "2026-02-28T12:00:00Z"],
      [30, "2028-02-29T12:00:00Z"],
      [31, "2026-02-28T12:00:00Z"],
      [28, "2026-02-28T12:00:00Z"],
    ] as const)
      expect(boundaryOf(periodOf(monthly(day), at(noon))), `${day} ${noon}`).toBe(at(noon.replace("T12", "T00")));
  });

  it("is 0 where nothing was counted, and stays a time whatever the period", () => {
    expect([boundaryOf(7), boundaryOf(0), boundaryOf(periodOf(monthly(2), 0)), boundaryOf(-3)]).toEqual([0, 0, 0, 0]);
    expect(boundaryOf(periodOf(monthly(31), at("1970-03-01T00:00:00Z")))).toBe(at("1970-02-28T00:00:00Z"));
    const any = fc.integer({ min: -Number.MAX_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER });
    fc.assert(
      fc.property(any, (period) => {
        const instant = boundaryOf(period);
        expect(instant >= 0 && instant <= LAST_INSTANT).toBe(true);
      }),
    );
  });
});

describe("a period names its calendar", () => {
  it("no period of one calendar is one of another, at any instant", () => {
    const instant = fc.integer({ min: 0, max: LAST_INSTANT });
    const calendars = [undefined, daily, ...Array.from({ length: 31 }, (_, i) => monthly(i + 1))];
    fc.assert(
      fc.property(instant, instant, (one, other) => {
        const named = calendars.map((refill) => calendarOf(periodOf(refill, one)));
        expect(new Set(named).size).toBe(calendars.length);
        expect(calendars.map((refill) => calendarOf(periodOf(refill, other)))).toEqual(named);
      }),
    );
  });

  it("at most 400 daily or 24 monthly boundaries are due at once", () => {
    const years = (refill: Refill, count: number) =>
      boundariesBetween(periodOf(refill, START), periodOf(refill, START + count * 365 * DAY));
    expect(years(daily, 1)).toEqual({ due: 365, forfeited: 0 });
    expect(years(daily, 2)).toEqual({ due: 400, forfeited: 330 });
    expect(years(monthly(1), 1)).toEqual({ due: 12, forfeited: 0 });
    expect(years(monthly(1), 10)).toEqual({ due: 24, forfeited: 96 });
    expect(boundariesBetween(periodOf(daily, START), periodOf(daily, 0))).toEqual({ due: 0, forfeited: 0 });
    // Counts of no calendar have no bound.
    expect(boundariesBetween(0, 1_000)).toEqual({ due: 1_000, forfeited: 0 });
  });
});

describe("untilRefilled", () => {
  const NOON = START + DAY / 2;

  const short = (missing: number) => ({ remaining: 7, cost: 7 + missing });

  it.each<[string, Refill, missing: number, ms: number | undefined]>([
    ["the next boundary covers it", { ...daily, amount: 5 }, 5, DAY / 2],
    ["one credit more needs another", { ...daily, amount: 5 }, 6, DAY / 2 + DAY],
    ["what lacks nothing waits for the next all the same", { ...daily, amount: 5 }, 0, DAY / 2],
    ["as many as are refilled at once, daily", daily, 400, DAY / 2 + 399 * DAY],
    ["more than those, daily", daily, 401, undefined],
    ["monthly", monthly(15), 1, at("2026-01-15") - NOON],
    ["monthly, into a shorter month", monthly(31), 2, at("2026-02-28") - NOON],
    ["as many as are refilled at once, monthly", monthly(1), 24, at("2028-01-01") - NOON],
    ["more than those, monthly", monthly(1), 25, undefined],
    ["a refill of nothing", { ...daily, amount: 0 }, 1, undefined],
  ])("%s", (_, refill, missing, ms) => {
    expect(untilRefilled(refill, short(missing), NOON)).toBe(ms);
  });

  it("without refill there is no such time; at a boundary it is the next one", () => {
    expect(untilRefilled(undefined, short(1), NOON)).toBeUndefined();
    expect(untilRefilled(daily, short(1), START)).toBe(DAY);
    expect(untilRefilled(daily, short(1), START - 1)).toBe(1);
  });
});

describe("calendars that accounts number", () => {
  const berlin = { timeZone: "Europe/Berlin" } as const;
  const hourly: NumberedRefill = { interval: "hourly", amount: 1 };
  const weekly = (refillDay: number): NumberedRefill => ({ interval: "weekly", amount: 1, refillDay });
  const boundaryAfter = (refill: NumberedRefill, text: string) =>
    new Date(nextBoundary(refill, at(text))).toISOString();

  it("each boundary is where its interval, day and time zone say", () => {
    expect(boundaryAfter(hourly, "2026-01-10T12:00:00Z")).toBe("2026-01-10T13:00:00.000Z");
    expect(boundaryAfter({ ...hourly, timeZone: "Asia/Kolkata" }, "2026-01-10T12:00:00Z")).toBe(
      "2026-01-10T12:30:00.000Z",
    );
    // 2026-01-10 is a Saturday.
    expect(boundaryAfter(weekly(1), "2026-01-10T12:00:00Z")).toBe("2026-01-12T00:00:00.000Z");
    expect(boundaryAfter(weekly(6), "2026-01-10T12:00:00Z")).toBe("2026-01-17T00:00:00.000Z");
    expect(boundaryAfter(weekly(7), "2026-01-10T12:00:00Z")).toBe("2026-01-11T00:00:00.000Z");
    expect(boundaryAfter({ ...weekly(1), ...berlin }, "2026-03-23T12:00:00Z")).toBe("2026-03-29T22:00:00.000Z");
    expect(boundaryAfter({ ...daily, ...berlin }, "2026-03-28T12:00:00Z")).toBe("2026-03-28T23:00:00.000Z");
    expect(boundaryAfter({ ...monthly(31), ...berlin }, "2026-02-01T12:00:00Z")).toBe("2026-02-27T23:00:00.000Z");
    expect(boundaryAfter({ ...daily, calendar: 3 }, "2026-03-28T12:00:00Z")).toBe("2026-03-29T00:00:00.000Z");
    // The month of a day that the zone left out has its boundary with the next day.
    expect(boundaryAfter({ ...monthly(30), timeZone: "Pacific/Apia" }, "2011-12-01T12:00:00Z")).toBe(
      "2011-12-30T10:00:00.000Z",
    );
  });

  const anyRefill = fc
    .record({
      interval: fc.constantFrom("hourly" as const, "daily" as const, "weekly" as const, "monthly" as const),
      day: fc.integer({ min: 1, max: 31 }),
      timeZone: fc.constantFrom(undefined, "UTC", ...Intl.supportedValuesOf("timeZone")),
      calendar: fc.constantFrom(undefined, 0, 1, 7),
    })
    .map(({ interval, day, timeZone, calendar }): NumberedRefill => {
      const more = { amount: 1, ...(timeZone && { timeZone }), ...(calendar !== undefined && { calendar }) };
      if (interval === "hourly") return { interval, ...more };
      return { interval, refillDay: interval === "weekly" ? (day % 7) + 1 : day, ...more };
    });

  it("boundaryOf is the first instant that has counted so much; counts never fall (property)", () => {
    const instant = fc.integer({ min: 0, max: at("2100-01-01T00:00:00Z") });
    fc.assert(
      fc.property(anyRefill, instant, fc.nat({ max: 400 * DAY }), (refill, now, more) => {
        const period = periodOf(refill, now);
        expect(Number.isSafeInteger(period) && period >= 0).toBe(true);
        expect(periodOf(refill, now + more)).toBeGreaterThanOrEqual(period);
        const boundary = boundaryOf(period, refill);
        expect(boundary).toBeLessThanOrEqual(now);
        if (boundary > 0) {
          expect(periodOf(refill, boundary)).toBe(period);
          expect(periodOf(refill, boundary - 1)).toBeLessThan(period);
        }
        const next = nextBoundary(refill, now);
        expect(next).toBeGreaterThan(now);
        expect(periodOf(refill, next)).toBeGreaterThan(period);
        expect(periodOf(refill, next - 1)).toBe(period);
      }),
      { numRuns: runs(3_000) },
    );
  });

  it("days, weeks and months in UTC count as the calendars of the contract do (property)", () => {
    const instant = fc.integer({ min: 0, max: LAST_INSTANT });
    fc.assert(
      fc.property(instant, fc.integer({ min: 1, max: 31 }), (now, day) => {
        for (const refill of [daily, monthly(day)])
          expect(countOf({ ...refill, calendar: 1 }, now)).toBe(countOf(refill, now));
        const weekday = new Date(now).getUTCDay() || 7;
        const sinceThen = Math.floor(now / DAY) - ((weekday - ((day % 7) + 1) + 7) % 7);
        expect(boundaryOf(periodOf(weekly((day % 7) + 1), now), weekly((day % 7) + 1))).toBe(
          Math.max(0, sinceThen * DAY),
        );
      }),
    );
  });

  it("an account's next calendar has periods of its own, whatever it is", () => {
    const named = (
      [hourly, { ...daily, ...berlin }, weekly(3), { ...monthly(1), ...berlin }] as NumberedRefill[]
    ).flatMap((refill) => [0, 1, 2].map((calendar) => calendarOf(periodOf({ ...refill, calendar }, START))));
    expect(named).toEqual([64, 68, 72, 65, 69, 73, 66, 70, 74, 67, 71, 75]);
    expect([0, 1].map((calendar) => calendarOf(periodOf({ ...daily, calendar }, START)))).toEqual([65, 69]);
    expect(calendarOf(periodOf({ ...daily, timeZone: "UTC" }, START))).toBe(32);
    expect(boundaryOf(periodOf(hourly, START), daily)).toBe(0);
  });

  it("at most 9,600 hourly and 60 weekly boundaries are due at once", () => {
    const later = START + 3 * 365 * DAY;
    for (const [refill, most] of [
      [hourly, 9_600],
      [weekly(1), 60],
      [{ ...daily, ...berlin }, 400],
      [{ ...monthly(1), ...berlin }, 24],
    ] as const)
      expect(boundariesBetween(periodOf(refill, START), periodOf(refill, later)).due).toBe(most);
  });

  it("a clock that is far ahead counts hours up to the most that a period can say", () => {
    expect(countOf(hourly, LAST_INSTANT)).toBe(999_999_999);
    expect(calendarOf(periodOf(hourly, LAST_INSTANT))).toBe(64);
    expect(calendarOf(periodOf({ ...hourly, ...berlin }, LAST_INSTANT))).toBe(64);
  });

  it("untilRefilled: with a rollover no waiting covers more than it and a refill", () => {
    const refill: Refill = { ...daily, amount: 10, rollover: 25 };
    expect(untilRefilled(refill, { remaining: 0, cost: 35 }, START)).toBe(4 * DAY);
    expect(untilRefilled(refill, { remaining: 0, cost: 36 }, START)).toBeUndefined();
    expect(untilRefilled(refill, { remaining: 30, cost: 35 }, START)).toBe(DAY);
    expect(untilRefilled({ ...refill, rollover: 0 }, { remaining: 0, cost: 10 }, START)).toBe(DAY);
    expect(untilRefilled({ ...refill, rollover: 0 }, { remaining: 9, cost: 11 }, START)).toBeUndefined();
  });
});
