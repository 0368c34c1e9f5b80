/** Days and hours of time zones, against Temporal, which has the same rules and an arithmetic of its own. */
import fc from "fast-check";
import { Temporal } from "temporal-polyfill";
import { describe, expect, it } from "vitest";
import { dayAt, hourAt, isTimeZone, startOfDay, startOfHour } from "../../src/credits/time-zone.js";
import { runs } from "../runs.js";

const HOUR = 3_600_000;
const DAY = 86_400_000;
const ZONES = Intl.supportedValuesOf("timeZone");
const at = (text: string): number => Date.parse(text);
const dayOf = (date: string): number => at(`${date}T00:00:00Z`) / DAY;

/** The first instant of a day: of one that the zone left out, that of the day after. */
function startByTemporal(zone: string, day: number): number {
  const date = Temporal.PlainDate.from("1970-01-01").add({ days: day });
  const start = date.toZonedDateTime({ timeZone: zone });
  return start.epochMilliseconds;
}

/** Days on which the offset of a zone changes, and those next to them: what can go wrong lies there. */
function daysOfChanges(zone: string): number[] {
  const days = new Set<number>();
  let now = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone);
  for (;;) {
    const next = now.getTimeZoneTransition("next");
    if (next === null || next.year > 2100) return [...days];
    const day = Math.floor(next.epochMilliseconds / DAY);
    for (const near of [day - 1, day, day + 1]) if (near > 0) days.add(near);
    now = next;
  }
}

describe("days of a time zone", () => {
  it.each<[zone: string, date: string, start: string]>([
    ["Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z"],
    ["Europe/Berlin", "2026-03-30", "2026-03-29T22:00:00Z"],
    ["Asia/Kolkata", "2026-01-01", "2025-12-31T18:30:00Z"],
    // The clocks skip midnight: the day begins at 01:00.
    ["America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"],
    ["Asia/Beirut", "2022-03-27", "2022-03-26T22:00:00Z"],
    ["Africa/Cairo", "2024-04-26", "2024-04-25T22:00:00Z"],
    // At 01:00 the clocks go back to midnight, which comes twice: the first counts.
    ["America/Havana", "2025-11-02", "2025-11-02T04:00:00Z"],
    // At 00:01 they went back to 23:01: the day had begun.
    ["America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z"],
    // Half an hour.
    ["Australia/Lord_Howe", "2026-04-06", "2026-04-05T13:30:00Z"],
    // The zone left out 2011-12-30: the day begins with the one after it.
    ["Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"],
    ["Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"],
    ["Pacific/Kiritimati", "2026-01-01", "2025-12-31T10:00:00Z"],
    ["UTC", "2026-01-01", "2026-01-01T00:00:00Z"],
  ])("%s: %s begins at %s", (zone, date, start) => {
    const day = dayOf(date);
    expect(new Date(startOfDay(zone, day)).toISOString()).toBe(new Date(at(start)).toISOString());
    expect(dayAt(zone, at(start))).toBe(date === "2011-12-30" ? day + 1 : day);
    expect(dayAt(zone, at(start) - 1)).toBe(date === "2011-12-31" ? day - 2 : day - 1);
  });

  it("a day that has begun goes on where clocks are set back into the day before", () => {
    const [first, again] = [at("2010-11-07T02:30:30Z"), at("2010-11-07T02:31:30Z")];
    expect([first, again].map((now) => dayAt("America/St_Johns", now))).toEqual([
      dayOf("2010-11-07"),
      dayOf("2010-11-07"),
    ]);
  });

  it("agree with Temporal wherever the offset of a zone changes, 1970 to 2100", () => {
    // All zones in all runs.
    const zones = ZONES.filter((_, i) => i % Math.max(1, Math.round(ZONES.length / runs(ZONES.length))) === 0);
    let compared = 0;
    for (const zone of zones) {
      for (const day of daysOfChanges(zone)) {
        const start = startByTemporal(zone, day);
        compared++;
        if (startOfDay(zone, day) !== start)
          expect.fail(`${zone}: day ${day} begins at ${startOfDay(zone, day)}, not ${start}`);
      }
    }
    expect(compared).toBeGreaterThan(1_000);
  });

  it("agree with Temporal on any day of any zone, and never go back (property)", () => {
    const zone = fc.constantFrom(...ZONES);
    fc.assert(
      fc.property(
        zone,
        fc.integer({ min: 1, max: dayOf("2100-12-31") }),
        fc.nat({ max: 3 * DAY }),
        (name, day, more) => {
          const start = startByTemporal(name, day);
          expect(startOfDay(name, day)).toBe(start);
          expect(dayAt(name, start)).toBeGreaterThanOrEqual(day);
          expect(dayAt(name, start - 1)).toBeLessThan(day);
          expect(dayAt(name, start + more)).toBeGreaterThanOrEqual(dayAt(name, start));
        },
      ),
      { numRuns: runs(5_000) },
    );
  });

  it("reach the last instant that dates know", () => {
    for (const zone of ["Europe/Berlin", "Pacific/Kiritimati", "America/New_York"]) {
      expect(Math.abs(dayAt(zone, 8.64e15) - 1e8)).toBeLessThanOrEqual(1);
      expect(startOfDay(zone, 1e8 + 5)).toBe(8.64e15);
      expect(startOfHour(zone, 24e8 + 5)).toBe(8.64e15);
    }
  });
});

