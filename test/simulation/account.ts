/** One key's credits as the judge counts them. Its calendar is the walk of the naive model, not the engine's arithmetic. */
import type { KeyRow, NewBalance } from "../../src/contracts/store.js";
import type { Refill } from "../../src/contracts/types.js";
import { boundaries } from "../model/naive-credits.js";
import { must } from "./violation.js";

export const MAX = Number.MAX_SAFE_INTEGER;
const DAY = 86_400_000;
const MAX_DAILY = 400;
const MAX_MONTHLY = 24;

/** What a holder has reserved in the store. */
export interface Held {
  readonly credits: number;
  readonly until: number;
  readonly generation: number;
}

/** Sums over the life of an account; exact, since they may pass 2^53. */
export interface Sums {
  credited: bigint;
  refilled: bigint;
  adjusted: bigint;
  spent: bigint;
  /** Moved into the memory of nodes, and back. */
  drawn: bigint;
  returned: bigint;
  /** Removed with its key, or beyond 2^53 − 1 when given back. */
  forfeited: bigint;
}

export class Account {
  limited: boolean;
  exists = true;
  remaining: number;
  generation: number;
  readonly reserves = new Map<string, Held>();
  readonly sums: Sums = {
    credited: 0n,
    refilled: 0n,
    adjusted: 0n,
    spent: 0n,
    drawn: 0n,
    returned: 0n,
    forfeited: 0n,
  };
  #refill: Refill | undefined;
  /** Boundaries up to this instant are counted. */
  #counted: number;
  /** The last boundary that was refilled, of whatever calendar. */
  #refilledTo = 0;

  constructor(
    readonly keyId: string,
    row: KeyRow,
    balance: NewBalance | undefined,
  ) {
    this.limited = balance !== undefined;
    this.remaining = balance?.remaining ?? 0;
    this.generation = row.generation;
    this.#refill = row.refill;
    this.#counted = row.refillCursor ?? row.createdAt;
    this.sums.credited = BigInt(this.remaining);
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
    if (this.#refill !== undefined && boundaries(this.#refill, this.#counted, now) > 0) {
      this.#refilledTo = lastBoundary(this.#refill, now);
    }
    this.#counted = now;
    this.remaining += due;
    this.sums.refilled += BigInt(due);
  }

  /** Another calendar, which counts from `from` on. */
  recount(refill: Refill | undefined, from: number): void {
    must(from >= this.#refilledTo, "refilled", () => `a calendar of ${this.keyId} begins before the last refill`);
    this.#refill = refill;
    this.#counted = from;
  }

  /** Another amount on the same days. */
  reprice(refill: Refill | undefined): void {
    this.#refill = refill;
  }

  /** The calendar of another account, with the boundaries that it has counted by `now`. */
  follow(origin: Account, refill: Refill | undefined, now: number): void {
    this.#refill = refill;
    this.#counted = Math.max(origin.#counted, now);
    this.#refilledTo = origin.#refilledTo;
  }

  /** Reserves of the current balance. @param expired only those that have expired by then */
  reserved(expired?: number): number {
    let sum = 0;
    for (const { credits, until, generation } of this.reserves.values()) {
      if (generation === this.generation && (expired === undefined || until <= expired)) sum += credits;
    }
    return sum;
  }

  /** Balance and reserves together may be more than a number holds exactly. */
  total(): bigint {
    return BigInt(this.remaining) + BigInt(this.reserved());
  }

  /** Takes the expired reserves of all but one holder back. */
  sweep(now: number, except?: string): void {
    for (const [holder, { credits, until, generation }] of this.reserves) {
      if (holder === except || until > now) continue;
      this.reserves.delete(holder);
      if (generation === this.generation) this.giveBack(credits);
    }
  }

  /** Beyond 2^53 − 1 nothing fits. */
  giveBack(credits: number): void {
    const fits = Math.min(credits, MAX - this.remaining);
    this.remaining += fits;
    this.sums.forfeited += BigInt(credits - fits);
  }

  /** credited + refilled + adjusted = spent + balance + reserved + forfeited; reserved: what nodes hold included. */
  assertConserved(): void {
    const { credited, refilled, adjusted, spent, drawn, returned, forfeited } = this.sums;
    const [income, outgo] = [credited + refilled + adjusted, spent + (drawn - returned) + forfeited];
    const left = this.exists && this.limited ? this.total() : 0n;
    must(
      income === outgo + left,
      "balance",
      () => `${this.keyId}: ${income} came in, ${outgo} went out, ${left} are left`,
    );
  }
}

/** The last boundary up to `now`. */
function lastBoundary(refill: Refill, now: number): number {
  if (refill.interval === "daily") return Math.floor(now / DAY) * DAY;
  const date = new Date(now);
  const dayOf = (month: number): number => {
    const last = new Date(Date.UTC(date.getUTCFullYear(), month + 1, 0)).getUTCDate();
    return Date.UTC(date.getUTCFullYear(), month, Math.min(refill.refillDay, last));
  };
  const current = dayOf(date.getUTCMonth());
  return current <= now ? current : dayOf(date.getUTCMonth() - 1);
}
