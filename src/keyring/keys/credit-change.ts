/** How a change of credits affects a row that has them and its balance. Pure: the store does the arithmetic. */
import type { CountedBalance, CreditChange, CreditRow } from "../../contracts/store.js";
import type { Refill } from "../../contracts/types.js";
import { boundaryOf, calendarOf, isNumbered, periodOf } from "../../credits/refill-calendar.js";
import { refillOf } from "../../lib/credits-source.js";
import { setField } from "../rows.js";
import type { Mutable } from "../../lib/mutable.js";

/** A requested change: absent fields are unchanged, `null` clears (`remaining` null: unlimited). */
export interface CreditPatch {
  readonly remaining?: number | null;
  readonly refill?: Refill | null;
}

/** The row of a key, or of an identity, which has no time of its own. */
type Owner = CreditRow & { readonly createdAt?: number };

/**
 * Sets the fields of `row` that follow from the patch.
 * @param balance of the row, read with the refills due by `now`
 * @returns the change of the balance to write with the row; `undefined`: none
 */
export function changeCredits(
  row: Mutable<Owner>,
  patch: CreditPatch,
  now: number,
  balance: CountedBalance,
): CreditChange | undefined {
  const before = { hasCredits: row.hasCredits, refill: refillOf(row) };
  const { remaining } = patch;
  // Unlimited has nothing to refill: the refill is dropped unless the request gives one.
  const refill = patch.refill && { ...patch.refill };
  setField(row, "refill", remaining === null ? (refill ?? null) : refill);
  if (remaining !== undefined) {
    row.hasCredits = remaining !== null;
    // As in the store, where setting a balance increments its generation: older leases are void.
    row.generation++;
  }
  const period = periodOf(before.refill, now);
  const set = remaining !== undefined && { remaining };
  const terms = termsOf(row.refill);
  const isSameCalendar = hasSameDays(before.refill, row.refill);
  // Never the same number again, also after a time without refill.
  if (!isSameCalendar && isNumbered(calendarOf(period))) row.refillCalendar = (row.refillCalendar ?? 0) + 1;
  if (row.hasCredits !== before.hasCredits || !isSameCalendar) {
    // A new balance, or one with another calendar, counts boundaries from now on, and never one that was already
    // counted.
    const last = before.hasCredits ? boundaryOf(balance.period, before.refill) : 0;
    row.refillCursor = Math.max(now, last, refillCursorOf(row));
    const change = { period, refillsCounted: balance.period, ...set };
    if (row.hasCredits) return { ...change, refill: { ...terms, period: periodOf(refillOf(row), row.refillCursor) } };
    // Unlimited from now on; the cursor stays, for the balance that may follow.
    if (remaining !== undefined) return change;
  } else if (
    row.hasCredits &&
    (before.refill?.amount !== row.refill?.amount || before.refill?.rollover !== row.refill?.rollover)
  ) {
    return { period, ...set, refill: terms };
  }
  return remaining === undefined ? undefined : { period, remaining };
}

/** What a refill says besides when it comes. */
export function termsOf(refill: Refill | undefined): { readonly amount: number; readonly rollover?: number } {
  const { amount = 0, rollover } = refill ?? {};
  return { amount, ...(rollover !== undefined && { rollover }) };
}

/** Unix milliseconds: the current calendar counts no boundary up to this instant. */
export function refillCursorOf(row: Owner): number {
  return row.refillCursor ?? row.createdAt ?? 0;
}

/** Whether the boundaries are the same: those counted stay counted, even if the clock has stepped back. */
export function hasSameDays(a: Refill | undefined, b: Refill | undefined): boolean {
  if (a?.interval !== b?.interval || (a?.timeZone ?? "UTC") !== (b?.timeZone ?? "UTC")) return false;
  // The day of a daily refill has no effect.
  return a?.interval === "daily" || a?.refillDay === b?.refillDay;
}