describe("hours of a time zone", () => {
  it("begin at full hours of the local clock, and last an hour where clocks change (property)", () => {
    const instant = fc.integer({ min: DAY, max: at("2100-12-31T00:00:00Z") });
    fc.assert(
      fc.property(fc.constantFrom(...ZONES), instant, (zone, now) => {
        const hour = hourAt(zone, now);
        const [from, to] = [startOfHour(zone, hour), startOfHour(zone, hour + 1)];
        expect(from <= now && now < to).toBe(true);
        expect([hourAt(zone, from), hourAt(zone, from - 1), hourAt(zone, to)]).toEqual([hour, hour - 1, hour + 1]);
        const [began, ended] = [from, to].map((ms) =>
          Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone),
        );
        const isSteady = (began!.offsetNanoseconds - ended!.offsetNanoseconds) % 3.6e12 === 0;
        if (isSteady) expect([to - from, began!.minute, ended!.minute]).toEqual([HOUR, 0, 0]);
      }),
      { numRuns: runs(3_000) },
    );
  });

  it("of a change by half an hour one is longer and one shorter, and none is lost", () => {
    const zone = "Australia/Lord_Howe";
    const year = [at("2025-07-01T00:00:00Z"), at("2026-07-01T00:00:00Z")] as const;
    expect(hourAt(zone, year[1]) - hourAt(zone, year[0])).toBe((year[1] - year[0]) / HOUR);
    const length = (text: string) => {
      const hour = hourAt(zone, at(text));
      return (startOfHour(zone, hour + 1) - startOfHour(zone, hour)) / 60_000;
    };
    expect(length("2025-10-04T15:45:00Z")).toBe(90);
    expect(length("2026-04-04T15:10:00Z")).toBe(30);
  });
});

describe("names of time zones", () => {
  it("are those that the runtime knows, in any letter case; no offsets", () => {
    for (const name of ["Europe/Berlin", "europe/berlin", "UTC", "America/Argentina/Buenos_Aires"])
      expect(isTimeZone(name), name).toBe(true);
    for (const name of ["", "Mars/Olympus", "+01:00", "-05", "Europe/Berlin ", "Berlin", "x".repeat(10_000)])
      expect(isTimeZone(name), name).toBe(false);
  });

  it("one that the runtime does not know fails, and names itself", () => {
    expect(() => dayAt("Mars/Olympus", 0)).toThrow(
      expect.objectContaining({ code: "STORE_INVALID", message: expect.stringContaining("Mars/Olympus") }),
    );
  });

  it("any number of them is known by turns", () => {
    // In letter cases of their own.
    const names = Array.from({ length: 1_500 }, (_, n) =>
      [..."europe/berlin"].map((letter, i) => (((n >> i) & 1) === 1 ? letter.toUpperCase() : letter)).join(""),
    );
    const now = at("2026-06-01T22:00:00Z");
    expect(new Set([...names, ...names].map((name) => dayAt(name, now)))).toEqual(new Set([dayOf("2026-06-02")]));
  });
});
