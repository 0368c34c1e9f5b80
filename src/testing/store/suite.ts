/**
 * The suite that every store passes: the clauses of src/contracts/store.ts, each under its number, but for clause 9,
 * which is one of caches.
 */
import type { AuditEntry } from "../../contracts/audit.js";
import type { Store } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import type { TestFunctions } from "../test-functions.js";
import { auditClauses } from "./audit.js";
import { clausesOf } from "./bed.js";
import { batchesClauses } from "./batches.js";
import { changesClauses } from "./changes.js";
import { findingClauses } from "./finding.js";
import { idempotencyClauses } from "./idempotency.js";
import { leasesClauses } from "./leases.js";
import { listsClauses } from "./lists.js";
import { powersClauses } from "./powers.js";
import { rootKeysClauses } from "./root-keys.js";
import { roundTripsClauses } from "./round-trips.js";
import { spendingClauses } from "./spending.js";
import { usageClauses } from "./usage.js";
import { writingClauses } from "./writing.js";

const PARTS = [
  findingClauses,
  roundTripsClauses,
  writingClauses,
  spendingClauses,
  leasesClauses,
  idempotencyClauses,
  usageClauses,
  changesClauses,
  listsClauses,
  rootKeysClauses,
  batchesClauses,
  powersClauses,
];

/** Options of {@link storeSuite}. */
export interface StoreSuiteOptions {
  /**
   * Reads the audit trail of a store that `open` created, oldest first, since the port has no method for it. Absent: of
   * a store with the power `audit` nothing tests that it keeps the entries.
   */
  readonly readAudit?: (store: Store) => MaybePromise<readonly AuditEntry[]>;
}

/**
 * Adds a test for each clause of the `Store` contract as far as one handle shows it. A store that several processes
 * share passes `sharedStoreSuite` as well: without it, nothing tests that one process receives the changes of another.
 * @param functions of your test runner: `storeSuite({ describe, it }, "mine", () => myStore())`
 * @param title names the store in the titles of the tests
 * @param open creates a new, empty store, no copy of another; each test calls it once or twice, and closes what it
 *   created
 */
export function storeSuite(
  functions: TestFunctions,
  title: string,
  open: () => Store | Promise<Store>,
  options: StoreSuiteOptions = {},
): void {
  functions.describe(`store: ${title}`, () => {
    const clause = clausesOf(functions, open);
    for (const addTo of PARTS) addTo(clause);
    auditClauses(clause, options.readAudit);
  });
}
