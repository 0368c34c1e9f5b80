/**
 * One account's credits as the judge counts them. Its calendar is the walk of the naive model, not the engine's
 * arithmetic.
 */
import type { CountedBalance, CreditTotals } from "../../src/contracts/store.js";
import type { Refill } from "../../src/contracts/types.js";
import { boundaries } from "../model/naive-credits.js";
import { type Clause, must } from "./violation.js";

export const MAX = Number.MAX_SAFE_INTEGER;
const DAY = 86_400_000;
const MAX_DAILY = 400;
const MAX_MONTHLY = 24;

/** What one lease has in the store. */
export interface Lease {
  readonly generation: number;
  readonly expires: number;
  /** In the store. */
  readonly reserved: number;
  /** In the memory of a node, and not told as spent. */
  readonly held: number;
  /** Told as spent since the lease began. */
  readonly spent: number;
  /** Whether `held` counts as forfeited, since the lease has expired. */
  readonly isForfeited: boolean;
  /** How many boundaries with a rollover had been counted when it was drawn. */
  readonly rollovers: number;
}

/** How a reservation ended, and until when the store has to know it. */
export interface Ending {
  readonly how: "settled" | "expired" | "voided";
  readonly until: number;
}

const HOUR = 3_600_000;

/** Sums over the life of an account; exact, since they may pass 2^53. */
type Sums = Record<keyof CreditTotals, bigint>;

/** The credits that one key has, or several that replaced each other, or an identity for its keys. */
export class Account {
  limited = false;
  remaining = 0;
  generation = 0;
  /** Ids of the keys that share it, or of the identity; without any it is gone. */
  readonly ownerIds = new Set<string>();
  readonly leases = new Map<string, Lease>();
  /** How reservations ended, by id. */
  readonly endings = new Map<string, Ending>();
  readonly sums: Sums = { credited: 0n, refilled: 0n, adjusted: 0n, spent: 0n, forfeited: 0n, expired: 0n };
  /** What verifications were answered that they took. */
  acknowledged = 0n;
  /** What leases held that were given up after a day: their nodes may have spent it. */
  forgotten = 0;
  #refill: Refill | undefined;
  /** Boundaries up to this instant are counted. */
  #counted: number;
  /** The last boundary that was refilled, of whatever calendar. */
  #refilledTo = 0;
  /** A sum that was ever above 2^53 − 1 began anew in the store. */
  #isCarried = false;
  /** How often boundaries were counted at which a rollover applied, and what it then had space for. */
  rollovers = 0;
  #returnable = 0;

  constructor(
    readonly id: string,
    refill: Refill | undefined,
    counted: number,
    /** Whose it is. */
    readonly kind: "key" | "identity" = "key",
  ) {
    this.#refill = refill;
    this.#counted = counted;
  }

  get exists(): boolean {
    return this.ownerIds.size > 0;
  }

  /** The first balance. */
  credit(credits: number): void {
    this.limited = true;
    this.remaining = credits;
    this.sums.credited = BigInt(credits);
  }

  /**
   * An administrator's balance in place of the present one: leases of that one are void. @param value null: unlimited
   */
  set(value: number | null): void {
    const { credited, adjusted, spent } = this.sums;
    for (const [holder, lease] of this.leases) {
      this.sums.forfeited += BigInt(lease.reserved);
      if (lease.held === 0) this.#remove(holder, "voided");
      else this.leases.set(holder, { ...lease, reserved: 0 });
    }
    if (!this.limited && credited === 0n && adjusted === 0n && spent === 0n) this.sums.credited = BigInt(value ?? 0);
    else this.sums.adjusted += BigInt((value ?? 0) - this.remaining);
    this.remaining = value ?? 0;
    this.limited = value !== null;
    this.generation++;
  }

  /** An administrator's increment or decrement, between 0 and 2^53 − 1. */
  add(credits: number): void {
    const sum = Math.min(MAX, Math.max(0, this.remaining + credits));
    this.sums.adjusted += BigInt(sum - this.remaining);
    this.remaining = sum;
  }

  spend(cost: number): void {
    this.remaining -= cost;
    this.sums.spent += BigInt(cost);
  }

