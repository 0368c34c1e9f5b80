/**
 * One client of the store: a process as it were, with its own clock, caches, buckets and leases, that may die at any
 * step.
 */
import type { Change, LeaseReturn, Store } from "../../src/contracts/store.js";
import { createKeyring, type Keyring } from "../../src/keyring/keyring.js";
import { createVerifier, type Verifier } from "../../src/verify/verifier.js";
import type { VerifierOptions } from "../../src/verify/verifier-options.js";
import type { Taker } from "./ledger.js";
import type { Readings } from "./limits.js";
import type { PendingCall } from "./ports.js";
import { must } from "./violation.js";

/** What a client took of one account, and what it acknowledged. */
interface Claim {
  taken: number;
  returned: number;
  acknowledged: number;
  /**
   * Taken, at most, without an acknowledgement: the calls and leases of a crash, and calls whose failure says nothing.
   */
  slack: number;
}

/** What a client drew for one of its leases. */
interface Drawn {
  drawn: number;
  returned: number;
  spent: number;
  /** Drawn while the client was told of a failure. */
  lost: number;
  /** Drawn while the client still waits to be told. */
  untold: number;
  /** It asked for its end. */
  isEnding: boolean;
}

/** An operation that has not ended. */
export interface Flight {
  readonly name: string;
  /**
   * Of a verification: its cost, and the accounts that its key has had: it may be imported again after it was removed.
   */
  readonly spends?: { readonly cost: number; accountIds(): Iterable<string> };
}

export class Client implements Taker {
  readonly calls: PendingCall[] = [];
  readonly flights = new Set<Flight>();
  readonly claims = new Map<string, Claim>();
  /** By account, and by the id of the lease. */
  readonly #leases = new Map<string, Map<string, Drawn>>();
  /** What its verifier and its keyring are made of. */
  opens!: { readonly store: Store; readonly options: VerifierOptions };
  #verifier: Verifier | undefined;
  #keyring: Keyring | undefined;
  isDead = false;
  isClosing = false;
  /** Calls of it that went wrong so far. */
  faults = 0;
  /** Wall clock minus the common virtual clock, milliseconds. */
  offset: number;
  readonly #time: { readonly now: number };
  readonly #changes: Change[] = [];
  readonly #listeners = new Set<(change: Change) => void>();

  /** @param step most credits that it holds of one key between calls; 0: none, it spends exactly */
  constructor(
    /** Which of the world's clients it is, from 0 on, in the order in which they were opened. */
    readonly ordinal: number,
    readonly step: number,
    readonly hearsAtOnce: boolean,
    time: { readonly now: number },
    offset: number,
    /** Of its clock, or of all clocks that its limiter is told of. */
    readonly readings: Readings,
  ) {
    this.#time = time;
    this.offset = offset;
  }

  get name(): string {
    return `client ${this.ordinal}`;
  }

  /** Takes a verifier that was made before, which must call this client's store. */
  use(verifier: Verifier): void {
    this.#verifier = verifier;
  }

  /** Closes its verifier, if it has one. */
  async close(): Promise<void> {
    await this.#verifier?.close();
  }

