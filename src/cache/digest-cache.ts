/** Values by name alone: for a cache in which nothing rests on tags. Knows no texts. */
import { LRUCache } from "lru-cache";
import type { Shelf } from "./fingerprint-cache.js";

/** @param size the most values kept, ≥ 1; the one used longest ago gives way */
export function digestShelf<T>(size: number): Shelf<T> {
  const values = new LRUCache<string, { readonly value: T }>({ max: size });
  return {
    get: () => undefined,
    getNamed: (name) => values.get(name)?.value,
    set: (_text, name, value) => void values.set(name, { value }),
    delete: (name) => void values.delete(name),
    clear: () => values.clear(),
  };
}
