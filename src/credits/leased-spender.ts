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
import type { NodeLease } from "./lease.js";
import type { Spender, SpendTarget } from "./spender.js";
import { WalletLeases } from "./wallet-leases.js";

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

  /** What this node has leased of the accounts that a key draws on. @param place of the only wallet that counts */
  const leasesOf = ({ ref, wallets }: SpendTarget, place?: number): NodeLease[] => {
    const counted = place === undefined ? wallets : wallets?.slice(place, place + 1);
    const refs = counted === undefined ? [ref] : counted.flatMap(({ accounts }) => accounts.map((one) => one.ref));
    return refs.flatMap((one) => leases.find(one) ?? []).filter(({ state }) => state !== "empty");
  };
  /** Spends once what this node has leased of the key, which may be what the balance lacks, was returned. */
  const withdraw = <T>(target: SpendTarget, work: () => MaybePromise<T>, place?: number): MaybePromise<T> =>
    leasesOf(target, place).reduce((next, lease) => () => lease.withdraw(next), work)();
  /** Works again, as long as a wallet is short of which this node has leased anything, once that was returned. */
  const retrying = async <T>(
    target: SpendTarget,
    work: () => MaybePromise<T>,
    spendOf: (result: T) => Spend | undefined,
  ): Promise<T> => {
    let result = await work();
    for (let left = target.wallets?.length ?? 1; left > 0; left--) {
      const spend = spendOf(result);
      const place = spend?.least ?? 0;
      if (!isShort(spend) || leasesOf(target, place).length === 0) break;
      result = await withdraw(target, work, place);
    }
    return result;
  };
  /** A spend of several accounts that what the target remembers did not cover. */
  const spendSeveral = async (target: SpendTarget, cost: number, now: number): Promise<Spend | undefined> => {
    const spend = () => exact.spend(target, cost, now);
    if (leases.isClosing || !(cost > 0)) return retrying(target, spend, (spent) => spent);
    if (cost > MAX_LEASED_COST) return withdraw(target, spend);
    const known = target.lease instanceof WalletLeases ? target.lease : undefined;
    const own = known ?? new WalletLeases(target.wallets ?? [], leases, async (at) => exact.spend(target, 0, at));
    target.lease = own;
    // The first spend is exact, unless another key of the owner has leased something.
    const isFirst = known === undefined && firstStep === 0 && leasesOf(target).length === 0;
    return (isFirst ? undefined : await own.draw(cost, now)) ?? retrying(target, spend, (spent) => spent);
  };
  /** A spend that the lease which the target remembers did not cover. */
  const spendElsewhere = (target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined> => {
    if (target.wallets !== undefined) {
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
    spend: (target, cost, now) => target.lease?.take(target.generation, cost, now) ?? spendElsewhere(target, cost, now),
    reserve: (target, request) =>
      retrying(
        target,
        () => exact.reserve(target, request),
        (spend) => spend,
      ),
    spendOnce(target, request) {
      const spendOnce = () => exact.spendOnce(target, request);
      if (target === undefined) return spendOnce();
      return retrying(target, spendOnce, ({ outcome, spend }) => (outcome === "done" ? spend : undefined));
    },
    creditsForfeited: () => leases.returns.forfeited().credits,
    close: () => leases.close(),
  };
}
