/**
 * Makes a consistent copy of a database fit to be used in place of the original: current tables, no leases of nodes.
 *
 * Why leases are ended: their nodes go on spending what they hold, in the original. Given back to the balance of the
 * copy it would be granted twice, so it counts as forfeited.
 */
import { isKeystileError } from "../../../contracts/errors.js";
import { forfeitLeases } from "../../../credits/account.js";
import { type Driver, withFile } from "../connection/driver.js";
import { type Handle, select } from "../connection/handle.js";
import { prepareSchema } from "../connection/schema.js";
import { createTransact } from "../connection/transaction.js";
import { type Accounts, createAccounts } from "../credits/account-table.js";
import type { Reconciliation } from "../../reconciliation.js";
import { reconcile } from "../credits/reconcile.js";

/** What was done to a copy. */
export interface PreparedCopy {
  /** Leases that were ended. */
  readonly leases: number;
  /** Credits that they held. */
  readonly forfeited: number;
  readonly credits: Reconciliation;
}

/** Accounts per query. */
const BATCH = 1_000;

/**
 * Prepares the copy at `path`, which nothing else has open. It is on disk only after a sync.
 * @param onAccounts called with the number of accounts proved so far
 * @throws KeystileError STORE_SCHEMA_NEWER, STORE_INVALID; otherwise the driver's error
 */
export function prepareCopy(driver: Driver, path: string, onAccounts: (accounts: number) => void): PreparedCopy {
  return withFile(driver, { path, readonly: false, timeout: 0 }, (handle) => {
    // A crash leaves a file without its final name, which nobody uses.
    handle.exec("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON");
    const transact = createTransact(handle);
    prepareSchema(handle, transact);
    const ended = transact(() => endLeases(handle));
    return { ...(ended as Ended), credits: reconcile(handle, onAccounts) };
  });
}

type Ended = Pick<PreparedCopy, "leases" | "forfeited">;

function endLeases(handle: Handle): Ended {
  const accounts = createAccounts(handle);
  const page = select<{ n: number | bigint }>(
    handle,
    `SELECT DISTINCT account AS n FROM keystile_leases WHERE account > ? ORDER BY account LIMIT ${BATCH}`,
  );
  const total = { leases: 0, forfeited: 0 };
  for (let rows = page.all(Number.MIN_SAFE_INTEGER); rows.length > 0;) {
    let last = 0;
    for (const row of rows) {
      last = Number(row.n);
      const ended = endLeasesOf(accounts, last);
      total.leases += ended.leases;
      total.forfeited += ended.forfeited;
    }
    rows = page.all(last);
  }
  return total;
}

/** An account that does not add up is left as it is: it refuses to spend, and setting its balance ends its leases. */
function endLeasesOf(accounts: Accounts, n: number): Ended {
  try {
    const account = accounts.read(n);
    if (account === undefined) return NONE;
    const { account: after, leases } = forfeitLeases(account, accounts.leases(n));
    accounts.save(n, account, after);
    accounts.saveLeases(n, leases);
    return { leases: leases.length, forfeited: account.reserved - after.reserved };
  } catch (cause) {
    if (isKeystileError(cause) && cause.code === "STORE_INVALID") return NONE;
    throw cause;
  }
}

const NONE: Ended = { leases: 0, forfeited: 0 };
