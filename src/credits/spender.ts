/**
 * Credits spent from this process's memory: the `leased` credit mode. Port clause 14.
 *
 * Why it never over-spends: credits leave the balance, durably, before they are spent here. What a crash finds in hand is
 * forfeited (whether it was spent is unknown then); the reserve in the store comes back once it expires.
 *
 * Why no call waits for more than two draws, however many wait with it: a call waits for one draw of another call at most. If that fails, the
 * call fails with it. If what it left over is not enough, the call draws its own cost and no more, beside the others that waited, and no call
 * waits for that. (A call draws again only if the balance was set during its draw.) Draws beside each other grant no credit twice: each call
 * spends what its own draw took out of the balance, and what it took out of the lease. The price: where calls that wait ask together for more
 * than is there, one may be refused though what is left in the end is enough for it, since another held a part of that until it was refused.
 */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { Draw, KeyRecord, KeyRef, Spend, Store } from "../contracts/store.js";
import type { MaybePromise, Refill } from "../contracts/types.js";
import { NONE } from "../lib/fingerprint-index.js";
import { newId } from "../lib/hash.js";
import type { Prefetchable } from "../lib/prefetch.js";
import { isThenable } from "../lib/thenable.js";
import { createLeaseManager } from "./lease-manager.js";
import { periodOf } from "./refill-calendar.js";

/** Sizes and times of the `leased` mode. README "Promises" says what a crash costs. */
export interface LeaseOptions {
  /** Credits in hand and in reserve together, per key and node, 1…1_000_000_000; default 1_000. */
  readonly size?: number;
  /** Credits drawn into memory at once, 1…size; default a quarter of `size`: what a crash forfeits at most. */
  readonly step?: number;
  /** Milliseconds until an unused reserve returns to the balance, 100…3_600_000; default 10_000. Credits in hand return within 2 × `ttl`. */
  readonly ttl?: number;
  /** Keys leased at once, 1…10_000_000, default 100_000, 53 to 73 bytes each; beyond that the oldest lease is given back. */
  readonly keys?: number;
  /**
   * Milliseconds that `close()` waits without the store taking anything back of what is leased, 0…3_600_000; default 10_000. Then it
   * rejects with CREDITS_NOT_RETURNED. While the store goes on taking, `close()` goes on waiting: 100_000 leases take SQLite some 4 s.
   */
  readonly closeTimeout?: number;
}

/** A key to spend from, with room for the spender to note where its lease is. */
export interface SpendTarget extends Pick<KeyRecord, "ref" | "generation"> {
  readonly refill: Refill | undefined;
  /** Written by the spender, 0 at first: where it last found the lease, to save the look-up. That lease may have ended. */
  readonly lease: number;
  /** Remembers another place. */
  leasedAt(lease: number): void;
}

