/** Remembers root keys by digest, and digests without one. Port clauses 8, 9, 19. */
import { LRUCache } from "lru-cache";
import type { RootKeyRow, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { createGuardedReads } from "../lib/guarded-reads.js";

/** Finds root keys by digest, in the form that `prepare` made of their rows. */
export interface RootKeyCache<T> {
  find(digest: string): MaybePromise<T | undefined>;
  /** Unsubscribes from the store. */
  close(): void;
}

const MISSES = 10_000;
/** Milliseconds for which a miss is kept: a root key may be made elsewhere. */
const MISS_TTL = 1_000;

/**
 * @param size root keys kept, ≥ 1
 * @see createGuardedReads for what is kept · a hit costs a map look-up and the store's `pollChanges`
 */
export function createRootKeyCache<T extends object>(
  store: Store,
  prepare: (row: RootKeyRow) => T,
  size: number,
): RootKeyCache<T> {
  const found = new LRUCache<string, T>({ max: size });
  const reads = createGuardedReads(store, {
    found: {
      set: (_text, digest, value) => void found.set(digest, value),
      delete: (digest) => void found.delete(digest),
      clear: () => found.clear(),
    },
    read: (digest) => store.findRootKey(digest),
    prepare,
    missSize: MISSES,
    missTtl: MISS_TTL,
  });
  const lookUp = (digest: string): MaybePromise<T | undefined> => found.get(digest) ?? reads.read(digest, digest);
  return {
    find(digest) {
      const polling = store.pollChanges();
      // Not `instanceof`: a promise of another realm, or a thenable, would not be waited for, and a removed root key trusted.
      return polling === undefined ? lookUp(digest) : Promise.resolve(polling).then(() => lookUp(digest));
    },
    close: reads.close,
  };
}
