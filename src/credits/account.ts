/**
 * The arithmetic of a key's credits, shared by every store. Store clauses 5–7 and 14. Pure functions: the store makes
 * them atomic.
 *
 * A balance is a conserved account. At every moment
 *
 *     credited + refilled + adjusted = spent + remaining + reserved + forfeited + expired
 *
 * and every function here keeps that equation, because all of them change an account through {@link move}. A store
 * keeps the totals beside the balance, in the same transaction, so that a balance that was changed in any other way is
 * found when it is read ({@link isConserved}).
 *
 * Where the refill has a rollover, credits expire at its boundaries. A lease or a reservation may return credits after
 * the boundary that followed it. They stay as far as the rollover still has space, as if they had been in the balance
 * at that boundary; the others have expired. After a second boundary all of them have. So the order of the boundary and
 * the return makes no difference. Where one step does both, expired reserves return first.
 */
import type {
  CountedBalance,
  CreditChange,
  CreditTotals,
  Draw,
  DrawRequest,
  LeaseReturn,
  ReservationRequest,
  Settlement,
  SettleRequest,
  Spend,
  WrittenBalance,
} from "../contracts/store.js";
import { boundariesBetween, calendarOf } from "./refill-calendar.js";

/** The largest balance, and the largest total: integers above it are not exact. */
export const MAX_BALANCE = Number.MAX_SAFE_INTEGER;
/** Milliseconds for which the lease of a node that vanished is kept, so that a late return still counts: a day. */
export const KEPT_AFTER_EXPIRY = 86_400_000;
/** Most open reservations of one account: each new one counts them. */
export const MAX_RESERVATIONS = 1_000;
/** Milliseconds after its time-out for which it is known how a reservation ended: an hour. */
export const ENDING_KEPT = 3_600_000;
/** What the id of a reservation begins with, and no other lease's. */
export const RESERVATION = "res_";
const RESERVATION_ID = /^res_[a-zA-Z0-9_-]{1,60}$/;

/**
 * The period of a balance that nobody draws on any more, of a calendar that no refill has: a spend by a record that is
 * outdated is stale, so that the key is found again and takes the credits that it draws on now.
 */
export const ABANDONED = 33_000_000_000;

const NO_CHANGES: readonly never[] = [];
const NO_LEASES: ReadonlyMap<string, Lease> = new Map();
const STALE: Spend = Object.freeze({ ok: false, remaining: 0, stale: true });

/** Credits by where they came from and where they went, since the account was opened or carried forward. */
export interface Totals extends Required<CreditTotals> {
  /** What leases hold: reserves in the store, and what nodes have in memory. */
  readonly reserved: number;
}

/** A balance and its totals, as they are stored. */
export interface Account extends Totals {
  readonly unlimited: boolean;
  /** 0…{@link MAX_BALANCE}; 0 while unlimited. */
  readonly remaining: number;
  /** Credits added per period; 0 without refill. */
  readonly amount: number;
  /**
   * The calendar and how many of its periods are counted (`periodOf`); only increases until the calendar is replaced.
   */
  readonly period: number;
  /** Increases whenever the balance is set: older leases are void. */
  readonly generation: number;
  /** How much of the balance stays at a boundary, 0…{@link MAX_BALANCE}; null: all of it. */
  readonly rollover: number | null;
  /** How many times this account counted refills with a rollover. */
  readonly rollovers: number;
  /** Credits that leases from before the last of these times may still return: the space left below the rollover. */
  readonly returnable: number;
}

/** A lease as the store knows it: credits that left the balance for one node. */
export interface Lease {
  /** Of the balance that the credits came from. */
  readonly generation: number;
  /** Of the account when the credits were drawn. */
  readonly rollovers: number;
  /** When the reserve returns to the balance, Unix time in milliseconds. */
  readonly expires: number;
  /** Credits in the store that only this lease may draw. */
  readonly reserved: number;
  /** Credits drawn and not yet reported as spent. */
  readonly held: number;
  /** Credits reported as spent since the lease began. */
  readonly spent: number;
  /** Whether `held` counts as forfeited, because the lease expired. A later report of its node takes that back. */
  readonly isForfeited: boolean;
}

