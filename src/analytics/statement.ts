/**
 * Statement of accounts: opening balance, changes, closing balance. Totals of an account only grow, and the store keeps
 * the totals of each day. So the difference of two days is exactly what happened between them, whatever crashed.
 */
import type { AuditEntry } from "../contracts/audit.js";
import { badRequest } from "../contracts/errors.js";
import { type CreditDay, LEVELS, type OutcomeRow, OUTCOMES } from "../contracts/outcomes.js";
import type { CreditTotals, GrantRow, KeyRow } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";

/** Whose statement: all accounts that an owner's keys or identity had, or those that one key drew on. */
export type StatementOf =
  | { readonly externalId: string; readonly keyId?: never }
  | { readonly keyId: string; readonly externalId?: never };

/** Credits of a month: `opening + refills + granted + adjustments − spent − forfeited − expired = closing`. */
export interface StatementSums {
  readonly opening: number;
  readonly refills: number;
  readonly granted: number;
  /**
   * Credits that administrators gave, less those they took: the first balance of an account, later changes, and the
   * balance of a key that changed its owner or was deleted. May be negative.
   */
  readonly adjustments: number;
  /** Of an account that was used before counting began, all that was spent before is of the first day. */
  readonly spent: number;
  /** Lost with processes that vanished, or leased from a balance that was set meanwhile. */
  readonly forfeited: number;
  /** What a rollover did not let stay, and what was left of a grant when it expired. */
  readonly expired: number;
  readonly closing: number;
}

/** One account of a statement. */
export interface StatementAccount extends StatementSums {
  /** The store's own name of it. */
  readonly account: string;
  /** Whose balance it is, if that is still there: of a key, or of keys that replaced each other the first, */
  readonly keyId?: string;
  /** of an identity, */
  readonly identityId?: string;
  /** or a grant, by the id that it was given. */
  readonly grantId?: string;
  /** Of a grant: why it was given, if that was said. */
  readonly reason?: string;
  /** The key's own credits are a cap inside those of its owner: the sums of the statement leave them out. */
  readonly isCap?: true;
}

/** Something that changed what was there. */
export interface StatementLine {
  /** Unix time, milliseconds: when it was, or where only the day is known the start of that. */
  readonly time: number;
  /**
   * `moved`: the balance of a key that joined the owner, left it, or was deleted. `unexplained`: adjustments without an
   * entry in the audit trail.
   */
  readonly kind: "refill" | "grant" | "adjustment" | "moved" | "unexplained" | "forfeited" | "expired";
  /** What it added; negative: what it took away. */
  readonly credits: number;
  readonly grantId?: string;
  readonly reason?: string;
  /** Of an adjustment: the operation, and who called it, as the audit trail has them. */
  readonly operation?: string;
  readonly actor?: string;
}

/**
 * Credits of a month, UTC, over all accounts of the owner or key: their balances and their grants. Of a key that shares
 * a balance, with the key that replaced it or with others of its identity, they are those of the balance.
 */
export interface Statement extends StatementSums {
  /** `2026-11`. */
  readonly month: string;
  /**
   * Of `spent`, what no count of the key or owner explains: of other keys that share the balance, of processes that
   * crashed before they wrote their counts, or of calls next to the ends of the month.
   */
  readonly unattributed: number;
  /**
   * Of `adjustments`, what no line explains: made before counting began, on a store without an audit trail, or told of
   * by entries that are gone. Of keys that were made with a balance also what they had, until they are first used.
   */
  readonly unexplained: number;
  /**
   * Unix time in milliseconds, the start of a day: the totals of an account begin there that may be older, and what it
   * was given and spent before is of that day. Absent: there is none.
   */
  readonly countedFrom?: number;
  /** Verifications that took no credits because they failed, by outcome. */
  readonly refused: Readonly<Partial<Record<VerificationCode, number>>>;
  /** Credits spent on each day on which there were any; what was spent after the last write of a day is of the next. */
  readonly days: readonly { readonly day: number; readonly spent: number }[];
  /** Each account by itself. None: no balance was counted, and the sums say nothing. */
  readonly accounts: readonly StatementAccount[];
  /**
   * What changed the balance besides `days`, in the order of time. Those of each kind add up to its sum; `moved` and
   * `unexplained` are adjustments.
   */
  readonly lines: readonly StatementLine[];
  /**
   * Who changed the identity or the keys in the month, in order, the latest 1,000; empty if the store keeps no audit
   * trail.
   */
  readonly changes: readonly AuditEntry[];
}

