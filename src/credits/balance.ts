/** Balance arithmetic, shared by every store. Store clauses 5–7 and 14. Pure functions: the store makes them atomic. */
import type { CountedBalance, CreditChange, DrawRequest, Spend } from "../contracts/store.js";
import { boundariesBetween, calendarOf } from "./refill-calendar.js";

/** The largest balance: integers above it are not exact. */
export const MAX_BALANCE = Number.MAX_SAFE_INTEGER;

const NONE: readonly never[] = [];
const STALE: Spend = Object.freeze({ ok: false, remaining: 0, stale: true });

/** A balance as it is stored. */
export interface Balance {
  readonly unlimited: boolean;
  /** 0…{@link MAX_BALANCE}; meaningless while unlimited. */
  readonly remaining: number;
  /** Credits added per period; 0 without refill. */
  readonly amount: number;
  /**
   * The calendar and how many of its periods are counted (`periodOf`); only increases until the calendar is replaced.
   */
  readonly period: number;
  /** Increases whenever the balance is set: older leases are void. */
  readonly generation: number;
}

/** A holder's reserve in the store. */
export interface Reserve {
  readonly reserved: number;
  readonly generation: number;
  /** Unix time, milliseconds. */
  readonly expires: number;
}

/**
 * Whether a period has the calendar of this balance. A caller that prepared its call under another calendar has to
 * prepare it again.
 */
export function isOfCalendar({ unlimited, period: counted }: Balance, period: number): boolean {
  return unlimited || calendarOf(counted) === calendarOf(period);
}

/** Counts the refills due at `period`, which must have the balance's calendar. An earlier period changes nothing. */
export function countRefills(balance: Balance, period: number): Balance {
  if (period <= balance.period || !isOfCalendar(balance, period)) return balance;
  const space = MAX_BALANCE - balance.remaining;
  const { due } = boundariesBetween(balance.period, period);
  // Divided, not multiplied: amount × due can pass 2^53.
  const added = balance.amount > space / due ? space : balance.amount * due;
  return withRemaining(balance, balance.remaining + added, period);
}

/** Refills that {@link countRefills} omits because too many are due at once. */
export function forfeitedRefills(balance: Balance, period: number): number {
  return balance.amount === 0 || !isOfCalendar(balance, period)
    ? 0
    : boundariesBetween(balance.period, period).forfeited;
}

/** Takes `cost` if the balance covers it. Returns the balance unchanged if refused or if `cost` is 0 (clauses 5, 6). */
export function spend(
  balance: Balance,
  cost: number,
  period: number,
): { readonly balance: Balance; readonly result: Spend } {
  if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError("cost must be an integer from 0 to 2^53 - 1");
  if (balance.unlimited) return { balance, result: { ok: true, remaining: null } };
  if (!isOfCalendar(balance, period)) return { balance, result: STALE };
  const settled = countRefills(balance, period);
  if (cost === 0 || cost > settled.remaining)
    return { balance, result: { ok: cost === 0, remaining: settled.remaining } };
  const remaining = settled.remaining - cost;
  const forfeited = forfeitedRefills(balance, period);
  const result = forfeited === 0 ? { ok: true, remaining } : { ok: true, remaining, forfeited };
  return { balance: withRemaining(settled, remaining, settled.period), result };
}

/**
 * The balance as administration reads it at `period`.
 * @param balance `undefined`: the key never had one
 * @param reserves of this balance; those expired at `now` count as remaining
 */
export function countedBalance(
  balance: Balance | undefined,
  period: number,
  reserves: Iterable<Reserve>,
  now: number,
): CountedBalance {
  if (balance === undefined) return { remaining: null, period, reserved: 0 };
  const settled = countRefills(balance, period);
  if (settled.unlimited) return { remaining: null, period: settled.period, reserved: 0 };
  const { expired, reserved } = sumReserves(settled, reserves, now);
  return { remaining: Math.min(MAX_BALANCE, settled.remaining + expired), period: settled.period, reserved };
}

/**
 * {@link spend}, including expired reserves: a spend that would be refused takes them back first, and a cost of 0
 * counts them.
 * @param reserves of all holders; called only when they may matter
 * @returns the balance to store, and the holders whose reserves to remove
 */
export function spendWithReserves(
  balance: Balance,
  reserves: () => ReadonlyMap<string, Reserve>,
  cost: number,
  period: number,
  now: number,
): { readonly balance: Balance; readonly result: Spend; readonly expired: readonly string[] } {
  const { balance: after, result } = spend(balance, cost, period);
  if (result.stale === true || result.remaining === null || (result.ok && cost > 0))
    return { balance: after, result, expired: NONE };
  const holders = reserves();
  if (cost === 0) {
    const remaining = Math.min(MAX_BALANCE, result.remaining + sumReserves(balance, holders.values(), now).expired);
    return { balance, result: { ok: true, remaining }, expired: NONE };
  }
  const { balance: swept, expired } = sweep(balance, holders, undefined, now);
  if (expired.length === 0) return { balance, result, expired };
  return { ...spend(swept, cost, period), expired };
}

