import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BucketRows } from "../../../src/ratelimit/memory/bucket-rows.js";
import {
  type Bucket,
  charge,
  fits,
  type Level,
  toRate,
  utilization,
  verdictOf,
} from "../../../src/ratelimit/memory/bucket.js";
import { runs } from "../../runs.js";

const START = 1_700_000_000_000;
const MAX = Number.MAX_SAFE_INTEGER;
const PAIRS = [
  toRate(10, 1_000),
  toRate(1, 1),
  toRate(5, 60_000),
  toRate(3, 7),
  toRate(10, 0),
  toRate(67_280_421_310_721, 2_591_999_983),
];

const levelsOf = (bucket: Bucket): Level[] => {
  const levels: Level[] = [];
  for (let level: Level | undefined = bucket; level !== undefined; level = level.next) levels.push(level);
  return levels;
};

describe("BucketRows: like a map of buckets", () => {
  it("reads what was written, and keeps no pair or level that no row uses", () => {
    const aPair = fc.oneof(
      fc.constantFrom(...PAIRS),
      fc.tuple(fc.integer({ min: 1, max: MAX }), fc.nat(9)).map(([a, b]) => toRate(a, b)),
    );
    const aLevel = fc.record({ rate: aPair, used: fc.integer({ min: 0, max: MAX }) });
    const aBucket = fc
      .tuple(fc.integer({ min: 0, max: MAX }), fc.array(aLevel, { minLength: 1, maxLength: 4 }))
      .map(([at, levels]): Bucket => {
        const [first, ...rest] = levels;
        return {
          at,
          ...first!,
          next: rest.reduceRight<Level | undefined>((next, level) => ({ ...level, next }), undefined),
        };
      });
    const step = fc.record({ row: fc.nat(80), bucket: fc.option(aBucket) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const rows = new BucketRows();
        const twin = new Map<number, Bucket>();
        for (const { row, bucket } of steps) {
          if (row >= rows.capacity) rows.widen(row + 1);
          if (bucket === null) {
            if (twin.delete(row)) rows.remove(row);
          } else {
            if (twin.has(row)) rows.write(row, bucket);
            else rows.add(row, row, -row, bucket);
            twin.set(row, bucket);
          }
        }
        for (let row = 0; row < rows.capacity; row++) {
          const bucket = twin.get(row);
          expect(rows.has(row)).toBe(bucket !== undefined);
          expect(rows.hasFingerprint(row, row, -row)).toBe(bucket !== undefined);
          expect(rows.hasFingerprint(row, row, row + 1) || rows.hasFingerprint(row, row + 1, -row)).toBe(false);
          if (bucket !== undefined) expect([rows.read(row), rows.time(row)]).toEqual([bucket, bucket.at]);
        }
        const levels = [...twin.values()].flatMap(levelsOf);
        expect(rows.levelCount).toBe(levels.length - twin.size);
        expect(rows.rateCount).toBe(new Set(levels.map(({ rate }) => `${rate.limit} ${rate.duration}`)).size);
      }),
      { numRuns: runs(500) },
    );
  });

  it("a row that is not there has no tag", () => {
    const rows = new BucketRows();
    for (const row of [0, 31, 32, 1e9, -1, NaN, 2 ** 31]) expect(rows.hasFingerprint(row, 0, 0)).toBe(false);
  });
});

describe("BucketRows: common checks", () => {
  it("rulings C2, C4: take, fits, look and strain are those of the bucket as an object", () => {
    const cost = fc.oneof(
      fc.integer({ min: 0, max: 12 }),
      fc.constantFrom(0, MAX, 67_280_421_310_721, 60_000_000_000_000),
    );
    const step = fc.record({
      wait: fc.oneof(fc.constant(0), fc.nat(50), fc.nat(100_000)),
      pair: fc.nat(PAIRS.length - 1),
      cost,
      look: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const rows = new BucketRows();
        const twin: Bucket = { at: START, rate: PAIRS[0]!, used: 0, next: undefined };
        rows.add(0, 1, 2, twin);
        let now = START;
        for (const { wait, pair: pick, cost, look } of steps) {
          now += wait;
          const pair = PAIRS[pick]!;
          const fit = fits(twin, pair, cost, 0, now);
          const common =
            twin.next === undefined && twin.rate.limit === pair.limit && twin.rate.duration === pair.duration;
          expect(rows.isCommon(0, pair)).toBe(common && pair.unitsPerToken > 0);
          expect(rows.utilization(0, now)).toBe(utilization(twin, now));
          if (!look && fit && cost > 0) charge(twin, pair, cost, now);
          if (rows.isCommon(0, pair)) {
            expect(rows.fits(0, pair.limit, cost, now)).toBe(fit);
            expect(look ? rows.peek(0, pair.limit, cost, now) : rows.take(0, pair.limit, cost, now)).toEqual(
              verdictOf(twin, pair, !fit, now),
            );
          } else rows.write(0, twin);
          expect(rows.read(0)).toEqual(twin);
        }
      }),
      { numRuns: runs(1_000) },
    );
  });
});
