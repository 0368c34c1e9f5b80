/** A cache of root keys by digest, including digests that were not found. Store clauses 8, 9, 19. */
import { LRUCache } from "lru-cache";
import type { RootKeyRow, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";

/** Finds root keys by digest, as values that `prepare` makes of their rows. */
export interface RootKeyCache<T> {
  find(digest: string): MaybePromise<T | undefined>;
  /** Unsubscribes from the store. */
  close(): void;
}

/** Cached digests that were not found: in their own partition, so that a flood of them evicts no root key. */
const MISSES = 10_000;
/** Milliseconds for which a digest counts as not found: another process may create that root key. */
const MISS_TTL = 1_000;
const MONOTONIC = { now: () => performance.now() };

/**
 * @param size root keys to cache, ≥ 1
 * @see store clause 9: a read that began before a change is returned but not cached · a hit costs a map look-up and the
 *   store's `pollChanges`
 */
export function createRootKeyCache<T extends object>(
  store: Store,
  prepare: (row: RootKeyRow) => T,
  size: number,
): RootKeyCache<T> {
  const found = new LRUCache<string, T>({ max: size });
  // With a resolution of 0 lru-cache sets no timer.
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
      // Not `instanceof`, which misses promises of another realm and thenables: the look-up would not wait for them and
      // could trust a removed root key.
      return caughtUp === undefined ? lookUp(digest) : Promise.resolve(caughtUp).then(() => lookUp(digest));
    },
    close: unsubscribe,
  };
}