/**
 * Leases to store, by id; `undefined`: to remove. `ending` of one that is removed: to remember until an hour after it
 * `expires`.
 */
export type LeaseChanges = readonly (readonly [
  id: string,
  lease: Lease | undefined,
  ending?: { readonly how: "settled" | "expired" | "voided"; readonly until: number },
])[];
type LeaseChange = LeaseChanges[number];
/** How a reservation ended. */
export type Ending = NonNullable<LeaseChange[2]>["how"];

/** What an operation returns, and what it leaves behind. `account` is the one given if nothing changed. */
export interface Applied<T> {
  readonly account: Account;
  readonly leases: LeaseChanges;
  readonly result: T;
}

/** Opens an account with a first balance. */
export function openAccount(
  remaining: number,
  given: Pick<Account, "amount" | "period" | "generation"> & { readonly rollover?: number | null },
): Account {
  const { amount, period, generation, rollover = null } = given;
  const totals = { credited: remaining, refilled: 0, adjusted: 0, spent: 0, reserved: 0, forfeited: 0, expired: 0 };
  return { unlimited: false, remaining, amount, period, generation, rollover, rollovers: 0, returnable: 0, ...totals };
}

/** Whether the equation at the top of this file holds. */
export function isConserved(account: Account): boolean {
  const { credited, refilled, adjusted, spent, remaining, reserved, forfeited, expired } = account;
  const gained = credited + refilled;
  const went = spent + remaining + reserved + forfeited + expired;
  // Then `gained + adjusted` is exact, or above `went`. `adjusted` may be negative: the sum of a larger `gained` could
  // be small, and yet inexact.
  if (gained <= MAX_BALANCE && went <= MAX_BALANCE) return gained + adjusted === went;
  const sum = (...counts: number[]) => counts.reduce((total, count) => total + BigInt(count), 0n);
  return sum(credited, refilled, adjusted) === sum(spent, remaining, reserved, forfeited, expired);
}

/** Signed changes of an account; whoever makes them keeps the equation. */
type Movement = { readonly [T in "remaining" | Exclude<keyof Totals, "credited">]?: number };

/**
 * The account after a movement. Totals that would pass {@link MAX_BALANCE} start anew: the balance is carried forward
 * as `credited`, as far as it fits, and the rest of what is reserved as `refilled`. No movement is above
 * {@link MAX_BALANCE}, so that it fits then. Tables keep what was forfeited and what expired in one column: so together
 * they stay within it too.
 */
function move(from: Account, by: Movement, period = from.period): Account {
  const { remaining = 0, refilled = 0, adjusted = 0, spent = 0, reserved = 0, forfeited = 0, expired = 0 } = by;
  if (
    from.refilled + refilled > MAX_BALANCE ||
    Math.abs(from.adjusted + adjusted) > MAX_BALANCE ||
    from.spent + spent > MAX_BALANCE ||
    from.reserved + reserved > MAX_BALANCE ||
    from.forfeited + forfeited + from.expired + expired > MAX_BALANCE
  )
    return move(carryForward(from), by, period);
  // Written out: a spread took most of the time of a spend.
  return {
    unlimited: from.unlimited,
    remaining: from.remaining + remaining,
    amount: from.amount,
    period,
    generation: from.generation,
    rollover: from.rollover,
    rollovers: from.rollovers,
    returnable: from.returnable,
    credited: from.credited,
    refilled: from.refilled + refilled,
    adjusted: from.adjusted + adjusted,
    spent: from.spent + spent,
    reserved: from.reserved + reserved,
    forfeited: from.forfeited + forfeited,
    expired: from.expired + expired,
  };
}

function carryForward(from: Account): Account {
  const { remaining, reserved } = from;
  const fits = Math.min(reserved, MAX_BALANCE - remaining);
  const none = { adjusted: 0, spent: 0, forfeited: 0, expired: 0 };
  return { ...from, ...none, credited: remaining + fits, refilled: reserved - fits };
}

/**
 * Whether a period has the calendar of this account. A caller that prepared its call under another calendar has to
 * prepare it again.
 */
export function isOfCalendar({ unlimited, period: counted }: Account, period: number): boolean {
  return unlimited || calendarOf(counted) === calendarOf(period);
}

