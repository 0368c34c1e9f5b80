/**
 * Wallets: the order in which the accounts of an owner are drawn down, and the step that takes a cost from one or
 * several of them. Store clause 31. Pure functions: the store makes them atomic.
 *
 * Why this has no arithmetic of its own: a wallet reads what each account has, divides the cost, and spends the parts.
 * So each account keeps the one equation of `account.ts`, whatever is taken from others with it.
 *
 * Why loops, and an order that is remembered: a call of two accounts is to cost at most half as much again as one of a
 * single account, which takes a microsecond.
 */
import type {
  DrawnAccount,
  KeyRef,
  OwnedWallet,
  ReservationRequest,
  Settlement,
  SettleRequest,
  Spend,
  Wallet,
  WalletAccount,
  WalletSpend,
} from "../contracts/store.js";
import type { Mutable } from "../lib/mutable.js";
import {
  type Account,
  type Applied,
  assertReservation,
  assertSpend,
  countRefills,
  expire,
  isOfCalendar,
  type Lease,
  MAX_BALANCE,
  reserve,
  settle,
  spend,
  spendRemaining,
  takeBackReserves,
} from "./account.js";
import { nextBoundary, periodOf } from "./refill-calendar.js";

/** The priority of a main account, and of a grant without one. */
export const DEFAULT_PRIORITY = 100;
/** Most wallets that cover a call, and most accounts of each: one main account, and 16 open grants. */
const MAX_WALLETS = 2;
const MAX_ACCOUNTS = 17;

/** What the place of an account in the draw-down order depends on. */
export interface Ranked extends Omit<DrawnAccount, "ref" | "generation" | "refill"> {
  readonly refill?: DrawnAccount["refill"] | undefined;
}

/**
 * The accounts of a wallet in the order in which they are drawn down at `now`: by priority, then what expires soonest,
 * what never expires last, then the main account, then the older grant.
 */
export function inDrawOrder<A extends Ranked>(accounts: readonly A[], now: number): readonly A[] {
  if (accounts.length < 2) return accounts;
  const ordered = accounts.map((account) => ({ account, end: endOf(account, now) }));
  ordered.sort(
    ({ account: a, end: endOfA }, { account: b, end: endOfB }) =>
      a.priority - b.priority ||
      compare(endOfA, endOfB) ||
      Number(a.grantId !== undefined) - Number(b.grantId !== undefined) ||
      a.createdAt - b.createdAt ||
      compare(a.grantId ?? "", b.grantId ?? ""),
  );
  return ordered.map(({ account }) => account);
}

/** When credits of an account expire: those with a rollover at the next boundary. */
function endOf({ expires = Infinity, refill }: Ranked, now: number): number {
  return refill?.rollover === undefined ? expires : Math.min(expires, nextBoundary(refill, now));
}

/** Wallets as a store is given them, at `now`. */
export function toWallets(wallets: readonly OwnedWallet[], now: number): Wallet[] {
  return wallets.map(({ accounts }) =>
    inDrawOrder(accounts, now).map(({ ref, refill, expires }) => {
      const account = { ref, period: periodOf(refill, now) };
      return expires === undefined ? account : { ...account, expires };
    }),
  );
}

/** The next instant at which an account is refilled or expires; Infinity: never. */
export function nextChange({ refill, expires = Infinity }: Ranked, now: number): number {
  const end = expires > now ? expires : Infinity;
  return refill === undefined ? end : Math.min(end, nextBoundary(refill, now));
}

/** Wallets in draw-down order, as a store is given them. */
interface DrawOrder {
  readonly wallets: readonly Wallet[];
  /** Whether a call draws on several accounts: not once all grants of the one wallet have expired. */
  readonly isOfSeveral: boolean;
  /** It holds from then on, and before `until`: Unix time, milliseconds. */
  readonly from: number;
  readonly until: number;
}

