/** One client of the store: a process as it were, with its own clock, caches, buckets and leases, that may die at any step. */
import type { Change, Store } from "../../src/contracts/store.js";
import { createKeyring, type Keyring } from "../../src/keyring/keyring.js";
import { createVerifier, type Verifier, type VerifierOptions } from "../../src/verify/verifier.js";
import type { Taker } from "./ledger.js";
import type { Readings } from "./limits.js";
import type { PendingCall } from "./ports.js";
import { must } from "./violation.js";

/** What a client took of one key, and what it acknowledged. */
interface Claim {
  taken: number;
  returned: number;
  acknowledged: number;
  /** Taken, at most, without an acknowledgement: the calls and leases of a crash, and calls whose failure says nothing. */
  slack: number;
  /** Taken and not returned, by generation: setting a balance voids what is left of older ones. */
  readonly byGeneration: Map<number, number>;
}

/** An operation that has not ended. */
export interface Flight {
  readonly name: string;
  /** Of a verification: its cost, and the ids that its key has had: it may be imported again after it was removed. */
  readonly spends?: { readonly cost: number; keyIds(): Iterable<string> };
}

export class Client implements Taker {
  readonly calls: PendingCall[] = [];
  readonly flights = new Set<Flight>();
  readonly claims = new Map<string, Claim>();
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
    return (this.#verifier ??= createVerifier(this.opens.store, this.opens.options));
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
      for (const keyId of spends?.keyIds() ?? []) this.#claim(keyId).slack += Math.max(spends!.cost, this.step);
    }
    for (const claim of this.claims.values()) claim.slack += this.step;
    this.isDead = true;
    this.calls.length = 0;
    this.flights.clear();
  }

  took(keyId: string, generation: number, credits: number, isLost: boolean): void {
    const claim = this.#claim(keyId);
    claim.taken += credits;
    if (isLost) claim.slack += credits;
    claim.byGeneration.set(generation, (claim.byGeneration.get(generation) ?? 0) + credits);
  }

  gaveBack(keyId: string, generation: number, credits: number): void {
    const claim = this.#claim(keyId);
    claim.returned += credits;
    claim.byGeneration.set(generation, (claim.byGeneration.get(generation) ?? 0) - credits);
    this.#assertCovered(keyId, claim);
  }

  /** A return that failed without saying whether it was made: what it returned is given up. */
  gaveUp(keyId: string, credits: number): void {
    this.#claim(keyId).slack += credits;
  }

  acknowledged(keyId: string, cost: number): void {
    const claim = this.#claim(keyId);
    claim.acknowledged += cost;
    this.#assertCovered(keyId, claim);
  }

  /** Once it is at rest: nothing is taken that was not acknowledged, but for what a fault explains. */
  assertSettled(generationOf: (keyId: string) => number): void {
    for (const [keyId, { taken, returned, acknowledged, slack, byGeneration }] of this.claims) {
      let voided = 0;
      for (const [generation, credits] of byGeneration)
        if (generation < generationOf(keyId)) voided += Math.max(0, credits);
      const over = taken - returned - acknowledged;
      must(
        over <= slack + voided,
        "unacknowledged",
        () =>
          `${this.name} took ${taken} of ${keyId}, returned ${returned}, acknowledged ${acknowledged}: ` +
          `${over} are missing, at most ${slack + voided} explained`,
      );
    }
  }

  #assertCovered(keyId: string, { taken, returned, acknowledged }: Claim): void {
    must(
      acknowledged <= taken - returned,
      "acknowledged",
      () => `${this.name} acknowledged ${acknowledged} of ${keyId}, having taken ${taken} and returned ${returned}`,
    );
  }

  #claim(keyId: string): Claim {
    let claim = this.claims.get(keyId);
    if (claim === undefined) {
      claim = { taken: 0, returned: 0, acknowledged: 0, slack: 0, byGeneration: new Map() };
      this.claims.set(keyId, claim);
    }
    return claim;
  }
}
