/** Totals of accounts as each day, and each owner's time, ended, in memory: store clause 28. */
import type { CreditDay, CreditDaysQuery } from "../contracts/outcomes.js";
import type { KeyRef } from "../contracts/store.js";
import type { Account } from "../credits/account.js";
import { DAY } from "./outcome-entries.js";

/** Of whom an account is. */
export interface Owner {
  readonly workspaceId: string;
  readonly externalId: string;
}
type Kept = CreditDay & Partial<Owner>;

export interface MemoryCreditDays {
  /** Keeps the totals of accounts as they are. */
  keep(accounts: Iterable<KeyRef>, at: number): void;
  /** @param named accounts that belong to the answer, whoever has them */
  read(query: CreditDaysQuery, named: ReadonlySet<KeyRef>): CreditDay[];
  /** Whether an account has totals. */
  has(account: KeyRef): boolean;
  /** Removes totals that no later statement needs. @returns of how many accounts */
  prune(before: number, most: number): number;
}

/** @param ownerOf whose an account is; undefined: nobody's */
export function createMemoryCreditDays(
  accounts: ReadonlyMap<KeyRef, Account>,
  ownerOf: (account: KeyRef) => Owner | undefined,
): MemoryCreditDays {
  const all = new Map<KeyRef, Kept[]>();
  const keepOne = (ref: KeyRef, at: number): void => {
    const rows = all.get(ref) ?? [];
    const last = rows.at(-1);
    const owner = ownerOf(ref);
    const found = accounts.get(ref);
    if (found === undefined && last?.externalId === undefined) return;
    const { credited, refilled, adjusted, spent, forfeited, expired = 0 } = (found ?? last) as Account | Kept;
    const balance = found === undefined ? (last as Kept).balance : found.remaining + found.reserved;
    const day = Math.max(Math.floor(at / DAY) * DAY, last?.day ?? -Infinity);
    if (last !== undefined && last.day === day && last.externalId === owner?.externalId) rows.pop();
    const totals = { credited, refilled, adjusted, spent, forfeited, expired };
    rows.push({ account: String(ref), day, ...totals, balance, ...owner });
    all.set(ref, rows);
  };
  return {
    keep(refs, at) {
      for (const ref of refs) keepOne(ref, at);
    },
    has: (account) => all.has(account),
    prune(before, most) {
      let removed = 0;
      for (const [ref, rows] of all) {
        const left = rows.filter(
          (row, i) => (rows[i + 1]?.day ?? (row.externalId === undefined ? row.day : Infinity)) >= before,
        );
        if (left.length === rows.length) continue;
        if (left.length === 0) all.delete(ref);
        else all.set(ref, left);
        if (++removed === most) break;
      }
      return removed;
    },
    read({ workspaceId, externalId, from, to }, named) {
      const isOwned = (row: Kept) =>
        row.workspaceId === workspaceId && row.externalId === externalId && externalId !== "";
      const asked = [...all].filter(([ref, rows]) => named.has(ref) || rows.some(isOwned));
      return asked.flatMap(([, rows]) => {
        const first = rows.findLastIndex(({ day }) => day < from);
        return rows
          .slice(Math.max(0, first))
          .filter(({ day }) => day < to)
          .map(({ workspaceId: _, ...row }) => row);
      });
    },
  };
}
