/** What spends credits of keys: the port that verifications use. Its modes: `exact-spender.ts`, `leased-spender.ts`. */
import type { KeyRecord, NumberedRefill, OnceSpend, Reserve, Spend, SpendOnce } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";

/** What this process holds of the credits of a target. */
export interface Leased {
  /** Credits in memory, of the first account where there are several. */
  readonly available: number;
  /**
   * Takes `cost` from the credits that are leased to memory.
   * @param generation of the target: the oldest valid one
   * @param now Unix time, milliseconds
   * @returns `undefined`: nothing was taken
   */
  take(generation: number, cost: number, now: number): Spend | undefined;
}

/** A key to spend from, in which the spender remembers its lease. */
export interface SpendTarget extends Pick<KeyRecord, "ref" | "generation"> {
  readonly refill: NumberedRefill | undefined;
  /** Where it draws on several accounts; then `ref` is the first of them. */
  readonly wallets?: KeyRecord["wallets"];
  /** Unix time, milliseconds, from which on nothing can be taken: of a grant. Absent: never. */
  readonly creditsExpire?: number | undefined;
  /** Set and read by the spender, to save a look-up; `undefined` at first. */
  lease: Leased | undefined;
}

/** Spends credits of keys. */
export interface Spender {
  /**
   * @returns `undefined`: the key no longer exists; `stale`: its refill now follows another calendar, so find the key
   *   again
   */
  spend(target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined>;
  /** {@link Spender.spend} that reserves the credits instead, always in one durable step of the store. */
  reserve(target: SpendTarget, request: Reserve): MaybePromise<Spend | undefined>;
  /**
   * Spends and records a call with an idempotency key, always in one durable step of the store.
   * @param target `undefined`: the key has no balance
   */
  spendOnce(target: SpendTarget | undefined, request: SpendOnce): MaybePromise<OnceSpend>;
  /** Leased credits given up because the store was closed before it took them back. */
  creditsForfeited(): number;
  /**
   * Returns leased credits; later spends go straight to the store.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED
   */
  close(): MaybePromise<void>;
}
