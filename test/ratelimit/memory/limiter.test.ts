import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { LimitCheck } from "../../../src/contracts/limiter.js";
import { memoryLimiter, type MemoryLimiter, placedLimiter } from "../../../src/ratelimit/memory/limiter.js";
import { type KeptCheck, newPlace, type Place, PLACE } from "../../../src/ratelimit/memory/bucket-rows.js";
import { runs } from "../../runs.js";
import { modelLimiter } from "../model.js";
import { limiterSuite } from "../suite.js";

const START = 1_700_000_000_000;
const HOUR = 3_600_000;
const MAX = Number.MAX_SAFE_INTEGER;

const check = (bucket: string, cost = 1, limit = 10, duration = 1_000): LimitCheck => ({
  bucket,
  limit,
  duration,
  cost,
});
const take = (limiter: MemoryLimiter, now: number, one: LimitCheck) => limiter.take([one], now)[0]!;

limiterSuite("memoryLimiter", () => memoryLimiter());
limiterSuite("memoryLimiter of size 200", () => memoryLimiter({ size: 200 }));

describe("memoryLimiter: any history", () => {
  it("rulings C1–C4, A7: answers what an exact model in integers of any size answers", () => {
    const pair: fc.Arbitrary<readonly [number, number]> = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.constantFrom(
          [10, 1_000],
          [5, 1_000],
          [20, 60_000],
          [3, 7],
          [7, 3],
          [1, 1],
          [100, HOUR],
          [10, 100],
        ),
      },
      {
        weight: 1,
        arbitrary: fc.constantFrom(
          [10, 0],
          [0, 1_000],
          [0, 0],
          [1_000_000, 2_592_000_000],
          [999_983, 2_591_999_983],
          [MAX, 0],
          [3, 999],
        ),
      },
    );
    const configured = fc.option(
      pair.map(([limit, duration]) => ({ limit, duration })),
      { nil: undefined },
    );
    const one = fc.record({
      bucket: fc.constantFrom("a", "b"),
      pair,
      configured,
      cost: fc.oneof(fc.integer({ min: 0, max: 8 }), fc.constantFrom(0, 100, 1_000_000, MAX)),
    });
    const wait = fc.oneof(fc.constant(0), fc.integer({ min: -50, max: 500 }), fc.integer({ min: 0, max: HOUR }));
    const calls = fc.array(fc.record({ wait, checks: fc.array(one, { minLength: 1, maxLength: 4 }) }), {
      minLength: 1,
      maxLength: 40,
    });
    fc.assert(
      fc.property(calls, (history) => {
        const limiter = memoryLimiter();
        const model = modelLimiter();
        let now = START;
        for (const call of history) {
          now += call.wait;
          const checks = call.checks.map(({ bucket, pair: [limit, duration], cost, configured }) => ({
            ...check(bucket, cost, limit, duration),
            configured,
          }));
          expect(limiter.take(checks, now)).toEqual(model.take(checks, now));
        }
      }),
      { numRuns: runs(3_000) },
    );
  });
});

