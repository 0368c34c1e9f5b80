import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  adopt,
  type Bucket,
  charge as chargeRates,
  fits as fitsUsed,
  type Rate,
  rateMemo,
  toRate,
  toVerdict,
  unitsUsed,
  utilization,
} from "../../../src/ratelimit/memory/bucket.js";
import { runs } from "../../runs.js";
import { replay, type Take } from "../../../src/testing/limiter/replay.js";

const START = 1_700_000_000_000;
const MAX = Number.MAX_SAFE_INTEGER;
const DAY = 86_400_000;
/** Coprime, and their product is far beyond 2^53. */
const [PRIME_LIMIT, PRIME_DURATION] = [67_280_421_310_721, 2_591_999_983];

const bucketOf = (limit: number, duration: number): Bucket => ({
  at: START,
  rate: toRate(limit, duration),
  used: 0,
  next: undefined,
});

/** As a call whose earlier checks of this bucket are about to take `pending` tokens. */
const fits = (bucket: Bucket, rate: Rate, cost: number, pending: number, now: number): boolean =>
  fitsUsed(unitsUsed(bucket, rate, now), rate, pending + cost);
const verdictOf = (bucket: Bucket, rate: Rate, exceeded: boolean, now: number) =>
  toVerdict(unitsUsed(bucket, rate, now), rate, exceeded);
const charge = (bucket: Bucket, rate: Rate, cost: number, now: number, configured?: Rate): void =>
  chargeRates(bucket, { rate, configured, cost }, now);

describe("toPair: units", () => {
  it("contract 8: the schema's largest pairs are exact, in the largest units that fit", () => {
    expect(toRate(1_000_000, 2_592_000_000)).toEqual({
      limit: 1_000_000,
      duration: 2_592_000_000,
      unitsPerToken: 2_592,
      drainPerMs: 1,
      capacity: 2_592_000_000,
    });
    expect(toRate(999_999, 2_592_000_000 - 1)).toMatchObject({
      unitsPerToken: 2_591_999_999,
      drainPerMs: 999_999,
      capacity: 2_591_997_407_000_001,
    });
    expect(toRate(0, 0)).toMatchObject({ unitsPerToken: 0, drainPerMs: 0, capacity: 0 });
  });

  it("ruling C4: larger pairs are exact in smaller units where these exist", () => {
    expect(toRate(10_000_000, 2_592_000_000)).toMatchObject({
      unitsPerToken: 1_296,
      drainPerMs: 5,
      capacity: 12_960_000_000,
    });
    expect(toRate(MAX, MAX)).toMatchObject({ unitsPerToken: 1, drainPerMs: 1, capacity: MAX });
    expect(toRate(2 ** 52, 2 ** 40)).toMatchObject({ unitsPerToken: 1, drainPerMs: 4_096, capacity: 2 ** 52 });
  });

  it("ruling C4: pairs beyond any exact unit keep whole tokens exact and drain no faster than asked", () => {
    const pair = toRate(PRIME_LIMIT, PRIME_DURATION);
    expect(pair.capacity).toBe(PRIME_LIMIT * pair.unitsPerToken);
    expect(pair.unitsPerToken).toBe(133);
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: MAX }),
        fc.integer({ min: 2, max: MAX }),
        fc.integer({ min: 0, max: 400 * DAY }),
        (limit, duration, ms) => {
          const { unitsPerToken, drainPerMs, capacity } = toRate(limit, duration);
          expect(
            Number.isSafeInteger(unitsPerToken) &&
              unitsPerToken > 0 &&
              Number.isSafeInteger(capacity) &&
              drainPerMs > 0,
          ).toBe(true);
          expect(BigInt(capacity)).toBe(BigInt(limit) * BigInt(unitsPerToken));
          const drained = BigInt(Math.min(capacity, Math.floor(ms * drainPerMs)));
          expect(drained * BigInt(duration) <= BigInt(ms) * BigInt(limit) * BigInt(unitsPerToken)).toBe(true);
        },
      ),
      { numRuns: runs(1_000) },
    );
  });

  it("no pair grants more than asked, however large", () => {
    const large = fc.oneof(
      fc.integer({ min: 1, max: MAX }),
      fc.integer({ min: 2 ** 40, max: 2 ** 44 }),
      fc.integer({ min: 1, max: 50 }),
    );
    const steps = fc.array(
      fc.record({ wait: fc.integer({ min: 0, max: 10 * DAY }), part: fc.double({ min: 0, max: 1, noNaN: true }) }),
      {
        maxLength: 30,
      },
    );
    fc.assert(
      fc.property(large, large, steps, (limit, duration, history) => {
        const bucket = bucketOf(limit, duration);
        const { rate } = bucket;
        const takes: Take[] = [];
        let now = START;
        for (const { wait, part } of history) {
          now += wait;
          const cost = Math.max(1, Math.floor(part * limit));
          if (!fits(bucket, rate, cost, 0, now)) continue;
          expect(
            replay(limit, duration, takes, now) + BigInt(cost) * BigInt(duration) <= BigInt(limit) * BigInt(duration),
          ).toBe(true);
          charge(bucket, rate, cost, now);
          takes.push({ now, cost });
        }
      }),
      { numRuns: runs(500) },
    );
  });

  it("whole tokens of an outsize pair come and go exactly", () => {
    const bucket = bucketOf(PRIME_LIMIT, PRIME_DURATION);
    const { rate } = bucket;
    for (const cost of [1, PRIME_LIMIT - 3, 1, 1]) {
      expect(fits(bucket, rate, cost, 0, START)).toBe(true);
      charge(bucket, rate, cost, START);
    }
    expect(fits(bucket, rate, 1, 0, START)).toBe(false);
    const { remaining, reset } = verdictOf(bucket, rate, false, START);
    expect(remaining).toBe(0);
    expect(Math.abs(reset - PRIME_DURATION)).toBeLessThanOrEqual(1);
    charge(bucket, toRate(1, 0), 1, START + 1);
    expect(Number.isSafeInteger(bucket.used)).toBe(true);
    expect(verdictOf(bucket, rate, false, START + reset + 1)).toEqual({
      exceeded: false,
      remaining: PRIME_LIMIT,
      reset: 0,
    });
  });
});