const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

/** Start of the month and of the next one. @throws KeystileError BAD_REQUEST */
export function boundsOf(month: unknown, location = "month"): readonly [from: number, to: number] {
  if (typeof month !== "string" || !MONTH.test(month))
    throw badRequest([{ location, message: "must be a year and a month, such as 2026-11" }]);
  const [year = 0, number = 0] = month.split("-").map(Number);
  return [Date.UTC(year, number - 1), Date.UTC(year, number)];
}

/** @throws KeystileError BAD_REQUEST unless it has one of the two, as a text */
export function assertStatementOf(of: StatementOf, location = "of"): void {
  // Undefined counts: the program lost a value.
  if (Object.keys(of ?? {}).length === 1 && typeof (of.keyId ?? of.externalId) === "string") return;
  throw badRequest([{ location, message: "must have exactly one of keyId and externalId" }]);
}

/** What a statement is made of. */
export interface StatementSources {
  /** Of accounts, with the last before the month. */
  readonly days: readonly CreditDay[];
  /** Of the month. */
  readonly counts: readonly OutcomeRow[];
  /** Of the month, in order. */
  readonly changes: readonly AuditEntry[];
  /** Keys that days and changes name, by id. */
  readonly keys: ReadonlyMap<string, KeyRow>;
  /** Grants that days name, by the id of their row. */
  readonly grants: ReadonlyMap<string, GrantRow>;
  /** Unix time, milliseconds. */
  readonly now: number;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
const NOTHING = {
  ...{ opening: 0, refills: 0, granted: 0, adjustments: 0, spent: 0, forfeited: 0, expired: 0, closing: 0 },
} as const satisfies StatementSums;
const SUM_NAMES = Object.keys(NOTHING) as (keyof StatementSums)[];

/** @param externalId whose part of the accounts; undefined: all of them, until they are nobody's */
export function toStatement(month: string, { externalId }: StatementOf, sources: StatementSources): Statement {
  const { counts, changes } = sources;
  const sums: Mutable<StatementSums> = { ...NOTHING };
  const lines: StatementLine[] = [];
  const spentOn = new Map<number, number>();
  const accounts: StatementAccount[] = [];
  let unexplained = 0;
  let countedFrom = Infinity;
  for (const rows of byAccount(sources.days)) {
    // It may have been a cap for a part of the month.
    const asCap = (row: CreditDay) => externalId !== undefined && row.isCap === true;
    if (rows.some(asCap)) {
      const { account } = ofAccount(month, externalId, rows, sources, asCap);
      accounts.push({ ...account, isCap: true });
    }
    if (rows.every(asCap)) continue;
    const one = ofAccount(month, externalId, rows, sources, (row) => !asCap(row));
    accounts.push(one.account);
    for (const name of SUM_NAMES) sums[name] += one.account[name];
    lines.push(...one.lines);
    for (const [day, spent] of one.spentOn) spentOn.set(day, (spentOn.get(day) ?? 0) + spent);
    unexplained += one.unexplained;
    countedFrom = Math.min(countedFrom, one.countedFrom);
  }
  const [, to] = boundsOf(month);
  if (unexplained !== 0) lines.push({ time: Math.min(to, sources.now), kind: "unexplained", credits: unexplained });
  const sumOf = (value: (row: OutcomeRow) => number | undefined) =>
    counts.reduce((sum, row) => sum + (value(row) ?? 0), 0);
  const refused = OUTCOMES.map((code, i) => [code, sumOf((row) => row.counts[i])] as const);
  return {
    month,
    ...sums,
    unattributed: sums.spent - sumOf((row) => row.spent),
    unexplained,
    ...(countedFrom < Infinity && { countedFrom }),
    refused: Object.fromEntries(refused.filter(([, count], i) => i > 0 && count > 0)),
    days: [...spentOn].sort(([a], [b]) => a - b).map(([day, one]) => ({ day, spent: one })),
    accounts,
    lines: together(lines),
    changes,
  };
}

type Rows = readonly [CreditDay, ...CreditDay[]];

function byAccount(days: readonly CreditDay[]): Rows[] {
  const groups = new Map<string, [CreditDay, ...CreditDay[]]>();
  for (const day of days) {
    const group = groups.get(day.account);
    if (group === undefined) groups.set(day.account, [day]);
    else group.push(day);
  }
  return [...groups.values()];
}

/**
 * What one account adds to a statement. Each row's difference to the one before it is of the row's day and owner.
 * @param isMeant which rows
 */
function ofAccount(
  month: string,
  externalId: string | undefined,
  kept: Rows,
  { changes, keys, grants, now }: StatementSources,
  isMeant: (row: CreditDay) => boolean,
) {
  const [from, to] = boundsOf(month);
  const [first] = kept;
  const grant = grants.get(first.grantId ?? "");
  const isOurs = (day: CreditDay | undefined): day is CreditDay =>
    day?.externalId !== undefined && (externalId ?? day.externalId) === day.externalId && isMeant(day);
  const sums: Mutable<StatementSums> = { ...NOTHING };
  const lines: StatementLine[] = [];
  const spentOn = new Map<number, number>();
  let given = 0;
  let before: CreditDay | undefined;
  for (const day of withEnd(kept, now)) {
    const [had, has] = [isOurs(before) ? before.balance : 0, isOurs(day) ? day.balance : 0];
    if (day.day < to) sums.closing += has - had;
    if (day.day < from) sums.opening += has - had;
    else if (day.day < to) {
      const moved = (name: keyof CreditTotals) => (isOurs(day) ? (day[name] ?? 0) - (before?.[name] ?? 0) : 0);
      const add = (kind: StatementLine["kind"], credits: number, more: Partial<StatementLine> = {}) => {
        const of = grant === undefined ? {} : { grantId: grant.grantId };
        if (credits !== 0) lines.push({ time: day.day, kind, credits, ...of, ...more });
      };
      const [credited, refilled, spent] = [moved("credited"), moved("refilled"), moved("spent")];
      const [forfeited, expired, adjusted] = [moved("forfeited"), moved("expired"), moved("adjusted")];
      // With what an account brought that was another's, or took with it.
      const came = isOurs(day) ? (before?.balance ?? 0) - had : -had;
      const isGrant = first.grantId !== undefined;
      sums.refills += refilled;
      sums.granted += isGrant ? credited : 0;
      sums.adjustments += came + adjusted + (isGrant ? 0 : credited);
      sums.spent += spent;
      sums.forfeited += forfeited;
      sums.expired += expired;
      given += adjusted + (isGrant ? 0 : credited);
      if (spent !== 0) spentOn.set(day.day, (spentOn.get(day.day) ?? 0) + spent);
      add("refill", refilled);
      if (isGrant) add("grant", credited, toGranted(grant, day.day));
      add("moved", came);
      add("forfeited", -forfeited);
      const isEnd = day.expires !== undefined && dayOf(day.expires) === day.day;
      add("expired", -expired, isEnd ? { time: day.expires } : {});
    }
    before = day;
  }
  const entries = changes.filter((entry) => isOfAccount(entry, first, keys) && isOurs(rowAt(kept, entry.time)));
  for (const { time, credits, reason, operation, actor } of entries) {
    const added = credits?.added ?? 0;
    given -= added;
    const of = grant === undefined ? {} : { grantId: grant.grantId };
    const who = { ...of, operation, ...(reason !== undefined && { reason }), ...(actor !== undefined && { actor }) };
    if (added !== 0) lines.push({ time, kind: "adjustment", credits: added, ...who });
  }
  const { createdAt = -Infinity } = grant ?? keys.get(first.keyId ?? "") ?? {};
  const isNew = createdAt >= from || isUnused(first) || entries.some((entry) => isFirst(entry, first));
  const { account, keyId, identityId } = first;
  return {
    account: {
      account,
      ...(keyId !== undefined && { keyId }),
      ...(identityId !== undefined && { identityId }),
      ...(grant !== undefined && { grantId: grant.grantId }),
      ...(grant?.reason !== undefined && { reason: grant.reason }),
      ...sums,
    },
    lines,
    spentOn,
    unexplained: given,
    countedFrom: first.day < from || first.day >= to || isNew || !isOurs(first) ? Infinity : first.day,
  };
}

const dayOf = (time: number): number => Math.floor(time / LEVELS.day) * LEVELS.day;

/** The rows of an account; those of a grant that has expired end with nothing left, whether or not a call saw it. */
function withEnd(rows: Rows, now: number): readonly CreditDay[] {
  const last = rows.at(-1) as CreditDay;
  const { expires = Infinity, balance, expired = 0, externalId } = last;
  if (expires > now || balance === 0 || externalId === undefined) return rows;
  return [...rows, { ...last, day: Math.max(last.day, dayOf(expires)), expired: expired + balance, balance: 0 }];
}

/** The row that tells of a time: the first of its day or later, or the last. */
function rowAt(rows: Rows, time: number): CreditDay | undefined {
  return rows.find(({ day }) => day >= dayOf(time)) ?? rows.at(-1);
}

/** Whether a change is one of this balance; a change of a key's may name its identity too. */
function isOfAccount(
  { credits, ids, count }: AuditEntry,
  { keyId, identityId, grantId }: CreditDay,
  keys: ReadonlyMap<string, KeyRow>,
): boolean {
  if (credits === undefined || (credits.grantId === undefined) !== (grantId === undefined)) return false;
  // What a grant was given at first counts as granted.
  if (grantId !== undefined) return credits.added < 0 && ids.includes(grantId);
  if (identityId !== undefined) return count === 1 && ids[0] === identityId;
  return keyId !== undefined && ids.some((id) => id === keyId || keys.get(id)?.accountId === keyId);
}

function isUnused({ credited, refilled, adjusted, spent }: CreditDay): boolean {
  return credited === 0 && refilled === 0 && adjusted === 0 && spent === 0;
}

/** Whether a change gave the first balance of an account. */
function isFirst({ credits }: AuditEntry, { credited }: CreditDay): boolean {
  return credits !== undefined && credits.added === credits.remaining && credits.added === credited;
}

/** When a grant was given, where the day is that of its row, and why. */
function toGranted(grant: GrantRow | undefined, day: number): Partial<StatementLine> {
  if (grant === undefined) return {};
  const { createdAt, reason } = grant;
  return { ...(dayOf(createdAt) === day && { time: createdAt }), ...(reason !== undefined && { reason }) };
}

/** Lines in the order of time; those of one day and kind that name nothing of their own are one. */
function together(lines: readonly StatementLine[]): StatementLine[] {
  const sums = new Map<string, StatementLine>();
  const all: StatementLine[] = [];
  for (const line of lines) {
    const { time, kind, credits, grantId } = line;
    const id = `${kind} ${time}`;
    const known = sums.get(id);
    if (grantId !== undefined || kind === "adjustment") all.push(line);
    else sums.set(id, known === undefined ? line : { ...known, credits: known.credits + credits });
  }
  return [...all, ...sums.values()].filter(({ credits }) => credits !== 0).sort((a, b) => a.time - b.time);
}

/**
 * Credits a day over the days that are known, and what is left.
 * @param externalId whose part of the accounts, without caps; undefined: all of them
 * @param now Unix time, milliseconds
 */
export function paceOf(
  days: readonly CreditDay[],
  { externalId }: Pick<StatementOf, "externalId">,
  now: number,
): { readonly perDay: number; readonly left: number } {
  const isOurs = (day: CreditDay): boolean =>
    day.externalId !== undefined && (externalId === undefined || (day.externalId === externalId && day.isCap !== true));
  let [perDay, left] = [0, 0];
  for (const kept of byAccount(days)) {
    const rows = withEnd(kept, now);
    const [ours, end] = [rows.filter(isOurs), rows.at(-1)];
    const [first, last] = [ours[0], ours.at(-1)];
    if (first === undefined || last === undefined) continue;
    if (last === end) left += last.balance;
    if (last.day > first.day) perDay += ((last.spent - first.spent) * LEVELS.day) / (last.day - first.day);
  }
  return { perDay, left };
}
