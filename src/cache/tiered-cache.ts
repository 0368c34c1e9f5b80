/** A table of packed values behind the hot tier, which holds the most recently used ones as objects. */
import { NONE } from "../lib/fingerprint-index.js";
import { Fingerprint } from "../lib/fingerprint.js";
import type { CacheBackend } from "./cache-backend.js";
import { FingerprintCache, type SlotStorage } from "./fingerprint-cache.js";
import { HotTier } from "./hot-tier.js";

/**
 * A value is promoted when it is used twice within this many unpackings. With a million keys in random order almost
 * none is: promoting each one, and evicting another, would be wasted work.
 */
const PROMOTION_WINDOW = 65_536;
const EPOCHS = 255;

/** @param size the most values kept, ≥ 1 */
export function tieredCache<T>(
  size: number,
  storage: SlotStorage<T>,
  fingerprint = new Fingerprint(),
): CacheBackend<T> {
  const hot = new HotTier<T>();
  const table = new FingerprintCache<T>(size, storage, fingerprint, hot);
  let unpacked = 0;
  let epoch = 1;

  const seenRecently = (entry: number): boolean => {
    const recently = table.mark(entry, epoch) === epoch;
    if (++unpacked % PROMOTION_WINDOW === 0) epoch = (epoch % EPOCHS) + 1;
    return recently;
  };
  return {
    get(text) {
      if (!fingerprint.read(text)) return undefined;
      const { h0, h1, h2 } = fingerprint;
      const promoted = hot.get(h0, h1, h2);
      if (promoted !== undefined) return promoted;
      const entry = table.find(h0, h1, h2);
      if (entry === NONE) return undefined;
      const value = storage.get(entry);
      if (seenRecently(entry)) hot.add(h0, h1, h2, value);
      return value;
    },
    set: (text, digest, value) => table.set(text, digest, value),
    delete: (digest) => table.delete(digest),
    deleteWhere: (test) => table.deleteWhere(test),
    clear() {
      table.clear();
      hot.clear();
    },
  };
}
