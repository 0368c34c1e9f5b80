/** The reference implementation of a cache backend: two Maps without a bound. It finds values by text and by digest. */
import type { CacheBackend } from "../../src/cache/cache-backend.js";

export function referenceCache<T>(): Required<CacheBackend<T>> {
  const values = new Map<string, T>();
  const texts = new Map<string, string>();
  const forget = (digest: string): void => {
    values.delete(texts.get(digest) ?? "");
    texts.delete(digest);
  };
  return {
    get: (text) => values.get(text),
    getByDigest: (digest) => values.get(texts.get(digest) ?? ""),
    set(text, digest, value) {
      forget(digest);
      for (const [other, of] of texts) if (of === text) forget(other);
      values.set(text, value);
      texts.set(digest, text);
    },
    delete: forget,
    deleteWhere(test) {
      const kept = values.size;
      for (const [digest, text] of [...texts]) if (test(values.get(text)!)) forget(digest);
      return kept;
    },
    clear() {
      values.clear();
      texts.clear();
    },
  };
}