/**
 * Counts the refills due at `period`, which must have the account's calendar, and takes away what expires at their
 * boundaries. An earlier period changes nothing.
 */
export function countRefills(account: Account, period: number): Account {
  if (period <= account.period || !isOfCalendar(account, period)) return account;
  const { unlimited, remaining, amount, rollover } = account;
  const space = unlimited ? 0 : MAX_BALANCE - remaining;
  const { due } = boundariesBetween(account.period, period);
  // Divided, not multiplied: amount × due can pass 2^53.
  const refilled = amount > space / due ? space : amount * due;
  if (unlimited || rollover === null) return move(account, { remaining: refilled, refilled }, period);
  // At the last boundary: all those before it have left no more than the rollover and a refill.
  const stayed = amount > (rollover - remaining) / (due - 1) ? rollover : remaining + amount * (due - 1);
  const expired = remaining + refilled - Math.min(MAX_BALANCE, stayed + amount);
  const settled = move(account, { remaining: refilled - expired, refilled, expired }, period);
  return { ...settled, rollovers: account.rollovers + 1, returnable: rollover - stayed };
}

/** Refills that {@link countRefills} omits because too many are due at once. */
export function forfeitedRefills(account: Account, period: number): number {
  return account.amount === 0 || !isOfCalendar(account, period)
    ? 0
    : boundariesBetween(account.period, period).forfeited;
}

/** What a call asks of an account. */
export interface AccountSpend {
  readonly cost: number;
  /** `periodOf` its refill at `now`. */
  readonly period: number;
  /** Unix time, milliseconds. */
  readonly now: number;
}

/**
 * Takes the cost if the balance covers it, with due refills counted and expired reserves taken back. Refused, and with
 * a cost of 0, it takes nothing (clauses 5, 6, 14).
 * @param leases those that have expired at `now`, or more; called only when they may matter
 * @throws RangeError: the cost is not an integer from 0 to 2^53 − 1
 */
export function spend(
  account: Account,
  leases: () => ReadonlyMap<string, Lease>,
  { cost, period, now }: AccountSpend,
): Applied<Spend> {
  const taken = spendRemaining(account, cost, period);
  const { result } = taken;
  if (result.stale === true || result.remaining === null) return taken;
  const isGranted = result.ok && cost > 0;
  if (result.ok && account.reserved === 0) return taken;
  const known = leases();
  if (isGranted && expiredReserves(known, account, now) === 0) return taken;
  const swept = sweep(account, known, { now });
  if (cost === 0) return unchanged(account, { ok: true, remaining: countRefills(swept.account, period).remaining });
  return swept.leases.length === 0 ? taken : { ...spendRemaining(swept.account, cost, period), leases: swept.leases };
}

/** {@link spend} without leases. */
export function spendRemaining(account: Account, cost: number, period: number): Applied<Spend> {
  assertCount("cost", cost);
  if (account.unlimited) return unchanged(account, { ok: true, remaining: null });
  if (!isOfCalendar(account, period)) return unchanged(account, STALE);
  const settled = countRefills(account, period);
  if (cost === 0 || cost > settled.remaining)
    return unchanged(account, { ok: cost === 0, remaining: settled.remaining });
  const forfeited = settled === account ? 0 : forfeitedRefills(account, period);
  const after = move(settled, { remaining: -cost, spent: cost });
  const { remaining } = after;
  const result = forfeited === 0 ? { ok: true, remaining } : { ok: true, remaining, forfeited };
  return { account: after, leases: NO_CHANGES, result };
}

/** What {@link reserve} looks up of an account. */
export interface ReservationLookups {
  /** As for {@link spend}. */
  readonly leases: () => ReadonlyMap<string, Lease>;
  /**
   * How many reservations the account has, the expired ones included, and whether one has the id; called only if the
   * balance covers the cost.
   */
  readonly known: () => { readonly count: number; readonly hasId: boolean };
}

/**
 * Takes the cost as {@link spend} does, for a reservation. It is a lease with a reserve alone, so that it returns to
 * the balance, is voided and is counted as those are.
 * @throws RangeError: the cost is not an integer from 0 to 2^53 − 1
 */
