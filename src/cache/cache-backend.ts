/** Storage of the key cache: the interface, the backend without fingerprints, and expiry. */
import { GrowingLru } from "../lib/growing-lru.js";
import type { FoundValues } from "../lib/guarded-reads.js";

/**
 * A bounded map from text to value that also deletes by digest. It may drop any value at any time. It never returns a
 * value that was deleted, replaced or set for another text. Reference implementation: `test/cache/reference-cache.ts`.
 */
export interface CacheBackend<T> extends FoundValues<T> {
  get(text: string): T | undefined;
  /** Only in backends that find values by digest; their {@link CacheBackend.get} finds nothing. */
  getByDigest?(digest: string): T | undefined;
  /**
   * Replaces the values of the text and of the digest.
   * @param digest the name by which {@link CacheBackend.delete} removes the value
   */
  set(text: string, digest: string, value: T): void;
  /**
   * Removes the values that pass a test, in time proportional to the values kept.
   * @returns how many values were kept before
   */
  deleteWhere(test: (value: T) => boolean): number;
}

/**
 * Finds objects only by digest, for callers that do not want fingerprints.
 * @param size maximum number of values, ≥ 1; the least recently used is evicted
 */
export function digestBackend<T>(size: number): CacheBackend<T> {
  const values = new GrowingLru<{ readonly value: T }>({ max: size });
  return {
    get: () => undefined,
    getByDigest: (digest) => values.get(digest)?.value,
    set: (_text, digest, value) => values.set(digest, { value }),
    delete: (digest) => void values.delete(digest),
    deleteWhere(test) {
      const kept = values.entries();
      for (const [digest, { value }] of kept) if (test(value)) values.delete(digest);
      return kept.length;
    },
    clear: () => values.clear(),
  };
}

/** A value, and the monotonic time from which it is no longer returned. */
export interface Expiring<T> {
  readonly value: T;
  readonly expiresAt: number;
}

/** A backend whose values expire `ttl` milliseconds after they were set. */
export function withTtl<T>(backend: CacheBackend<Expiring<T>>, ttl: number): CacheBackend<T> {
  const fresh = (entry: Expiring<T> | undefined) =>
    entry !== undefined && performance.now() < entry.expiresAt ? entry.value : undefined;
  return {
    get: (text) => fresh(backend.get(text)),
    ...(backend.getByDigest && { getByDigest: (digest: string) => fresh(backend.getByDigest?.(digest)) }),
    set: (text, digest, value) => backend.set(text, digest, { value, expiresAt: performance.now() + ttl }),
    delete: (digest) => backend.delete(digest),
    deleteWhere: (test) => backend.deleteWhere(({ value }) => test(value)),
    clear: () => backend.clear(),
  };
}
