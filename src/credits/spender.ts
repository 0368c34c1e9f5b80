/**
 * Credits spent from the memory of this process: the `leased` credit mode. Store clause 14.
 *
 * Why it never overspends: credits leave the balance, durably, before they are spent here. A crash forfeits the credits
 * drawn, because nobody knows then how many were spent; the reserve in the store returns once it expires.
 *
 * Why no call waits for more than two draws, however many calls wait: a call waits for at most one draw of another
 * call. If that draw fails, the call fails too. If what it left over is not enough, the call draws exactly its own
 * cost, concurrently with the others, and nobody waits for that draw. (A call draws again only if the balance was set
 * during its draw.) Concurrent draws grant no credit twice: each call spends what its own draw took out of the balance
 * and what it took out of the lease. The cost: if waiting calls together ask for more than there is, one may be refused
 * although the credits left in the end would cover it, because another call held part of them until it was refused too.
 */
import type { Draw, KeyRecord, KeyRef, OnceBounds, OnceRecord, OnceSpend, Spend, Store } from "../contracts/store.js";
import type { MaybePromise, Refill } from "../contracts/types.js";
import { copyOfError } from "../lib/copy-error.js";
import { NONE } from "../lib/fingerprint-index.js";
import { newId } from "../lib/hash.js";
import type { Prefetchable } from "../lib/prefetch.js";
import { isThenable } from "../lib/thenable.js";
import { createLeaseManager } from "./lease-manager.js";
import { NO_GENERATION } from "./lease-table.js";
import { periodOf } from "./refill-calendar.js";

/** Sizes and times of the `leased` mode. The README's "Promises" section says what a crash costs. */
export interface LeaseOptions {
  /**
   * Credits drawn and reserved together, per key and node, 1…1_000_000_000; default 1_000. More than `step` needs a
   * store with the power `reserves`; without it a node has at most `step`, or the cost of a call.
   */
  readonly size?: number;
  /**
   * Credits drawn into memory at once, 1…size; default a quarter of `size`. It is the most that a crash forfeits per
   * key.
   */
  readonly step?: number;
  /**
   * Milliseconds until an unused reserve returns to the balance, 100…3_600_000; default 10_000. Unused drawn credits
   * return within 2 × `ttl`.
   */
  readonly ttl?: number;
  /**
   * Most keys leased at once, 1…10_000_000, default 100_000, 69 to 89 bytes each; beyond that the oldest lease is
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

/** A key to spend from, in which the spender notes where its lease is. */
export interface SpendTarget extends Pick<KeyRecord, "ref" | "generation"> {
  readonly refill: Refill | undefined;
  /** Where the spender last found the lease, 0 at first: saves the look-up. That lease may have ended. */
  readonly lease: number;
  /** Stores where the lease is. */
  leasedAt(lease: number): void;
}

/** Spends credits of keys. */
export interface Spender extends Prefetchable {
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
    prefetch: () => 0,
  };
}

/** Higher costs are spent exactly: so what a lease has spent stays an exact integer. The most that `size` may be. */
const MAX_LEASED_COST = 1_000_000_000;
/** A lease that has spent more is ended at its next draw, and another begins. */
const MAX_SPENT = 1_000_000_000_000;

/** The error of a failed draw. */
interface Failure {
  readonly error: unknown;
}