/**
 * The draw-down order of wallets at `now`, remembered for each list of wallets until one of its accounts is refilled or
 * expires.
 */
export function drawOrders(): (wallets: readonly OwnedWallet[], now: number) => DrawOrder {
  const known = new WeakMap<readonly OwnedWallet[], DrawOrder>();
  return (wallets, now) => {
    const last = known.get(wallets);
    if (last !== undefined && now >= last.from && now < last.until) return last;
    const accounts = wallets.flatMap((wallet) => wallet.accounts);
    const order = {
      wallets: toWallets(wallets, now),
      isOfSeveral:
        wallets.length > 1 ||
        accounts.some(({ grantId, expires = Infinity }) => grantId !== undefined && expires > now),
      from: now,
      until: Math.min(...accounts.map((account) => nextChange(account, now))),
    };
    known.set(wallets, order);
    return order;
  };
}

/** The accounts of wallets, by their refs. */
export function refsOf(wallets: readonly Wallet[]): KeyRef[][] {
  return wallets.map((wallet) => wallet.map(({ ref }) => ref));
}

// Not by subtraction: of Infinity from itself that is NaN.
function compare<T extends number | string>(a: T, b: T): number {
  return a < b ? -1 : Number(a > b);
}

/** The accounts of a store, inside one transaction. */
export interface WalletAccounts {
  /** `undefined`: there is none. */
  find(ref: KeyRef): Account | undefined;
  /** The leases of an account that have expired at `now`, or more, and the one with this id. */
  leases(ref: KeyRef, now: number, id?: string): ReadonlyMap<string, Lease>;
  /** How many reservations an account has, and whether one of them has this id. */
  reservations(ref: KeyRef, id: string): { readonly count: number; readonly hasId: boolean };
  /** How the reservation under this id ended, which is not open. */
  endingOf(id: string): Settlement;
}

/** An account that a step changes. */
type Changed = { readonly ref: KeyRef } & Omit<Applied<never>, "result">;

/** The result of a step, and the accounts that it changes: to be stored with it, or not at all. */
export interface WalletStep<T> {
  readonly result: T;
  readonly changes: readonly Changed[];
}

const NO_CHANGES: readonly never[] = [];
const NO_LEASES: ReadonlyMap<string, Lease> = new Map();
const STALE: Spend = Object.freeze({ ok: false, remaining: 0, stale: true });

/** What can be taken from an account. */
interface Part {
  readonly of: WalletAccount;
  readonly account: Account;
  /** Those that may have expired. */
  readonly leases: ReadonlyMap<string, Lease>;
  /** Infinity: unlimited. */
  readonly available: number;
}

/**
 * Takes the cost from each of the wallets, all or nothing; of each from its accounts in order. A cost of 0 reads the
 * balances.
 * @returns `stale`: an account is not there, or has another calendar than its period
 * @throws as {@link assertWalletSpend}
 */
export function spendFromWallets(
  accounts: WalletAccounts,
  wallets: readonly Wallet[],
  request: WalletSpend,
): WalletStep<Spend> {
  const { cost, now, once } = request;
  // Lists with their length: one that grows from empty allocates 17 elements.
  const read = new Array<readonly Part[]>(wallets.length);
  let left = Infinity;
  let least = 0;
  for (let i = 0; i < wallets.length; i++) {
    const wallet = wallets[i]!;
    const parts = new Array<Part>(wallet.length);
    for (let j = 0; j < wallet.length; j++) {
      const part = readPart(accounts, wallet[j]!, now);
      if (part === undefined) return { result: STALE, changes: NO_CHANGES };
      parts[j] = part;
    }
    read[i] = parts;
    const has = sumOf(parts);
    if (has >= left) continue;
    left = has;
    least = i;
  }
  // `remaining` is null first: of a literal with a small integer there the engine moves each object to another layout,
  // once a balance is above 2^31; that took twice as long as all the rest.
  const result: Mutable<Spend> =
    wallets.length < 2 || left === Infinity ? { ok: true, remaining: null } : { ok: true, remaining: null, least };
  if (left < Infinity) result.remaining = left;
  if (cost === 0 && once === undefined) result.balances = read.map(balancesOf);
  if (cost === 0 || left === Infinity) return { result, changes: NO_CHANGES };
  result.ok = cost <= left;
  if (!result.ok) return { result, changes: NO_CHANGES };
  const { changes, forfeited, refused } = takeParts(accounts, read, request);
  if (refused !== undefined) return { result: { ok: false, remaining: left, refused }, changes: NO_CHANGES };
  result.remaining = left - cost;
  if (forfeited > 0) result.forfeited = forfeited;
  return { result, changes };
}

