import { describe, expect, it } from "vitest";
import { LeaseTable } from "../../src/credits/lease-table.js";
import { createPrefetch } from "../../src/cache/prefetch.js";
import { BucketRows } from "../../src/ratelimit/memory/bucket-rows.js";
import { toRate } from "../../src/ratelimit/memory/bucket.js";

const PLACES = [-1, 0, 1, 31, 32, 1_000_000, 2 ** 31 - 1];

describe("prefetch", () => {
  it("changes nothing, and may be done with any place: also one that was never there, or is no more", () => {
    const buckets = new BucketRows();
    const bucket = { at: 5, rate: toRate(10, 1_000), used: 300, next: undefined };
    buckets.add(1, 7, 7, bucket);
    const leases = new LeaseTable(10);
    const lease = leases.add(42, 1);
    leases.deposit(lease, 2 ** 53 - 1);
    const prefetch = createPrefetch({ buckets, leases });
    for (const row of PLACES) for (const entry of PLACES) expect(prefetch(row, entry)).toBeUndefined();
    expect(buckets.read(1)).toEqual(bucket);
    expect(leases.withdraw(lease)).toBe(2 ** 53 - 1);
    expect(buckets.has(0)).toBe(false);
  });

  it("returns small integers, so that keeping them makes no garbage", () => {
    const leases = new LeaseTable(10);
    leases.deposit(leases.add(42, 1), 2 ** 53 - 1);
    const buckets = new BucketRows();
    for (const place of PLACES)
      for (const number of [leases.prefetch(place), buckets.prefetch(place)]) expect(number).toBe(number | 0);
  });
});
