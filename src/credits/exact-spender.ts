/** What spends credits of keys, and the `exact` credit mode. */
import type { KeyRecord, OnceBounds, OnceRecord, OnceSpend, Spend, Store } from "../contracts/store.js";
import type { MaybePromise, Refill } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";
import { periodOf } from "./refill-calendar.js";

/** A key to spend from, in which the spender notes where its lease is. */
export interface SpendTarget extends Pick<KeyRecord, "ref" | "generation"> {
  readonly refill: Refill | undefined;
  /** Where the spender last found the lease, 0 at first: saves the look-up. That lease may have ended. */
  readonly lease: number;
  /** Stores where the lease is. */
  leasedAt(lease: number): void;
}

/** Spends credits of keys. */
export interface Spender {
  /**
   * @returns `undefined`: the key no longer exists; `stale`: its refill now follows another calendar, so find the key
   *   again
   */
  spend(target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined>;
  /**
   * Spends and records a call with an idempotency key, always in one durable step of the store.
   * @param target `undefined`: the key has no balance
   */
  spendOnce(
    target: SpendTarget | undefined,
    cost: number,
    now: number,
    record: OnceRecord,
    bounds: OnceBounds,
  ): MaybePromise<OnceSpend>;
  /** Leased credits given up because the store was closed before it took them back. */
  creditsForfeited(): number;
  /**
   * Returns leased credits; later spends go straight to the store.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED
   */
  close(): MaybePromise<void>;
}

/** The `exact` mode: every spend is one durable step of the store. */
export function exactSpender(store: Store): Spender {
  return {
    spend({ ref, refill }, cost, now) {
      const spending = store.spendCredits(ref, cost, periodOf(refill, now), now);
      return isThenable(spending) ? Promise.resolve(spending) : spending;
    },
    spendOnce: (target, cost, now, record, bounds) =>
      store.spendOnce(target?.ref, cost, target === undefined ? 0 : periodOf(target.refill, now), now, record, bounds),
    creditsForfeited: () => 0,
    close: () => undefined,
  };
}
