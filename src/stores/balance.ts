/** Arithmetic of one balance, for every store. Rulings D1–D3, port clauses 5–7 and 14. Pure: the store brings atomicity, this brings the numbers. */
import type { CountedBalance, CreditChange, DrawRequest, Spend } from "../store.js";

/** The largest balance: beyond it integers are no longer exact (ruling D3). */
export const MAX_BALANCE = Number.MAX_SAFE_INTEGER;

/** A balance as it is stored. */
export interface Balance {
  readonly unlimited: boolean;
  /** 0…{@link MAX_BALANCE}; meaningless while unlimited. */
  readonly remaining: number;
  /** Credits added per period; 0 without refill. */
  readonly amount: number;
  /** Periods counted so far; only moves forward until the calendar is replaced. */
  readonly period: number;
  /** Grows whenever the balance is set: older leases are void. */
  readonly generation: number;
}

/** A holder's reserve in the store. */
export interface Reserve {
  readonly reserved: number;
  readonly generation: number;
  /** Unix time, milliseconds. */
  readonly expires: number;
}

/** Counts the refills that are due at `period`. An earlier period changes nothing (ruling A7). */
export function countRefills(balance: Balance, period: number): Balance {
  if (period <= balance.period) return balance;
  const room = MAX_BALANCE - balance.remaining;
  const due = period - balance.period;
  // Divided, not multiplied: amount × due can pass 2^53.
  const added = balance.amount > room / due ? room : balance.amount * due;
  return holding(balance, balance.remaining + added, period);
}

/** Takes `cost` if it is there. The balance comes back unchanged when refused or when `cost` is 0 (clauses 5, 6). */
export function spend(balance: Balance, cost: number, period: number): { readonly balance: Balance; readonly result: Spend } {
  if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError("cost must be an integer from 0 to 2^53 - 1");
  if (balance.unlimited) return { balance, result: { ok: true, remaining: null } };
  const settled = countRefills(balance, period);
  if (cost === 0 || cost > settled.remaining) return { balance, result: { ok: cost === 0, remaining: settled.remaining } };
  const remaining = settled.remaining - cost;
  return { balance: holding(settled, remaining, settled.period), result: { ok: true, remaining } };
}

/** What administration reads of a balance at `period`; `undefined`: the key never had one. */
export function counted(balance: Balance | undefined, period: number): CountedBalance {
  if (balance === undefined) return { remaining: null, period };
  const settled = countRefills(balance, period);
  return { remaining: settled.unlimited ? null : settled.remaining, period: settled.period };
}

/** Whether a change was made for this balance: no period has been counted since its maker looked. */
export function isCurrent(before: Balance | undefined, change: CreditChange | undefined): boolean {
  return before === undefined || before.period <= (change?.counted ?? before.period);
}

/** Applies an administrator's change in the order that {@link CreditChange} states. */
export function applyChange(before: Balance | undefined, { period, remaining, add = 0, refill }: CreditChange): Balance {
  let balance = countRefills(before ?? { unlimited: true, remaining: 0, amount: 0, period, generation: 0 }, period);
  if (remaining !== undefined) {
    const generation = balance.generation + 1;
    balance = { ...balance, unlimited: remaining === null, remaining: remaining ?? 0, generation };
  }
  if (!balance.unlimited) balance = { ...balance, remaining: Math.min(MAX_BALANCE, Math.max(0, balance.remaining + add)) };
  return refill === undefined ? balance : { ...balance, ...refill };
}

/**
 * Moves credits into a holder's hand, and tops up its reserve. Takes at most a quarter of what is free beyond `cost`, so that
 * the last credits are shared among nodes instead of lying idle with one.
 * @param reserve the holder's own reserve, if it has one of this generation
 */
export function draw(
  balance: Balance,
  reserve: Reserve | undefined,
  request: DrawRequest,
): { readonly balance: Balance; readonly reserve: Reserve; readonly drawn: number } {
  const settled = countRefills(balance, request.period);
  const own = reserve?.generation === settled.generation ? reserve.reserved : 0;
  const free = settled.remaining + own;
  const share = Math.floor(free / 4);
  const drawn = request.cost > free ? 0 : Math.max(request.cost, Math.min(request.step, share));
  const reserved = drawn === 0 ? own : Math.min(Math.max(0, request.size - drawn), Math.floor((free - drawn) / 4));
  return {
    balance: holding(settled, free - drawn - reserved, settled.period),
    reserve: { reserved, generation: settled.generation, expires: request.until },
    drawn,
  };
}

/** Puts credits back that came from this generation of the balance; those of an older one are void. */
export function giveBack(balance: Balance, generation: number, credits: number): Balance {
  if (balance.unlimited || generation !== balance.generation) return balance;
  return holding(balance, Math.min(MAX_BALANCE, balance.remaining + credits), balance.period);
}

/**
 * Puts the reserves of other holders that have expired at `now` back into the balance (clause 14).
 * @returns the balance, and whose reserves are to be removed
 */
export function sweep(
  balance: Balance,
  holders: ReadonlyMap<string, Reserve>,
  own: string,
  now: number,
): { readonly balance: Balance; readonly expired: readonly string[] } {
  let swept = balance;
  const expired: string[] = [];
  for (const [holder, { expires, generation, reserved }] of holders) {
    if (holder === own || expires > now) continue;
    swept = giveBack(swept, generation, reserved);
    expired.push(holder);
  }
  return { balance: swept, expired };
}

/** A copy that holds `remaining` at `period`. Written out: a spread here took most of the time of a spend. */
function holding({ unlimited, amount, generation }: Balance, remaining: number, period: number): Balance {
  return { unlimited, remaining, amount, period, generation };
}