describe("memoryLimiter: kept checks", () => {
  const keep = (one: LimitCheck): KeptCheck => ({ ...one, [PLACE]: newPlace() });
  const aName = fc.integer({ min: 0, max: 7 }).map((i) => `bucket ${i}`);
  const calls = (most: number) => {
    const one = fc.record({ name: aName, pick: fc.nat(3), cost: fc.integer({ min: 0, max: 6 }) });
    const wait = fc.oneof(
      { weight: 6, arbitrary: fc.constant(0) },
      fc.integer({ min: 0, max: 1_500 }),
      fc.integer({ min: 0, max: HOUR }),
    );
    return fc.array(fc.record({ wait, checks: fc.array(one, { minLength: 1, maxLength: most }) }), {
      minLength: 1,
      maxLength: 60,
    });
  };
  const PAIRS = [
    [10, 1_000],
    [6, HOUR],
    [6, HOUR],
    [8, 100],
  ] as const;
  const ask = ({ name, pick, cost }: { name: string; pick: number; cost: number }): LimitCheck =>
    check(name, cost, ...PAIRS[pick]!);

  it("a copy of a check for another bucket takes from that bucket, though it copied the place too", () => {
    const limiter = memoryLimiter();
    const kept = keep(check("requests", 1, 100, HOUR));
    for (let i = 0; i < 6; i++) {
      const both = [kept, { ...kept, bucket: "requests burst" }];
      expect(limiter.take(both, START).map(({ remaining }) => remaining)).toEqual([99 - i, 99 - i]);
    }
  });

  it.each([1, 2, 4, 1_000])("change no answer of a limiter of size %i, whichever limiters saw them before", (size) => {
    fc.assert(
      fc.property(calls(3), (history) => {
        const [plain, one, other] = [memoryLimiter({ size }), memoryLimiter({ size }), memoryLimiter({ size: 1_000 })];
        const kept = new Map<string, LimitCheck>();
        let now = START;
        history.forEach(({ wait, checks: asked }, i) => {
          now += wait;
          const checks = asked.map(ask);
          const same = checks.map((fresh) => {
            const id = JSON.stringify(fresh);
            if (!kept.has(id)) kept.set(id, keep(fresh));
            return kept.get(id)!;
          });
          if (i % 3 === 0) other.take(same, now);
          expect(one.take(same, now)).toEqual(plain.take(checks, now));
          expect(one.size()).toBe(plain.size());
        });
      }),
      { numRuns: runs(300) },
    );
  });

  it.each([1, 2, 7, 8, 9, 20])(
    "clause 1: %i checks of known buckets take all or nothing, and each of its own",
    (count) => {
      const limiter = memoryLimiter();
      const checks = (costOf: (i: number) => number): LimitCheck[] =>
        Array.from({ length: count }, (_, i) => check(`bucket ${i}`, costOf(i), 10 + i, HOUR));
      const remaining = (used: number) => Array.from({ length: count }, (_, i) => 10 + i - used);
      for (const used of [2, 4])
        expect(
          limiter
            .take(
              checks(() => 2),
              START,
            )
            .map(({ remaining }) => remaining),
        ).toEqual(remaining(used));
      for (const refused of [0, count - 1]) {
        const verdicts = limiter.take(
          checks((i) => (i === refused ? 10 + i - 3 : 1)),
          START,
        );
        expect(verdicts.map(({ exceeded }) => exceeded)).toEqual(remaining(0).map((_, i) => i === refused));
        expect(verdicts.map(({ remaining }) => remaining)).toEqual(remaining(4));
      }
      expect(
        limiter
          .take(
            checks(() => 0),
            START,
          )
          .map(({ remaining }) => remaining),
      ).toEqual(remaining(4));
    },
  );

  it("clause 5: an override at the only rate of a known bucket is used up for the configured limit, too", () => {
    const fast = (bucket: string, cost: number): LimitCheck => check(bucket, cost, 10, 1_000);
    const configured = { limit: 10, duration: HOUR };
    for (const others of [[], [fast("b", 1)], [{ ...fast("b", 1), configured }]]) {
      const limiter = memoryLimiter();
      limiter.take([fast("a", 1), fast("b", 1)], START);
      expect(limiter.take([{ ...fast("a", 3), configured }, ...others], START)[0]!.remaining).toBe(6);
      const later = START + 1_000;
      expect(take(limiter, later, fast("a", 0)).remaining).toBe(10);
      expect(take(limiter, later, check("a", 0, 10, HOUR)).remaining).toBe(6);
    }
  });

  it.each([1, 2, 4])("a take at a place returns what take returns, or undefined: of a limiter of size %i", (size) => {
    let taken = 0;
    fc.assert(
      fc.property(calls(1), (history) => {
        const [placed, plain] = [placedLimiter({ size }), memoryLimiter({ size })];
        const places = new Map<string, Place>();
        let now = START;
        for (const { wait, checks } of history) {
          now += wait;
          const { name, pick } = checks[0]!;
          // Few names, and mostly one size, so that many takes find a bucket with one level.
          const one = ask({ name: `${Number(name.at(-1)) % 3}`, pick: pick === 3 ? 3 : 1, cost: 1 });
          if (!places.has(one.bucket)) places.set(one.bucket, newPlace());
          const place = places.get(one.bucket)!;
          const verdict = placed.takeAt(place, one, now);
          if (verdict !== undefined) taken++;
          const [expected] = plain.take([one], now);
          expect(verdict ?? placed.take([{ ...one, [PLACE]: place } as KeptCheck], now)[0]).toEqual(expected);
          expect(placed.size()).toBe(plain.size());
        }
      }),
      // With fewer, a table of one bucket may find it at its place ten times in all.
      { numRuns: Math.max(500, runs(1_000)) },
    );
    expect(taken).toBeGreaterThan(10);
  });

  it("a take at a place takes nothing of another limiter's bucket, of one with another size, or of one with levels", () => {
    const [limiter, other] = [placedLimiter(), placedLimiter()];
    const place = newPlace();
    const kept = { ...check("a"), [PLACE]: place };
    for (let i = 0; i < 2; i++) limiter.take([kept], START);
    const size = { limit: 10, duration: 1_000 };
    expect(other.takeAt(place, size, START)).toBeUndefined();
    for (const wrong of [
      { ...size, limit: 11 },
      { ...size, duration: 999 },
    ])
      expect(limiter.takeAt(place, wrong, START)).toBeUndefined();
    expect(limiter.takeAt(place, size, START)).toMatchObject({ remaining: 7 });
    take(limiter, START, { ...kept, limit: 20, configured: size });
    expect(limiter.takeAt(place, size, START)).toBeUndefined();
    expect(take(limiter, START, check("a", 0)).remaining).toBe(6);
    limiter.close();
    expect(() => limiter.takeAt(place, size, START)).toThrow("The limiter is closed.");
  });

  it("a check that another limiter sends elsewhere as JSON is as it was before", () => {
    const kept = keep(check("a"));
    take(memoryLimiter(), START, kept);
    const limiter = memoryLimiter();
    for (let i = 0; i < 2; i++) take(limiter, START, kept);
    expect(JSON.parse(JSON.stringify(kept))).toEqual(check("a"));
  });

  it("rulings C1–C4: calls of few checks and of many are answered alike", () => {
    fc.assert(
      fc.property(calls(20), (history) => {
        const limiter = memoryLimiter();
        const model = modelLimiter();
        let now = START;
        for (const { wait, checks } of history) {
          now += wait;
          expect(limiter.take(checks.map(ask), now)).toEqual(model.take(checks.map(ask), now));
        }
      }),
    );
  });

  it("a name too long is a RangeError, and nothing is taken by that call or noted for the next", () => {
    const limiter = memoryLimiter();
    const long = check("n".repeat(2_049));
    expect(() => limiter.take([long], START)).toThrow(RangeError);
    for (const name of ["there", "new"]) {
      if (name === "there") take(limiter, START, check(name, 1));
      expect(() => limiter.take([check(name, 4), long], START)).toThrow(RangeError);
    }
    expect(limiter.size()).toBe(1);
    expect(limiter.take([check("there", 9), check("new", 10)], START).some(({ exceeded }) => exceeded)).toBe(false);
    expect(take(limiter, START, check("n".repeat(2_048))).exceeded).toBe(false);
  });
});

