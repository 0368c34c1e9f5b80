/** Spends and writes under an idempotency key: what every store does inside its transaction. Store clause 23. */
import type { OnceBounds, OnceRecord, OnceSpend, Spend, SpendOnce, WriteOnce } from "../contracts/store.js";

/** Expired records that one write removes of all, and where the share is used up as many of the workspace. */
export const EXPIRED_PER_WRITE = 8;

/** The records of a store, inside one transaction. */
export interface OnceTable {
  /** The record under this id, expired or not. */
  find(id: string): Pick<OnceRecord, "body" | "until"> | undefined;
  /** Removes a record that is there. */
  remove(id: string): void;
  /**
   * Removes some expired records.
   * @returns whether there is space for another of the workspace
   */
  makeSpace(workspaceId: string, now: number, bounds: OnceBounds): boolean;
  /** Adds a record whose id is not there. */
  add(record: OnceRecord): void;
}

/**
 * Spends and records a call, unless it was recorded before. The caller makes it one transaction.
 * @param spend takes a cost, or reads the balance at a cost of 0; `undefined`: the key has none
 * @throws RangeError: `record.until` is not an integer; before anything is changed
 */
export function spendOnce(
  table: OnceTable,
  spend: (cost: number) => Spend | undefined,
  { cost, now, once: { record, bounds } }: SpendOnce,
): OnceSpend {
  assertRecord(record);
  const once = { record, bounds, now };
  const known = knownAs(table, once);
  if (known !== undefined) return known === "repeated" ? withSpend(known, spend(0)) : { outcome: known };
  if (!makeSpaceFor(table, once)) return { outcome: "full" };
  const spent = spend(cost);
  if (spent?.ok === true) table.add(record);
  return withSpend("done", spent);
}

/** What a call is if the table has a record of it that lasts; `undefined`: it is new. */
export function knownAs(table: OnceTable, { record, now }: WriteOnce): "repeated" | "mismatch" | undefined {
  const body = bodyAt(table.find(record.id), now);
  if (body === undefined) return undefined;
  return body === record.body ? "repeated" : "mismatch";
}

/** Makes space for the record of a new call. @returns false: the store has none for its workspace */
export function makeSpaceFor(table: OnceTable, { record, bounds, now }: WriteOnce): boolean {
  // One that has expired: a new one takes its place.
  if (table.find(record.id) !== undefined) table.remove(record.id);
  return table.makeSpace(record.workspaceId, now, bounds);
}

/**
 * Whether a workspace that has `own` records may have another. Where the store is full, one below its equal share of
 * the records may: none is removed for it, since a live record keeps a repeat from spending, so that the store has at
 * most
 * `maxRecords` × (1 + 1/2 + … + 1/workspaces).
 * @param all records of the store
 * @param countWorkspaces how many have records, this one included
 */
export function hasSpace(
  { maxRecords, maxPerWorkspace }: OnceBounds,
  own: number,
  all: number,
  countWorkspaces: () => number,
): boolean {
  if (own >= maxPerWorkspace) return false;
  return own === 0 || all < maxRecords || own < Math.floor(maxRecords / countWorkspaces());
}

/** The record's body, unless it has expired. */
export function bodyAt(record: Pick<OnceRecord, "body" | "until"> | undefined, now: number): string | undefined {
  return record !== undefined && record.until > now ? record.body : undefined;
}

/** @throws RangeError: `until` is not an integer, which a database driver would bind as something else */
export function assertRecord({ until }: Pick<OnceRecord, "until">): void {
  if (!Number.isSafeInteger(until)) throw new RangeError("record.until must be an integer of at most 2^53 - 1");
}

function withSpend(outcome: OnceSpend["outcome"], spend: Spend | undefined): OnceSpend {
  return spend === undefined ? { outcome } : { outcome, spend };
}