  /** What the refills due at `now` would add. */
  due(now: number): number {
    const refill = this.#refill;
    if (!this.limited || refill === undefined) return 0;
    const passed = boundaries(refill, this.#counted, now);
    const counted = Math.min(passed, refill.interval === "daily" ? MAX_DAILY : MAX_MONTHLY);
    const sum = BigInt(refill.amount) * BigInt(counted);
    const space = MAX - this.remaining;
    return sum > BigInt(space) ? space : Number(sum);
  }

  /** Adds the refills due at `now`, each boundary once. */
  count(now: number): void {
    if (now <= this.#counted) return;
    const due = this.due(now);
    // Of an unlimited balance nothing is refilled, whatever calendar it had.
    if (this.limited && this.#refill !== undefined && boundaries(this.#refill, this.#counted, now) > 0) {
      this.#refilledTo = lastBoundary(this.#refill, now);
    }
    const passed = this.#passed(now);
    this.#counted = now;
    const rollover = this.#refill?.rollover;
    const had = this.remaining;
    this.remaining += due;
    this.sums.refilled += BigInt(due);
    if (!this.limited || rollover === undefined || passed === 0) return;
    // Boundary by boundary.
    let [left, stayed] = [BigInt(had), 0n];
    for (let i = 0; i < passed; i++) {
      stayed = left < BigInt(rollover) ? left : BigInt(rollover);
      left = stayed + BigInt(this.#refill!.amount);
    }
    const capped = Number(left < BigInt(MAX) ? left : BigInt(MAX));
    this.sums.expired += BigInt(this.remaining - capped);
    this.remaining = capped;
    this.rollovers++;
    this.#returnable = rollover - Number(stayed);
  }

  /** What it is at `now`, with nothing stored: refills that are due counted, expired reserves taken back, or both. */
  at(now: number, ...done: readonly ("counted" | "swept")[]): Account {
    const copy = new Account(this.id, this.#refill, this.#counted, this.kind);
    const { limited, remaining, generation, rollovers } = this;
    Object.assign(copy, { limited, remaining, generation, rollovers });
    copy.#returnable = this.#returnable;
    for (const [holder, lease] of this.leases) copy.leases.set(holder, lease);
    if (done.includes("swept")) copy.sweep(now);
    if (done.includes("counted")) copy.count(now);
    return copy;
  }

  #passed(now: number): number {
    if (this.#refill === undefined) return 0;
    const passed = boundaries(this.#refill, this.#counted, now);
    return Math.min(passed, this.#refill.interval === "daily" ? MAX_DAILY : MAX_MONTHLY);
  }

  /** Another calendar, which counts from `from` on. */
  recount(refill: Refill | undefined, from: number): void {
    must(from >= this.#refilledTo, "refilled", () => `a calendar of ${this.id} begins before the last refill`);
    this.#refill = refill;
    this.#counted = from;
  }

  /** Another amount on the same days. */
  reprice(refill: Refill | undefined): void {
    this.#refill = refill;
  }

  /** Whether reserves of the current balance have expired by then. */
  hasExpired(now: number): boolean {
    for (const { reserved, expires, generation } of this.leases.values())
      if (generation === this.generation && expires <= now && reserved > 0) return true;
    return false;
  }

  /** What leases have, in the store and in nodes. @param now without those that have expired by then */
  out(now = -Infinity): bigint {
    let sum = 0n;
    for (const { reserved, held, expires, isForfeited } of this.leases.values())
      if (!isForfeited && expires > now) sum += BigInt(reserved) + BigInt(held);
    return sum;
  }

  /** Takes the expired reserves of all but one holder back. */
  sweep(now: number, except?: string): void {
    for (const [holder, lease] of this.leases) {
      const { reserved, held, expires, isForfeited } = lease;
      if (holder === except || expires > now) continue;
      const isOld = expires + DAY <= now;
      if (isOld || held === 0) this.#remove(holder, "expired");
      else this.leases.set(holder, { ...lease, reserved: 0, isForfeited: true });
      if (isOld) this.forgotten += held;
      if (isForfeited) continue;
      this.sums.forfeited += BigInt(held);
      this.#giveBack(reserved, lease);
    }
  }

  /** Counts what a holder tells of its lease. @returns the lease, as it is then */
  report(holder: string, total: number): Lease | undefined {
    const lease = this.leases.get(holder);
    if (lease === undefined) return undefined;
    if (lease.isForfeited) this.sums.forfeited -= BigInt(lease.held);
    const spent = Math.min(lease.held, Math.max(0, total - lease.spent));
    this.sums.spent += BigInt(spent);
    const told = { ...lease, held: lease.held - spent, spent: lease.spent + spent, isForfeited: false };
    this.leases.set(holder, told);
    return told;
  }

  /** Ends a lease: what it did not spend comes back. */
  end(holder: string, spent: number): void {
    const lease = this.report(holder, spent);
    if (lease === undefined) return;
    this.leases.delete(holder);
    this.#giveBack(lease.held + lease.reserved, lease);
  }

  /** Takes credits for a reservation. */
  reserve(id: string, cost: number, expires: number): void {
    const { generation, rollovers } = this;
    this.remaining -= cost;
    this.leases.set(id, { generation, rollovers, expires, reserved: cost, held: 0, spent: 0, isForfeited: false });
  }

  /** Settles a reservation that is open: the rest returns. */
  settle(id: string, spent: number): void {
    const lease = this.leases.get(id)!;
    this.#remove(id, "settled");
    this.sums.spent += BigInt(spent);
    this.#giveBack(lease.reserved - spent, lease);
  }

  #remove(holder: string, how: Ending["how"]): void {
    const { expires } = this.leases.get(holder)!;
    this.leases.delete(holder);
    if (holder.startsWith("res_")) this.endings.set(holder, { how, until: expires + HOUR });
  }

  /** Nothing returns beyond 2^53 − 1, to another balance, or after boundaries at which it would have expired. */
  #giveBack(credits: number, { generation, rollovers }: Lease): void {
    const isVoid = !this.limited || generation !== this.generation;
    const isOfLast = !isVoid && rollovers === this.rollovers - 1;
    const hasExpired = !isVoid && rollovers < this.rollovers;
    const stays = !hasExpired ? credits : isOfLast ? Math.min(credits, this.#returnable) : 0;
    const fits = isVoid ? 0 : Math.min(stays, MAX - this.remaining);
    this.remaining += fits;
    if (isOfLast) this.#returnable -= fits;
    this.sums.forfeited += BigInt(stays - fits);
    this.sums.expired += BigInt(credits - stays);
  }

  /** credited + refilled + adjusted = spent + remaining + reserved + forfeited + expired, as the judge counts. */
  assertConserved(): void {
    const { credited, refilled, adjusted, spent, forfeited, expired } = this.sums;
    const gone = spent + forfeited + expired;
    const [came, went] = [credited + refilled + adjusted, gone + BigInt(this.remaining) + this.out()];
    must(came === went, "totals", () => `${this.id}: ${came} came in, ${went} went out or are left`);
    const { acknowledged } = this;
    // What a verification was answered had left the balance: as spent, or for a lease, which may be lost.
    const left = spent + this.out() + forfeited;
    must(acknowledged <= left, "counted", () => `${this.id}: ${acknowledged} acknowledged where ${left} were taken`);
  }

  /** The same of what the store has, and that it counts as the judge does. */
  assertStored(stored: CountedBalance, clause: Clause): void {
    const { id, limited, remaining } = this;
    if (!limited) return must(stored.remaining === null, clause, () => `${id}: has ${stored.remaining}, not unlimited`);
    const isSound = stored.remaining !== null && stored.remaining >= 0 && stored.remaining <= MAX;
    must(isSound, "balance", () => `${id}: a balance of ${stored.remaining}`);
    const reserved = this.out();
    must(
      stored.remaining === remaining && BigInt(stored.reserved) === reserved,
      clause,
      () => `${id}: has ${stored.remaining} and ${stored.reserved} reserved, not ${remaining} and ${reserved}`,
    );
    assertEquation(id, stored);
    const names = Object.keys(this.sums) as (keyof CreditTotals)[];
    for (const name of names) if (abs(this.sums[name]) > BigInt(MAX)) this.#isCarried = true;
    for (const name of this.#isCarried ? [] : names) {
      const [has, due] = [stored.totals![name] ?? 0, this.sums[name]];
      must(BigInt(has) === due, clause === "shared" ? clause : "totals", () => `${id}: has ${has} ${name}, not ${due}`);
    }
  }
}

/** The equation over what the store tells of a balance. */
export function assertEquation(id: string, { remaining, reserved, totals }: CountedBalance): void {
  must(totals !== undefined, "totals", () => `${id}: no totals`);
  const { credited, refilled, adjusted, spent, forfeited, expired = 0 } = totals;
  const came = sumOf(credited, refilled, adjusted);
  const went = sumOf(spent, remaining!, reserved, forfeited, expired);
  must(came === went, "totals", () => `${id}: the store tells that ${came} came in and ${went} went out or are left`);
}

const sumOf = (...counts: number[]): bigint => counts.reduce((sum, count) => sum + BigInt(count), 0n);
const abs = (sum: bigint): bigint => (sum < 0n ? -sum : sum);

/** The last boundary up to `now`. */
function lastBoundary(refill: Refill, now: number): number {
  if (refill.interval === "daily") return Math.floor(now / DAY) * DAY;
  const date = new Date(now);
  const dayOf = (month: number): number => {
    const last = new Date(Date.UTC(date.getUTCFullYear(), month + 1, 0)).getUTCDate();
    return Date.UTC(date.getUTCFullYear(), month, Math.min(refill.refillDay!, last));
  };
  const current = dayOf(date.getUTCMonth());
  return current <= now ? current : dayOf(date.getUTCMonth() - 1);
}