describe("pairMemo: shared pairs", () => {
  it("gives one pair to all that ask for the same, and the right one to others", () => {
    const pairOf = rateMemo();
    expect(pairOf(10, 1_000)).toBe(pairOf(10, 1_000));
    // Each pushes out those that share its place.
    for (let i = 0; i < 2_000; i++) expect(pairOf(i % 7, i)).toEqual(toRate(i % 7, i));
    for (const [limit, duration] of [
      [10, 1_000],
      [1_000, 10],
      [10, 1_256],
      [266, 1_000],
    ] as const)
      expect(pairOf(limit, duration)).toMatchObject({ limit, duration });
  });
});

describe("fits and verdictOf: reading", () => {
  it("clause 1: change nothing", () => {
    const bucket = bucketOf(10, 1_000);
    charge(bucket, bucket.rate, 7, START);
    charge(bucket, toRate(20, 500), 1, START + 10);
    const before = structuredClone(bucket);
    for (const pair of [bucket.rate, toRate(20, 500), toRate(5, 60_000), toRate(5, 0)]) {
      for (const cost of [0, 1, 5, MAX]) fits(bucket, pair, cost, 0, START + 400);
      verdictOf(bucket, pair, false, START + 400);
    }
    utilization(bucket, START + 400);
    expect(bucket).toEqual(before);
  });

  it("clause 6: pending tokens count", () => {
    const bucket = bucketOf(10, 1_000);
    charge(bucket, bucket.rate, 4, START);
    expect(fits(bucket, bucket.rate, 3, 3, START)).toBe(true);
    expect(fits(bucket, bucket.rate, 3, 4, START)).toBe(false);
    const full = bucketOf(10, 1_000);
    expect(fits(full, full.rate, 3, 8, START)).toBe(false);
    expect(fits(full, full.rate, 3, MAX, START)).toBe(false);
    expect(fits(full, full.rate, 0, 0, START)).toBe(true);
  });

  it("ruling C4: with limit 0 no wait helps, and reset is the duration", () => {
    expect(verdictOf(bucketOf(0, 5_000), toRate(0, 5_000), true, START)).toEqual({
      exceeded: true,
      remaining: 0,
      reset: 5_000,
    });
    expect(verdictOf(bucketOf(0, 0), toRate(0, 0), true, START)).toEqual({ exceeded: true, remaining: 0, reset: 0 });
  });
});