export function reserve(
  account: Account,
  { leases, known }: ReservationLookups,
  asked: AccountSpend & { readonly reservation: ReservationRequest },
): Applied<Spend> {
  const { cost, reservation } = asked;
  const { id, until } = reservation;
  const taken = spend(account, leases, asked);
  const { ok, remaining } = taken.result;
  if (!ok || cost === 0 || remaining === null) return taken;
  const { count, hasId } = known();
  const expired = taken.leases.filter(([, , ending]) => ending !== undefined);
  const isOpen = hasId && !expired.some(([one]) => one === id);
  if (isOpen) return unchanged(account, { ok: false, remaining: remaining + cost, refused: "open" });
  if (count - expired.length >= MAX_RESERVATIONS || cost > MAX_BALANCE - taken.account.reserved)
    return unchanged(account, { ok: false, remaining: remaining + cost, refused: "full" });
  const lease = {
    generation: account.generation,
    rollovers: taken.account.rollovers,
    expires: until,
    reserved: cost,
    held: 0,
    spent: 0,
    isForfeited: false,
  };
  return {
    ...taken,
    account: move(taken.account, { spent: -cost, reserved: cost }),
    leases: [...taken.leases, [id, lease]],
  };
}

/**
 * Settles a reservation, and takes back those that have expired.
 * @param leases it, if it is open, and those that have expired at `now`, or more
 * @returns as its result `undefined`: it is not among the leases
 */
export function settle(
  account: Account,
  leases: ReadonlyMap<string, Lease>,
  { id, spent, now }: SettleRequest,
): Applied<Settlement | undefined> {
  const lease = leases.get(id);
  const swept = takeBackReserves(account, leases, now);
  if (lease === undefined) return { ...swept, result: undefined };
  if (lease.expires <= now) return { ...swept, result: { settled: false, reason: "expired" } };
  if (spent > lease.reserved) return { ...swept, result: { settled: false, reason: "exceeds" } };
  const drawn = new Map([[id, { ...lease, held: lease.reserved, reserved: 0 }]]);
  const { account: after } = endLease(swept.account, drawn, { holder: id, spent });
  return { account: after, leases: [...swept.leases, removed(id, lease, "settled")], result: { settled: true } };
}

/** The removal of a lease. @param how it ended, if it is a reservation */
function removed(id: string, { expires }: Lease, how: Ending): LeaseChange {
  return id.startsWith(RESERVATION) ? [id, undefined, { how, until: expires + ENDING_KEPT }] : [id, undefined];
}

function unchanged<T>(account: Account, result: T): Applied<T> {
  return { account, leases: NO_CHANGES, result };
}

/** The moment as of which a balance is read. */
export interface BalanceRead {
  readonly period: number;
  /** Unix time, milliseconds. */
  readonly now: number;
  /** Of a grant: from then on what is left counts as forfeited. */
  readonly expires?: number | undefined;
}

/**
 * The account as administration reads it.
 * @param account `undefined`: the key never had one
 * @param leases of this account; reserves expired at `now` count as remaining
 */
export function countedBalance(
  account: Account | undefined,
  leases: ReadonlyMap<string, Lease>,
  { period, now, expires = Infinity }: BalanceRead,
): CountedBalance {
  if (account === undefined) return { remaining: null, period, reserved: 0 };
  const settled = countRefills(sweep(account, leases, { now }).account, period);
  if (settled.unlimited) return { remaining: null, period: settled.period, reserved: 0 };
  const left = expires > now ? settled : expire(settled, NO_LEASES, now).account;
  const { credited, refilled, adjusted, spent, forfeited, expired } = left;
  return {
    remaining: left.remaining,
    period: left.period,
    reserved: left.reserved,
    totals: { credited, refilled, adjusted, spent, forfeited, expired },
  };
}

/** What a write answers of an account that it changed, of what {@link applyChange} returned. */
export function writtenBalance({
  account: { unlimited, remaining, reserved },
  result,
}: Applied<number>): WrittenBalance {
  return unlimited ? { remaining: null, reserved: 0, added: result } : { remaining, reserved, added: result };
}

