/**
 * Refill calendar: which daily or monthly UTC boundaries lie between two instants. Contract 2.3 (refill).
 *
 * A period is an exact number that identifies its calendar and how many of its boundaries have passed:
 * `calendar × 1_000_000_000 + count`.
 *
 * Why not the count alone: when an administrator changed the refill of a key that was being verified, a count of days
 * was compared with a count of months and created 100,000 credits. Periods of different calendars are never compared;
 * code that gets one of another calendar finds the key again.
 */
import type { Refill } from "../contracts/types.js";
import { MAX_DATE_MS } from "../lib/check-options.js";

const DAY_MS = 86_400_000;
/** Greater than any count: 8.64e15 ms are 100,000,000 days. */
const CALENDAR_UNIT = 1_000_000_000;
/** Calendars: 0 without refill, 1…31 monthly on that day, 32 daily. */
const DAILY = 32;
/** Most boundaries refilled at once: a clock that jumps ahead grants no more. */
const MAX_DAILY_DUE = 400;
const MAX_MONTHLY_DUE = 24;

/** The calendar that a period belongs to: 0 without refill, 1…31 monthly on that day, 32 daily. */
export function calendarOf(period: number): number {
  return Math.floor(period / CALENDAR_UNIT);
}

/**
 * How many boundaries lie between two periods of one calendar.
 * @returns `due`: those to refill, at most 400 daily or 24 monthly; `forfeited`: the rest
 */
export function boundariesBetween(from: number, to: number): { readonly due: number; readonly forfeited: number } {
  const passed = Math.max(0, to - from);
  const calendar = calendarOf(to);
  const max = calendar === DAILY ? MAX_DAILY_DUE : calendar > 0 ? MAX_MONTHLY_DUE : passed;
  const due = Math.min(passed, max);
  return { due, forfeited: passed - due };
}

/**
 * The period at `now`: the calendar, and how many of its boundaries have passed. The store compares it with the last
 * counted one and refills the difference. Daily boundaries are at 00:00 UTC since the epoch. Monthly ones are at 00:00
 * UTC on `refillDay`, or on the last day of a shorter month, from January 1970 on. A boundary counts from its exact
 * millisecond.
 * @param now Unix time, milliseconds; clamped to 0…8.64e15, and NaN counts as 0
 * @returns an integer ≥ 0 that never decreases while `now` increases; 0 without refill
 * @remarks O(1), needs no time zone data
 */
export function periodOf(refill: Refill | undefined, now: number): number {
  if (refill === undefined) return 0;
  const instant = now > 0 ? Math.min(now, MAX_DATE_MS) : 0;
  if (refill.interval === "daily") return DAILY * CALENDAR_UNIT + Math.floor(instant / DAY_MS);
  const date = new Date(instant);
  const month = (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
  // The last day of a month counts for any `refillDay` that the month does not have.
  const isCounted = date.getUTCDate() >= refill.refillDay || instant >= Date.UTC(1970, month + 1) - DAY_MS;
  return refill.refillDay * CALENDAR_UNIT + (isCounted ? month + 1 : month);
}

/**
 * How long until refills have added so much, if nobody takes any of it.
 * @param missing credits
 * @param now Unix time, milliseconds: boundaries up to it are counted
 * @returns milliseconds, ≥ 1; undefined: without refill, or the boundaries are more than are refilled at once
 */
export function untilRefilled(refill: Refill | undefined, missing: number, now: number): number | undefined {
  if (refill === undefined || refill.amount <= 0) return undefined;
  const boundaries = Math.max(1, Math.ceil(missing / refill.amount));
  if (boundaries > (refill.interval === "daily" ? MAX_DAILY_DUE : MAX_MONTHLY_DUE)) return undefined;
  return boundaryOf(periodOf(refill, now) + boundaries) - now;
}

/**
 * The instant of the last boundary that a period has counted. Changing the calendar uses it, so that the new calendar
 * does not count the same time again.
 * @param period as {@link periodOf} returns it
 * @returns Unix time, milliseconds, up to 8.64e15; 0 if nothing was counted
 */
export function boundaryOf(period: number): number {
  const calendar = calendarOf(period);
  const count = period - calendar * CALENDAR_UNIT;
  if (calendar <= 0 || count <= 0) return 0;
  if (calendar === DAILY) return Math.min(count * DAY_MS, MAX_DATE_MS);
  // The first boundary is in January 1970. A day that the month does not have overflows into the next month.
  const instant = Date.UTC(1970, count - 1, calendar);
  const nextMonth = Date.UTC(1970, count, 1);
  if (instant >= nextMonth) return nextMonth - DAY_MS;
  return Number.isNaN(instant) ? MAX_DATE_MS : instant;
}
