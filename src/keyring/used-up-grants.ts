/**
 * Ends grants that are used up, so that calls take from the balance alone again. Store clause 32.
 *
 * Why expired grants stay open: verifiers end grants, for good, and a verifier whose clock is ahead would end a grant
 * that has credits left by all other clocks.
 *
 * Why the owner's row is written too, as it is with a new grant: if a grant is given at the same moment, the version of
 * the owner's row refuses one of the two writes. So no owner with an open grant is marked as having none.
 */
import type { GrantRow, IdentityRow, KeyRow, Store, Write } from "../contracts/store.js";
import { periodOf } from "../credits/refill-calendar.js";
import type { Mutable } from "../lib/mutable.js";
import { createTurns } from "./context.js";
import { grantsOf, isUsedUp, readGrants } from "./granted.js";
import { othersOfAccount } from "./keys/account-keys.js";

/** Whose grants: of an identity, or of a key with credits of its own. */
export interface GrantsOwner {
  readonly table: "identities" | "keys";
  readonly id: string;
}

/** Does nothing if the owner has changed meanwhile: a later call ends the grants. @param now Unix time, milliseconds */
export async function endUsedUpGrants(store: Store, { table, id }: GrantsOwner, now: number): Promise<void> {
  // The owner is read before its grants: a grant given in between changes the owner's version, and refuses the write.
  const [row] = await store.readMany(table, [id]);
  if (row === undefined) return;
  const others = table === "keys" ? await othersOfAccount({ store, turns: createTurns() }, row as KeyRow) : [];
  const ownerId = (table === "keys" && (row as KeyRow).accountId) || id;
  const all = await grantsOf({ store, workspaceId: row.workspaceId }, ownerId);
  const open = all.filter(({ endedAt }) => endedAt === undefined);
  // Without their expiry: a grant that expired with credits left is not used up.
  const lasting = open.map(({ expires: _, ...grant }): GrantRow => grant);
  const balances = await readGrants({ store, now }, lasting);
  const usedUp = open.filter(
    // Forfeited credits come back with the next report of a node that was only late.
    (_, i) => isUsedUp(lasting[i] as GrantRow, balances[i], now) && balances[i]?.totals?.forfeited === 0,
  );
  if (usedUp.length === 0) return;
  const owners = markOf(table, [row, ...others], usedUp.length < open.length);
  const ends = usedUp.map((grant): Write => {
    // Adds no credits, but tells the day: totals of accounts are kept by the day.
    const credits = { period: periodOf(grant.refill, now), now, add: 0 };
    return { ...endOf(grant, now), credits };
  });
  await store.write([...owners, ...ends]);
}

/** The writes of the rows of an owner, marked by whether it has open grants. */
export function markOf(table: GrantsOwner["table"], rows: readonly (KeyRow | IdentityRow)[], hasGrants: boolean) {
  return rows.map((row): Write => {
    const written: Mutable<KeyRow | IdentityRow> = { ...row };
    if (hasGrants) written.hasGrants = true;
    else delete written.hasGrants;
    return { table, row: written } as Write;
  });
}

/** The write that ends a grant. */
export function endOf(row: GrantRow, now: number) {
  const ended: Mutable<GrantRow> = { ...row, endedAt: Math.min(row.expires ?? now, now) };
  return { table: "grants", row: ended } as const;
}
