/**
 * Refill calendar: which daily or monthly UTC boundaries lie between two instants. Spec §2.3 (refill).
 *
 * A period is one exact number that names its calendar and how many boundaries of it have passed: `calendar × 1_000_000_000 + count`.
 * Why not the count alone: a count of days compared with a count of months made 100,000 credits out of nothing while an administrator
 * changed the refill of a key that was being verified. Periods of two calendars are never compared; who meets one of another calendar
 * finds the key again.
 */
import type { Refill } from "../contracts/types.js";
import { MAX_DATE_MS } from "../lib/check-options.js";

const DAY_MS = 86_400_000;
/** More than any count: 8.64e15 ms are 100,000,000 days. */
const CALENDAR_UNIT = 1_000_000_000;
/** Calendars: 0 without refill, 1…31 monthly on that day, 32 daily. */
const DAILY = 32;
/** Boundaries that are counted at once at most: a clock that jumps ahead grants no more than these. */
const MAX_DAILY_DUE = 400;
const MAX_MONTHLY_DUE = 24;

/** The calendar that a period belongs to: 0 without refill, 1…31 monthly on that day, 32 daily. */
export function calendarOf(period: number): number {
  return Math.floor(period / CALENDAR_UNIT);
}

/**
 * How many boundaries lie between two periods of one calendar.
 * @returns `due`: those that are refilled, at most 400 daily or 24 monthly; `forfeited`: those beyond
 */
export function boundariesBetween(from: number, to: number): { readonly due: number; readonly forfeited: number } {
  const passed = Math.max(0, to - from);
  const calendar = calendarOf(to);
  const max = calendar === DAILY ? MAX_DAILY_DUE : calendar > 0 ? MAX_MONTHLY_DUE : passed;
  const due = Math.min(passed, max);
  return { due, forfeited: passed - due };
}

/**
 * The calendar, and how many of its boundaries have passed up to `now`: the store compares it with what it kept and refills the difference.
 * Daily: boundaries at 00:00 UTC since the epoch. Monthly: boundaries at 00:00 UTC of `refillDay`, or of the month's last day
 * where the month is shorter, January 1970 included. A boundary counts at its very millisecond.
 * @param now Unix time, milliseconds; brought into 0…8.64e15, and NaN is 0
 * @returns an integer ≥ 0 that never falls while `now` grows; 0 without refill
 * @see O(1), needs no time zone
 */
export function periodOf(refill: Refill | undefined, now: number): number {
  if (refill === undefined) return 0;
  const instant = now > 0 ? Math.min(now, MAX_DATE_MS) : 0;
  if (refill.interval === "daily") return DAILY * CALENDAR_UNIT + Math.floor(instant / DAY_MS);
  const date = new Date(instant);
  const month = (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
  // The last day of a month counts for whichever refillDay the month does not have.
  const isCounted = date.getUTCDate() >= refill.refillDay || instant >= Date.UTC(1970, month + 1) - DAY_MS;
  return refill.refillDay * CALENDAR_UNIT + (isCounted ? month + 1 : month);
}

/**
 * The instant of the last boundary that a period has counted.
 * @param period as {@link periodOf} returns it
 * @returns Unix time, milliseconds, up to 8.64e15; 0 where nothing was counted
 * @see who takes another calendar must not count what this one did
 */
export function boundaryOf(period: number): number {
  const calendar = calendarOf(period);
  const count = period - calendar * CALENDAR_UNIT;
  if (calendar <= 0 || count <= 0) return 0;
  if (calendar === DAILY) return Math.min(count * DAY_MS, MAX_DATE_MS);
  // The first boundary is that of January 1970. A day that the month does not have falls into the next one.
  const instant = Date.UTC(1970, count - 1, calendar);
  const nextMonth = Date.UTC(1970, count, 1);
  if (instant >= nextMonth) return nextMonth - DAY_MS;
  return Number.isNaN(instant) ? MAX_DATE_MS : instant;
}
