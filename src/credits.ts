/** Refill calendar. Spec §2.3 (refill), ruling D3. Knows civil dates in UTC; knows nothing of keys, balances or stores. */
import type { Refill } from "./types.js";

const DAY_MS = 86_400_000;
/** The last instant that ECMAScript dates know, Unix milliseconds. */
const LAST_INSTANT = 8.64e15;

/**
 * How many refills a calendar has seen up to `now`: the store compares it with the count that it kept and adds the difference.
 * Daily: boundaries at 00:00 UTC since the epoch. Monthly: boundaries at 00:00 UTC of `refillDay`, or of the month's last day
 * where the month is shorter, January 1970 included. A boundary counts at its very millisecond.
 * @param now Unix time, milliseconds; brought into 0…8.64e15, and NaN is 0
 * @returns an integer ≥ 0 that never falls while `now` grows; 0 without refill
 * @see ruling D3, A7 · O(1), needs no time zone
 */
export function periodOf(refill: Refill | undefined, now: number): number {
  if (refill === undefined) return 0;
  const instant = now > 0 ? Math.min(now, LAST_INSTANT) : 0;
  if (refill.interval === "daily") return Math.floor(instant / DAY_MS);
  const date = new Date(instant);
  const month = (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
  // The last day of a month counts for whichever refillDay the month does not have.
  const isCounted = date.getUTCDate() >= refill.refillDay || instant >= Date.UTC(1970, month + 1) - DAY_MS;
  return isCounted ? month + 1 : month;
}

/**
 * The instant of the last boundary that a calendar has counted.
 * @param period a count of {@link periodOf}
 * @returns Unix time, milliseconds, up to 8.64e15; 0 where nothing was counted
 * @see ruling A7: who takes another calendar must not count what this one did
 */
export function boundaryOf(refill: Refill | undefined, period: number): number {
  if (refill === undefined || period <= 0) return 0;
  if (refill.interval === "daily") return Math.min(period * DAY_MS, LAST_INSTANT);
  // The first boundary is that of January 1970. A day that the month does not have falls into the next one.
  const instant = Date.UTC(1970, period - 1, refill.refillDay);
  const nextMonth = Date.UTC(1970, period, 1);
  if (instant >= nextMonth) return nextMonth - DAY_MS;
  return Number.isNaN(instant) ? LAST_INSTANT : instant;
}
