/**
 * Statement of an account: what was there, what came and went, what is left. Totals of an account only grow, and those
 * of each day are kept, so that the differences of two days are exactly what happened between them, whatever crashed.
 */
import type { AuditEntry } from "../contracts/audit.js";
import { badRequest, type ValidationProblem } from "../contracts/errors.js";
import { type CreditDay, LEVELS, type OutcomeRow, OUTCOMES } from "../contracts/outcomes.js";
import type { CreditTotals } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";

/** Whose statement: all accounts that an owner's keys or identity had, or those that one key drew on. */
export type StatementOf =
  { readonly externalId: string; readonly keyId?: never } | { readonly keyId: string; readonly externalId?: never };

/**
 * Credits of a month, UTC: `opening + refills + adjustments − spent − forfeited − expired = closing`. Of a key that
 * shares a balance, with the key that replaced it or with others of its identity, they are those of the balance.
 */
export interface Statement {
  /** `2026-11`. */
  readonly month: string;
  readonly opening: number;
  readonly refills: number;
  /**
   * Balances that were given or taken away: the first one of an account, changes by administrators, and what came or
   * went with a key that changed its owner or was deleted. May be negative.
   */
  readonly adjustments: number;
  /** Of an account that was used before counting began, all that was spent before is of the first day. */
  readonly spent: number;
  /** Lost with processes that vanished, or leased from a balance that was set meanwhile. */
  readonly forfeited: number;
  /** What a rollover did not let stay. */
  readonly expired: number;
  readonly closing: number;
  /**
   * Of `spent`, what no count of the key or owner explains: of other keys that share the balance, of processes that
   * crashed before they wrote their counts, or of calls next to the ends of the month.
   */
  readonly unattributed: number;
  /** Verifications that took no credits because they failed, by outcome. */
  readonly refused: Readonly<Partial<Record<VerificationCode, number>>>;
  /** Credits spent on each day on which there were any; what was spent after the last write of a day is of the next. */
  readonly days: readonly { readonly day: number; readonly spent: number }[];
  /**
   * Who changed the identity or the keys in the month, in order, the latest 1,000; empty if the store keeps no audit
   * trail.
   */
  readonly changes: readonly AuditEntry[];
}

const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

/** Start of the month and of the next one. @throws KeystileError BAD_REQUEST */
export function boundsOf(month: unknown): readonly [from: number, to: number] {
  if (typeof month !== "string" || !MONTH.test(month))
    throw badRequest([{ location: "month", message: "must be a year and a month, such as 2026-11" }]);
  const [year = 0, number = 0] = month.split("-").map(Number);
  return [Date.UTC(year, number - 1), Date.UTC(year, number)];
}

/** @throws KeystileError BAD_REQUEST unless it has one of the two, as a text */
export function assertStatementOf(of: StatementOf): void {
  // Undefined counts: the program lost a value.
  if (Object.keys(of ?? {}).length === 1 && typeof (of.keyId ?? of.externalId) === "string") return;
  const problem: ValidationProblem = { location: "of", message: "must be { keyId } or { externalId }" };
  throw badRequest([problem]);
}

/**
 * @param externalId whose part of the accounts; undefined: all of them, until they are nobody's
 * @param days of accounts, with the last before the month @param counts of the month
 */
export function toStatement(
  month: string,
  { externalId }: StatementOf,
  days: readonly CreditDay[],
  counts: readonly OutcomeRow[],
): Omit<Statement, "changes"> {
  const [from] = boundsOf(month);
  const isOurs = (day: CreditDay | undefined): day is CreditDay =>
    day?.externalId !== undefined && (externalId ?? day.externalId) === day.externalId;
  const sums = { opening: 0, refills: 0, adjustments: 0, spent: 0, forfeited: 0, expired: 0, closing: 0 };
  const spentOn = new Map<number, number>();
  let before: CreditDay | undefined;
  for (const day of days) {
    if (before?.account !== day.account) before = undefined;
    const [had, has] = [isOurs(before) ? before.balance : 0, isOurs(day) ? day.balance : 0];
    sums.closing += has - had;
    if (day.day < from) sums.opening += has - had;
    else if (isOurs(day)) {
      const moved = (name: keyof CreditTotals) => (day[name] ?? 0) - (before?.[name] ?? 0);
      const spent = moved("spent");
      sums.refills += moved("refilled");
      // With what an account brought that was another's.
      sums.adjustments += moved("credited") + moved("adjusted") + (before?.balance ?? 0) - had;
      sums.spent += spent;
      sums.forfeited += moved("forfeited");
      sums.expired += moved("expired");
      if (spent !== 0) spentOn.set(day.day, (spentOn.get(day.day) ?? 0) + spent);
    } else sums.adjustments -= had;
    before = day;
  }
  const sumOf = (value: (row: OutcomeRow) => number | undefined) =>
    counts.reduce((sum, row) => sum + (value(row) ?? 0), 0);
  const refused = OUTCOMES.map((code, i) => [code, sumOf((row) => row.counts[i])] as const);
  return {
    month,
    ...sums,
    unattributed: sums.spent - sumOf((row) => row.spent),
    refused: Object.fromEntries(refused.filter(([, count], i) => i > 0 && count > 0)),
    days: [...spentOn].sort(([a], [b]) => a - b).map(([day, one]) => ({ day, spent: one })),
  };
}

/** Credits a day over the days that are known, and what is left. */
export function paceOf(days: readonly CreditDay[]): { readonly perDay: number; readonly left: number } {
  const last = days.at(-1);
  const first = days.find(({ account }) => account === last?.account);
  if (first === undefined || last === undefined || first.day === last.day)
    return { perDay: 0, left: last?.balance ?? 0 };
  return { perDay: ((last.spent - first.spent) * LEVELS.day) / (last.day - first.day), left: last.balance };
}