describe("charge: levels", () => {
  const count = (bucket: Bucket): number => {
    let levels = 1;
    for (let level = bucket.next; level !== undefined; level = level.next) levels++;
    return levels;
  };

  it("ruling C2: a bucket keeps one level a pair, at most four, and one again when it was full", () => {
    const bucket = bucketOf(10, 60_000);
    for (let i = 0; i < 8; i++) {
      charge(bucket, bucket.rate, 1, START);
      expect(count(bucket)).toBe(1);
    }
    for (const [pairs, levels] of [
      [1, 2],
      [2, 3],
      [3, 4],
      [4, 4],
      [5, 4],
    ] as const) {
      charge(bucket, toRate(1_000, 60_000 + pairs), 1, START);
      expect(count(bucket)).toBe(levels);
    }
    charge(bucket, toRate(7, 1_000), 1, START + 10 * DAY);
    expect(bucket).toEqual({ at: START + 10 * DAY, rate: toRate(7, 1_000), used: 1_000, next: undefined });
  });

  it("ruling C4: a duration of 0 opens no level and pushes none out, but its takes are charged to those that are there", () => {
    const bucket = bucketOf(10, 60_000);
    for (const limit of [10, 20, 30, 40]) charge(bucket, toRate(limit, 60_000), 1, START);
    charge(bucket, toRate(10, 0), 1, START);
    expect(count(bucket)).toBe(4);
    for (const limit of [10, 20, 30, 40])
      expect(verdictOf(bucket, toRate(limit, 60_000), false, START).remaining).toBe(limit - 5);
  });

  it("ruling C4: where the configured window is 0, a full bucket gets the level of the override alone", () => {
    const bucket = bucketOf(10, 60_000);
    const override = toRate(5, 30_000);
    charge(bucket, override, 2, START, toRate(8, 0));
    expect(bucket).toEqual({ at: START, rate: override, used: 2 * override.unitsPerToken, next: undefined });
  });

  it("what an override takes drains at the rate that is configured then, not only from when that is asked for", () => {
    // Made under a slow limit; since then a faster one is configured, and an override faster still is used.
    const bucket = bucketOf(10, DAY);
    charge(bucket, bucket.rate, 1, START);
    const configured = toRate(10, 60_000);
    adopt(bucket, { rate: toRate(10, 1_000), configured }, START);
    charge(bucket, toRate(10, 1_000), 4, START, configured);
    // Of 1 + 4 tokens four are back after 24 seconds; the bucket of a day would still miss all five.
    expect(verdictOf(bucket, configured, false, START + 24_000)).toMatchObject({ remaining: 9, reset: 6_000 });
  });

  it("ruling C2: the fifth pair takes the place of the fastest but the first, wherever it stands", () => {
    for (const order of [
      [1, 2, 3, 4],
      [4, 3, 2, 1],
      [3, 4, 1, 2],
    ]) {
      const bucket = bucketOf(10, 1_000);
      for (const hours of order) charge(bucket, toRate(100, hours * 3_600_000), 1, START);
      charge(bucket, toRate(50, 9 * 3_600_000), 1, START);
      const durations: number[] = [];
      for (let level: Bucket["next"] = bucket; level !== undefined; level = level.next)
        durations.push(level.rate.duration / 3_600_000);
      const fastest = order[0] === 1 ? 2 : 1;
      expect(durations).toEqual(order.map((hours) => (hours === fastest ? 9 : hours)));
      expect(verdictOf(bucket, toRate(50, 9 * 3_600_000), false, START).remaining).toBe(45);
    }
  });

  it("ruling C2: a new pair starts with the most tokens used on any level, rounded up to units", () => {
    const bucket = bucketOf(10, 10_000);
    charge(bucket, bucket.rate, 8, START);
    charge(bucket, toRate(1_000, 1_000), 1, START);
    // 9 used; after 500 ms the first still holds 8.5 and the second none.
    expect(verdictOf(bucket, toRate(20, 10_000), false, START + 500)).toEqual({
      exceeded: false,
      remaining: 11,
      reset: 4_250,
    });
  });

  it("levels stop at 2^53 − 1 units", () => {
    const bucket = bucketOf(1, 2_592_000_000);
    charge(bucket, bucket.rate, 1, START);
    charge(bucket, toRate(MAX, 0), MAX, START);
    expect(bucket.used).toBe(MAX);
    charge(bucket, toRate(3, 2 ** 50), 1, START);
    expect(bucket.next).toMatchObject({ used: MAX, next: undefined });
    expect(verdictOf(bucket, toRate(10, 3), false, START).remaining).toBe(0);
    expect(verdictOf(bucket, toRate(3, 2 ** 50), false, START)).toEqual({
      exceeded: false,
      remaining: 0,
      reset: MAX / 3,
    });
  });

  it("ruling A7: a bucket's time only moves forward", () => {
    const bucket = bucketOf(10, 1_000);
    charge(bucket, bucket.rate, 10, START);
    expect(fits(bucket, bucket.rate, 1, 0, START - DAY)).toBe(false);
    charge(bucket, bucket.rate, 1, START - DAY);
    expect(bucket).toMatchObject({ at: START, used: 1_100 });
    expect(fits(bucket, bucket.rate, 1, 0, START + 199)).toBe(false);
    expect(fits(bucket, bucket.rate, 1, 0, START + 200)).toBe(true);
  });
});

