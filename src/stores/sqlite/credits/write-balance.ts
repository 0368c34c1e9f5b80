/** Changes a balance as an administrator does, inside the caller's transaction. */
import { isKeystileError } from "../../../contracts/errors.js";
import type { CreditChange, CreditRow, WrittenBalance } from "../../../contracts/store.js";
import { type Account, applyChange, isCurrent, type Lease, writtenBalance } from "../../../credits/account.js";
import { type Accounts, NO_LEASES } from "./account-table.js";

/**
 * @param n the account
 * @returns `undefined`: the change does not fit the account anymore
 */
export function writeBalance(
  accounts: Accounts,
  n: number,
  { row, credits: change }: { readonly row: Partial<CreditRow>; readonly credits: CreditChange },
): WrittenBalance | undefined {
  let before: Account | undefined;
  let leases: ReadonlyMap<string, Lease>;
  try {
    before = accounts.read(n);
    leases = accounts.leases(n);
  } catch (error) {
    // Setting the balance is how a damaged account is repaired: it starts anew, by the refill of the row.
    if (!isKeystileError(error) || error.code !== "STORE_INVALID" || change.remaining === undefined) throw error;
    const { amount = 0, rollover } = row.refill ?? {};
    const refill = { amount, ...(rollover !== undefined && { rollover }) };
    const anew = applyChange(undefined, NO_LEASES, { refill, ...change });
    accounts.dropLeases(n);
    accounts.replace(n, { ...anew.account, generation: row.generation ?? 0 });
    return writtenBalance(anew);
  }
  if (!isCurrent(before, change)) return undefined;
  const after = applyChange(before, leases, change);
  accounts.replace(n, after.account);
  accounts.saveLeases(n, after.leases);
  return writtenBalance(after);
}
