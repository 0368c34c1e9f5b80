/** Remembers root keys by digest, and digests without one. Port clauses 8, 9, 19. Judges nothing about them. */
import { LRUCache } from "lru-cache";
import type { RootKeyRow, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";

/** Finds root keys by digest, in the form that `prepare` made of their rows. */
export interface RootKeyCache<T> {
  find(digest: string): MaybePromise<T | undefined>;
  /** Stops listening to the store. */
  close(): void;
}

/** Digests kept that were not found: a partition of its own, so that a flood of them pushes no root key out. */
const MISSES = 10_000;
/** Milliseconds for which a miss is believed: a root key may be made elsewhere. */
const MISS_TTL = 1_000;
const MONOTONIC = { now: () => performance.now() };

/**
 * @param size root keys kept, ≥ 1
 * @see port clause 9: a fill that began before a change is answered but not kept · a hit costs a map look-up and the store's `pollChanges`
 */
export function createRootKeyCache<T extends object>(
  store: Store,
  prepare: (row: RootKeyRow) => T,
  size: number,
): RootKeyCache<T> {
  const found = new LRUCache<string, T>({ max: size });
  // A resolution of 0 keeps lru-cache from setting a timer.
  const negativeCache = new LRUCache<string, true>({ max: MISSES, ttl: MISS_TTL, ttlResolution: 0, perf: MONOTONIC });
  let generation = 0;
  const unsubscribe = store.subscribe((change) => {
    generation++;
    if (typeof change === "object") {
      found.delete(change.digest);
      negativeCache.delete(change.digest);
      return;
    }
    negativeCache.clear();
    if (change === "all") found.clear();
  });

  const keep = (digest: string, row: RootKeyRow | undefined, startGeneration: number): T | undefined => {
    const prepared = row === undefined ? undefined : prepare(row);
    if (startGeneration !== generation) return prepared;
    if (prepared !== undefined) found.set(digest, prepared);
    else negativeCache.set(digest, true);
    return prepared;
  };
  const lookUp = (digest: string): MaybePromise<T | undefined> => {
    const hit = found.get(digest);
    if (hit !== undefined) return hit;
    if (negativeCache.get(digest) === true) return undefined;
    const startGeneration = generation;
    const row = store.findRootKey(digest);
    return isThenable(row)
      ? Promise.resolve(row).then((resolved) => keep(digest, resolved, startGeneration))
      : keep(digest, row, startGeneration);
  };
  return {
    find(digest) {
      const caughtUp = store.pollChanges();
      // Not `instanceof`: a promise of another realm, or a thenable, would not be waited for, and a removed root key trusted.
      return caughtUp === undefined ? lookUp(digest) : Promise.resolve(caughtUp).then(() => lookUp(digest));
    },
    close: unsubscribe,
  };
}
