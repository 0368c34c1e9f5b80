/** Rows beside buckets as objects, with the same arithmetic. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BucketRows, newPlace } from "../../../src/ratelimit/memory/bucket-rows.js";
import {
  type Bucket,
  charge,
  fits,
  toRate,
  toVerdict,
  unitsUsed,
  utilization,
} from "../../../src/ratelimit/memory/bucket.js";
import { runs } from "../../runs.js";

const START = 1_700_000_000_000;
const HOUR = 3_600_000;
const TEN = toRate(10, HOUR);
const bucketOf = (rate = TEN, used = 0): Bucket => ({ at: START, rate, used, next: undefined });

describe("BucketRows", () => {
  it("keeps each bucket as it was written, while chunks are added and rows are freed and used again", () => {
    const rows = new BucketRows();
    const held = new Map<number, { name: string; bucket: Bucket }>();
    for (let i = 0; i < 10_000; i++) {
      const bucket = bucketOf(toRate(1 + (i % 7), HOUR + i), i);
      const row = rows.add(`${i}`, bucket);
      expect(held.has(row)).toBe(false);
      held.set(row, { name: `${i}`, bucket });
      rows.setRing(row, i, 2 * i);
      if (i % 3 > 0) continue;
      rows.remove(row);
      held.delete(row);
    }
    expect(rows.high).toBeLessThan(6_700);
    for (const [row, { name, bucket }] of held) {
      expect([rows.nameOf(row), rows.ringOf(row), rows.indexOf(row)]).toEqual([name, Number(name), 2 * Number(name)]);
      expect(rows.read(row)).toEqual(bucket);
      const place = newPlace();
      rows.locate(place, row);
      expect([rows.rowAt(place, name), rows.rowAt(place, "another")]).toEqual([row, undefined]);
    }
  });

  it("a bucket with several levels is kept whole, and no token is taken at its place", () => {
    const rows = new BucketRows();
    const bucket = bucketOf();
    charge(bucket, { rate: TEN, configured: undefined, cost: 1 }, START);
    const row = rows.add("a", bucket);
    const place = newPlace();
    rows.locate(place, row);
    expect(rows.takeOne(place, TEN, START)?.remaining).toBe(8);
    charge(bucket, { rate: toRate(20, HOUR), configured: TEN, cost: 4 }, START);
    rows.write(row, bucket);
    expect(rows.read(row)).toEqual(bucket);
    expect(rows.takeOne(place, TEN, START)).toBeUndefined();
    expect(rows.utilization(row, START)).toBe(utilization(bucket, START));
    rows.write(row, bucketOf());
    expect(rows.read(row)).toEqual(bucketOf());
    expect(rows.takeOne(place, TEN, START)?.remaining).toBe(9);
    rows.write(row, bucket);
    rows.remove(row);
    expect(rows.read(row)).not.toEqual(bucket);
  });

  it("takes what the arithmetic of buckets takes, and is as full", () => {
    const size = fc.constantFrom([10, 1_000], [3, 7], [1, 1], [999_983, 2_591_999_983], [0, 5], [5, 0]);
    const waits = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: -50, max: 500 })), { maxLength: 30 });
    fc.assert(
      fc.property(size, waits, ([limit, duration], history) => {
        const rate = toRate(limit, duration);
        const rows = new BucketRows();
        const bucket = bucketOf(rate);
        const row = rows.add("a", bucket);
        const place = newPlace();
        rows.locate(place, row);
        let now = START;
        for (const wait of history) {
          now += wait;
          const isIn = fits(unitsUsed(bucket, rate, now), rate, 1);
          if (isIn) charge(bucket, { rate, configured: undefined, cost: 1 }, now);
          const expected = rate.unitsPerToken === 0 ? undefined : toVerdict(unitsUsed(bucket, rate, now), rate, !isIn);
          expect(rows.takeOne(place, rate, now)).toEqual(expected);
          if (expected !== undefined) expect(rows.read(row)).toEqual(bucket);
          expect(rows.utilization(row, now)).toBe(utilization(rows.read(row), now));
        }
      }),
      { numRuns: runs(300) },
    );
  });

  it("is idle once all is back and the time is over; a free row never is", () => {
    const rows = new BucketRows();
    const bucket = bucketOf();
    charge(bucket, { rate: TEN, configured: undefined, cost: 1 }, START);
    const row = rows.add("a", bucket);
    const back = START + HOUR / 10;
    expect([back - 1, back].map((now) => rows.isIdle(row, 1_000, now))).toEqual([false, true]);
    expect(rows.isIdle(row, HOUR, back)).toBe(false);
    rows.remove(row);
    expect(rows.isIdle(row, 1_000, back)).toBe(false);
  });
});
