/** Cache bounded by size and not by count, since one role may have a thousand permissions. */

/** Approximate bytes: 38,000 lists of ten names, or 200,000 permissions. */
const MAX_BYTES = 32_000_000;
/** Bytes of a string besides its characters: its header and the reference to it. */
const TEXT = 32;

/** A map that clears itself when it would exceed its bound: everything in it can be read again. */
export function createBoundedMap<K, V>() {
  const known = new Map<K, V>();
  let bytes = 0;
  const clear = (): void => {
    known.clear();
    bytes = 0;
  };
  return {
    get: (key: K): V | undefined => known.get(key),
    /**
     * Adds a key, unless it is there. @param size approximate bytes of key and value; an entry above the bound is kept
     * as the only one
     */
    set(key: K, value: V, size: number): void {
      // Two loads of one row that were in flight at once both add it.
      if (known.has(key)) return;
      if (bytes + size > MAX_BYTES) clear();
      known.set(key, value);
      bytes += size;
    },
    clear,
  };
}

/** Approximate bytes of a list of strings, assuming that none is shared. */
export function sizeOfTexts(texts: readonly string[]): number {
  let size = TEXT;
  for (const text of texts) size += text.length + TEXT;
  return size;
}
