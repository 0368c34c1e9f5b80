/** Reads grants, and what can be spent of them. */
import type { BalanceQuery, CountedBalance, GrantRow, OwnedRow, Write } from "../contracts/store.js";
import { periodOf } from "../credits/refill-calendar.js";
import { DEFAULT_PRIORITY } from "../credits/wallet.js";
import type { Context, ReadingAt } from "./context.js";
import { readBalances } from "./keys/read-balances.js";
import { MAX_BATCH } from "./rows.js";

/** All grants of an owner, by id. */
export async function grantsOf({ store, workspaceId }: Pick<Context, "store" | "workspaceId">, ownerId: string) {
  const all: GrantRow[] = [];
  for (let page: readonly GrantRow[] = [], after = ""; page.length === MAX_BATCH || after === "";) {
    page = await store.list("grants", { workspaceId, ownerId, after, limit: MAX_BATCH });
    all.push(...page);
    after = page.at(-1)?.id ?? " ";
  }
  return all;
}

/** Whether nothing can be spent of it any more. */
export function isOver({ expires = Infinity, endedAt = Infinity }: GrantRow, now: number): boolean {
  return Math.min(expires, endedAt) <= now;
}

/** Whether nothing can be spent of an open grant any more. One that cannot be read is not taken to be used up. */
export function isUsedUp(grant: GrantRow, balance: CountedBalance | undefined, now: number): boolean {
  return isOver(grant, now) || (grant.refill === undefined && balance?.remaining === 0 && balance.reserved === 0);
}

/** What can be spent of grants, and what is reserved, in order; a balance that is invalid counts as empty. */
export async function readGrants({ store, now }: Omit<ReadingAt, "turns">, grants: readonly GrantRow[]) {
  if (grants.length === 0) return [];
  const queries = grants.map(({ id, expires, refill }): BalanceQuery => {
    const query = { grantId: id, period: periodOf(refill, now) };
    return expires === undefined ? query : { ...query, expires };
  });
  const balances = await readBalances(store, queries, now);
  return balances.map((one) => (one === "invalid" ? undefined : one));
}

/** The writes that remove all grants of an owner, which ends with them. */
export async function removalsOf(context: Context, ownerId: string): Promise<Write[]> {
  if (context.store.powers.wallets !== true) return [];
  return (await grantsOf(context, ownerId)).map(({ id, version }) => ({ table: "grants", remove: id, version }));
}

/** Whether it is spent after the plan, as what is invoiced. */
export function isOverage({ priority = DEFAULT_PRIORITY }: { readonly priority?: number }): boolean {
  return priority > DEFAULT_PRIORITY;
}

/** A grant that is open, and its balance; without one nothing of it can be spent. */
export interface OpenGrant {
  readonly row: GrantRow;
  readonly balance: CountedBalance | undefined;
}

/** The open grants of owners, by the owner's id; owners without any are absent. */
export async function readOpenGrants<O extends OwnedRow>(
  context: ReadingAt,
  owners: readonly O[],
  idOf: (owner: O) => string,
): Promise<ReadonlyMap<string, readonly OpenGrant[]>> {
  const open = new Map<string, readonly OpenGrant[]>();
  const byId = new Map(owners.map((owner) => [idOf(owner), owner]));
  for (const [id, { workspaceId }] of byId) {
    const all = await grantsOf({ ...context, workspaceId }, id);
    const grants = all.filter((row) => !isOver(row, context.now));
    const balances = await readGrants(context, grants);
    const found = grants.map((row, i) => ({ row, balance: balances[i] }));
    if (found.length > 0) open.set(id, found);
  }
  return open;
}

/** What can be spent of them. */
export function grantedBy(grants: readonly OpenGrant[] = []): number {
  const sum = grants.reduce((total, { balance }) => total + (balance?.remaining ?? 0), 0);
  return Math.min(sum, Number.MAX_SAFE_INTEGER);
}