describe("memoryLimiter: memory", () => {
  it("ruling C6: a flood of 100,000 buckets stays within the size, and a bucket that refuses keeps refusing", () => {
    const limiter = memoryLimiter({ size: 1_000 });
    take(limiter, START, check("tired", 10, 10, HOUR));
    for (let i = 0; i < 100_000; i++) {
      take(limiter, START + Math.floor(i / 100), check(`flood ${i}`, 1 + (i % 5), 10, HOUR));
      expect(limiter.size()).toBeLessThanOrEqual(1_000);
      if (i % 100 === 0)
        expect(take(limiter, START + Math.floor(i / 100), check("tired", 1, 10, HOUR)).exceeded).toBe(true);
    }
    expect(limiter.size()).toBe(1_000);
  });

  it("ruling C6: a flood of buckets that refuse is refused itself, and nothing else is forgotten", () => {
    const limiter = memoryLimiter({ size: 50 });
    for (let i = 0; i < 50; i++) expect(take(limiter, START, check(`held ${i}`, 1, 1, HOUR)).exceeded).toBe(false);
    expect(take(limiter, START, check("late", 1, 1, HOUR))).toEqual({ exceeded: true, remaining: 0, reset: HOUR });
    expect(take(limiter, START, check("late", 0, 1, HOUR))).toEqual({ exceeded: false, remaining: 1, reset: 0 });
    expect(take(limiter, START, check("late", 1, 1, 0))).toEqual({ exceeded: false, remaining: 1, reset: 0 });
    for (let i = 0; i < 50; i++) expect(take(limiter, START, check(`held ${i}`, 1, 1, HOUR)).exceeded).toBe(true);
    expect(limiter.size()).toBe(50);
    expect(take(limiter, START + HOUR, check("late", 1, 1, HOUR)).exceeded).toBe(false);
  });

  it("clause 8: a flood of ad hoc limits that refuse is refused beyond half of the space, and leaves the other half", () => {
    const limiter = memoryLimiter({ size: 50 });
    const adHoc = (name: string): LimitCheck => ({ ...check(name, 1, 1, MAX), isAdHoc: true });
    expect(take(limiter, START, check("early", 1, 1, HOUR)).exceeded).toBe(false);
    for (let i = 0; i < 100; i++) expect(take(limiter, START, adHoc(`flood ${i}`)).exceeded).toBe(i >= 25);
    // Newcomers of one call find space together or not at all.
    expect(limiter.take([adHoc("more"), check("late", 1, 1, HOUR)], START).every(({ exceeded }) => exceeded)).toBe(
      true,
    );
    expect(limiter.size()).toBe(26);
    for (let i = 0; i < 24; i++) expect(take(limiter, START, check(`late ${i}`, 1, 1, HOUR)).exceeded).toBe(false);
    expect(take(limiter, START, check("early", 1, 1, HOUR)).exceeded).toBe(true);
    for (let i = 0; i < 25; i++) expect(take(limiter, START, adHoc(`flood ${i}`)).exceeded).toBe(true);
  });

  it("ruling C6, clause 1: newcomers of one call find space together or not at all", () => {
    const limiter = memoryLimiter({ size: 3 });
    for (const name of ["held 1", "held 2"]) take(limiter, START, check(name, 1, 1, HOUR));
    take(limiter, START, check("loose", 1, 10, HOUR));
    const refused = limiter.take(
      [check("loose", 0, 10, HOUR), check("new 1", 1), check("new 2", 1), check("new 2", 0), check("new 3", 1, 5, 0)],
      START,
    );
    expect(refused).toEqual([
      { exceeded: false, remaining: 9, reset: HOUR / 10 },
      { exceeded: true, remaining: 0, reset: 1_000 },
      { exceeded: true, remaining: 0, reset: 1_000 },
      { exceeded: false, remaining: 10, reset: 0 },
      { exceeded: false, remaining: 5, reset: 0 },
    ]);
    expect(take(limiter, START, check("loose", 0, 10, HOUR)).remaining).toBe(9);
    expect(limiter.size()).toBe(3);
    expect(limiter.take([check("new 1"), check("loose", 1, 10, HOUR)], START).map(({ exceeded }) => exceeded)).toEqual([
      true,
      false,
    ]);
    expect(take(limiter, START, check("loose", 0, 10, HOUR)).remaining).toBe(9);
    expect(take(limiter, START, check("new 1"))).toEqual({ exceeded: false, remaining: 9, reset: 100 });
    expect(take(limiter, START, check("loose", 0, 10, HOUR)).remaining).toBe(10);
  });

  it("ruling C4, C6: a new bucket needs space also where the call's first check of it has a duration of 0", () => {
    const limiter = memoryLimiter({ size: 1 });
    take(limiter, START, check("held", 1, 1, HOUR));
    expect(limiter.take([check("new", 1, 10, 0), check("new", 1)], START)).toEqual([
      { exceeded: true, remaining: 0, reset: 0 },
      { exceeded: true, remaining: 0, reset: 1_000 },
    ]);
    expect(limiter.size()).toBe(1);
    expect(take(limiter, START, check("held", 1, 1, HOUR)).exceeded).toBe(true);
  });

  it("ruling C6: a bucket that gives way in the call that looks at it leaves nothing behind", () => {
    const adHoc = (name: string, cost: number): LimitCheck => ({ ...check(name, cost, 10, HOUR), isAdHoc: true });
    // The walk is at another place each time: it drops full buckets before the new one comes, whose rows it may get.
    for (let shift = 0; shift < 48; shift++) {
      const limiter = memoryLimiter({ size: 96 });
      for (let i = 0; i < 48; i++) take(limiter, START, check(`full ${i}`, 1, 10, 100));
      take(limiter, START, adHoc("loose", 1));
      for (let i = 1; i < 48; i++) take(limiter, START, adHoc(`half ${i}`, 5));
      for (let i = 0; i < shift; i++) take(limiter, START + 1 + i, check("full 0", 0, 10, 100));
      const later = START + 61_000;
      expect(limiter.take([adHoc("loose", 0), adHoc("new", 1)], later).map(({ remaining }) => remaining)).toEqual([
        9, 9,
      ]);
      for (let i = 0; i < 20; i++) take(limiter, START + 2 * HOUR + i, check("busy", 1, 100, HOUR));
      expect(limiter.size()).toBe(1);
    }
  });

  it("ruling C6: buckets that are there need no space, however they are taken from", () => {
    const limiter = memoryLimiter({ size: 2 });
    limiter.take([check("a", 1, 10, HOUR), check("b", 1, 10, HOUR)], START);
    // Twice the same bucket: a call that reserves first.
    const twice = [check("a", 1, 10, HOUR), check("a", 1, 10, HOUR), check("b", 1, 10, HOUR)];
    expect(limiter.take(twice, START).map(({ exceeded, remaining }) => [exceeded, remaining])).toEqual([
      [false, 7],
      [false, 7],
      [false, 8],
    ]);
    expect(limiter.counters()).toEqual({ newcomersRefused: 0, bucketsDisplaced: 0 });
  });

  it("ruling C6: more newcomers in one call than fit at all are refused", () => {
    const limiter = memoryLimiter({ size: 2 });
    take(limiter, START, check("loose", 1, 10, HOUR));
    expect(limiter.take([check("1"), check("2"), check("3")], START).every(({ exceeded }) => exceeded)).toBe(true);
    expect(take(limiter, START, check("loose", 0, 10, HOUR)).remaining).toBe(9);
    expect(limiter.take([check("1"), check("2")], START).some(({ exceeded }) => exceeded)).toBe(false);
    expect(limiter.size()).toBe(2);
  });

  it("ruling C6, A137: at the bound a full bucket gives way first, then the least used one", () => {
    const limiter = memoryLimiter({ size: 4 });
    take(limiter, START, check("half", 5, 10, HOUR));
    take(limiter, START, check("little", 1, 10, HOUR));
    take(limiter, START, check("much", 8, 10, HOUR));
    take(limiter, START, check("brief", 9, 10, 1));
    // Time does not move for the limiter's walk here: "brief" is full again only at START + 1, when the walk drops it.
    take(limiter, START + 1, check("new 1", 9, 10, HOUR));
    expect(limiter.size()).toBe(4);
    expect(["half", "little", "much"].map((name) => take(limiter, START, check(name, 0, 10, HOUR)).remaining)).toEqual([
      5, 9, 2,
    ]);
    take(limiter, START + 1, check("new 2", 9, 10, HOUR));
    expect(["half", "little", "much"].map((name) => take(limiter, START, check(name, 0, 10, HOUR)).remaining)).toEqual([
      5, 10, 2,
    ]);
    take(limiter, START + 1, check("new 3", 9, 10, HOUR));
    expect(["half", "little", "much"].map((name) => take(limiter, START, check(name, 0, 10, HOUR)).remaining)).toEqual([
      10, 10, 2,
    ]);
  });

  it("ruling C6: at the bound one full bucket among many is found and no other gives way", () => {
    const limiter = memoryLimiter({ size: 20 });
    for (let i = 0; i < 19; i++) take(limiter, START, check(`used ${i}`, 1, 10, HOUR));
    take(limiter, START - 1, check("always full", 1, 10, 1));
    expect(limiter.size()).toBe(20);
    limiter.take([check("new")], START + 1);
    for (let i = 0; i < 19; i++) expect(take(limiter, START + 1, check(`used ${i}`, 0, 10, HOUR)).remaining).toBe(9);
  });

  it("ruling C6, A137: idle buckets that are full again leave as other calls come in", () => {
    const limiter = memoryLimiter();
    for (let i = 0; i < 10_000; i++) take(limiter, START, check(`idle ${i}`, 1, 10, 1_000));
    expect(limiter.size()).toBe(10_000);
    for (let ms = 0; ms < 1_000; ms++) take(limiter, START + 60_000 + ms, check("busy", 1, 1_000_000, HOUR));
    expect(limiter.size()).toBe(1);
  });

  it("ruling C6: full buckets do not outnumber the others for long under a flood", () => {
    const limiter = memoryLimiter();
    let largest = 0;
    for (let moment = 0; moment < 4_000; moment++) {
      for (let i = 0; i < 20; i++) take(limiter, START + moment * 60, check(`${moment} ${i}`, 1, 10, 100));
      largest = Math.max(largest, limiter.size());
    }
    // A minute after its take a full bucket is idle: 20,000 are not at any time.
    expect(largest).toBeGreaterThanOrEqual(20_000);
    expect(largest).toBeLessThanOrEqual(2 * 20_000 + 2 * 20);
  });

  it("ruling C6: what takes nothing is not remembered", () => {
    const limiter = memoryLimiter();
    take(limiter, START, check("looked at", 0));
    take(limiter, START, check("too dear", 11));
    take(limiter, START, check("closed", 1, 0));
    take(limiter, START, check("always full", 1, 10, 0));
    limiter.take([check("fits"), check("does not", 11)], START);
    expect(limiter.size()).toBe(0);
    limiter.take([check("kept", 1, 10, 0), check("kept", 1)], START);
    expect(limiter.size()).toBe(1);
  });

  it("trap 9, A123: no timer is set, whatever the duration", () => {
    vi.useFakeTimers();
    try {
      const limiter = memoryLimiter();
      take(limiter, START, check("month", 10, 10, 2_592_000_000));
      expect(vi.getTimerCount()).toBe(0);
      expect(take(limiter, START + 1, check("month", 1, 10, 2_592_000_000)).exceeded).toBe(true);
      expect(take(limiter, START + 259_200_000, check("month", 1, 10, 2_592_000_000)).exceeded).toBe(false);
    } finally {
      vi.useRealTimers();
    }
  });

  it("ruling A7: a bucket that was dropped while the clock was ahead mints nothing when it swings", () => {
    const limiter = memoryLimiter();
    let sum = 0;
    for (let swing = 0; swing < 20; swing++) {
      take(limiter, START + HOUR, check("other"));
      for (let i = 0; i < 20; i++) if (!take(limiter, START, check("a")).exceeded) sum++;
    }
    expect(sum).toBe(10);
  });

  it("ruling A7: a clock that steps back by a millisecond counts as one that stands still", () => {
    const limiter = memoryLimiter();
    const first = take(limiter, START, check("a", 1, 500, 500));
    expect(take(limiter, START - 1, check("a", 0, 500, 500))).toEqual(first);
    expect(take(limiter, START - 1, check("a", 1, 500, 500)).reset).toBe(2);
    expect(take(limiter, START, check("a", 0, 500, 500)).reset).toBe(2);
  });

  it("clause 5: beyond four pairs the fastest gives way, and coming back gains nothing", () => {
    const limiter = memoryLimiter();
    const slow = [HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR];
    take(limiter, START, check("a", 0, 20, HOUR));
    take(limiter, START, check("a", 5, 20, HOUR));
    take(limiter, START, check("a", 5, 10, 1_000));
    for (const duration of slow) expect(take(limiter, START, check("a", 1, 20, duration)).exceeded).toBe(false);
    // 14 tokens are used. The fast pair's level has given way and would be empty by now; the slow ones stand in for it.
    expect(take(limiter, START + 1_400, check("a", 1, 10, 1_000))).toMatchObject({ exceeded: true, remaining: 0 });
    for (const duration of slow) expect(take(limiter, START + 1_400, check("a", 0, 20, duration)).remaining).toBe(6);
  });
});

