/** What a change of credits does to a key's row and to its balance. Rulings D1–D4. Pure: the store does the arithmetic. */
import type { CountedBalance, CreditChange, KeyRow } from "../../contracts/store.js";
import type { Refill } from "../../contracts/types.js";
import { boundaryOf, periodOf } from "../../credits/refill-calendar.js";
import { type Mutable, setField } from "../rows.js";

/** A wish: absent: stay, `null` clears (`remaining` null: unlimited). */
export interface CreditPatch {
  readonly remaining?: number | null;
  readonly refill?: Refill | null;
}

/**
 * Sets the fields of `row` that follow from the wish.
 * @param balance the key's, read with the refills due by `now`
 * @returns the change of the balance to write with the row; `undefined`: there is none to make
 */
export function changeCredits(
  row: Mutable<KeyRow>,
  patch: CreditPatch,
  now: number,
  balance: CountedBalance,
): CreditChange | undefined {
  const before = { hasCredits: row.hasCredits, refill: row.refill };
  const { remaining } = patch;
  // Unlimited has nothing to refill: the refill is dropped unless the request gives one.
  const refill = patch.refill && { ...patch.refill };
  setField(row, "refill", remaining === null ? (refill ?? null) : refill);
  if (remaining !== undefined) {
    row.hasCredits = remaining !== null;
    // As in the store, where each balance that is set counts up: older leases are void.
    row.generation++;
  }
  const period = periodOf(before.refill, now);
  const set = remaining !== undefined && { remaining };
  const amount = row.refill?.amount ?? 0;
  if (row.hasCredits !== before.hasCredits || !hasSameDays(before.refill, row.refill)) {
    // A balance that starts or takes another calendar counts from now on, and never again what was counted (ruling A7).
    const last = before.hasCredits ? boundaryOf(balance.period) : 0;
    row.refillCursor = Math.max(now, last, refillCursorOf(row));
    if (row.hasCredits)
      return {
        period,
        refillsCounted: balance.period,
        ...set,
        refill: { amount, period: periodOf(row.refill, row.refillCursor) },
      };
  } else if (row.hasCredits && before.refill?.amount !== row.refill?.amount) {
    return { period, ...set, refill: { amount } };
  }
  return remaining === undefined ? undefined : { period, remaining };
}

/** Unix milliseconds: the present calendar counts no boundary up to this instant. */
export function refillCursorOf(row: KeyRow): number {
  return row.refillCursor ?? row.createdAt;
}

/** Same boundaries: those counted stay counted, also if the clock has stepped back (ruling A7). */
function hasSameDays(a: Refill | undefined, b: Refill | undefined): boolean {
  // The day of a daily refill has no effect (ruling D4).
  return a?.interval === b?.interval && (a?.interval === "daily" || a?.refillDay === b?.refillDay);
}