/** Takes credits of a key. */
export interface Spender extends Prefetchable {
  /** @returns `undefined`: the store knows no such key any more; `stale`: its refill has another calendar by now, find it again */
  spend(target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined>;
  /** Credits of leases that were given up, since the store failed to say whether it took them back. */
  creditsForfeited(): number;
  /**
   * Gives back what was leased; spends that come later go straight to the store.
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
    creditsForfeited: () => 0,
    close: () => undefined,
    prefetch: () => 0,
  };
}

/** How a draw failed. */
interface Failure {
  readonly error: unknown;
}

/** The `leased` mode. */
export function leasedSpender(store: Store, options: LeaseOptions = {}): Spender {
  const { size = 1_000, ttl = 10_000, keys = 100_000, closeTimeout = 10_000 } = options;
  const step = options.step ?? Math.max(1, Math.floor(size / 4));
  let name: string | undefined;
  // Named for the first lease: workers refuse random numbers at module scope, where programs make verifiers.
  const holder = (): string => (name ??= newId("node"));
  const exact = exactSpender(store);
  /** The draw of each key that later spends wait for, since it may serve them too. These never reject. */
  const drawing = new Map<KeyRef, Promise<Failure | undefined>>();
  const manager = createLeaseManager(store, { holder, keys, ttl, closeTimeout, isDrawing: (ref) => drawing.has(ref) });
  const { table } = manager;
  let closed = false;

  /** Takes from the key's lease, wherever it is. */
  const takeFromLease = (target: SpendTarget, cost: number): Spend | undefined => {
    const entry = table.find(target.ref);
    if (entry === NONE) return undefined;
    if (table.generation(entry) < target.generation) {
      // The balance was set since: what is in hand belongs to the old one and is void.
      manager.end(target.ref);
      return undefined;
    }
    if (target.lease !== entry) target.leasedAt(entry);
    const left = table.take(entry, target.ref, target.generation, cost);
    return left === NONE ? undefined : { ok: true, remaining: left };
  };

  /**
   * Credits in hand leave the lease first, so that nobody else spends them meanwhile, and two keys that displace each other at the bound
   * can both get enough.
   * @param step as in {@link LeaseOptions}; 1: draws just the cost
   */
  const drawThenTake = async (
    target: SpendTarget,
    cost: number,
    now: number,
    step: number,
  ): Promise<Spend | undefined> => {
    const { ref, refill } = target;
    // Credits on their way back, if they wait for another attempt, count for this draw.
    manager.returns.retry(ref);
    const wanted = { holder: holder(), step, size, now, until: now + ttl, period: periodOf(refill, now) };
    let { credits, generation } = manager.withdraw(ref);
    for (;;) {
      let drawn: Draw | undefined;
      try {
        drawn = await store.drawCredits(ref, { ...wanted, cost: cost - credits });
      } catch (error) {
        if (credits > 0) manager.returns.add(ref, generation, credits);
        throw error;
      }
      if (drawn?.stale === true) {
        if (credits > 0) manager.returns.add(ref, generation, credits);
        return { ok: false, remaining: 0, stale: true };
      }
      if (drawn === undefined || drawn.remaining === null) {
        manager.end(ref);
        return drawn && { ok: true, remaining: null };
      }
      // The balance was set meanwhile: what was in hand is void, and what was drawn may not be enough without it.
      if (drawn.generation !== generation) credits = 0;
      ({ generation } = drawn);
      credits += drawn.drawn;
      if (credits >= cost) {
        const remaining = manager.keep(ref, generation, credits - cost, drawn.remaining);
        target.leasedAt(table.find(ref));
        return drawn.forfeited === undefined
          ? { ok: true, remaining }
          : { ok: true, remaining, forfeited: drawn.forfeited };
      }
      if (drawn.drawn > 0) continue;
      if (credits > 0 || table.find(ref) !== NONE) manager.keep(ref, generation, credits, drawn.remaining);
      return { ok: false, remaining: credits + drawn.remaining };
    }
  };
  const spendByDraw = async (target: SpendTarget, cost: number, now: number): Promise<Spend | undefined> => {
    const { ref } = target;
    const other = drawing.get(ref);
    if (other !== undefined) {
      const failure = await other;
      if (failure !== undefined) throw copyOf(failure.error);
      const spent = takeFromLease(target, cost);
      return spent ?? drawThenTake(target, cost, now, 1);
    }
    const spending = drawThenTake(target, cost, now, step);
    const end = () => void drawing.delete(ref);
    const fail = (error: unknown): Failure => {
      end();
      return { error };
    };
    drawing.set(ref, spending.then(end, fail));
    return spending;
  };

  /** A spend that the remembered place could not serve. */
  const spendElsewhere = (target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined> => {
    const spent = takeFromLease(target, cost);
    if (spent !== undefined) return spent;
    // Cost 0 draws nothing, and the store refuses an invalid cost.
    if (closed || !(cost > 0) || !manager.mayLease(target.ref)) return exact.spend(target, cost, now);
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
    creditsForfeited: () => manager.returns.forfeited().credits,
    close() {
      closed = true;
      return manager.close();
    },
  };
}

/** An error for each call that failed: none meets what another did to its own. */
function copyOf(error: unknown): unknown {
  if (!isKeystileError(error)) return error;
  const { code, detail, errors, cause } = error;
  return new KeystileError(code, detail, { errors, ...(cause !== undefined && { cause }) });
}