  /** Made for the first call: it takes longer than 500 steps. */
  get verifier(): Verifier {
    return (this.#verifier ??= createVerifier(this.opens.store, { ...this.opens.options, usage: false }));
  }

  get keyring(): Keyring {
    return (this.#keyring ??= createKeyring(this.opens.store, { clock: this.clock }));
  }

  readonly clock = (): number => {
    const now = this.#time.now + this.offset;
    this.readings.note(now);
    return now;
  };

  subscribe(store: Store, listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    const unsubscribe = store.subscribe((change) => {
      if (this.isDead || !this.#listeners.has(listener)) return;
      if (this.hearsAtOnce || this.isWriting) listener(change);
      else this.#changes.push(change);
    });
    return () => {
      this.#listeners.delete(listener);
      unsubscribe();
    };
  }

  /** Whether a call of this client is being made: it hears of its own changes at once. */
  isWriting = false;

  /** Hears of the changes since the last poll. */
  hear(): undefined {
    for (const change of this.#changes.splice(0)) for (const listener of this.#listeners) listener(change);
  }

  /** It stops between two steps: nothing that it waits for ever comes. */
  die(): void {
    for (const { spends } of this.flights) {
      // A call in flight may have taken its cost, or a step in its stead.
      for (const id of spends?.accountIds() ?? []) this.#claim(id).slack += Math.max(spends!.cost, this.step);
    }
    for (const [id, claim] of this.claims) {
      claim.slack += this.step;
      for (const { drawn, returned, spent, lost, isEnding } of this.#leases.get(id)?.values() ?? [])
        claim.slack += isEnding ? drawn - returned - spent : lost;
    }
    this.isDead = true;
    this.calls.length = 0;
    this.flights.clear();
  }

  took(accountId: string, credits: number, isLost: boolean): void {
    const claim = this.#claim(accountId);
    claim.taken += credits;
    if (isLost) claim.slack += credits;
  }

  drew(accountId: string, holder: string, credits: number, isLost: boolean): void {
    const claim = this.#claim(accountId);
    const lease = this.#lease(accountId, holder);
    claim.taken += credits;
    lease.drawn += credits;
    if (!isLost) lease.untold += credits;
    else this.#lose(claim, lease, credits);
  }

  /** A call that was to take so much ended in a failure that does not say whether it did. */
  lost(accountId: string, credits: number): void {
    this.#claim(accountId).slack += credits;
  }

  /** A draw ended. @param isUnknown in a failure that does not say whether it was made */
  drawEnded(accountId: string, holder: string, isUnknown: boolean): void {
    const lease = this.#lease(accountId, holder);
    if (isUnknown) this.#lose(this.#claim(accountId), lease, lease.untold);
    lease.untold = 0;
  }

  #lose(claim: Claim, lease: Drawn, credits: number): void {
    lease.lost += credits;
    // Nobody ends it once more: the draw of a client that is no more, or one that was late for the end of its lease.
    if (this.isDead || lease.isEnding) claim.slack += credits;
  }

  /** It asks for the end of a lease, which may fail, and is then asked for again. */
  ends({ holder, spent }: LeaseReturn): void {
    for (const leases of this.#leases.values()) {
      const lease = leases.get(holder);
      if (lease === undefined) continue;
      lease.isEnding = true;
      lease.spent = Math.max(lease.spent, spent);
    }
  }

  ended(accountId: string, { holder, spent }: LeaseReturn): void {
    const claim = this.#claim(accountId);
    const lease = this.#lease(accountId, holder);
    lease.isEnding = true;
    lease.lost = 0;
    lease.spent = Math.max(lease.spent, spent);
    const unspent = lease.drawn - lease.returned - lease.spent;
    must(unspent >= 0, "acknowledged", () => `${this.name} tells of ${spent} spent of ${lease.drawn} drawn`);
    lease.returned += unspent;
    claim.returned += unspent;
    this.#assertCovered(accountId, claim);
  }

  acknowledged(accountId: string, cost: number): void {
    const claim = this.#claim(accountId);
    claim.acknowledged += cost;
    this.#assertCovered(accountId, claim);
  }

  /** Once it is at rest: nothing is taken that was not acknowledged, but for what a fault explains. */
  assertSettled(): void {
    for (const [id, { taken, returned, acknowledged, slack }] of this.claims) {
      const over = taken - returned - acknowledged;
      must(
        over <= slack,
        "unacknowledged",
        () =>
          `${this.name} took ${taken} of ${id}, returned ${returned}, acknowledged ${acknowledged}: ` +
          `${over} are missing, at most ${slack} explained`,
      );
    }
  }

  #assertCovered(accountId: string, { taken, returned, acknowledged }: Claim): void {
    must(
      acknowledged <= taken - returned,
      "acknowledged",
      () => `${this.name} acknowledged ${acknowledged} of ${accountId}, having taken ${taken} and returned ${returned}`,
    );
  }

  #claim(accountId: string): Claim {
    let claim = this.claims.get(accountId);
    if (claim === undefined) this.claims.set(accountId, (claim = { taken: 0, returned: 0, acknowledged: 0, slack: 0 }));
    return claim;
  }

  #lease(accountId: string, holder: string): Drawn {
    let leases = this.#leases.get(accountId);
    if (leases === undefined) this.#leases.set(accountId, (leases = new Map<string, Drawn>()));
    let lease = leases.get(holder);
    if (lease === undefined)
      leases.set(holder, (lease = { drawn: 0, returned: 0, spent: 0, lost: 0, untold: 0, isEnding: false }));
    return lease;
  }
}