describe("strain: what may be forgotten", () => {
  it("ruling C6: is 0 when full, the used part while a token is left, Infinity when none is", () => {
    const bucket = bucketOf(4, 1_000);
    expect(utilization(bucket, START)).toBe(0);
    charge(bucket, bucket.rate, 1, START);
    expect(utilization(bucket, START)).toBe(0.25);
    expect(utilization(bucket, START + 249)).toBe(0.001);
    expect(utilization(bucket, START + 250)).toBe(0);
    charge(bucket, bucket.rate, 2, START);
    expect(utilization(bucket, START)).toBe(0.75);
    charge(bucket, bucket.rate, 1, START + 1);
    expect(utilization(bucket, START + 1)).toBe(Infinity);
    expect(utilization(bucket, START + 249)).toBe(Infinity);
    expect(utilization(bucket, START + 250)).toBe(0.75);
  });

  it("ruling C6: is that of the most used level", () => {
    const bucket = bucketOf(100, 1_000);
    charge(bucket, bucket.rate, 50, START);
    charge(bucket, toRate(200, 1_000), 10, START);
    expect(utilization(bucket, START)).toBe(0.6);
    charge(bucket, toRate(61, 60_000), 1, START);
    expect(utilization(bucket, START)).toBe(Infinity);
    expect(utilization(bucket, START + 1_000)).toBeCloseTo(60 / 61, 3);
    expect(utilization(bucket, START + 60_000)).toBe(0);
  });

  it("a bucket used with a duration of 0 only is full", () => {
    const bucket = bucketOf(10, 0);
    charge(bucket, bucket.rate, 10, START);
    expect(utilization(bucket, START)).toBe(0);
  });
});
