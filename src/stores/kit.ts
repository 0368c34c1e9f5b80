/**
 * The entry `keystile/store-kit`: what a store of your own needs besides its engine. Rows go in and out; the arithmetic
 * of balances, the records that finds return, and the names that are unique are the same for every store.
 * @module keystile/store-kit
 */
export {
  type Account,
  type AccountSpend,
  type Applied,
  applyChange,
  type BalanceRead,
  countedBalance,
  countRefills,
  draw,
  endLease,
  forfeitedRefills,
  isConserved,
  isCurrent,
  isOfCalendar,
  type Lease,
  type LeaseChanges,
  MAX_BALANCE,
  openAccount,
  type ReservationLookups,
  reserve,
  settle,
  spend,
  sweep,
  type Totals,
} from "../credits/account.js";
export { boundariesBetween, boundaryOf, calendarOf, periodOf } from "../credits/refill-calendar.js";
export {
  withoutAnalytics,
  withoutAudit,
  withoutIdempotency,
  withoutLeases,
  withoutReservations,
  withoutUsage,
} from "../lib/guards/powers.js";
export { withCredits } from "../contracts/row-changes.js";
export { findEach } from "./find-each.js";
export { type OnceTable, spendOnce } from "./spend-once.js";
export { flatten, type Granted, type GrantedNames, type Related, toRecord, toRecordWith } from "./key-record.js";
export { listed, nameOf, uniqueOf } from "./row-names.js";
export { toIdentity } from "../lib/identity.js";
export { overrideName } from "../lib/row-name.js";
