/**
 * The suite that every store passes: the clauses of src/contracts/store.ts, each under its number, but for clause 9,
 * which is one of caches.
 */
import type { Store } from "../../contracts/store.js";
import type { TestFunctions } from "../test-functions.js";
import { alertsClauses } from "./alerts.js";
import { auditClauses } from "./audit.js";
import { clausesOf } from "./bed.js";
import { batchesClauses } from "./batches.js";
import { changesClauses } from "./changes.js";
import { findingClauses } from "./finding.js";
import { idempotencyClauses } from "./idempotency.js";
import { identityCreditsClauses } from "./identity-credits.js";
import { leasesClauses } from "./leases.js";
import { listsClauses } from "./lists.js";
import { outcomesClauses } from "./outcomes.js";
import { powersClauses } from "./powers.js";
import { reservationsClauses } from "./reservations.js";
import { rolloverClauses } from "./rollover.js";
import { rootKeysClauses } from "./root-keys.js";
import { roundTripsClauses } from "./round-trips.js";
import { searchingClauses } from "./searching.js";
import { spendingClauses } from "./spending.js";
import { usageClauses } from "./usage.js";
import { grantsClauses, walletsClauses } from "./wallets.js";
import { writingClauses } from "./writing.js";

const PARTS = [
  findingClauses,
  roundTripsClauses,
  writingClauses,
  spendingClauses,
  leasesClauses,
  identityCreditsClauses,
  idempotencyClauses,
  reservationsClauses,
  rolloverClauses,
  usageClauses,
  outcomesClauses,
  changesClauses,
  listsClauses,
  rootKeysClauses,
  batchesClauses,
  powersClauses,
  searchingClauses,
  auditClauses,
  alertsClauses,
  walletsClauses,
  grantsClauses,
];

/**
 * Adds a test for each clause of the `Store` contract as far as one handle shows it. A store that several processes
 * share passes `sharedStoreSuite` as well: without it, nothing tests that one process receives the changes of another.
 * @param functions of your test runner: `storeSuite({ describe, it }, "mine", () => myStore())`
 * @param title names the store in the titles of the tests
 * @param open creates a new, empty store, no copy of another; each test calls it once or twice, and closes what it
 *   created
 */
export function storeSuite(functions: TestFunctions, title: string, open: () => Store | Promise<Store>): void {
  functions.describe(`store: ${title}`, () => {
    const clause = clausesOf(functions, open);
    for (const addTo of PARTS) addTo(clause);
  });
}
