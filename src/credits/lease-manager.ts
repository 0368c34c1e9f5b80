/** Which leases this process keeps, and when they go back: at the bound, unused for `ttl`, at the end. */
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, Store } from "../contracts/store.js";
import { NONE } from "../lib/fingerprint-index.js";
import { type CreditCount, creditReturns, type CreditReturns, MAX_IN_FLIGHT, startTimer } from "./credit-returns.js";
import { LeaseTable } from "./lease-table.js";

/** Work that tidying does in a turn of the event loop: 1 for a look at a lease, {@link RETURN} for one that goes back. 1 to 2 ms. */
const TURN = 100_000;
const RETURN = 100;
/** Leases looked at for one that is not drawing. */
const PROBES = 32;

export interface LeaseManager {
  /** To spend from and to read; leases begin and end through the keeper. */
  readonly table: LeaseTable;
  /** Takes all that is in hand of a key out of its lease; nothing, of generation 0, without a lease. */
  withdraw(ref: KeyRef): { readonly credits: number; readonly generation: number };
  /**
   * Adds to a key's lease what a draw left over, and begins a lease if there is none. Of two generations the older is void.
   * @param upstream free in the store after the draw
   * @returns what is left of both
   */
  keep(ref: KeyRef, generation: number, credits: number, upstream: number): number;
  /** Ends a key's lease, if it has one, and gives back what is in it. */
  end(ref: KeyRef): void;
  /** Whether a key may get a lease: it has one, or there is room for what would have to go back. */
  mayLease(ref: KeyRef): boolean;
  /** What is on its way back. If the balance was set meanwhile, the store ignores it (clause 14). */
  readonly returns: Pick<CreditReturns, "add" | "retry" | "forfeited">;
  /** Has {@link LeaseManager.close} wait for this. */
  track(work: Promise<unknown>): void;
  /**
   * Waits for what is in flight and gives everything back. No work may begin once it is called. After `closeTimeout` it goes on without
   * being waited for, while the process lives.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED
   */
  close(): Promise<void>;
}

export interface LeaseManagerOptions {
  /** Tells the name that the store knows this process by. */
  readonly holder: () => string;
  /** The most leases kept, ≥ 1. */
  readonly keys: number;
  /** Milliseconds. */
  readonly ttl: number;
  /** Milliseconds for which `close` waits. */
  readonly closeTimeout: number;
  /** Whether credits of this key are being drawn: it is about to be used. */
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
  /** How far tidying has come. */
  let place = 0;

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
  /** The entry of the lease that gives way to a newcomer. */
  const oldest = (): number => {
    let entry = table.next();
    for (let probe = 1; probe < PROBES && isDrawing(table.ref(entry)); probe++) entry = table.next();
    return entry;
  };

  /** One timer for all leases, and none without leases. */
  const wait = (ms: number): void => {
    timer = startTimer(tidy, ms);
  };
  /**
   * Gives back what was not used since the last round. A round takes several turns if it is long: each return is a write. While the store
   * takes nothing back, leases stay where they are: 32 bytes each, and of use if their key is.
   */
  const tidy = (): void => {
    for (let work = TURN; work > 0 && place < table.capacity && !returns.isBlocked(); work--, place++) {
      if (!table.markIdle(place) || isDrawing(table.ref(place))) continue;
      endAt(place);
      work -= RETURN;
    }
    timer = undefined;
    if (table.count === 0) return;
    if (place < table.capacity) return wait(returns.isBlocked() ? ttl : 0);
    place = 0;
    wait(ttl);
  };

  /** Gives everything back, as fast as the store takes it. */
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
  /** What is in leases or on its way back. */
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
      `the store did not take back ${credits} leased credits (keys: ${count}, spends in flight: ${pending.size}); they are lost unless ` +
        `a later attempt of this process succeeds, and reserves come back by themselves after ${ttl} ms`,
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
          place = 0;
          wait(ttl);
        }
      }
      const held = table.generation(entry);
      if (held > generation) return credits + upstream;
      return table.deposit(entry, generation, held < generation ? credits : credits + table.withdraw(entry), upstream);
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
