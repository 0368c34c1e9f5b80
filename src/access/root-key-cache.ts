/** A cache of root keys by digest, including digests that were not found. Store clauses 8, 9, 19. */
import type { RootKeyRow, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { GrowingLru } from "../lib/growing-lru.js";
import { createGuardedReads } from "../lib/guarded-reads.js";

/** Finds root keys by digest, as values that `prepare` makes of their rows. */
export interface RootKeyCache<T> {
  find(digest: string): MaybePromise<T | undefined>;
  /** Unsubscribes from the store. */
  close(): void;
}

/** Milliseconds for which a digest counts as not found: another process may create that root key. */
const MISS_TTL = 1_000;

/**
 * @param size root keys to cache, ≥ 1
 * @remarks Store clause 9: a read that began before a change is returned but not cached · a hit costs a map look-up and
 * the store's `pollChanges`
 */
export function createRootKeyCache<T extends object>(
  store: Store,
  prepare: (row: RootKeyRow) => T,
  size: number,
): RootKeyCache<T> {
  const found = new GrowingLru<T>({ max: size });
  const reads = createGuardedReads(store, {
    found: {
      set: (_text, digest, value) => found.set(digest, value),
      delete: (digest) => void found.delete(digest),
      clear: () => found.clear(),
    },
    read: (digest) => store.findRootKey(digest),
    prepare,
    missTtl: MISS_TTL,
  });
  const lookUp = (digest: string): MaybePromise<T | undefined> => found.get(digest) ?? reads.read(digest, digest);
  return {
    find(digest) {
      const polling = store.pollChanges();
      // Not `instanceof`: a promise of another realm, or a thenable, would not be waited for, and a removed root key
      // trusted.
      return polling === undefined ? lookUp(digest) : Promise.resolve(polling).then(() => lookUp(digest));
    },
    close: reads.close,
  };
}
