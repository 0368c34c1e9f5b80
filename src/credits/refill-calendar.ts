/**
 * Refill calendar: which boundaries of a refill lie between two instants: hours, days, weeks or months of a time zone.
 * Contract 2.3 (refill).
 *
 * A period is an exact number that identifies its calendar and how many of its boundaries have passed:
 * `calendar × 1_000_000_000 + count`. Stores compare periods and know no time zone.
 *
 * Why not the count alone: when an administrator changed the refill of a key that was being verified, a count of days
 * was compared with a count of months and created 100,000 credits. Periods of different calendars are never compared;
 * code that gets one of another calendar finds the key again.
 *
 * The contract's calendars have fixed numbers. Each account numbers its own other calendars, because kinds, days and
 * zones make more calendars than there are numbers. Each change of calendar takes the account's next number, so that no
 * number means two calendars of one account.
 */
import type { NumberedRefill } from "../contracts/store.js";
import type { Refill } from "../contracts/types.js";
import { MAX_DATE_MS } from "../lib/check-options.js";
import { dayAt, hourAt, startOfDay, startOfHour } from "./time-zone.js";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Greater than any count: 8.64e15 ms are 100,000,000 days. Hours are counted for 114,000 years. */
const CALENDAR_UNIT = 1_000_000_000;
/**
 * Calendars: 0 without refill, 1…31 monthly on that day, 32 daily, both in UTC; from 64 on those that the account
 * numbers, `64 + 4 × number + kind`, where the kind is the place in {@link KINDS}.
 */
const DAILY = 32;
const NUMBERED = 64;
const KINDS: readonly Refill["interval"][] = ["hourly", "daily", "weekly", "monthly"];
/** Most boundaries refilled at once, of each kind: a clock that jumps ahead grants no more. */
const MAX_DUE = [9_600, 400, 60, 24] as const;
/** 1970-01-01 was a Thursday, the fourth day of its week. */
const FIRST_WEEKDAY = 4;

/**
 * The calendar that a period belongs to: 0 without refill, 1…31 monthly on that day, 32 daily, from 64 on numbered by
 * the account.
 */
export function calendarOf(period: number): number {
  return Math.floor(period / CALENDAR_UNIT);
}

/** Whether an account numbers this calendar itself. */
export function isNumbered(calendar: number): boolean {
  return calendar >= NUMBERED;
}

/**
 * How many boundaries lie between two periods of one calendar.
 * @returns `due`: those to refill, at most 9,600 hourly, 400 daily, 60 weekly or 24 monthly; `forfeited`: the rest
 */
export function boundariesBetween(from: number, to: number): { readonly due: number; readonly forfeited: number } {
  const passed = Math.max(0, to - from);
  const due = Math.min(passed, maxDue(calendarOf(to)));
  return { due, forfeited: passed - due };
}

function maxDue(calendar: number): number {
  if (isNumbered(calendar)) return MAX_DUE[(calendar - NUMBERED) % KINDS.length] as number;
  return calendar === DAILY ? MAX_DUE[1] : calendar > 0 ? MAX_DUE[3] : Infinity;
}

/**
 * The period at `now`: the calendar, and how many of its boundaries have passed. The store compares it with the last
 * counted one and refills the difference. Boundaries are the first instants of hours, of days, of the weekday or of the
 * day of the month that `refillDay` says (the last day of a shorter month), in `timeZone`, from 1970 on. A boundary
 * counts from its exact millisecond.
 * @param now Unix time, milliseconds; clamped to 0…8.64e15, and NaN counts as 0
 * @returns an integer ≥ 0 that never decreases while `now` increases; 0 without refill
 * @throws KeystileError STORE_INVALID: the runtime does not know the time zone
 * @remarks O(1). In UTC without time zone data; elsewhere a date is formatted once a day of the zone, or once an hour
 */
export function periodOf(refill: NumberedRefill | undefined, now: number): number {
  if (refill === undefined) return 0;
  const instant = now > 0 ? Math.min(now, MAX_DATE_MS) : 0;
  return calendarOfRefill(refill) * CALENDAR_UNIT + Math.min(countAt(refill, instant), CALENDAR_UNIT - 1);
}