/** {@link sweep} where that returns anything to the balance; otherwise it changes nothing. */
export function takeBackReserves(
  account: Account,
  leases: ReadonlyMap<string, Lease>,
  now: number,
): Omit<Applied<never>, "result"> {
  return expiredReserves(leases, account, now) === 0
    ? { account, leases: NO_CHANGES }
    : sweep(account, leases, { now });
}

/**
 * The account from its expiry on: what is left, and what returns from reserves that have expired, has expired.
 * @param leases those that have expired at `now`, or more
 */
export function expire(
  account: Account,
  leases: ReadonlyMap<string, Lease>,
  now: number,
): Omit<Applied<never>, "result"> {
  const swept = takeBackReserves(account, leases, now);
  const { remaining } = swept.account;
  return remaining === 0
    ? swept
    : { ...swept, account: move(swept.account, { remaining: -remaining, expired: remaining }) };
}

/** Reserves that {@link sweep} would return to the balance. */
function expiredReserves(leases: ReadonlyMap<string, Lease>, { generation }: Account, now: number): number {
  let expired = 0;
  for (const lease of leases.values())
    if (lease.generation === generation && lease.expires <= now) expired += lease.reserved;
  return expired;
}

/**
 * Whether a change still fits this account: the calendar is the one that its author read, and no period was counted
 * since.
 */
export function isCurrent(before: Account | undefined, change: CreditChange | undefined): boolean {
  if (before === undefined || change === undefined) return true;
  // Setting the balance does not depend on the calendar, and must be possible to repair a balance with a wrong one.
  if (!isOfCalendar(before, change.period)) return change.remaining !== undefined;
  return before.period <= (change.refillsCounted ?? before.period);
}

/**
 * Applies an administrator's change in the order that {@link CreditChange} states.
 * @param before `undefined`: the key never had an account
 * @param leases of the account: setting a balance voids them
 * @returns as its result what the change added, or if negative took away
 */
export function applyChange(
  before: Account | undefined,
  leases: ReadonlyMap<string, Lease>,
  { period, now, remaining, add = 0, refill }: CreditChange,
): Applied<number> {
  const from = before ?? { ...openAccount(0, { amount: 0, period, generation: 0 }), unlimited: true };
  let account = from;
  let changes: LeaseChanges = NO_CHANGES;
  if (remaining === undefined && now !== undefined)
    ({ account, leases: changes } = takeBackReserves(account, leases, now));
  account = isOfCalendar(account, period) ? countRefills(account, period) : { ...account, period };
  let added = 0;
  if (remaining !== undefined) {
    ({ account, leases: changes } = voidLeases(account, leases));
    const isFirst = account.unlimited && account.credited === 0 && account.adjusted === 0 && account.spent === 0;
    const set = remaining ?? 0;
    added = set - account.remaining;
    account = isFirst
      ? { ...account, remaining: set, credited: set }
      : move(account, { remaining: added, adjusted: added });
    account = { ...account, unlimited: remaining === null, generation: account.generation + 1 };
  }
  if (!account.unlimited) {
    const signed = Math.min(MAX_BALANCE, Math.max(0, account.remaining + add)) - account.remaining;
    account = move(account, { remaining: signed, adjusted: signed });
    added += signed;
  }
  if (refill !== undefined) account = { ...account, rollover: null, ...refill };
  return { account, leases: changes, result: added };
}

/** Forfeits the reserves; what nodes hold stays in the leases until they have reported what they spent of it. */
function voidLeases(account: Account, leases: ReadonlyMap<string, Lease>): Omit<Applied<never>, "result"> {
  const changes: LeaseChange[] = [];
  let reserved = 0;
  for (const [id, lease] of leases) {
    if (lease.reserved === 0 && lease.held > 0) continue;
    reserved += lease.reserved;
    changes.push(lease.held === 0 ? removed(id, lease, "voided") : [id, { ...lease, reserved: 0 }]);
  }
  return { account: move(account, { reserved: -reserved, forfeited: reserved }), leases: changes };
}

/**
 * The account of a copy of the store, in which the leases of nodes end: what they hold is forfeited, since their nodes
 * go on spending it from the original. Reservations stay, to be settled by their ids or to return at their time-outs:
 * what the original does with them after the copy is lost like its spends.
 */
