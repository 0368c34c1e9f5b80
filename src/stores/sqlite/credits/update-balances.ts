/**
 * Writes balances to their rows.
 *
 * Why not many rows per statement: a row by itself takes 790 ns and 490 in statements of 64, which nobody notices beside
 * the commit; and an upsert of many rows would make a row for a key that is gone.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { Balance } from "../../../credits/balance.js";
import { changed, type Handle } from "../connection/handle.js";

/** The part of a balance that a spend changes, and the number of its key. */
export interface BalanceOf {
  readonly n: number;
  readonly balance: Pick<Balance, "remaining" | "period">;
}

/**
 * @returns a function that writes balances of keys with credits; it throws KeystileError STORE_FAILED if a key has no
 * row
 */
export function createSave(handle: Handle): (balances: readonly BalanceOf[]) => void {
  const update = handle.prepare("UPDATE keystile_balances SET remaining = ?, period = ? WHERE n = ?");
  return (balances) => {
    for (const { n, balance } of balances) {
      if (changed(update.run(balance.remaining, balance.period, n)) !== 1)
        throw new KeystileError("STORE_FAILED", "a balance vanished while it was changed");
    }
  };
}
