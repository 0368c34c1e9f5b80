/**
 * Credits spent from the memory of this process: the `leased` credit mode. Store clause 14.
 *
 * Why it never overspends: credits leave the balance, durably, before they are spent here. A crash forfeits the credits
 * drawn, because nobody knows then how many were spent; the reserve in the store returns once it expires.
 *
 * If calls that wait together ask for more than there is, one may be refused although the credits left in the end would
 * cover it, because another call held part of them until it was refused too.
 */
import type { Spend, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";
import { exactSpender } from "./exact-spender.js";
import { LeaseManager } from "./lease-manager.js";
import { NodeLease } from "./lease.js";
import type { Spender, SpendTarget } from "./spender.js";
import { drawsOnSeveral } from "./wallet.js";

/** Sizes and times of the `leased` mode. `docs/credits.md` says what a crash costs. */
export interface LeaseOptions {
  /**
   * Credits drawn and reserved together, per key and node, 1…1_000_000_000; default 1_000. More than `step` needs a
   * store with the power `reserves`; without it a node has at most `step`, or the cost of a call.
   */
  readonly size?: number;
  /**
   * Most credits drawn into memory, 1…size; default a quarter of `size`. It is the most that a crash forfeits per key.
   * Each draw of a key takes twice as many as the one before until they reach it; a key that was not used for `ttl`
   * starts again. From 64 on a lease is filled up while its last quarter is spent, so that calls need not wait.
   */
  readonly step?: number;
  /**
   * Credits drawn at the first use of a key, or its cost if that is more, 1…step. Default: just the cost, without a
   * lease, so that a key which is used once costs one write and none to return. For keys that are known to be hot.
   */
  readonly firstStep?: number;
  /**
   * Milliseconds until an unused reserve returns to the balance, 100…3_600_000; default 10_000. Unused drawn credits
   * return within 2 × `ttl`.
   */
  readonly ttl?: number;
  /**
   * Most keys leased at once, 1…10_000_000, default 100_000, about 180 bytes each; beyond that the oldest lease is
   * returned.
   */
  readonly keys?: number;
  /**
   * Milliseconds that `close()` waits while the store takes back no leased credits, 0…3_600_000; default 10_000. After
   * that it rejects with CREDITS_NOT_RETURNED. As long as the store goes on taking them, `close()` goes on waiting:
   * 100_000 leases take an SQLite store about 4 s.
   */
  readonly closeTimeout?: number;
}

/** {@link LeaseOptions.step} of a lease of this size, unless it is given. */
export function defaultStep(size: number): number {
  return Math.max(1, Math.floor(size / 4));
}

/** Higher costs are spent exactly: so what a lease has spent stays an exact integer. The most that `size` may be. */
const MAX_LEASED_COST = 1_000_000_000;

/** Whether a spend was refused because the balance is too low. */
function isShort(spend: Spend | undefined): boolean {
  return spend?.ok === false && spend.stale !== true && spend.refused === undefined;
}

/** The `leased` mode. */
export function leasedSpender(store: Store, options: LeaseOptions = {}): Spender {
  const { size = 1_000, firstStep = 0, ttl = 10_000, keys = 100_000, closeTimeout = 10_000 } = options;
  const step = options.step ?? defaultStep(size);
  const exact = exactSpender(store);
  const leases = new LeaseManager(store, exact, { size, step, firstStep, ttl, keys, closeTimeout });

  /** What this node has leased of the accounts that a key draws on. */
  const leasesOf = ({ ref, wallets }: SpendTarget): NodeLease[] => {
    const refs = wallets === undefined ? [ref] : wallets.flatMap(({ accounts }) => accounts.map((one) => one.ref));
    return refs.flatMap((one) => leases.find(one) ?? []).filter(({ state }) => state !== "empty");
  };
  /** Spends once what this node has leased of the key, which may be what the balance lacks, was returned. */
  const withdraw = <T>(target: SpendTarget, work: () => MaybePromise<T>): MaybePromise<T> =>
    leasesOf(target).reduce((next, lease) => () => lease.withdraw(next), work)();
  /** What was refused, again, once what this node has leased of the key was returned, if it is anything. */
  const spendAgain = <T>(target: SpendTarget, refused: T, work: () => MaybePromise<T>): MaybePromise<T> =>
    leasesOf(target).length === 0 ? refused : withdraw(target, work);
  /** A lease is of one account: of several, credits are taken exactly. */
  const spendSeveral = async (target: SpendTarget, cost: number, now: number): Promise<Spend | undefined> => {
    const spend = () => exact.spend(target, cost, now);
    const spent = await spend();
    return isShort(spent) ? spendAgain(target, spent, spend) : spent;
  };
  /** A spend that the lease which the target remembers did not cover. */
  const spendElsewhere = (target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined> => {
    const { wallets } = target;
    if (wallets !== undefined && (cost === 0 || drawsOnSeveral(wallets, now))) {
      const spending = spendSeveral(target, cost, now);
      leases.track(spending);
      return spending;
    }
    const spent = leases.find(target.ref)?.spend(target, cost, now);
    if (spent !== undefined) return spent;
    const spendExactly = () => exact.spend(target, cost, now);
    // A cost of 0 draws nothing, and the store rejects an invalid cost.
    if (leases.isClosing || !(cost > 0)) return spendExactly();
    if (cost > MAX_LEASED_COST) return withdraw(target, spendExactly);
    const lease = leases.findOrBegin(target.ref);
    if (lease !== undefined) return lease.draw(target, cost, now);
    const spending = spendExactly();
    if (isThenable(spending)) leases.track(spending);
    return spending;
  };

  return {
    spend(target, cost, now) {
      const { lease } = target;
      // A read of several accounts tells the balance of each.
      const isRead = cost === 0 && target.wallets !== undefined;
      const spent = lease instanceof NodeLease && !isRead ? lease.take(target.generation, cost, now) : undefined;
      return spent ?? spendElsewhere(target, cost, now);
    },
    async reserve(target, cost, now, reservation) {
      const reserve = () => exact.reserve(target, cost, now, reservation);
      const spend = await reserve();
      return isShort(spend) ? spendAgain(target, spend, reserve) : spend;
    },
    async spendOnce(target, cost, now, record, bounds) {
      const spendOnce = () => exact.spendOnce(target, cost, now, record, bounds);
      const once = await spendOnce();
      const isRefused = target !== undefined && once.outcome === "done" && isShort(once.spend);
      return isRefused ? spendAgain(target, once, spendOnce) : once;
    },
    creditsForfeited: () => leases.returns.forfeited().credits,
    close: () => leases.close(),
  };
}
