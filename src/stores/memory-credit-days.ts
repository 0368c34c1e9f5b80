/** Totals of accounts as each day, and each owner's time, ended, in memory: store clause 28. */
import type { CreditDay, CreditDaysQuery } from "../contracts/outcomes.js";
import type { KeyRef } from "../contracts/store.js";
import type { Account } from "../credits/account.js";
import { DAY } from "./outcome-entries.js";

/** Of whom an account is. */
export interface Owner {
  readonly workspaceId: string;
  readonly externalId: string;
  /** {@link CreditDay.isCap}. Undefined: as it was, of a key that has no balance of its own any more. */
  readonly isCap?: boolean | undefined;
}
type Kept = CreditDay & Partial<Pick<Owner, "workspaceId">>;

/** What an account is, as long as it is there. */
export type AccountRow = Pick<CreditDay, "keyId" | "identityId" | "grantId" | "expires">;

/** What is asked about accounts. */
export interface AccountsOfStore {
  find(ref: KeyRef): Account | undefined;
  /** Whose it is; undefined: nobody's. */
  ownerOf(ref: KeyRef): Owner | undefined;
  rowOf(ref: KeyRef): AccountRow;
  /** The account itself, that of the identity of its keys, and the open grants of both. */
  besides(ref: KeyRef): KeyRef[];
  /** The grants beside an account, open or not. */
  grantsOf(ref: KeyRef): KeyRef[];
}

const SUMS = ["credited", "refilled", "adjusted", "spent", "forfeited", "expired", "balance"] as const;
type Sums = Readonly<Record<(typeof SUMS)[number], number>>;

export function createMemoryCreditDays(accounts: AccountsOfStore) {
  const all = new Map<KeyRef, Kept[]>();
  /** Its names alone: of an identity's row the days would keep the rest. */
  const ownerOf = (ref: KeyRef, last: Kept | undefined): (Owner & Pick<Kept, "isCap">) | undefined => {
    const found = accounts.ownerOf(ref);
    const isCap = (found?.isCap ?? last?.isCap === true) && { isCap: true };
    return found && { workspaceId: found.workspaceId, externalId: found.externalId, ...isCap };
  };
  const keepOne = (ref: KeyRef, at: number): void => {
    const rows = all.get(ref) ?? [];
    const last = rows.at(-1);
    const owner = ownerOf(ref, last);
    const found = accounts.find(ref);
    if (found === undefined && last?.externalId === undefined) return;
    const { expires = Infinity } = accounts.rowOf(ref);
    const [today, end] = [Math.floor(at / DAY) * DAY, Math.floor(expires / DAY) * DAY];
    const day = Math.min(today, end);
    const sums = found === undefined ? toSums(last as Kept) : sumsOf(found, end < today);
    const place = placeOf(rows, owner, day);
    if (place === undefined) {
      // The time of an owner ends no earlier than what was told of it.
      const isNew = last !== undefined && !isOf(last, owner);
      rows.push({ account: String(ref), day: isNew ? Math.max(day, last.day) : day, ...sums, ...owner });
    } else {
      const before = toSums(last as Kept);
      for (let i = place; i < rows.length; i++) {
        const row = toSums(rows[i] as Kept);
        const added = SUMS.map((name) => [name, row[name] + sums[name] - before[name]]);
        rows[i] = { ...(rows[i] as Kept), ...(Object.fromEntries(added) as Sums) };
      }
    }
    all.set(ref, rows);
  };
  return {
    /** Keeps the totals of accounts, and of those besides them, as they are. */
    keep(refs: Iterable<KeyRef>, at: number): void {
      for (const ref of new Set([...refs].flatMap((one) => accounts.besides(one)))) keepOne(ref, at);
    },
    /** Whether an account has totals. */
    has: (account: KeyRef): boolean => all.has(account),
    /** Removes totals that no later statement needs. @returns of how many accounts */
    prune(before: number, most: number): number {
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
    /** @param named accounts that belong to the answer, with the grants beside them, whoever has them */
    read({ workspaceId, externalId, from, to }: CreditDaysQuery, named: ReadonlySet<KeyRef>): CreditDay[] {
      const isOwned = (row: Kept) =>
        row.workspaceId === workspaceId && row.externalId === externalId && externalId !== "";
      const wanted = new Set([...named].flatMap((ref) => [ref, ...accounts.grantsOf(ref)]));
      const asked = [...all].filter(([ref, rows]) => wanted.has(ref) || rows.some(isOwned));
      return asked.flatMap(([ref, rows]) => {
        const first = rows.findIndex(({ day }) => day >= from);
        return rows
          .slice(Math.max(0, (first === -1 ? rows.length : first) - 1), rows.findLastIndex(({ day }) => day < to) + 1)
          .map(({ workspaceId: _, ...row }) => ({ ...row, ...accounts.rowOf(ref) }));
      });
    },
  };
}

export type MemoryCreditDays = ReturnType<typeof createMemoryCreditDays>;

/** The place of the row of a day in the time of an owner; undefined: there is none. */
function placeOf(rows: readonly Kept[], owner: Owner | undefined, day: number): number | undefined {
  for (let i = rows.length - 1; i >= 0 && isOf(rows[i] as Kept, owner); i--) if (rows[i]?.day === day) return i;
  return undefined;
}

const isOf = (row: Kept, owner: Owner | undefined): boolean =>
  row.externalId === owner?.externalId && row.isCap === owner?.isCap;

function toSums({ credited, refilled, adjusted, spent, forfeited, expired = 0, balance }: CreditDay): Sums {
  return { credited, refilled, adjusted, spent, forfeited, expired, balance };
}

/** @param isOver whether it is that of a grant which expired on an earlier day: what is left has expired */
function sumsOf({ remaining, reserved, ...totals }: Account, isOver: boolean): Sums {
  const left = isOver ? remaining : 0;
  return toSums({
    ...{ ...totals, expired: totals.expired + left, balance: remaining + reserved - left },
    ...{ account: "", day: 0 },
  });
}