/** The `leased` mode. */
export function leasedSpender(store: Store, options: LeaseOptions = {}): Spender {
  const { size = 1_000, ttl = 10_000, keys = 100_000, closeTimeout = 10_000 } = options;
  const step = options.step ?? Math.max(1, Math.floor(size / 4));
  let nodeId: string | undefined;
  // Created for the first lease: Cloudflare Workers do not allow random numbers at module scope, where programs create
  // verifiers.
  const node = (): string => (nodeId ??= newId("node"));
  const exact = exactSpender(store);
  /**
   * The draw of each key that later spends wait for, because its credits may cover them too. These promises never
   * reject.
   */
  const drawing = new Map<KeyRef, Promise<Failure | undefined>>();
  const manager = createLeaseManager(store, { node, keys, ttl, closeTimeout });
  const { table } = manager;
  let closed = false;

  /** Takes from the key's lease, looked up by its ref. */
  const takeFromLease = (target: SpendTarget, cost: number): Spend | undefined => {
    const entry = table.find(target.ref);
    if (entry === NONE) return undefined;
    if (table.generation(entry) < target.generation) {
      // The balance was set since: credits drawn from the old one are void.
      manager.end(target.ref);
      return undefined;
    }
    if (target.lease !== entry) target.leasedAt(entry);
    const left = table.take(entry, target.ref, target.generation, cost);
    return left === NONE ? undefined : { ok: true, remaining: left };
  };

  /**
   * Available credits leave the lease first, so that no other call spends them meanwhile.
   * @param step as in {@link LeaseOptions}; 1: draws only the cost
   */
  const drawThenTake = async (
    target: SpendTarget,
    entry: number,
    cost: number,
    now: number,
    step: number,
  ): Promise<Spend | undefined> => {
    const { ref, refill } = target;
    // Leases that could not be ended yet are tried first, so that their credits count for this draw.
    manager.returns.retry(ref);
    const wanted = { step, size, now, until: now + ttl, period: periodOf(refill, now) };
    for (;;) {
      if (table.spent(entry) > MAX_SPENT) manager.renew(entry);
      const id = table.id(entry);
      const inHand = table.withdraw(entry);
      const putBack = (credits: number): void => {
        if (table.id(entry) === id) table.restore(entry, credits);
      };
      let drawn: Draw | undefined;
      const lease = { holder: manager.holderOf(entry), spent: table.spent(entry) };
      try {
        drawn = await store.drawCredits(ref, { ...wanted, ...lease, cost: cost - inHand });
      } catch (error) {
        putBack(inHand);
        // Whether credits were drawn is unknown: those of a new lease come back with its end, others later with theirs.
        if (table.id(entry) === id && table.generation(entry) === NO_GENERATION) manager.renew(entry);
        throw error;
      }
      if (drawn?.stale === true) {
        putBack(inHand);
        return { ok: false, remaining: 0, stale: true };
      }
      if (drawn === undefined || drawn.remaining === null) {
        putBack(inHand);
        // The key is gone or has no balance any more: what is left of the old one is not spent.
        if (table.id(entry) === id && table.generation(entry) !== NO_GENERATION) manager.renew(entry);
        return drawn && { ok: true, remaining: null };
      }
      // Another call ended this lease, and began a new one. If its end came first, this draw began the lease anew.
      if (table.id(entry) !== id) {
        if (drawn.drawn > 0) manager.returns.add({ ref, ...lease, credits: drawn.drawn });
        continue;
      }
      const leased = table.generation(entry);
      if (leased !== NO_GENERATION && leased !== drawn.generation) {
        // The credits from before the balance was set are void.
        table.deposit(entry, inHand);
        manager.renew(entry);
        continue;
      }
      if (drawn.drawn === 0) {
        table.deposit(entry, inHand);
        if (leased !== NO_GENERATION) table.refresh(entry, leased, drawn.remaining);
        return { ok: false, remaining: inHand + drawn.remaining };
      }
      table.refresh(entry, drawn.generation, drawn.remaining);
      if (inHand + drawn.drawn < cost) {
        table.deposit(entry, inHand + drawn.drawn);
        continue;
      }
      table.deposit(entry, inHand + drawn.drawn - cost);
      target.leasedAt(entry);
      const remaining = table.spend(entry, cost);
      return drawn.forfeited === undefined
        ? { ok: true, remaining }
        : { ok: true, remaining, forfeited: drawn.forfeited };
    }
  };
  /** {@link drawThenTake}, with the lease held meanwhile; without space for a lease, an exact spend. */
  const holdAndDraw = (
    target: SpendTarget,
    cost: number,
    now: number,
    step: number,
  ): MaybePromise<Spend | undefined> => {
    const entry = manager.hold(target.ref);
    if (entry === NONE) return exact.spend(target, cost, now);
    return drawThenTake(target, entry, cost, now, step).finally(() => manager.release(target.ref));
  };
  const spendByDraw = async (target: SpendTarget, cost: number, now: number): Promise<Spend | undefined> => {
    const { ref } = target;
    const other = drawing.get(ref);
    if (other !== undefined) {
      const failure = await other;
      if (failure !== undefined) throw copyOfError(failure.error);
      const spent = takeFromLease(target, cost);
      return spent ?? holdAndDraw(target, cost, now, 1);
    }
    const spending = Promise.resolve(holdAndDraw(target, cost, now, step));
    const end = () => void drawing.delete(ref);
    const fail = (error: unknown): Failure => {
      end();
      return { error };
    };
    drawing.set(ref, spending.then(end, fail));
    return spending;
  };

  /** A spend that the last known entry could not serve. */
  const spendElsewhere = (target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined> => {
    const spent = takeFromLease(target, cost);
    if (spent !== undefined) return spent;
    // A cost of 0 draws nothing, and the store rejects an invalid cost.
    if (closed || !(cost > 0) || !manager.mayLease(target.ref)) return exact.spend(target, cost, now);
    if (cost > MAX_LEASED_COST) {
      manager.end(target.ref);
      return exact.spend(target, cost, now);
    }
    const spending = spendByDraw(target, cost, now);
    manager.track(spending);
    return spending;
  };

  const takeAtHint = ({ lease, ref, generation }: SpendTarget, cost: number): number | undefined => {
    const left = table.take(lease, ref, generation, cost);
    return left === NONE ? undefined : left;
  };
  return {
    prefetch: (lease) => table.prefetch(lease),
    spend(target, cost, now) {
      const left = takeAtHint(target, cost);
      return left === undefined ? spendElsewhere(target, cost, now) : { ok: true, remaining: left };
    },
    async spendOnce(target, cost, now, record, bounds) {
      const once = await exact.spendOnce(target, cost, now, record, bounds);
      const isRefused = once.outcome === "done" && once.spend?.ok === false && once.spend.stale !== true;
      if (!isRefused || target === undefined || table.find(target.ref) === NONE) return once;
      // Credits that this node has leased may be what the balance lacks: they return before the store spends again.
      manager.end(target.ref);
      return exact.spendOnce(target, cost, now, record, bounds);
    },
    creditsForfeited: () => manager.returns.forfeited().credits,
    close() {
      closed = true;
      return manager.close();
    },
  };
}
