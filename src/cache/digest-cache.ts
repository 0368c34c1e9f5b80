/** Values by name alone: for a cache in which nothing rests on tags. Knows no texts. */
import { LRUCache } from "lru-cache";
import type { CacheBackend } from "./fingerprint-cache.js";

/** @param size the most values kept, ≥ 1; the one used longest ago gives way */
export function digestBackend<T>(size: number): CacheBackend<T> {
  const values = new LRUCache<string, { readonly value: T }>({ max: size });
  return {
    get: () => undefined,
    getByDigest: (digest) => values.get(digest)?.value,
    set: (_text, digest, value) => void values.set(digest, { value }),
    delete: (digest) => void values.delete(digest),
    clear: () => values.clear(),
  };
}
