/** Which leases this process keeps, and when they go back: at the bound, unused for `ttl`, at the end. Knows the port; draws nothing. */
import { LeaseBook } from "./book.js";
import type { KeyRef, Store } from "../store.js";
import { NONE } from "../tags/tag-index.js";

/** Work that tidying does in a turn of the event loop: 1 for a look at a lease, {@link RETURN} for one that goes back. 1 to 2 ms. */
const TURN = 100_000;
const RETURN = 100;
/** Leases looked at for one that is not drawing. */
const PROBES = 32;
/** Returns under way at once when all goes back. */
const RETURNS = 1_000;

export interface LeaseKeeper {
  /** To spend from and to read; leases begin and end through the keeper. */
  readonly book: LeaseBook;
  /** Takes all that is in hand of a key out of its lease; nothing, of generation 0, without a lease. */
  withdraw(ref: KeyRef): { readonly credits: number; readonly generation: number };
  /**
   * Puts into a key's lease what is in hand after a draw, and begins one if there is none.
   * @param beyond free in the store after the draw
   * @returns what is left of both
   */
  keep(ref: KeyRef, generation: number, credits: number, beyond: number): number;
  /** Ends a key's lease, if it has one, and gives back what is in it. */
  end(ref: KeyRef): void;
  /** Gives back credits that are in no lease. If the balance was set meanwhile, the store ignores them (clause 14). */
  giveBack(ref: KeyRef, generation: number, unspent: number): void;
  /** Has {@link LeaseKeeper.close} wait for this. */
  track(work: Promise<unknown>): void;
  /** Waits for what is under way and gives everything back. No work may begin once it is called. */
  close(): Promise<void>;
}

export interface Keeping {
  /** Tells the name that the store knows this process by. */
  readonly holder: () => string;
  /** The most leases kept, ≥ 1. */
  readonly keys: number;
  /** Milliseconds. */
  readonly ttl: number;
  /** Whether credits of this key are being drawn: it is about to be used. */
  readonly isDrawing: (ref: KeyRef) => boolean;
}

const NOTHING = Object.freeze({ credits: 0, generation: 0 });

export function leaseKeeper(store: Store, { holder, keys, ttl, isDrawing }: Keeping): LeaseKeeper {
  const book = new LeaseBook(keys);
  const pending = new Set<Promise<void>>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** How far tidying has come. */
  let place = 0;

  const track = (work: Promise<unknown>): void => {
    const forget = () => void pending.delete(settled);
    const settled: Promise<void> = work.then(forget, forget);
    pending.add(settled);
  };
  const settle = async (): Promise<void> => {
    while (pending.size > 0) await Promise.all(pending);
  };
  const giveBack = (ref: KeyRef, generation: number, unspent: number): void => {
    // A store that fails here keeps the credits: they count as spent, never twice.
    track(new Promise((resolve) => resolve(store.returnCredits(ref, holder(), generation, unspent))));
  };
  const endAt = (entry: number): void => {
    const ref = book.ref(entry);
    const generation = book.generation(entry);
    const unspent = book.withdraw(entry);
    book.remove(entry);
    giveBack(ref, generation, unspent);
  };
  /** The entry of the lease that gives way to a newcomer. */
  const oldest = (): number => {
    let entry = book.next();
    for (let probe = 1; probe < PROBES && isDrawing(book.ref(entry)); probe++) entry = book.next();
    return entry;
  };

  /** One timer for all leases, and none without leases. */
  const wait = (ms: number): void => {
    timer = setTimeout(tidy, ms);
    (timer as { unref?: () => void }).unref?.();
  };
  /** Gives back what was not used since the last round. A round takes several turns if it is long: each return is a write. */
  const tidy = (): void => {
    for (let work = TURN; work > 0 && place < book.capacity; work--, place++) {
      if (!book.markIdle(place) || isDrawing(book.ref(place))) continue;
      endAt(place);
      work -= RETURN;
    }
    timer = undefined;
    if (book.count === 0) return;
    if (place < book.capacity) return wait(0);
    place = 0;
    wait(ttl);
  };

  return {
    book,
    withdraw(ref) {
      const entry = book.find(ref);
      return entry === NONE ? NOTHING : { credits: book.withdraw(entry), generation: book.generation(entry) };
    },
    keep(ref, generation, credits, beyond) {
      let entry = book.find(ref);
      if (entry === NONE) {
        if (book.count >= keys) endAt(oldest());
        entry = book.add(ref);
        if (timer === undefined) {
          place = 0;
          wait(ttl);
        }
      }
      return book.deposit(entry, generation, credits, beyond);
    },
    end(ref) {
      const entry = book.find(ref);
      if (entry !== NONE) endAt(entry);
    },
    giveBack,
    track,
    async close() {
      await settle();
      clearTimeout(timer);
      for (let entry = 0; entry < book.capacity; entry++) {
        if (!book.has(entry)) continue;
        endAt(entry);
        if (pending.size >= RETURNS) await settle();
      }
      await settle();
    },
  };
}
