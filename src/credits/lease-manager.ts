/**
 * The leases of this process, one a key. They are returned to the store at the bound, when unused for `ttl`, and on
 * close.
 */
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, Store } from "../contracts/store.js";
import { newId } from "../lib/hash.js";
import { startTimer } from "../lib/timers.js";
import { type CreditCount, type CreditReturns, creditReturns, MAX_IN_FLIGHT } from "./credit-returns.js";
import { NodeLease, type LeaseOwner, type LeaseSizes } from "./lease.js";
import type { Spender } from "./spender.js";

/**
 * Work per turn of the event loop when returning unused leases: 1 for examining a lease, {@link RETURN} for returning
 * one. 1 to 2 ms.
 */
const TURN = 100_000;
const RETURN = 100;
/** Leases examined to find one that is not drawing. */
const PROBES = 32;

/** See `LeaseOptions`. */
export interface LeaseBounds extends LeaseSizes {
  /** Most leases kept, ≥ 1. */
  readonly keys: number;
  /** Milliseconds that {@link LeaseManager.close} waits. */
  readonly closeTimeout: number;
}

export class LeaseManager implements LeaseOwner {
  readonly store: Store;
  readonly exact: Pick<Spender, "spend">;
  readonly returns: CreditReturns;
  readonly sizes: LeaseBounds;
  isClosing = false;
  readonly #leases = new Map<KeyRef, NodeLease>();
  /** Random, created for the first lease: Cloudflare Workers do not allow that while modules load. */
  #node: string | undefined;
  #lastId = 0;
  readonly #inFlight = new Set<Promise<void>>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The rest of a round of {@link LeaseManager.#returnUnused}. */
  #round: Iterator<NodeLease, undefined> | undefined;
  /**
   * The leases to evict, the oldest first. Kept, since a new iterator passes over all that were removed before it finds
   * the oldest; but not for long, since it holds on to all that the map was since.
   */
  #oldest: Iterator<NodeLease, undefined> | undefined;

  constructor(store: Store, exact: Pick<Spender, "spend">, sizes: LeaseBounds) {
    this.store = store;
    this.exact = exact;
    this.returns = creditReturns(store);
    this.sizes = sizes;
  }

  /** The key's lease, if it has one. */
  find(ref: KeyRef): NodeLease | undefined {
    return this.#leases.get(ref);
  }

  /** The key's lease to draw for, a new one if it has none; `undefined`: no space, or too many returns wait. */
  findOrBegin(ref: KeyRef): NodeLease | undefined {
    const lease = this.#leases.get(ref);
    if (lease !== undefined && lease.state !== "empty") return lease;
    return this.returns.isBlocked() ? undefined : (lease ?? this.#begin(ref));
  }

  newId(): number {
    return ++this.#lastId;
  }

  holderOf(id: number): string {
    this.#node ??= newId("node");
    return `${this.#node}.${id}`;
  }

  forget({ ref }: NodeLease): void {
    this.#leases.delete(ref);
  }

  track(work: Promise<unknown>): void {
    const forget = () => void this.#inFlight.delete(settled);
    const settled: Promise<void> = work.then(forget, forget);
    this.#inFlight.add(settled);
  }

  /**
   * Waits for what is in flight and returns everything. After `closeTimeout` the attempts continue in the background
   * while the process lives.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED
   */
  async close(): Promise<void> {
    this.isClosing = true;
    const before = this.returns.forfeited();
    const drained = this.#drain().then(() => true as const);
    // A million leases take longer to return than a locked file may hold up a shutdown: only standing still ends the
    // wait.
    for (let leasesOut = Infinity, isDone = false; !isDone && this.#outstanding().leases < leasesOut;) {
      leasesOut = this.#outstanding().leases;
      isDone = await withinTime(drained, this.sizes.closeTimeout);
    }
    const out = this.#outstanding();
    const { credits, leases } = this.returns.forfeited();
    const left = { credits: out.credits + credits - before.credits, leases: out.leases + leases - before.leases };
    if (left.leases > 0 || this.#inFlight.size > 0) throw this.#notReturned(left);
  }

  #begin(ref: KeyRef): NodeLease | undefined {
    if (this.#leases.size >= this.sizes.keys && !this.#evict()) return undefined;
    if (this.#timer === undefined) this.#schedule(this.sizes.ttl);
    const lease = new NodeLease(ref, this);
    this.#leases.set(ref, lease);
    return lease;
  }

  /** Ends the lease begun first. @returns false: all that were examined are drawing */
  #evict(): boolean {
    for (let probe = 0; probe < PROBES; probe++) {
      this.#oldest ??= this.#leases.values();
      const { done, value: lease } = this.#oldest.next();
      if (done === true) this.#oldest = undefined;
      else if (lease.state !== "drawing") {
        void lease.end();
        return true;
      }
    }
    return false;
  }

  /** One timer for all leases, and none while there are none. */
  #schedule(ms: number): void {
    this.#timer = startTimer(() => this.#returnUnused(), ms);
  }

  /**
   * Returns the leases that were unused since the last round. A long round takes several turns, because each return is
   * a write. While the store takes nothing back, leases stay: they are useful if their key is used again.
   */
  #returnUnused(): void {
    this.#timer = undefined;
    this.#oldest = undefined;
    this.#round ??= this.#leases.values();
    for (let work = TURN; work > 0 && !this.returns.isBlocked(); work--) {
      const { done, value: lease } = this.#round.next();
      if (done === true) {
        this.#round = undefined;
        break;
      }
      if (lease.takeUse() || lease.state === "drawing") continue;
      void lease.end();
      work -= RETURN;
    }
    if (this.#leases.size === 0) this.#round = undefined;
    else this.#schedule(this.#round === undefined || this.returns.isBlocked() ? this.sizes.ttl : 0);
  }

  /** Returns everything, as fast as the store takes it. */
  async #drain(): Promise<void> {
    do {
      while (this.#inFlight.size > 0) await Promise.all(this.#inFlight);
      clearTimeout(this.#timer);
      for (const lease of this.#leases.values()) {
        void lease.end();
        while (this.returns.size() >= MAX_IN_FLIGHT) await this.returns.settled();
      }
    } while (this.#leases.size > 0);
    while (this.returns.size() > 0) await this.returns.settled();
  }

  /** Credits in leases or in returns that have not succeeded. */
  #outstanding(): CreditCount {
    let { credits, leases } = this.returns.outstanding();
    for (const { available } of this.#leases.values()) {
      credits += available;
      leases++;
    }
    return { credits, leases };
  }

  #notReturned({ credits, leases }: CreditCount): KeystileError {
    const cause = this.returns.lastError();
    return new KeystileError(
      "CREDITS_NOT_RETURNED",
      `the store did not take back ${credits} leased credits (leases: ${leases}, spends in flight: ` +
        `${this.#inFlight.size}); they are lost unless a later attempt of this process succeeds, ` +
        `and reserves come back by themselves after ${this.sizes.ttl} ms`,
      cause === undefined ? {} : { cause },
    );
  }
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