describe("memoryLimiter: misuse", () => {
  it("after close every take fails with a stable code, and close may be repeated", () => {
    const limiter = memoryLimiter();
    take(limiter, START, check("a"));
    limiter.close();
    limiter.close();
    expect(limiter.size()).toBe(0);
    expect(() => limiter.take([], START)).toThrow(
      expect.objectContaining({ code: "LIMITER_UNAVAILABLE", status: 503, message: "The limiter is closed." }),
    );
  });

  it("two limiters are two", () => {
    const [one, other] = [memoryLimiter(), memoryLimiter()];
    take(one, START, check("a", 10));
    expect(take(other, START, check("a", 10)).exceeded).toBe(false);
  });

  it.each([NaN, Infinity, -Infinity, -1, 1.5, 2 ** 53, "1", null, undefined])(
    "a number that is none is a RangeError before anything changes: %s",
    (bad) => {
      const limiter = memoryLimiter();
      for (const name of ["limit", "duration", "cost"] as const) {
        const checks = [check("a", 10), { ...check("b"), [name]: bad as number }];
        expect(() => limiter.take(checks, START)).toThrow(
          new RangeError(`${name} must be an integer from 0 to 2^53 - 1`),
        );
      }
      expect(limiter.size()).toBe(0);
      expect(take(limiter, START, check("a", 10)).exceeded).toBe(false);
    },
  );

  it.each(["limit", "duration"])("likewise of the configured size: its %s", (name) => {
    const limiter = memoryLimiter();
    const checks = [{ ...check("a", 10), configured: { limit: 10, duration: 1_000, [name]: NaN } }];
    expect(() => limiter.take(checks, START)).toThrow(
      new RangeError(`configured.${name} must be an integer from 0 to 2^53 - 1`),
    );
    expect(limiter.size()).toBe(0);
  });

  it.each([NaN, Infinity, -Infinity])("a clock that answers %s is a RangeError", (now) => {
    const limiter = memoryLimiter();
    expect(() => limiter.take([check("a")], now)).toThrow(
      new RangeError("now must be a finite number of milliseconds"),
    );
    expect(take(limiter, START, check("a"))).toEqual({ exceeded: false, remaining: 9, reset: 100 });
  });

  it("a clock between two milliseconds counts as the earlier one", () => {
    const limiter = memoryLimiter();
    take(limiter, START + 0.9, check("a", 10));
    expect(take(limiter, START + 99.9, check("a"))).toEqual({ exceeded: true, remaining: 0, reset: 901 });
    expect(take(limiter, START + 100.1, check("a")).exceeded).toBe(false);
  });

  it.each([
    [{ size: "1" }, TypeError, "size"],
    [{ size: null }, TypeError, "size"],
    [{ size: 0 }, RangeError, "size"],
    [{ size: -1 }, RangeError, "size"],
    [{ size: 1.5 }, TypeError, "size"],
    [{ size: NaN }, TypeError, "size"],
    [{ size: Infinity }, TypeError, "size"],
    [{ size: 10_000_001 }, RangeError, "size"],
    [{ sise: 1 }, TypeError, "sise"],
    [null, TypeError, "options"],
    [5, TypeError, "options"],
  ])("options %o are refused by name", (options, kind, named) => {
    const make = (): unknown => memoryLimiter(options as object);
    expect(make).toThrow(kind);
    expect(make).toThrow(named);
  });

  it("size is taken from 1 to 10,000,000, and may be absent", () => {
    for (const options of [undefined, {}, { size: 1 }, { size: 10_000_000 }])
      expect(memoryLimiter(options).size()).toBe(0);
  });
});