const balancesOf = (parts: readonly Part[]): (number | null)[] =>
  parts.map(({ available }) => (available === Infinity ? null : available));

/** @returns `undefined`: the account is not there, or has another calendar */
function readPart(accounts: WalletAccounts, of: WalletAccount, now: number): Part | undefined {
  const { ref, period, expires = Infinity } = of;
  const account = accounts.find(ref);
  if (account === undefined || !isOfCalendar(account, period)) return undefined;
  if (account.unlimited) return { of, account, leases: NO_LEASES, available: Infinity };
  const leases = account.reserved === 0 ? NO_LEASES : accounts.leases(ref, now);
  if (expires <= now) return { of, account, leases, available: 0 };
  const swept = account.reserved === 0 ? account : takeBackReserves(account, leases, now).account;
  return { of, account, leases, available: countRefills(swept, period).remaining };
}

/** What a wallet has; Infinity: one of its accounts is unlimited. */
function sumOf(parts: readonly Part[]): number {
  let sum = 0;
  for (const { available } of parts) sum += available;
  return sum === Infinity ? sum : Math.min(MAX_BALANCE, sum);
}

interface Taken extends Pick<Spend, "refused"> {
  readonly changes: readonly Changed[];
  /** Boundaries that were not refilled. */
  readonly forfeited: number;
}

/** Takes a cost that every wallet covers. From one that is unlimited nothing is taken. */
function takeParts(
  accounts: WalletAccounts,
  wallets: readonly (readonly Part[])[],
  { cost, now, reservation: asked, once }: WalletSpend,
): Taken {
  const reservation = once?.record.reservation ?? asked;
  const changes: Changed[] = [];
  let forfeited = 0;
  for (const parts of wallets) {
    if (sumOf(parts) === Infinity) continue;
    let missing = cost;
    for (const part of parts) {
      const amount = Math.min(missing, part.available);
      missing -= amount;
      if (amount > 0) {
        const { account, leases, result } =
          reservation === undefined
            ? spendPart(part, amount, now)
            : reservePart(accounts, part, { cost: amount, period: part.of.period, now, reservation });
        if (result.refused !== undefined) return { changes, forfeited, refused: result.refused };
        forfeited += result.forfeited ?? 0;
        changes.push({ ref: part.of.ref, account, leases });
        continue;
      }
      // Elsewhere under this id credits would be settled together with those that are taken here.
      if (reservation !== undefined && hasReservation(accounts, part, reservation))
        return { changes, forfeited, refused: "open" };
      if ((part.of.expires ?? Infinity) > now) continue;
      const { account, leases } = expire(part.account, part.leases, now);
      if (account !== part.account) changes.push({ ref: part.of.ref, account, leases });
    }
  }
  return { changes, forfeited };
}

function spendPart({ of: { period }, account, leases }: Part, amount: number, now: number): Applied<Spend> {
  return account.reserved === 0
    ? spendRemaining(account, amount, period)
    : spend(account, () => leases, { cost: amount, period, now });
}

function reservePart(
  accounts: WalletAccounts,
  { of: { ref }, account, leases }: Part,
  asked: Parameters<typeof reserve>[2],
): Applied<Spend> {
  const known = () => accounts.reservations(ref, asked.reservation.id);
  return reserve(account, { leases: () => leases, known }, asked);
}

