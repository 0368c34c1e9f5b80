/** Totals of accounts as each day, and each owner's time, ended, in memory: store clause 28. */
import type { CreditDay, CreditDaysQuery } from "../contracts/outcomes.js";
import type { GrantRow, KeyRef, KeyRow } from "../contracts/store.js";
import type { Account } from "../credits/account.js";
import { setGrant, type State } from "./memory-state.js";
import { DAY } from "./outcome-entries.js";

/** Of whom an account is. */
interface Owner {
  readonly workspaceId: string;
  readonly externalId: string;
  /** {@link CreditDay.isCap}. Undefined: as it was, of a key that has no balance of its own any more. */
  readonly isCap?: boolean | undefined;
}
type Kept = CreditDay & Partial<Pick<Owner, "workspaceId">>;

/** What an account is, as long as it is there. */
type AccountRow = Pick<CreditDay, "keyId" | "identityId" | "grantId" | "expires">;

const SUMS = ["credited", "refilled", "adjusted", "spent", "forfeited", "expired", "balance"] as const;
type Sums = Readonly<Record<(typeof SUMS)[number], number>>;

export function createMemoryCreditDays(state: State) {
  const all = new Map<KeyRef, Kept[]>();
  /** Its names alone: of an identity's row the days would keep the rest. */
  const namedOwner = (ref: KeyRef, last: Kept | undefined): (Owner & Pick<Kept, "isCap">) | undefined => {
    const found = ownerOf(state, ref);
    const isCap = (found?.isCap ?? last?.isCap === true) && { isCap: true };
    return found && { workspaceId: found.workspaceId, externalId: found.externalId, ...isCap };
  };
  const keepOne = (ref: KeyRef, at: number): void => {
    const rows = all.get(ref) ?? [];
    const last = rows.at(-1);
    const owner = namedOwner(ref, last);
    const found = state.accounts.get(ref);
    if (found === undefined && last?.externalId === undefined) return;
    const { expires = Infinity } = rowOf(state, ref);
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
    const grant = state.rows.grants.get(String(ref));
    // What was forfeited comes back with a late report.
    if (grant !== undefined && sums.balance + sums.forfeited === 0) setGrant(state.endedGrants, grant, false);
  };
  return {
    /** Keeps the totals of accounts, and of those besides them, as they are. */
    keep(refs: Iterable<KeyRef>, at: number): void {
      for (const ref of new Set([...refs].flatMap((one) => besides(state, one)))) keepOne(ref, at);
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
      const wanted = new Set([...named].flatMap((ref) => [ref, ...grantsOf(state, ref)]));
      const asked = [...all].filter(([ref, rows]) => wanted.has(ref) || rows.some(isOwned));
      return asked.flatMap(([ref, rows]) => {
        const first = rows.findIndex(({ day }) => day >= from);
        return rows
          .slice(Math.max(0, (first === -1 ? rows.length : first) - 1), rows.findLastIndex(({ day }) => day < to) + 1)
          .map(({ workspaceId: _, ...row }) => ({ ...row, ...rowOf(state, ref) }));
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

/** What an account is: a grant's, which is known by the id of its row, an identity's or that of keys. */
function rowOf({ rows, identityIds, accounts }: State, ref: KeyRef): AccountRow {
  if (typeof ref === "number") {
    const identityId = identityIds.get(ref);
    return identityId === undefined ? {} : { identityId };
  }
  const grant = rows.grants.get(ref);
  if (grant === undefined) return accounts.has(ref) ? { keyId: ref } : {};
  return { grantId: ref, ...(grant.expires !== undefined && { expires: grant.expires }) };
}

/** The account itself, that of the identity of its keys, and the grants of both that are open or not yet settled. */
function besides(state: State, ref: KeyRef): KeyRef[] {
  const { identityIds, identityRefs, accounts, openGrants, endedGrants } = state;
  const identityId = typeof ref === "number" ? identityIds.get(ref) : newestKeyOf(state, ref)?.identityId;
  const identity = identityRefs.get(identityId ?? "");
  const owners = [String(ref), identityId ?? ""];
  const granted = [openGrants, endedGrants].flatMap((of) => owners.flatMap((owner) => [...(of.get(owner) ?? [])]));
  return [ref, ...(identity !== undefined && accounts.has(identity) ? [identity] : []), ...granted];
}

/** Whose an account is: its identity's, or that of the newest key that has it; and whether it is a cap. */
function ownerOf(state: State, ref: KeyRef): Owner | undefined {
  const { rows, identityIds } = state;
  if (typeof ref === "number") return rows.identities.get(identityIds.get(ref) ?? "");
  const grant = rows.grants.get(ref);
  if (grant !== undefined) return ownerOf(state, mainOf(state, grant));
  const newest = newestKeyOf(state, ref);
  if (newest === undefined) return undefined;
  const identity = rows.identities.get(newest.identityId ?? "");
  const { workspaceId, externalId } = identity ?? { workspaceId: newest.workspaceId, externalId: "" };
  const isCap = newest.hasCredits ? identity?.hasCredits === true && newest.creditsFrom === undefined : undefined;
  return { workspaceId, externalId, isCap };
}

/** The account beside which a grant is. */
function mainOf({ identityRefs }: State, { identityId, accountId }: GrantRow): KeyRef {
  return identityRefs.get(identityId ?? "") ?? String(accountId);
}

/** The newest of the keys that share an account, without those that are deleted. */
function newestKeyOf({ rows }: State, ref: string): KeyRow | undefined {
  // Once the first is gone, the next one leads to the others.
  const isFirst = ({ accountId, rerolledFrom = "" }: KeyRow) => accountId === ref && !rows.keys.has(rerolledFrom);
  let newest: KeyRow | undefined;
  for (let key = rows.keys.get(ref) ?? [...rows.keys.values()].find(isFirst); key !== undefined;) {
    if (!key.deleted) newest = key;
    key = rows.keys.get(key.rerolledTo ?? "");
  }
  return newest;
}

/** The grants beside an account, open or not. */
function grantsOf(state: State, ref: KeyRef): string[] {
  return [...state.rows.grants.values()].filter((row) => mainOf(state, row) === ref).map(({ id }) => id);
}
