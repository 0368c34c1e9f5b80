/**
 * Reads of a store that a cache keeps, and the one place that decides whether it may: a read that began before a change
 * is returned but not kept (store clause 9), since it may be of the time before.
 *
 * Calls for a digest that is being read join that read, so that a thousand at once for one cold key are one read. For
 * the same reason none joins a read that began before the latest change, nor one that is older than a miss may be: a
 * call that begins later reads anew. So what a call is served was read no earlier than what it could have found kept,
 * and a read that hangs holds up no call that comes after that time.
 *
 * Why misses have a partition of their own: a flood of unknown keys fills that one and evicts no real key. A miss is
 * kept for a short time only, since a key may be created where no change is notified.
 */
import type { RowChange, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { copyOfError } from "./copy-error.js";
import { GrowingLru } from "./growing-lru.js";
import { isThenable } from "./thenable.js";

/** Where found values are kept. */
export interface FoundValues<T> {
  set(text: string, digest: string, value: T): void;
  delete(digest: string): void;
  clear(): void;
}

export interface GuardedReadOptions<Row, T> {
  readonly found: FoundValues<T>;
  readonly read: (digest: string) => MaybePromise<Row | undefined>;
  /** Makes the value that is kept and returned; called once a read. */
  readonly prepare: (row: Row) => T;
  /** Milliseconds for which a miss is kept, and for which calls join a read, ≥ 1. */
  readonly missTtl: number;
  /**
   * Removes from `found` what was made of a row that changed; false: too much to look through, so all is removed.
   * Absent: no value is made of such rows.
   */
  readonly dropMadeOf?: (change: RowChange) => boolean;
}

/** A read that the store has not returned yet. */
interface ReadInFlight<T> {
  readonly value: Promise<T | undefined>;
  readonly generation: number;
  /** Monotonic time from which no call joins it. */
  readonly until: number;
}

/** Misses kept. */
const MAX_MISSES = 10_000;
const MONOTONIC = { now: () => performance.now() };

/** Subscribes to the store at once: each change removes what it concerns, from `found` and from the misses. */
export function createGuardedReads<Row, T>(
  store: Store,
  { found, read, prepare, missTtl, dropMadeOf }: GuardedReadOptions<Row, T>,
) {
  // A resolution of 0 keeps lru-cache from setting a timer.
  const misses = new GrowingLru<true>({ max: MAX_MISSES, ttl: missTtl, ttlResolution: 0, perf: MONOTONIC });
  /** By digest. As many at most as the store has reads to return. */
  const inFlight = new Map<string, ReadInFlight<T>>();
  /** Rises with every change that the store tells of. */
  let generation = 0;
  let isClosed = false;
  // Emptying takes microseconds, and changes may come by the thousand.
  let isEmpty = true;
  const unsubscribe = store.subscribe((change) => {
    generation++;
    if (typeof change === "object" && "digest" in change) {
      found.delete(change.digest);
      misses.delete(change.digest);
      return;
    }
    misses.clear();
    if (change === "created" || isEmpty) return;
    if (typeof change === "object" && dropMadeOf?.(change) !== false) return;
    found.clear();
    isEmpty = true;
  });

  const keep = (text: string, digest: string, row: Row | undefined, startGeneration: number): T | undefined => {
    const value = row === undefined ? undefined : prepare(row);
    if (isClosed || startGeneration !== generation) return value;
    if (value === undefined) misses.set(digest, true);
    else {
      found.set(text, digest, value);
      isEmpty = false;
    }
    return value;
  };
  const join = ({ value }: ReadInFlight<T>): Promise<T | undefined> =>
    value.catch((error: unknown) => {
      throw copyOfError(error);
    });
  // These are separate functions, since a function that contains a closure allocates for it at every call.
  const whenRead = (
    text: string,
    digest: string,
    reading: PromiseLike<Row | undefined>,
    startGeneration: number,
  ): Promise<T | undefined> => {
    const end = () => {
      if (inFlight.get(digest) === flight) inFlight.delete(digest);
    };
    const value = Promise.resolve(reading).then(
      (row) => {
        end();
        return keep(text, digest, row, startGeneration);
      },
      (error: unknown) => {
        end();
        throw error;
      },
    );
    const flight = { value, generation: startGeneration, until: performance.now() + missTtl };
    inFlight.set(digest, flight);
    return value;
  };
  const joinable = (digest: string): ReadInFlight<T> | undefined => {
    const flight = inFlight.get(digest);
    return !isClosed && flight?.generation === generation && performance.now() < flight.until ? flight : undefined;
  };
  return {
    /**
     * What the store has of a digest, now kept in `found` or as a miss, unless something changed during the read. A
     * failed read keeps nothing, and fails each call that joined it with an error of its own. A store that returns no
     * promise gets none made.
     * @param text what `found` keeps the value by
     */
    read(text: string, digest: string): MaybePromise<T | undefined> {
      if (misses.get(digest) === true) return undefined;
      const joined = inFlight.size === 0 ? undefined : joinable(digest);
      if (joined !== undefined) return join(joined);
      const startGeneration = generation;
      const row = read(digest);
      return isThenable(row) ? whenRead(text, digest, row, startGeneration) : keep(text, digest, row, startGeneration);
    },
    /** Unsubscribes from the store. Nothing is kept from then on: calls still in flight read the store. */
    close(): void {
      unsubscribe();
      isClosed = true;
      misses.clear();
      found.clear();
    },
  };
}
