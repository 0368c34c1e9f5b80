/**
 * Reads the rows of a key's bucket and lease before the call comes to need them. Knows no more of them than where they are.
 *
 * Why: where any of a million keys may come next, neither row is in the processor's cache, and each is waited for at the place that
 * first needs it. Read here, one after the other and with nothing between, both come while the key's own text does: a call over
 * 1,000,000 keys took 2,160 to 2,380 ns without, and 1,850 to 2,040 with it, run by turns. The values that are read are not used.
 */

/** Something that keeps rows, and can read one for nothing but to have it near. */
export interface Prefetchable {
  /** @returns a small number that means nothing · any `row` may be asked, one that is not there too */
  prefetch(row: number): number;
}

/** Touches the rows of a bucket and of a lease. */
export type Prefetch = (bucket: number, lease: number) => void;

export function createPrefetch(buckets: Prefetchable, leases: Prefetchable): Prefetch {
  // Kept, since the compiler drops reads whose value is not used.
  let last = 0;
  return (bucket, lease) => void (last ^= buckets.prefetch(bucket) ^ leases.prefetch(lease));
}
