/** A store whose finds are cached as a verifier's are, so that the clauses of the port are tested through the cache. */
import { type CacheOptions, createRecordCache } from "../../src/cache/key-cache.js";
import type { KeyRecord, Store } from "../../src/contracts/store.js";
import { deepFreeze } from "../../src/lib/deep-freeze.js";

/** Every call but `findKey` is passed on; closing it closes the underlying store. */
export function cachedStore(store: Store, options: CacheOptions = {}): Store {
  const cache = createRecordCache<KeyRecord>(store, deepFreeze, options, (record) => record);
  return {
    ...store,
    findKey: (digest) => cache.find(digest, (text) => text),
    close() {
      cache.close();
      return store.close();
    },
  };
}
