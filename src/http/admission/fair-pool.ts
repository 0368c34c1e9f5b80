/**
 * A budget of something scarce, such as bytes, that accounts share fairly.
 *
 * An account may hold at most as much as remains free. Why not a fixed quota: one account alone gets half of the
 * budget, k greedy accounts get 1/(k + 1) each, and 1/(k + 1) stays free for the next, without counting accounts.
 * Granted amounts are never taken back. A reserve is kept for accounts that hold very little, however many others there
 * are.
 */
import { KeystileError } from "../../contracts/errors.js";
import { startTimer } from "../../lib/timers.js";
import type { MaybePromise } from "../../contracts/types.js";

/** The account of all callers without a credential, and the account of credentials not known to be valid. */
export const STRANGERS = "";
export const UNPROVEN = "?";

/** The fraction of the budget that {@link STRANGERS} and {@link UNPROVEN} may hold each. */
const PART_OF_STRANGERS = 1 / 16;
/** The fraction of the reserve up to which an account may take from it. */
const PART_OF_SMALL = 1 / 256;

/** An amount that a request asks for. */
interface Wish {
  readonly amount: number;
  /** The amount that the request already holds. If its account holds nothing else, it may take all that is free. */
  readonly own: number;
  /** The account may hold at most this fraction of what remains free; below 1 if more will be taken afterwards. */
  readonly part: number;
}

interface FairPoolOptions {
  /** False: the first account may take everything (for tests of what fairness prevents). Default true. */
  readonly isFair?: boolean;
  /** The part of the capacity that is kept for accounts that hold at most 1/256 of this part; default 0. */
  readonly reserve?: number;
}

interface Waiter extends Wish {
  readonly grant: () => void;
}

/** Most waiting wishes of one account: the requests of more would hold more memory than they wait for. */
const MAX_WAITERS = 1_024;

/** Waits are rounded up to this step, since timers of equal length are cheapest. */
const TIMER_STEP_MS = 100;

/** The error of a request that found no space in time. */
export const overloaded = (): KeystileError =>
  new KeystileError("OVERLOADED", "the service holds as much as it may for others; try again");

export class FairPool {
  readonly #capacity: number;
  readonly #isFair: boolean;
  readonly #reserve: number;
  #free: number;
  readonly #held = new Map<string, number>();
  /** Waiting wishes by account; the first account is served next. */
  readonly #waiting = new Map<string, Set<Waiter>>();

  constructor(capacity: number, { isFair = true, reserve = 0 }: FairPoolOptions = {}) {
    this.#capacity = this.#free = capacity;
    this.#isFair = isFair;
    this.#reserve = reserve;
  }

  /** The amount held by all accounts. */
  get held(): number {
    return this.#capacity - this.#free;
  }

  /**
   * Takes an amount as soon as it fits the account's share: first come, first served within an account; accounts take
   * turns. A request whose account holds nothing else may take all that is free, except the reserve.
   * @param ms how long the wish may wait, milliseconds
   * @param onWait receives a function that ends the wait early, as a time-out would
   * @returns undefined: the amount was taken at once
   * @throws (rejects) KeystileError OVERLOADED: no space in time, or too many wishes of the account wait; nothing was
   *   taken
   */
  take(account: string, wish: Wish, ms: number, onWait?: (end: () => void) => void): MaybePromise<void> {
    if (!this.#waiting.has(account) && this.#fits(account, wish)) return this.record(account, wish.amount);
    if ((this.#waiting.get(account)?.size ?? 0) >= MAX_WAITERS) return Promise.reject(overloaded());
    return new Promise((resolve, reject) => {
      const queue = this.#waiting.get(account) ?? new Set<Waiter>();
      this.#waiting.set(account, queue);
      const waiter: Waiter = {
        ...wish,
        grant: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      queue.add(waiter);
      const end = (): void => {
        if (!queue.delete(waiter)) return;
        clearTimeout(timer);
        reject(overloaded());
        // Wishes behind this one may fit.
        this.#serve();
      };
      const timer = startTimer(end, Math.ceil(Math.max(0, ms) / TIMER_STEP_MS) * TIMER_STEP_MS);
      onWait?.(end);
    });
  }

  /** Whether an account holds more than its share. */
  isOver(account: string): boolean {
    const held = this.#held.get(account) ?? 0;
    if (!this.#isFair || held <= this.#reserve * PART_OF_SMALL) return false;
    return held > this.#free - this.#reserve || held > this.#mostOf(account);
  }

  /** Moves a held amount from one account to another. */
  move(from: string, to: string, amount: number): void {
    this.record(to, amount);
    this.give(from, amount);
  }

  give(account: string, amount: number): void {
    if (amount === 0) return;
    this.record(account, -amount);
    if (this.#waiting.size > 0) this.#serve();
  }

  /** Records an amount that is already held, whether it fits or not. @param amount negative: it is held no more */
  record(account: string, amount: number): void {
    const held = (this.#held.get(account) ?? 0) + amount;
    if (held === 0) this.#held.delete(account);
    else this.#held.set(account, held);
    this.#free -= amount;
  }

  #mostOf(account: string): number {
    const isUnknown = account === STRANGERS || account === UNPROVEN;
    return isUnknown && this.#isFair ? this.#capacity * PART_OF_STRANGERS : this.#capacity;
  }

  #fits(account: string, { amount, own, part }: Wish): boolean {
    if (!this.#isFair) return amount <= this.#free;
    const held = this.#held.get(account) ?? 0;
    if (held + amount <= this.#reserve * PART_OF_SMALL) return amount <= this.#free;
    const free = this.#free - this.#reserve;
    if (amount > free || held + amount > this.#mostOf(account)) return false;
    return held === own || held + amount <= free * part;
  }

  /** Serves one wish of each account in turn, until nothing more fits. */
  #serve(): void {
    for (let served = true; served;) {
      served = false;
      for (const [account, queue] of [...this.#waiting]) {
        const [waiter] = queue;
        if (waiter !== undefined && this.#fits(account, waiter)) {
          served = true;
          queue.delete(waiter);
          this.record(account, waiter.amount);
          waiter.grant();
        } else if (waiter !== undefined) continue;
        this.#waiting.delete(account);
        if (queue.size > 0) this.#waiting.set(account, queue);
      }
    }
  }
}
