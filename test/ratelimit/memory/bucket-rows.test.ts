import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hintFor } from "../../../src/ratelimit/memory/bucket-hint.js";
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
/** Not the first one, whose offset is 0 however it is computed. */
const ROW = 8;
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

  it("holds as many rows as it says, also after all were dropped", () => {
    const rows = new BucketRows();
    for (const capacity of [32, 64, 32]) {
      if (capacity > rows.capacity) rows.widen(capacity);
      else rows.clear();
      expect([rows.capacity, rows.rateCount, rows.levelCount]).toEqual([capacity, 0, 0]);
      const bucketAt = (row: number): Bucket => {
        const next = { rate: toRate(row + 2, 60_000), used: 1, next: undefined };
        return { at: START, rate: toRate(row + 1, 1_000), used: row, next };
      };
      for (let row = 0; row < capacity; row++) rows.add(row, row + 1, -row, bucketAt(row));
      for (let row = 0; row < capacity; row++) expect(rows.read(row)).toEqual(bucketAt(row));
      for (let row = 0; row < capacity; row++) rows.remove(row);
    }
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
        rows.add(ROW, 1, 2, twin);
        let now = START;
        for (const { wait, pair: pick, cost, look } of steps) {
          now += wait;
          const pair = PAIRS[pick]!;
          const fit = fits(twin, pair, cost, 0, now);
          const common =
            twin.next === undefined && twin.rate.limit === pair.limit && twin.rate.duration === pair.duration;
          expect(rows.isCommon(ROW, pair)).toBe(common && pair.unitsPerToken > 0);
          expect(rows.utilization(ROW, now)).toBe(utilization(twin, now));
          if (!look && fit && cost > 0) charge(twin, pair, cost, now);
          if (rows.isCommon(ROW, pair)) {
            expect(rows.fits(ROW, pair.limit, cost, now)).toBe(fit);
            expect(look ? rows.peek(ROW, pair.limit, cost, now) : rows.take(ROW, pair.limit, cost, now)).toEqual(
              verdictOf(twin, pair, !fit, now),
            );
          } else rows.write(ROW, twin);
          expect(rows.read(ROW)).toEqual(twin);
        }
      }),
      { numRuns: runs(1_000) },
    );
  });

  it("ruling C2: a check of no tokens fits a bucket that owes more than it holds", () => {
    const rows = new BucketRows();
    const rate = PAIRS[0]!;
    const bucket: Bucket = { at: START, rate, used: 0, next: undefined };
    charge(bucket, rate, 1, START);
    // Without a duration there is no level, but what is taken counts on the one that is there.
    charge(bucket, toRate(100, 0), 50, START);
    rows.add(3, 1, 2, bucket);
    expect([rows.isCommon(3, rate), rows.fits(3, 10, 0, START), rows.fits(3, 10, 1, START)]).toEqual([
      true,
      true,
      false,
    ]);
    const owing = { exceeded: false, remaining: 0, reset: 5_100 };
    expect(rows.peek(3, 10, 0, START)).toEqual(owing);
    expect(rows.take(3, 10, 0, START)).toEqual(owing);
    expect(rows.take(3, 10, 1, START)).toEqual({ ...owing, exceeded: true });
    expect(rows.read(3)).toEqual(bucket);
  });
});

describe("BucketRows: a take where a hint says", () => {
  const LIMITS = 40;
  const hintOf = (row: number, h0 = row + 1, h1 = -row - 1) => ({ ...hintFor(`${row}`), row, h0, h1 });
  const sizeOf = (row: number) => ({ limit: row + 1, duration: 60_000 + row });
  const used = (row: number): number => row % 3;
  /** In each row a bucket at a rate of its own, with so many tokens used. */
  const filled = (): BucketRows => {
    const rows = new BucketRows();
    rows.widen(64);
    for (let row = 0; row < LIMITS; row++) {
      const { limit, duration } = sizeOf(row);
      const bucket: Bucket = { at: START, rate: toRate(limit, duration), used: 0, next: undefined };
      if (used(row) > 0) charge(bucket, bucket.rate, used(row), START);
      const { h0, h1 } = hintOf(row);
      rows.add(row, h0, h1, bucket);
    }
    return rows;
  };
  const stateOf = (rows: BucketRows): unknown[] =>
    Array.from({ length: rows.capacity }, (_, row) => (rows.has(row) ? rows.read(row) : undefined));

  it("takes a token of that row and of no other, as a take of the row does", () => {
    const [rows, twin] = [filled(), filled()];
    for (let row = LIMITS - 1; row >= 0; row--) {
      const size = sizeOf(row);
      expect(rows.isCommon(row, size)).toBe(true);
      const verdict = rows.takeAt(hintOf(row), size, START);
      expect(verdict).toEqual(twin.take(row, size.limit, 1, START));
      expect(verdict).toMatchObject({
        exceeded: used(row) > row,
        remaining: Math.max(0, row - used(row)),
      });
      expect(stateOf(rows)).toEqual(stateOf(twin));
    }
  });

  it("takes nothing where another bucket, or none, is there", () => {
    const rows = filled();
    const before = stateOf(rows);
    for (const row of [0, 7, LIMITS - 1]) {
      const { h0, h1 } = hintOf(row);
      for (const hint of [hintOf(row, h0 + 1), hintOf(row, h0, h1 - 1), hintOf(row, h1, h0), hintOf(row, 0, 0)])
        expect(rows.takeAt(hint, sizeOf(row), START)).toBeUndefined();
      for (const other of [-1, row + 1, 64, 1e9, NaN, 2 ** 31])
        expect(rows.takeAt({ ...hintOf(row), row: other }, sizeOf(row), START)).toBeUndefined();
    }
    // A free row is all zeros.
    for (const row of [LIMITS, 63])
      expect(rows.takeAt(hintOf(row, 0, 0), { limit: 0, duration: 0 }, START)).toBeUndefined();
    expect(stateOf(rows)).toEqual(before);
  });

  it("takes nothing where the check is not common: another rate, further levels, a rate without units", () => {
    const rows = filled();
    const further = { rate: toRate(100, 7), used: 0, next: undefined };
    rows.write(5, { at: START, rate: toRate(6, 60_005), used: 0, next: further });
    rows.add(50, 51, -51, { at: START, rate: toRate(10, 0), used: 0, next: undefined });
    rows.add(51, 52, -52, { at: START, rate: toRate(0, 1_000), used: 0, next: undefined });
    const before = stateOf(rows);
    const { limit, duration } = sizeOf(7);
    for (const [row, size] of [
      [7, { limit: limit + 1, duration }],
      [7, { limit, duration: duration + 1 }],
      [7, sizeOf(8)],
      [7, { limit: duration, duration: limit }],
      [5, sizeOf(5)],
      [50, { limit: 10, duration: 0 }],
      [51, { limit: 0, duration: 1_000 }],
    ] as const) {
      expect(rows.isCommon(row, size)).toBe(false);
      expect(rows.takeAt(hintOf(row), size, START)).toBeUndefined();
    }
    expect(stateOf(rows)).toEqual(before);
  });
});