function hasReservation(accounts: WalletAccounts, { of, account }: Part, { id }: ReservationRequest): boolean {
  return account.reserved > 0 && accounts.reservations(of.ref, id).hasId;
}

/**
 * Settles the parts of a reservation that are open: of each wallet `spent` is kept, of the parts in order, and the rest
 * returns to the accounts that it was taken from.
 * @param wallets accounts that have a part, in the order in which they were taken from
 * @returns not settled, if no part was open: as the first of them ended
 */
export function settleParts(
  accounts: WalletAccounts,
  wallets: readonly (readonly KeyRef[])[],
  request: SettleRequest,
): WalletStep<Settlement> {
  const { id, now } = request;
  const changes: Changed[] = [];
  const keptOf: number[] = [];
  let isSettled = false;
  let ended: Settlement | undefined;
  for (const refs of wallets) {
    const parts = refs.flatMap((ref) => {
      const account = accounts.find(ref);
      return account === undefined ? [] : [{ ref, account, leases: accounts.leases(ref, now, id) }];
    });
    const open = parts.filter(({ leases }) => (leases.get(id)?.expires ?? now) > now);
    let kept = request.spent;
    for (const { ref, account, leases } of parts) {
      const spent = Math.min(kept, leases.get(id)?.reserved ?? 0);
      const settled = settle(account, leases, { id, spent, now });
      const { result = accounts.endingOf(id) } = settled;
      if (result.settled) kept -= spent;
      else ended ??= result;
      changes.push({ ref, account: settled.account, leases: settled.leases });
    }
    // Of a part that has ended it is not known how much it was.
    if (kept > 0 && open.length === refs.length) return { result: EXCEEDS, changes: [] };
    isSettled ||= open.length > 0;
    keptOf.push(request.spent - kept);
  }
  if (!isSettled) return { result: ended ?? accounts.endingOf(id), changes };
  const isShort = keptOf.some((kept) => kept < request.spent);
  return { result: isShort ? { settled: true, kept: keptOf } : { settled: true }, changes };
}

const EXCEEDS: Settlement = Object.freeze({ settled: false, reason: "exceeds" });

/**
 * @throws RangeError naming what is no integer, the id that is no reservation's, or an account that is listed twice;
 *   for more wallets or accounts than there may be
 */
export function assertWalletSpend(wallets: readonly Wallet[], { cost, now, reservation, once }: WalletSpend): void {
  assertSpend(cost, 0, now);
  assertAccounts(wallets, refOf);
  for (const wallet of wallets) for (const { period, expires = 0 } of wallet) assertSpend(0, period, expires);
  if (reservation !== undefined) assertReservation(reservation);
  if (once?.record.reservation !== undefined) assertReservation(once.record.reservation);
}

/** @throws RangeError: as {@link assertWalletSpend} of the accounts */
export function assertRefs(wallets: readonly (readonly KeyRef[])[]): void {
  assertAccounts(wallets, (ref) => ref);
}

const refOf = ({ ref }: WalletAccount): KeyRef => ref;

function assertAccounts<A>(wallets: readonly (readonly A[])[], refOf: (account: A) => KeyRef): void {
  let count = 0;
  for (const { length } of wallets) {
    if (length === 0 || length > MAX_ACCOUNTS || wallets.length > MAX_WALLETS)
      throw new RangeError(`wallets must be at most ${MAX_WALLETS}, each of 1 to ${MAX_ACCOUNTS} accounts`);
    count += length;
  }
  const known = new Array<KeyRef>(count);
  for (const wallet of wallets) {
    for (const account of wallet) {
      const ref = refOf(account);
      if (known.includes(ref)) throw new RangeError("an account must not be listed twice");
      known[--count] = ref;
    }
  }
}