export function forfeitLeases(account: Account, leases: ReadonlyMap<string, Lease>): Omit<Applied<never>, "result"> {
  const ended = [...leases].filter(([id]) => !id.startsWith(RESERVATION));
  let held = 0;
  for (const [, lease] of ended) if (!lease.isForfeited) held += lease.held + lease.reserved;
  // Less than they hold in an account that was damaged: what is amiss stays to be found.
  const forfeited = Math.min(held, account.reserved);
  return {
    account: move(account, { reserved: -forfeited, forfeited }),
    leases: ended.map(([id]) => [id, undefined]),
  };
}

/**
 * Draws credits for a lease and tops up its reserve. Beyond `cost` it takes at most a quarter of what is free, so that
 * nodes share the last credits instead of leaving them idle with one.
 */
export function draw(account: Account, leases: ReadonlyMap<string, Lease>, request: DrawRequest): Applied<Draw> {
  assertDraw(request);
  const { generation } = account;
  if (account.unlimited) return unchanged(account, { drawn: request.cost, generation, remaining: null });
  if (!isOfCalendar(account, request.period))
    return unchanged(account, { drawn: 0, generation, remaining: 0, stale: true });
  const known = leases.get(request.holder);
  // The balance was set since: the node ends this lease, and draws under a new one.
  if (known !== undefined && known.generation !== generation)
    return unchanged(account, { drawn: 0, generation, remaining: account.remaining });
  const swept = sweep(account, leases, { now: request.now, self: request.holder });
  const settled = countRefills(swept.account, request.period);
  const { rollovers } = settled;
  if (known !== undefined && known.rollovers !== rollovers)
    return unchanged(account, { drawn: 0, generation, remaining: settled.remaining, ended: true });
  const reported = report(settled, known, request.spent);
  // What a lease had spent before the store dropped it was counted or forfeited then.
  const { held, spent, reserved: before } = reported.lease ?? { held: 0, spent: request.spent, reserved: 0 };
  const free = Math.min(reported.account.remaining, MAX_BALANCE - reported.account.reserved) + before;
  const share = Math.floor(free / 4);
  const drawn = request.cost > free ? 0 : Math.max(request.cost, Math.min(request.step, share));
  const wanted = Math.min(Math.max(0, request.size - drawn), Math.floor((free - drawn) / 4));
  // A smaller reserve returns to the balance only as far as it fits.
  const kept = before - drawn - (MAX_BALANCE - reported.account.remaining);
  const reserved = drawn === 0 ? before : Math.max(wanted, kept);
  const moved = reserved - before + drawn;
  const after = move(reported.account, { remaining: -moved, reserved: moved });
  const { until: expires } = request;
  const lease = { generation, rollovers, expires, reserved, held: held + drawn, spent, isForfeited: false };
  const forfeited = forfeitedRefills(account, request.period);
  const result = { drawn, generation, remaining: Math.min(MAX_BALANCE, after.remaining + reserved) };
  const isUnknown = known === undefined && drawn === 0;
  return {
    account: after,
    leases: isUnknown ? swept.leases : [...swept.leases, [request.holder, lease]],
    result: forfeited === 0 ? result : { ...result, forfeited },
  };
}

/**
 * Ends a lease. What it did not spend returns to the balance, unless it has expired; if the balance was set since, it
 * is forfeited. Ending it again changes nothing.
 */
export function endLease(account: Account, leases: ReadonlyMap<string, Lease>, ended: LeaseReturn): Applied<undefined> {
  assertReturn(ended);
  const { account: reported, lease } = report(account, leases.get(ended.holder), ended.spent);
  if (lease === undefined) return unchanged(account, undefined);
  const after = giveBack(reported, lease, { returned: lease.held + lease.reserved, lost: 0 });
  return { account: after, leases: [[ended.holder, undefined]], result: undefined };
}

/**
 * The account after credits of a lease have come back, as far as they have not expired, are not void and fit below
 * {@link MAX_BALANCE}, and others were lost.
 */
