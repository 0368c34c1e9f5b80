/** What was read or made of rows before: bounded by size and not by count, since one role may name a thousand permissions. Knows no table. */

/** Bytes, roughly: 38,000 lists of ten names through a role, or 200,000 permissions. */
const MAX_BYTES = 32_000_000;
/** What a text costs besides its characters: its header, and the place that refers to it. */
const TEXT = 32;

/** A map that forgets everything when it would hold too much: all of it can be read again. */
export interface BoundedMap<K, V> {
  get(key: K): V | undefined;
  /** Of a key that is not there. @param size of key and value, rough bytes; an entry above the bound is kept alone */
  set(key: K, value: V, size: number): void;
  clear(): void;
}

export function createBoundedMap<K, V>(): BoundedMap<K, V> {
  const known = new Map<K, V>();
  let bytes = 0;
  const clear = (): void => {
    known.clear();
    bytes = 0;
  };
  return {
    get: (key) => known.get(key),
    set(key, value, size) {
      if (bytes + size > MAX_BYTES) clear();
      known.set(key, value);
      bytes += size;
    },
    clear,
  };
}

/** About what a list of texts takes, in bytes: as if it shared none of them. */
export function sizeOfTexts(texts: readonly string[]): number {
  let size = TEXT;
  for (const text of texts) size += text.length + TEXT;
  return size;
}
