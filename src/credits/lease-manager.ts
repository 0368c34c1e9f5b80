/**
 * Lifetime of leases: when this process returns them to the store. At the bound, when unused for `ttl`, and on close.
 */
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, Store } from "../contracts/store.js";
import { NONE } from "../lib/fingerprint-index.js";
import { startTimer } from "../lib/start-timer.js";
import {
  type CreditCount,
  creditReturns,
  type CreditReturns,
  type EndedLease,
  MAX_IN_FLIGHT,
} from "./credit-returns.js";
import { LeaseTable, NO_GENERATION } from "./lease-table.js";

/**
 * Work per turn of the event loop when returning unused leases: 1 for examining a lease, {@link RETURN} for returning
 * one. 1 to 2 ms.
 */
const TURN = 100_000;
const RETURN = 100;
/** Leases examined to find one that nobody holds. */
const PROBES = 32;

export interface LeaseManager {
  /** For spending and reading; leases are added and removed through the manager. */
  readonly table: LeaseTable;
  /**
   * Keeps a key's lease, which is not held yet, from ending until {@link LeaseManager.release}, and begins one if it
   * has none.
   * @returns its entry; {@link NONE}: there is no space for another lease
   */
  hold(ref: KeyRef): number;
  /** Lets go of a lease. One that has drawn nothing ends, unless its key was spent from. */
  release(ref: KeyRef): void;
  /** The id of an entry's lease in the store. */
  holderOf(entry: number): string;
  /**
   * Ends the lease of a held key, whatever it has drawn, and begins another in its place.
   * @returns as {@link LeaseManager.end}
   */
  renew(entry: number): Promise<void> | undefined;
  /**
   * Ends a key's lease, if it has one that nobody holds, and returns its credits to the store.
   * @returns what resolves once that was tried, whether or not it succeeded; undefined: nothing to wait for
   */
  end(ref: KeyRef): Promise<void> | undefined;
  /** Whether a key may have a lease: it has one, or returns are not blocked. */
  mayLease(ref: KeyRef): boolean;
  /** Leases that are ending. */
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
  /** Returns the random id of this process, with which the ids of its leases begin. */
  readonly node: () => string;
  /** Most leases kept, ≥ 1. */
  readonly keys: number;
  /** Milliseconds without use until a lease is returned. */
  readonly ttl: number;
  /** Milliseconds that `close` waits. */
  readonly closeTimeout: number;
}

export function createLeaseManager(store: Store, { node, keys, ttl, closeTimeout }: LeaseManagerOptions): LeaseManager {
  const table = new LeaseTable(keys);
  const returns = creditReturns(store);
  /** Keys that have a draw in flight. */
  const held = new Set<KeyRef>();
  let lastId = 0;
  const pending = new Set<Promise<void>>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Next entry to examine. */
  let cursor = 0;

  const track = (work: Promise<unknown>): void => {
    const forget = () => void pending.delete(settled);
    const settled: Promise<void> = work.then(forget, forget);
    pending.add(settled);
  };
  const holderOf = (entry: number): string => `${node()}.${table.id(entry)}`;
  const toEnded = (entry: number): EndedLease => ({
    ref: table.ref(entry),
    holder: holderOf(entry),
    spent: table.spent(entry),
    credits: table.withdraw(entry),
  });
  const endAt = (entry: number): Promise<void> | undefined => {
    const ended = toEnded(entry);
    const isUsed = table.generation(entry) !== NO_GENERATION;
    table.remove(entry);
    // One that never drew is unknown to the store.
    return isUsed ? returns.add(ended) : undefined;
  };
  /** The entry of the lease to evict for a new one; {@link NONE}: all that were examined are held. */
  const oldest = (): number => {
    for (let probe = 0; probe < PROBES; probe++) {
      const entry = table.next();
      if (!held.has(table.ref(entry))) return entry;
    }
    return NONE;
  };
  const begin = (ref: KeyRef): number => {
    if (table.count >= keys) {
      const evicted = oldest();
      if (evicted === NONE) return NONE;
      void endAt(evicted);
    }
    if (timer === undefined) {
      cursor = 0;
      schedule(ttl);
    }
    return table.add(ref, ++lastId);
  };

  /** One timer for all leases, and none while there are none. */
  const schedule = (ms: number): void => {
    timer = startTimer(returnUnused, ms);
  };
  /**
   * Returns the leases that were unused since the last round. A long round takes several turns, because each return is
   * a write. While the store takes nothing back, leases stay: 57 bytes each, and useful if their key is used again.
   */
  const returnUnused = (): void => {
    for (let work = TURN; work > 0 && cursor < table.capacity && !returns.isBlocked(); work--, cursor++) {
      if (!table.markIdle(cursor) || held.has(table.ref(cursor))) continue;
      void endAt(cursor);
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
      void endAt(entry);
      while (returns.size() >= MAX_IN_FLIGHT) await returns.settled();
    }
    while (returns.size() > 0) await returns.settled();
  };
  /** Credits in leases or in returns that have not succeeded. */
  const outstanding = (): CreditCount => {
    let { credits, leases } = returns.outstanding();
    for (let entry = 0; entry < table.capacity; entry++) {
      if (!table.has(entry)) continue;
      credits += table.inHand(entry);
      leases++;
    }
    return { credits, leases };
  };
  const notReturned = ({ credits, leases }: CreditCount): KeystileError => {
    const cause = returns.lastError();
    return new KeystileError(
      "CREDITS_NOT_RETURNED",
      `the store did not take back ${credits} leased credits (leases: ${leases}, spends in flight: ` +
        `${pending.size}); they are lost unless a later attempt of this process succeeds, ` +
        `and reserves come back by themselves after ${ttl} ms`,
      cause === undefined ? {} : { cause },
    );
  };

  return {
    table,
    returns,
    hold(ref) {
      const known = table.find(ref);
      const entry = known === NONE ? begin(ref) : known;
      if (entry !== NONE) held.add(ref);
      return entry;
    },
    release(ref) {
      held.delete(ref);
      const entry = table.find(ref);
      if (entry !== NONE && table.generation(entry) === NO_GENERATION && table.step(entry) === 0) void endAt(entry);
    },
    holderOf,
    renew(entry) {
      const ended = toEnded(entry);
      table.restart(entry, ++lastId);
      return returns.add(ended);
    },
    end(ref) {
      const entry = table.find(ref);
      return entry === NONE || held.has(ref) ? undefined : endAt(entry);
    },
    mayLease(ref) {
      if (!returns.isBlocked()) return true;
      const entry = table.find(ref);
      return entry !== NONE && (held.has(ref) || table.generation(entry) !== NO_GENERATION);
    },
    track,
    async close() {
      const before = returns.forfeited();
      const drained = drain().then(() => true as const);
      // A million leases take longer to return than a locked file may hold up a shutdown: only standing still ends the
      // wait.
      for (let leasesOut = Infinity, isDone = false; !isDone && outstanding().leases < leasesOut;) {
        leasesOut = outstanding().leases;
        isDone = await withinTime(drained, closeTimeout);
      }
      const out = outstanding();
      const { credits, leases } = returns.forfeited();
      const left = { credits: out.credits + credits - before.credits, leases: out.leases + leases - before.leases };
      if (left.leases > 0 || pending.size > 0) throw notReturned(left);
    },
  };
}

/**
 * Whether something ends within so many milliseconds. The timer keeps the process alive: whoever waits learns how it
 * ended.
 */
async function withinTime(ending: Promise<true>, milliseconds: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), milliseconds)));
  const isEnded = await Promise.race([ending, late]);
  clearTimeout(timer);
  return isEnded;
}