/** Sums of the reserves of the balance's generation: the expired ones, and the valid ones. */
function sumReserves(
  { generation }: Balance,
  reserves: Iterable<Reserve>,
  now: number,
): { expired: number; reserved: number } {
  const sums = { expired: 0, reserved: 0 };
  for (const reserve of reserves) {
    if (reserve.generation !== generation) continue;
    sums[reserve.expires <= now ? "expired" : "reserved"] += reserve.reserved;
  }
  return sums;
}

/**
 * Whether a change still fits this balance: the calendar is the one that its author read, and no period was counted
 * since.
 */
export function isCurrent(before: Balance | undefined, change: CreditChange | undefined): boolean {
  if (before === undefined || change === undefined) return true;
  // Setting the balance does not depend on the calendar, and must be possible to repair a balance with a wrong one.
  if (!isOfCalendar(before, change.period)) return change.remaining !== undefined;
  return before.period <= (change.refillsCounted ?? before.period);
}

/**
 * Applies an administrator's change in the order that {@link CreditChange} states.
 * @param source the balance that `copyOf` names, read in the same atomic step
 */
export function applyChange(before: Balance | undefined, change: CreditChange, source?: Balance): Balance {
  const { period, add = 0, refill } = change;
  const copied = change.copyOf === undefined ? undefined : countedBalance(source, period, [], 0);
  // A balance that no longer exists is copied as 0, never as unlimited.
  const remaining = copied === undefined ? change.remaining : (copied.remaining ?? 0);
  const from = before ?? { unlimited: true, remaining: 0, amount: 0, period, generation: 0 };
  let balance = isOfCalendar(from, period) ? countRefills(from, period) : { ...from, period };
  if (remaining !== undefined) {
    const generation = balance.generation + 1;
    balance = { ...balance, unlimited: remaining === null, remaining: remaining ?? 0, generation };
  }
  if (!balance.unlimited)
    balance = { ...balance, remaining: Math.min(MAX_BALANCE, Math.max(0, balance.remaining + add)) };
  if (refill !== undefined) balance = { ...balance, ...refill };
  return copied === undefined ? balance : { ...balance, period: copied.period };
}

/**
 * Draws credits for a holder and tops up its reserve. Beyond `cost` it takes at most a quarter of what is free, so that
 * nodes share the last credits instead of leaving them idle with one.
 * @param reserve the holder's reserve, if it has one of this generation
 */
export function draw(
  balance: Balance,
  reserve: Reserve | undefined,
  request: DrawRequest,
): { readonly balance: Balance; readonly reserve: Reserve; readonly drawn: number } {
  const settled = countRefills(balance, request.period);
  const reservedBefore = reserve?.generation === settled.generation ? reserve.reserved : 0;
  const free = settled.remaining + reservedBefore;
  const share = Math.floor(free / 4);
  const drawn = request.cost > free ? 0 : Math.max(request.cost, Math.min(request.step, share));
  const reserved =
    drawn === 0 ? reservedBefore : Math.min(Math.max(0, request.size - drawn), Math.floor((free - drawn) / 4));
  // Not free - drawn - reserved: with a reserve beside it, a full balance is more than a number holds exactly.
  const remaining = Math.min(MAX_BALANCE, settled.remaining + (reservedBefore - drawn - reserved));
  return {
    balance: withRemaining(settled, remaining, settled.period),
    reserve: { reserved, generation: settled.generation, expires: request.until },
    drawn,
  };
}

/** Returns credits that came from this generation of the balance; those of an older one are void. */
export function giveBack(balance: Balance, generation: number, credits: number): Balance {
  if (balance.unlimited || generation !== balance.generation) return balance;
  return withRemaining(balance, Math.min(MAX_BALANCE, balance.remaining + credits), balance.period);
}

/**
 * Returns other holders' reserves that have expired at `now` to the balance (clause 14).
 * @param self the holder whose reserve stays; `undefined`: none
 * @returns the balance, and the holders whose reserves to remove
 */
export function sweep(
  balance: Balance,
  holders: ReadonlyMap<string, Reserve>,
  self: string | undefined,
  now: number,
): { readonly balance: Balance; readonly expired: readonly string[] } {
  let swept = balance;
  const expired: string[] = [];
  for (const [holder, { expires, generation, reserved }] of holders) {
    if (holder === self || expires > now) continue;
    swept = giveBack(swept, generation, reserved);
    expired.push(holder);
  }
  return { balance: swept, expired };
}

/** A copy with this `remaining` and `period`. Written out: a spread took most of the time of a spend. */
function withRemaining({ unlimited, amount, generation }: Balance, remaining: number, period: number): Balance {
  return { unlimited, remaining, amount, period, generation };
}
