/**
 * Wallets: the order in which the accounts of an owner are drawn down, and the step that takes a cost from one or
 * several of them. Store clause 31. Pure functions: the store makes them atomic.
 *
 * Why this has no arithmetic of its own: a wallet reads each account with a spend of 0, divides the cost, and spends
 * the parts. So each account keeps the one equation of `account.ts`, whatever is taken from others with it.
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
import {
  type Account,
  type Applied,
  assertReservation,
  assertSpend,
  expire,
  type Lease,
  type LeaseChanges,
  MAX_BALANCE,
  reserve,
  settle,
  spend,
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

/** Whether a call draws on several accounts at `now`: not once all grants of the one wallet have expired. */
export function drawsOnSeveral([first, second]: readonly OwnedWallet[], now: number): boolean {
  if (first === undefined || second !== undefined) return second !== undefined;
  return first.accounts.some(({ grantId, expires = Infinity }) => grantId !== undefined && expires > now);
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
}

/** The result of a step, and the accounts that it changes: to be stored with it, or not at all. */
export interface WalletStep<T> {
  readonly result: T;
  readonly changes: readonly { readonly ref: KeyRef; readonly account: Account; readonly leases: LeaseChanges }[];
}

const STALE: Spend = Object.freeze({ ok: false, remaining: 0, stale: true });

/** What can be taken from an account, and what else becomes of it. */
interface Part extends Pick<WalletAccount, "ref" | "period"> {
  readonly account: Account;
  /** null: unlimited. */
  readonly available: number | null;
  /** What a spend leaves behind that takes nothing from it: its expiry. */
  readonly expired: Omit<Applied<never>, "result"> | undefined;
}

/**
 * Takes `cost` from each of the wallets, all or nothing; of each from its accounts in order.
 * @param cost in place of `request.cost`: 0 reads the balance
 * @returns `stale`: an account is not there, or has another calendar than its period
 * @throws as {@link assertWalletSpend}
 */
export function spendFromWallets(
  accounts: WalletAccounts,
  wallets: readonly Wallet[],
  { cost: asked, now, reservation, once }: WalletSpend,
  cost = asked,
): WalletStep<Spend> {
  const read: Part[][] = [];
  for (const wallet of wallets) {
    const parts: Part[] = [];
    for (const one of wallet) {
      const part = readPart(accounts, one, now);
      if (part === undefined) return { result: STALE, changes: [] };
      parts.push(part);
    }
    read.push(parts);
  }
  const limited = read.filter((parts) => parts.every(({ available }) => available !== null));
  const sums = limited.map((parts) =>
    Math.min(
      MAX_BALANCE,
      parts.reduce((sum, { available }) => sum + (available as number), 0),
    ),
  );
  const left = sums.length === 0 ? null : Math.min(...sums);
  const least = wallets.length > 1 && left !== null ? { least: read.indexOf(limited[sums.indexOf(left)]!) } : {};
  if (left === null || cost === 0 || cost > left) {
    const isRead = asked === 0 && once === undefined;
    const balances = isRead && { balances: read.map((parts) => parts.map(({ available }) => available)) };
    return { result: { ok: left === null || cost === 0, remaining: left, ...least, ...balances }, changes: [] };
  }
  const reserved = once?.record.reservation ?? reservation;
  const step = takeParts(accounts, { limited, cost, now, left }, reserved);
  return step.result.ok && wallets.length > 1 ? { ...step, result: { ...step.result, ...least } } : step;
}

function readPart(
  accounts: WalletAccounts,
  { ref, period, expires = Infinity }: WalletAccount,
  now: number,
): Part | undefined {
  const account = accounts.find(ref);
  if (account === undefined) return undefined;
  const leases = () => accounts.leases(ref, now);
  const { result } = spend(account, leases, 0, period, now);
  if (result.stale === true) return undefined;
  if (account.unlimited || expires > now)
    return { ref, period, account, available: result.remaining, expired: undefined };
  const expired = expire(account, account.reserved === 0 ? NO_LEASES : leases(), now);
  return { ref, period, account, available: 0, expired: expired.account === account ? undefined : expired };
}

const NO_LEASES: ReadonlyMap<string, Lease> = new Map();