function giveBack(
  account: Account,
  { generation, rollovers }: Lease,
  { returned, lost }: { readonly returned: number; readonly lost: number },
): Account {
  const isVoid = account.unlimited || generation !== account.generation;
  const passed = isVoid ? 0 : account.rollovers - rollovers;
  const stays = passed === 0 ? returned : passed === 1 ? Math.min(returned, account.returnable) : 0;
  const remaining = isVoid ? 0 : Math.min(stays, MAX_BALANCE - account.remaining);
  const forfeited = lost + stays - remaining;
  const after = move(account, { remaining, reserved: -returned - lost, forfeited, expired: returned - stays });
  return passed === 1 ? { ...after, returnable: account.returnable - remaining } : after;
}

/**
 * Counts what a lease has spent. The report is the sum since the lease began, so that one that arrives twice, or never,
 * does no harm.
 */
function report(
  account: Account,
  lease: Lease | undefined,
  total: number,
): { readonly account: Account; readonly lease: Lease | undefined } {
  if (lease === undefined) return { account, lease };
  // Less than it held, if the forfeited credits were carried forward meanwhile.
  const held = lease.isForfeited ? Math.min(lease.held, account.forfeited, MAX_BALANCE - account.reserved) : lease.held;
  const revived = lease.isForfeited ? move(account, { reserved: held, forfeited: -held }) : account;
  const spent = Math.min(held, Math.max(0, total - lease.spent));
  return {
    account: spent === 0 ? revived : move(revived, { spent, reserved: -spent }),
    lease: { ...lease, held: held - spent, spent: lease.spent + spent, isForfeited: false },
  };
}

/**
 * Takes back what other leases have reserved until now (clause 14). What their nodes hold counts as forfeited; the
 * lease is kept for a day, in case its node still lives and reports.
 * @param self the lease that stays
 */
export function sweep(
  account: Account,
  leases: ReadonlyMap<string, Lease>,
  { now, self }: { readonly now: number; readonly self?: string },
): Omit<Applied<never>, "result"> {
  let swept = account;
  const changes: LeaseChange[] = [];
  for (const [id, lease] of leases) {
    if (id === self || lease.expires > now) continue;
    const isOld = lease.expires + KEPT_AFTER_EXPIRY <= now;
    if (lease.isForfeited) {
      if (isOld) changes.push([id, undefined]);
      continue;
    }
    swept = giveBack(swept, lease, { returned: lease.reserved, lost: lease.held });
    const isGone = lease.held === 0 || isOld;
    changes.push(isGone ? removed(id, lease, "expired") : [id, { ...lease, reserved: 0, isForfeited: true }]);
  }
  return { account: swept, leases: changes };
}

/** @throws RangeError naming the argument that is not an integer, or a cost below 0 */
export function assertSpend(cost: number, period: number, now: number): void {
  assertCount("cost", cost);
  assertInteger("period", period);
  assertInteger("now", now);
}

/** @throws RangeError naming the number of a draw that is not an integer, or below 0 where that has no meaning */
export function assertDraw(request: DrawRequest): void {
  for (const name of ["cost", "step", "size", "spent"] as const) assertCount(`request.${name}`, request[name]);
  for (const name of ["period", "now", "until"] as const) assertInteger(`request.${name}`, request[name]);
}

/** @throws RangeError: the id is not that of a reservation, or `until` no integer */
export function assertReservation({ id, until }: ReservationRequest): void {
  assertReservationId("reservation.id", id);
  assertInteger("reservation.until", until);
}

/** @throws RangeError: the id is not that of a reservation, `spent` no integer from 0 to 2^53 − 1, or `now` none */
export function assertSettle({ id, spent, now }: SettleRequest): void {
  assertReservationId("request.id", id);
  assertCount("request.spent", spent);
  assertInteger("request.now", now);
}

/** @throws RangeError: `spent` is not an integer from 0 to 2^53 − 1 */
export function assertReturn({ spent }: LeaseReturn): void {
  assertCount("lease.spent", spent);
}

// Database drivers bind NaN as NULL, and a negative cost would add credits.
function assertCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be an integer from 0 to 2^53 - 1`);
}

// Under the id of a node's lease that lease would be settled, or written over.
function assertReservationId(name: string, id: string): void {
  if (!RESERVATION_ID.test(id)) throw new RangeError(`${name} must be res_ and 1 to 60 of [a-zA-Z0-9_-]`);
}

function assertInteger(name: string, value: number): void {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${name} must be an integer of at most 2^53 - 1`);
}
