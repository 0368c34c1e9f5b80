/**
 * Something scarce, such as bytes or places, of which each account gets its fair share.
 *
 * Why a threshold that moves with what is free, and not a fixed quota: an account may hold as much as it leaves free.
 * One account alone has half of all, k greedy ones have 1/(k + 1) each, and as much again stays for whoever comes next,
 * without anybody counting accounts. Nothing that was granted is ever taken back.
 */
import { KeystileError } from "../../contracts/errors.js";
import { startTimer } from "../../lib/start-timer.js";
import type { MaybePromise } from "../../contracts/types.js";

/** Callers without a credential, together; and those with one that was not seen to be valid yet. No workspaces. */
export const STRANGERS = "";
export const NEWCOMERS = "?";

/** How much of it each of these may hold. */
const PART_OF_STRANGERS = 1 / 16;

/** What a holder asks for. */
interface Wish {
  readonly amount: number;
  /** What the same holder has already: it counts for the total, but not against a holder that is alone. */
  readonly own: number;
  /** Of what is free, the part that the account may hold as much as; 1 unless something else must fit besides. */
  readonly part: number;
}

interface Waiter extends Wish {
  readonly grant: () => void;
}

/** Of one account. What each of more holds meanwhile would be more than what they wait for. */
const MAX_WAITERS = 1_024;

/** Timers of the same length cost the least. */
const TIMER_STEP_MS = 100;

/** The error of a request for which there was no space in time. */
export const overloaded = (): KeystileError =>
  new KeystileError("OVERLOADED", "the service holds as much as it may for others; try again");

export class FairPool {
  readonly #capacity: number;
  readonly #isFair: boolean;
  #free: number;
  readonly #held = new Map<string, number>();
  /** By account, in the order in which they are served next. */
  readonly #waiting = new Map<string, Set<Waiter>>();

  /** @param isFair false: whoever comes first may take all (for tests of what fairness prevents) */
  constructor(capacity: number, isFair = true) {
    this.#capacity = this.#free = capacity;
    this.#isFair = isFair;
  }

  /** What all accounts hold together. */
  get held(): number {
    return this.#capacity - this.#free;
  }

  /**
   * Takes an amount as soon as it fits the account's share; in order within an account, in turns between accounts.
   * Whatever is at most the capacity fits an account that holds nothing else, once others have left that much.
   * @param ms how long it may wait
   * @param onWait gets what ends the wait sooner, as if it had been too long
   * @returns undefined: it was taken at once
   * @throws (rejects) KeystileError OVERLOADED: it waited too long, or too many of its account do; it took nothing
   */
  take(account: string, wish: Wish, ms: number, onWait?: (end: () => void) => void): MaybePromise<void> {
    if (!this.#waiting.has(account) && this.#fits(account, wish)) return this.#add(account, wish.amount);
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
        // It may have stood before others that fit.
        this.#serve();
      };
      const timer = startTimer(end, Math.ceil(Math.max(0, ms) / TIMER_STEP_MS) * TIMER_STEP_MS);
      onWait?.(end);
    });
  }

  /** Records what is held already, whether it fits or not. @returns whether the account is within its share */
  record(account: string, amount: number): boolean {
    this.#add(account, amount);
    const held = this.#held.get(account) ?? 0;
    return held <= this.#free && held <= this.#mostOf(account);
  }

  give(account: string, amount: number): void {
    if (amount === 0) return;
    this.#add(account, -amount);
    if (this.#waiting.size > 0) this.#serve();
  }

  #add(account: string, amount: number): void {
    const held = (this.#held.get(account) ?? 0) + amount;
    if (held === 0) this.#held.delete(account);
    else this.#held.set(account, held);
    this.#free -= amount;
  }

  #mostOf(account: string): number {
    const isUnknown = account === STRANGERS || account === NEWCOMERS;
    return isUnknown && this.#isFair ? this.#capacity * PART_OF_STRANGERS : this.#capacity;
  }

  #fits(account: string, { amount, own, part }: Wish): boolean {
    if (amount > this.#free) return false;
    if (!this.#isFair) return true;
    const held = this.#held.get(account) ?? 0;
    if (held + amount > this.#mostOf(account)) return false;
    return held === own || held + amount <= this.#free * part;
  }

  /** One of each account in turn, until nothing more fits. */
  #serve(): void {
    for (let served = true; served;) {
      served = false;
      for (const [account, queue] of [...this.#waiting]) {
        const [waiter] = queue;
        if (waiter !== undefined && this.#fits(account, waiter)) {
          served = true;
          queue.delete(waiter);
          this.#add(account, waiter.amount);
          waiter.grant();
        } else if (waiter !== undefined) continue;
        this.#waiting.delete(account);
        if (queue.size > 0) this.#waiting.set(account, queue);
      }
    }
  }
}