interface Taking {
  readonly limited: readonly (readonly Part[])[];
  readonly cost: number;
  readonly now: number;
  /** The least of what the wallets have. */
  readonly left: number;
}

function takeParts(
  accounts: WalletAccounts,
  { limited, cost, now, left }: Taking,
  reservation: ReservationRequest | undefined,
): WalletStep<Spend> {
  const changes: { ref: KeyRef; account: Account; leases: LeaseChanges }[] = [];
  let forfeited = 0;
  for (const wallet of limited) {
    let missing = cost;
    for (const { ref, period, account, available, expired } of wallet) {
      const known = () => accounts.reservations(ref, reservation?.id ?? "");
      const part = Math.min(missing, available as number);
      missing -= part;
      if (part === 0) {
        // Elsewhere under this id credits would be settled together with those that are taken here.
        if (reservation !== undefined && account.reserved > 0 && known().hasId) return refusal(left, "open");
        if (expired !== undefined) changes.push({ ref, ...expired });
        continue;
      }
      const leases = () => accounts.leases(ref, now);
      const taken =
        reservation === undefined
          ? spend(account, leases, part, period, now)
          : reserve(account, leases, known, part, period, now, reservation);
      if (taken.result.refused !== undefined) return refusal(left, taken.result.refused);
      forfeited += taken.result.forfeited ?? 0;
      changes.push({ ref, account: taken.account, leases: taken.leases });
    }
  }
  const result = { ok: true, remaining: left - cost };
  return { result: forfeited === 0 ? result : { ...result, forfeited }, changes };
}

const refusal = (remaining: number, refused: NonNullable<Spend["refused"]>): WalletStep<Spend> => ({
  result: { ok: false, remaining, refused },
  changes: [],
});

/**
 * Settles the parts of a reservation that are open: of each wallet `spent` is kept, of the parts in order, and the rest
 * returns to the accounts that it was taken from.
 * @param wallets accounts that have a part, in the order in which they were taken from
 * @param endedAs how a reservation ended that is not open
 * @returns not settled, if no part was open: as the first of them ended
 */
export function settleParts(
  accounts: WalletAccounts,
  wallets: readonly (readonly KeyRef[])[],
  request: SettleRequest,
  endedAs: () => Settlement,
): WalletStep<Settlement> {
  const { id, now } = request;
  const changes: { ref: KeyRef; account: Account; leases: LeaseChanges }[] = [];
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
      const settled = settle(account, leases, { id, spent, now }, endedAs());
      if (settled.result.settled) kept -= spent;
      else ended ??= settled.result;
      changes.push({ ref, account: settled.account, leases: settled.leases });
    }
    // Of a part that has ended it is not known how much it was.
    if (kept > 0 && open.length === refs.length) return { result: EXCEEDS, changes: [] };
    isSettled ||= open.length > 0;
  }
  return { result: isSettled ? { settled: true } : (ended ?? endedAs()), changes };
}

const EXCEEDS: Settlement = Object.freeze({ settled: false, reason: "exceeds" });

/**
 * @throws RangeError naming what is no integer, the id that is no reservation's, or an account that is listed twice;
 *   for more wallets or accounts than there may be
 */
export function assertWalletSpend(wallets: readonly Wallet[], { cost, now, reservation, once }: WalletSpend): void {
  assertSpend(cost, 0, now);
  for (const { period, expires = 0 } of wallets.flat()) assertSpend(0, period, expires);
  assertRefs(refsOf(wallets));
  for (const one of [reservation, once?.record.reservation]) if (one !== undefined) assertReservation(one);
}

/** @throws RangeError: as {@link assertWalletSpend} of the accounts */
export function assertRefs(wallets: readonly (readonly KeyRef[])[]): void {
  if (wallets.length > MAX_WALLETS || wallets.some(({ length }) => length === 0 || length > MAX_ACCOUNTS))
    throw new RangeError(`wallets must be at most ${MAX_WALLETS}, each of 1 to ${MAX_ACCOUNTS} accounts`);
  const refs = wallets.flat();
  if (new Set(refs).size < refs.length) throw new RangeError("an account must not be listed twice");
}
