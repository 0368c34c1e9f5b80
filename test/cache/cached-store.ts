/** A store whose finds are cached as a verifier's are, so that the clauses of the port are tested through the cache. */
import { type CacheOptions, createRecordCache, type Forming } from "../../src/cache/key-cache.js";
import type { KeyRecord, Store } from "../../src/contracts/store.js";
import { deepFreeze } from "../../src/lib/deep-freeze.js";

/** Every call but `findKey` is passed on; closing it closes the underlying store. */
export function cachedStore(store: Store, options: CacheOptions = {}): Store {
  const known = { ...forming<KeyRecord>(deepFreeze), madeOf: (record: KeyRecord) => record };
  const cache = createRecordCache(store, known, options);
  return {
    ...store,
    findKey: (digest) => cache.find(digest),
    close() {
      cache.close();
      return store.close();
    },
  };
}

/** What a cache makes of records, where texts are their digests, and it is not known what a value was made of. */
export function forming<T>(prepare: (record: KeyRecord) => T): Forming<T> {
  return { prepare, digestOf: (text) => text, madeOf: () => undefined, weigh: () => 0 };
}
