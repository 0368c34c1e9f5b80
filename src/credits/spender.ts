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
import { NONE } from "../lib/fingerprint-index.js";
import { newId } from "../lib/hash.js";
import { isThenable } from "../lib/thenable.js";
import { exactSpender, type Spender, type SpendTarget } from "./exact-spender.js";
import { leaseDraws } from "./lease-draws.js";
import { createLeaseManager } from "./lease-manager.js";
import { NO_GENERATION } from "./lease-table.js";

/** Sizes and times of the `leased` mode. `docs/guarantees.md` says what a crash costs. */
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
   * Most keys leased at once, 1…10_000_000, default 100_000, 78 to 100 bytes each; beyond that the oldest lease is
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

/** The `leased` mode. */
export function leasedSpender(store: Store, options: LeaseOptions = {}): Spender {
  const { size = 1_000, firstStep = 0, ttl = 10_000, keys = 100_000, closeTimeout = 10_000 } = options;
  const step = options.step ?? defaultStep(size);
  let nodeId: string | undefined;
  // Created for the first lease: Cloudflare Workers do not allow random numbers at module scope, where programs create
  // verifiers.
  const node = (): string => (nodeId ??= newId("node"));
  const exact = exactSpender(store);
  const manager = createLeaseManager(store, { node, keys, ttl, closeTimeout });
  const { table } = manager;
  const draws = leaseDraws(store, manager, exact, { size, step, firstStep, ttl });
  let closed = false;

  /** Spends once what this node has leased of the key, which may be what the balance lacks, was returned. */
  const spendAll = (target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined> =>
    draws.withoutLease(target.ref, () => exact.spend(target, cost, now));

  /** A spend that the last known entry could not serve. */
  const spendElsewhere = (target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined> => {
    const spent = draws.take(target, cost, now);
    if (spent !== undefined) return spent;
    // A cost of 0 draws nothing, and the store rejects an invalid cost.
    if (closed || !(cost > 0) || !manager.mayLease(target.ref)) return exact.spend(target, cost, now);
    const spending = cost > MAX_LEASED_COST ? spendAll(target, cost, now) : draws.spend(target, cost, now);
    if (isThenable(spending)) manager.track(spending);
    return spending;
  };

  return {
    spend(target, cost, now) {
      const left = table.take(target.lease, target.ref, target.generation, cost);
      return left === NONE ? spendElsewhere(target, cost, now) : { ok: true, remaining: left };
    },
    async spendOnce(target, cost, now, record, bounds) {
      const once = await exact.spendOnce(target, cost, now, record, bounds);
      const isRefused = once.outcome === "done" && once.spend?.ok === false && once.spend.stale !== true;
      if (!isRefused || target === undefined) return once;
      const entry = table.find(target.ref);
      const hasLeased = entry !== NONE && table.generation(entry) !== NO_GENERATION;
      if (!hasLeased && !draws.isDrawing(target.ref)) return once;
      // Credits that this node has leased may be what the balance lacks: they return before the store spends again.
      return draws.withoutLease(target.ref, () => exact.spendOnce(target, cost, now, record, bounds));
    },
    creditsForfeited: () => manager.returns.forfeited().credits,
    close() {
      closed = true;
      draws.stop();
      return manager.close();
    },
  };
}
