/**
 * Reads the rows of a key's bucket and lease before the call needs them, so that they are in the processor's cache by
 * then.
 *
 * Why: with a million keys in random order neither row is in the cache, and each read would wait where it is first
 * needed. Here both are fetched at once, while the key's record is fetched too: a call over 1,000,000 keys took 2,160
 * to 2,380 ns without this and 1,850 to 2,040 ns with it, in alternating runs. The values are not used.
 */

/** A table whose rows can be read ahead. */
export interface Prefetchable {
  /** @returns a meaningless number · any `row` may be passed, including one that does not exist */
  prefetch(row: number): number;
}

/** Reads the rows of a bucket and of a lease. */
export type Prefetch = (bucket: number, lease: number) => void;

export function createPrefetch(buckets: Prefetchable, leases: Prefetchable): Prefetch {
  // Kept, because the compiler drops reads whose value is not used.
  let last = 0;
  return (bucket, lease) => void (last ^= buckets.prefetch(bucket) ^ leases.prefetch(lease));
}
