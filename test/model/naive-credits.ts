/** Rulings D1–D4 once more: one balance, and a walk over the calendar. Big integers, so that nothing here can round. */
import type { Refill } from "../../src/contracts/types.js";

export interface ModelCredits {
  /** null: unlimited. */
  remaining: bigint | null;
  refill: Refill | undefined;
  /** Boundaries up to this instant have been counted. */
  counted: number;
  /** Of a key: unlimited, whatever its identity has (ruling D11). */
  isNone?: boolean;
}

const DAY = 86_400_000;
const MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** Boundaries after `from`, up to and including `to`. */
export function boundaries(refill: Refill, from: number, to: number): number {
  if (to <= from) return 0;
  if (refill.interval === "daily") return Math.floor(to / DAY) - Math.floor(from / DAY);
  const start = new Date(from);
  let count = 0;
  for (let month = start.getUTCMonth(), year = start.getUTCFullYear(); ; month++) {
    // Day 0 of the next month is the last of this one.
    const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    const boundary = Date.UTC(year, month, Math.min(refill.refillDay!, last));
    if (boundary > to) return count;
    if (boundary > from) count++;
    if (month === 11) {
      month = -1;
      year++;
    }
  }
}

/** The instant of the last boundary up to `to`; 0: there was none. */
function lastBoundary(refill: Refill | undefined, to: number): number {
  if (refill === undefined) return 0;
  // Midnight by midnight, back from the last one: whether a boundary lies in the millisecond before is asked of the
  // walk above.
  for (let midnight = Math.floor(to / DAY) * DAY; midnight > 0; midnight -= DAY) {
    if (boundaries(refill, midnight - 1, midnight) === 1) return midnight;
  }
  return 0;
}

/** The balance with what is due; `null`: unlimited. Changes nothing. */
export function balanceAt({ remaining, refill, counted }: ModelCredits, now: number): bigint | null {
  if (remaining === null || refill === undefined) return remaining;
  const due = Math.min(boundaries(refill, counted, now), refill.interval === "daily" ? 400 : 24);
  const { amount, rollover } = refill;
  if (rollover === undefined) return least(MAX, remaining + BigInt(amount) * BigInt(due));
  // Boundary by boundary: what is above the rollover expires, then the refill comes.
  let left = remaining;
  for (let i = 0; i < due; i++) left = least(left, BigInt(rollover)) + BigInt(amount);
  return least(MAX, left);
}

/** Counts what is due, for good. */
export function settle(credits: ModelCredits, now: number): void {
  credits.remaining = balanceAt(credits, now);
  credits.counted = Math.max(credits.counted, now);
}

/** The least of what there is, if anything is limited. */
export function leastAt(all: readonly ModelCredits[], now: number): bigint | null {
  return all.map((one) => balanceAt(one, now)).reduce((a, b) => (a === null || (b !== null && b < a) ? b : a), null);
}

/** Takes `cost` of each, if it is there in all of them. */
export function spendAll(all: readonly ModelCredits[], cost: number, now: number): boolean {
  if (all.some((one) => (balanceAt(one, now) ?? MAX) < BigInt(cost))) return false;
  return all.every((one) => spend(one, cost, now));
}

/** Takes `cost` if it is there (ruling D1); a cost of 0 passes and changes nothing (ruling D2). */
export function spend(credits: ModelCredits, cost: number, now: number): boolean {
  const balance = balanceAt(credits, now);
  if (balance === null || cost === 0) return true;
  if (BigInt(cost) > balance) return false;
  settle(credits, now);
  credits.remaining = balance - BigInt(cost);
  return true;
}

/**
 * `updateKey` with credits and `updateCredits` with `set`: absent keeps, `null` clears.
 * @param since what the key knows of when the calendar, or the balance, began: another counts none up to there
 * @returns the same after the change; `undefined`: nothing changed
 */
export function set(
  credits: ModelCredits,
  wish: { remaining?: number | null; refill?: Refill | null },
  now: number,
  since: number,
): number | undefined {
  const wasLimited = credits.remaining !== null;
  if (wish.remaining !== undefined) credits.isNone = wish.remaining === null;
  const refill =
    wish.refill !== undefined ? (wish.refill ?? undefined) : wish.remaining === null ? undefined : credits.refill;
  const isLimited = wish.remaining === undefined ? wasLimited : wish.remaining !== null;
  const otherDays = daysOf(refill) !== daysOf(credits.refill);
  if (
    wasLimited &&
    (otherDays ||
      refill?.amount !== credits.refill?.amount ||
      refill?.rollover !== credits.refill?.rollover ||
      wish.remaining !== undefined)
  )
    settle(credits, now);
  if (wish.remaining === undefined && JSON.stringify(refill) === JSON.stringify(credits.refill)) return undefined;
  const last = wasLimited ? lastBoundary(credits.refill, Math.max(credits.counted, now)) : 0;
  credits.refill = refill;
  if (wish.remaining !== undefined) credits.remaining = wish.remaining === null ? null : BigInt(wish.remaining);
  // A balance that begins, or takes other days, counts from now, and nothing again; days that stay keep what was
  // counted.
  if (!otherDays && isLimited === wasLimited) return since;
  const from = Math.max(now, since, last);
  if (isLimited) credits.counted = from;
  return from;
}

/** Which boundaries a calendar has. */
function daysOf(refill: Refill | undefined): string {
  return refill?.interval === "monthly" ? `monthly ${refill.refillDay}` : (refill?.interval ?? "none");
}

/** `increment` and `decrement`, between 0 and 2^53 − 1. */
export function add(credits: ModelCredits, value: number, now: number): void {
  settle(credits, now);
  const sum = (credits.remaining ?? 0n) + BigInt(value);
  credits.remaining = sum < 0n ? 0n : least(MAX, sum);
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
