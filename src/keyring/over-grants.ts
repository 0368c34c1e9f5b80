/**
 * Ends grants that are used up, so that calls take from the balance alone again. Store clause 32.
 *
 * Why not those that have expired: it is done by verifiers, and what one with a clock that is ahead had ended would not
 * come back. Of those something may be left by the clock of all others.
 *
 * Why it is written with the owner, as a grant is: of a grant that is given meanwhile and this, one is refused by the
 * version of the owner. So no open grant is ever hidden.
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

/** Does nothing if the owner has changed meanwhile: another call ends them. @param now Unix time, milliseconds */
export async function endOverGrants(store: Store, { table, id }: GrantsOwner, now: number): Promise<void> {
  // The owner before its grants: one that is given in between has changed the owner's version.
  const [row] = await store.readMany(table, [id]);
  if (row === undefined) return;
  const others = table === "keys" ? await othersOfAccount({ store, turns: createTurns() }, row as KeyRow) : [];
  const ownerId = (table === "keys" && (row as KeyRow).accountId) || id;
  const all = await grantsOf({ store, workspaceId: row.workspaceId }, ownerId);
  const open = all.filter(({ endedAt }) => endedAt === undefined);
  // As if they never expired.
  const lasting = open.map(({ expires: _, ...grant }): GrantRow => grant);
  const balances = await readGrants({ store }, lasting, now);
  const over = open.filter(
    // What counts as forfeited comes back with the next report of a node that was only late.
    (_, i) => isUsedUp(lasting[i] as GrantRow, balances[i], now) && balances[i]?.totals?.forfeited === 0,
  );
  if (over.length === 0) return;
  const owners = markOf(table, [row, ...others], over.length < open.length);
  const ends = over.map((grant): Write => {
    // Changes no credits, but says when: totals of accounts are kept by the day.
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
