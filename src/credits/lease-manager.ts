/**
 * Lifetime of leases: when this process returns them to the store. At the bound, when unused for `ttl`, and on close.
 */
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, Store } from "../contracts/store.js";
import { NONE } from "../lib/fingerprint-index.js";
import { type CreditCount, creditReturns, type CreditReturns, MAX_IN_FLIGHT, startTimer } from "./credit-returns.js";
import { LeaseTable } from "./lease-table.js";

/**
 * Work per turn of the event loop when returning unused leases: 1 for examining a lease, {@link RETURN} for returning
 * one. 1 to 2 ms.
 */
const TURN = 100_000;
const RETURN = 100;
/** Leases examined to find one that is not drawing. */
const PROBES = 32;

export interface LeaseManager {
  /** For spending and reading; leases are added and removed through the manager. */
  readonly table: LeaseTable;
  /** Takes the available credits of a key out of its lease; 0 credits of generation 0 if it has no lease. */
  withdraw(ref: KeyRef): { readonly credits: number; readonly generation: number };
  /**
   * Adds what a draw left over to a key's lease, or begins one. Of two generations the older is void.
   * @param upstream credits free in the store after the draw
   * @returns the sum of both
   */
  keep(ref: KeyRef, generation: number, credits: number, upstream: number): number;
  /** Ends a key's lease, if it has one, and returns its credits to the store. */
  end(ref: KeyRef): void;
  /** Whether a key may have a lease: it has one, or returns are not blocked. */
  mayLease(ref: KeyRef): boolean;
  /** Returns in progress. The store ignores them if the balance was set meanwhile (clause 14). */
  readonly returns: Pick<CreditReturns, "add" | "retry" | "forfeited">;
  /** Makes {@link LeaseManager.close} wait for `work`. */
  track(work: Promise<unknown>): void;
  /**
   * Waits for what is in flight and returns everything. No work may begin after the call. After `closeTimeout` the
   * attempts continue in the background while the process lives.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED
   */
  close(): Promise<void>;
}

export interface LeaseManagerOptions {
  /** Returns the id under which the store knows this process. */
  readonly holder: () => string;
  /** Most leases kept, ≥ 1. */
  readonly keys: number;
  /** Milliseconds without use until a lease is returned. */
  readonly ttl: number;
  /** Milliseconds that `close` waits. */
  readonly closeTimeout: number;
  /** Whether credits of this key are being drawn: its lease is about to be used. */
  readonly isDrawing: (ref: KeyRef) => boolean;
}

const NOTHING = Object.freeze({ credits: 0, generation: 0 });

export function createLeaseManager(
  store: Store,
  { holder, keys, ttl, closeTimeout, isDrawing }: LeaseManagerOptions,
): LeaseManager {
  const table = new LeaseTable(keys);
  const returns = creditReturns(store, holder);
  const pending = new Set<Promise<void>>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Next entry to examine. */
  let cursor = 0;

  const track = (work: Promise<unknown>): void => {
    const forget = () => void pending.delete(settled);
    const settled: Promise<void> = work.then(forget, forget);
    pending.add(settled);
  };
  const endAt = (entry: number): void => {
    const ref = table.ref(entry);
    const generation = table.generation(entry);
    const unspent = table.withdraw(entry);
    table.remove(entry);
    returns.add(ref, generation, unspent);
  };
  /** The entry of the lease to evict for a new one. */
  const oldest = (): number => {
    let entry = table.next();
    for (let probe = 1; probe < PROBES && isDrawing(table.ref(entry)); probe++) entry = table.next();
    return entry;
  };

  /** One timer for all leases, and none while there are none. */
  const schedule = (ms: number): void => {
    timer = startTimer(returnUnused, ms);
  };
  /**
   * Returns the leases that were unused since the last round. A long round takes several turns, because each return is
   * a write. While the store takes nothing back, leases stay: 32 bytes each, and useful if their key is used again.
   */
  const returnUnused = (): void => {
    for (let work = TURN; work > 0 && cursor < table.capacity && !returns.isBlocked(); work--, cursor++) {
      if (!table.markIdle(cursor) || isDrawing(table.ref(cursor))) continue;
      endAt(cursor);
      work -= RETURN;
    }
    timer = undefined;
    if (table.count === 0) return;
    if (cursor < table.capacity) return schedule(returns.isBlocked() ? ttl : 0);
    cursor = 0;
    schedule(ttl);
  };

  /** Returns everything, as fast as the store takes it. */
  const drain = async (): Promise<void> => {
    while (pending.size > 0) await Promise.all(pending);
    clearTimeout(timer);
    for (let entry = 0; entry < table.capacity; entry++) {
      if (!table.has(entry)) continue;
      endAt(entry);
      while (returns.size() >= MAX_IN_FLIGHT) await returns.settled();
    }
    while (returns.size() > 0) await returns.settled();
  };
  /** Credits in leases or in returns that have not succeeded. */
  const outstanding = (): CreditCount => {
    let { credits, keys } = returns.outstanding();
    for (let entry = 0; entry < table.capacity; entry++) {
      if (!table.has(entry)) continue;
      credits += table.inHand(entry);
      keys++;
    }
    return { credits, keys };
  };
  const notReturned = ({ credits, keys: count }: CreditCount): KeystileError => {
    const cause = returns.lastError();
    return new KeystileError(
      "CREDITS_NOT_RETURNED",
      `the store did not take back ${credits} leased credits (keys: ${count}, spends in flight: ` +
        `${pending.size}); they are lost unless a later attempt of this process succeeds, ` +
        `and reserves come back by themselves after ${ttl} ms`,
      cause === undefined ? {} : { cause },
    );
  };

  return {
    table,
    returns,
    withdraw(ref) {
      const entry = table.find(ref);
      return entry === NONE ? NOTHING : { credits: table.withdraw(entry), generation: table.generation(entry) };
    },
    keep(ref, generation, credits, upstream) {
      let entry = table.find(ref);
      if (entry === NONE) {
        if (table.count >= keys) endAt(oldest());
        entry = table.add(ref);
        if (timer === undefined) {
          cursor = 0;
          schedule(ttl);
        }
      }
      const leasedGeneration = table.generation(entry);
      if (leasedGeneration > generation) return credits + upstream;
      return table.deposit(
        entry,
        generation,
        leasedGeneration < generation ? credits : credits + table.withdraw(entry),
        upstream,
      );
    },
    end(ref) {
      const entry = table.find(ref);
      if (entry !== NONE) endAt(entry);
    },
    mayLease: (ref) => !returns.isBlocked() || table.find(ref) !== NONE,
    track,
    async close() {
      const before = returns.forfeited();
      const drained = drain().then(() => true as const);
      // A million leases take longer to return than a locked file may hold up a shutdown: only standing still ends the wait.
      for (let keysOut = Infinity, isDone = false; !isDone && outstanding().keys < keysOut;) {
        keysOut = outstanding().keys;
        isDone = await withinTime(drained, closeTimeout);
      }
      const out = outstanding();
      const { credits, keys: given } = returns.forfeited();
      const left = { credits: out.credits + credits - before.credits, keys: out.keys + given - before.keys };
      if (left.keys > 0 || pending.size > 0) throw notReturned(left);
    },
  };
}

/** Whether something ends within so many milliseconds. The timer keeps the process alive: whoever waits learns how it ended. */
async function withinTime(ending: Promise<true>, milliseconds: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), milliseconds)));
  const isEnded = await Promise.race([ending, late]);
  clearTimeout(timer);
  return isEnded;
}