/** The calendar of the periods of a refill. */
function calendarOfRefill({ interval, refillDay, timeZone, calendar }: NumberedRefill): number {
  if (calendar === undefined && (timeZone === undefined || timeZone === "UTC")) {
    if (interval === "daily") return DAILY;
    if (interval === "monthly") return refillDay;
  }
  return NUMBERED + KINDS.length * (calendar ?? 0) + KINDS.indexOf(interval);
}

function countAt({ interval, refillDay, timeZone = "UTC" }: Refill, instant: number): number {
  const isUtc = timeZone === "UTC";
  if (interval === "hourly") return isUtc ? Math.floor(instant / HOUR_MS) : Math.max(0, hourAt(timeZone, instant));
  const day = isUtc ? Math.floor(instant / DAY_MS) : dayAt(timeZone, instant);
  if (interval === "daily") return Math.max(0, day);
  if (interval === "weekly") return Math.floor((day - firstDay(refillDay)) / 7) + 1;
  const date = new Date(day * DAY_MS);
  const month = (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
  // The last day of a month counts for any `refillDay` that the month does not have.
  const isCounted = date.getUTCDate() >= refillDay || day * DAY_MS >= Date.UTC(1970, month + 1) - DAY_MS;
  return isCounted ? month + 1 : month;
}

/** The first day from 1970 on that is this day of the week, 1…7. */
function firstDay(refillDay: number): number {
  return (refillDay - FIRST_WEEKDAY + 7) % 7;
}

/**
 * How long until refills have added so much that the balance covers the cost, if nobody takes any of it.
 * @param short a balance and a cost above it
 * @param now Unix time, milliseconds: boundaries up to it are counted
 * @returns milliseconds, ≥ 1; undefined: without refill, the boundaries are more than are refilled at once, or the cost
 *   is above what the rollover and a refill come to
 */
export function untilRefilled(
  refill: NumberedRefill | undefined,
  { remaining, cost }: { readonly remaining: number; readonly cost: number },
  now: number,
): number | undefined {
  if (refill === undefined || refill.amount <= 0) return undefined;
  if (refill.rollover !== undefined && cost - refill.amount > refill.rollover) return undefined;
  const boundaries = Math.max(1, Math.ceil((cost - remaining) / refill.amount));
  const period = periodOf(refill, now);
  return boundaries > maxDue(calendarOf(period)) ? undefined : boundaryOf(period + boundaries, refill) - now;
}

/** The instant of the next boundary, Unix time in milliseconds. */
export function nextBoundary(refill: NumberedRefill, now: number): number {
  return boundaryOf(periodOf(refill, now) + 1, refill);
}

/**
 * The instant of the last boundary that a period has counted. Changing the calendar uses it, so that the new calendar
 * does not count the same time again.
 * @param period as {@link periodOf} returns it
 * @param refill that the period belongs to; only a calendar with a number of the account's own needs it
 * @returns Unix time, milliseconds, up to 8.64e15; 0 if nothing was counted, or the period has another calendar than
 *   the refill
 */
export function boundaryOf(period: number, refill?: NumberedRefill): number {
  const calendar = calendarOf(period);
  const count = period - calendar * CALENDAR_UNIT;
  if (calendar <= 0 || count <= 0) return 0;
  if (calendar === DAILY) return Math.min(count * DAY_MS, MAX_DATE_MS);
  if (calendar < DAILY) return Math.min(dayOfMonth(count, calendar) * DAY_MS, MAX_DATE_MS);
  if (refill === undefined || calendarOfRefill(refill) !== calendar) return 0;
  const { interval, refillDay, timeZone = "UTC" } = refill;
  if (interval === "hourly") return startOfHour(timeZone, count);
  const day =
    interval === "daily"
      ? count
      : interval === "weekly"
        ? firstDay(refillDay) + 7 * (count - 1)
        : dayOfMonth(count, refillDay);
  return startOfDay(timeZone, day);
}

/** The day of the monthly boundary of this number, the first of which is in January 1970, as days since the epoch. */
function dayOfMonth(count: number, refillDay: number): number {
  const [first, next] = [Date.UTC(1970, count - 1, 1), Date.UTC(1970, count, 1)];
  const last = Number.isNaN(next) ? Infinity : next / DAY_MS - 1;
  return Number.isNaN(first) ? Infinity : Math.min(first / DAY_MS + refillDay - 1, last);
}
