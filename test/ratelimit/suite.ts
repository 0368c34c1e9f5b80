/** Conformance of any limiter: titles carry the clause numbers of src/contracts/limiter.ts. `make` gives a fresh limiter each time. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LimitCheck, Limiter, LimitVerdict } from "../../src/contracts/limiter.js";
import { runs } from "../runs.js";
import { numbersOf, replay, type Take } from "./model.js";

const START = 1_700_000_000_000;
const MAX = Number.MAX_SAFE_INTEGER;
const DAY = 86_400_000;

const check = (cost: number, limit = 10, duration = 1_000, bucket = "b"): LimitCheck => ({
  bucket,
  limit,
  duration,
  cost,
});

export function limiterSuite(name: string, make: () => Limiter): void {
  const take = async (limiter: Limiter, now: number, ...checks: LimitCheck[]): Promise<readonly LimitVerdict[]> => {
    const verdicts = await limiter.take(checks, now);
    expect(verdicts).toHaveLength(checks.length);
    return verdicts;
  };
  const takeOne = async (limiter: Limiter, now: number, one: LimitCheck): Promise<LimitVerdict> =>
    (await take(limiter, now, one))[0]!;
  const granted = async (limiter: Limiter, now: number, one: LimitCheck): Promise<boolean> =>
    !(await takeOne(limiter, now, one)).exceeded;

  describe(`${name}: a limiter`, () => {
    it("clause 1, ruling C3, A133: a check that is exceeded leaves the others' buckets as they were, and all are reported", async () => {
      const limiter = make();
      await takeOne(limiter, START, check(2, 10, 1_000, "first"));
      const refused = await take(
        limiter,
        START,
        check(3, 10, 1_000, "first"),
        check(6, 5, 1_000, "second"),
        check(0, 7, 1_000, "third"),
      );
      expect(refused).toEqual([
        { exceeded: false, remaining: 8, reset: 200 },
        { exceeded: true, remaining: 5, reset: 0 },
        { exceeded: false, remaining: 7, reset: 0 },
      ]);
      expect(await takeOne(limiter, START, check(8, 10, 1_000, "first"))).toEqual({
        exceeded: false,
        remaining: 0,
        reset: 1_000,
      });
      expect(await takeOne(limiter, START, check(5, 5, 1_000, "second"))).toEqual({
        exceeded: false,
        remaining: 0,
        reset: 1_000,
      });
    });

    it("clause 1: takes from every bucket of a call that fits, and reports them in order", async () => {
      const limiter = make();
      expect(await take(limiter, START, check(1, 10, 1_000, "x"), check(2, 20, 60_000, "y"))).toEqual([
        { exceeded: false, remaining: 9, reset: 100 },
        { exceeded: false, remaining: 18, reset: 6_000 },
      ]);
      expect(await take(limiter, START)).toEqual([]);
    });

    it("clause 2, ruling C2: a bucket is full at first sight and refills by the millisecond", async () => {
      const limiter = make();
      expect(await takeOne(limiter, START, check(10))).toEqual({ exceeded: false, remaining: 0, reset: 1_000 });
      expect(await takeOne(limiter, START + 99, check(1))).toEqual({ exceeded: true, remaining: 0, reset: 901 });
      expect(await takeOne(limiter, START + 100, check(1))).toEqual({ exceeded: false, remaining: 0, reset: 1_000 });
      expect(await takeOne(limiter, START + 350, check(0))).toEqual({ exceeded: false, remaining: 2, reset: 750 });
      expect(await takeOne(limiter, START + 5_000, check(10))).toEqual({ exceeded: false, remaining: 0, reset: 1_000 });
    });

    it("clause 2: owners do not share buckets", async () => {
      const limiter = make();
      await takeOne(limiter, START, check(10, 10, 1_000, "a"));
      for (const bucket of ["", "b", "A", "a ", "__proto__", "constructor", "a\u0000", "é", "e\u0301"]) {
        expect(await granted(limiter, START, check(10, 10, 1_000, bucket))).toBe(true);
        expect(await granted(limiter, START, check(1, 10, 1_000, bucket))).toBe(false);
      }
    });

    it("clause 3, A127: a cost above the limit is refused and changes nothing", async () => {
      const limiter = make();
      for (const cost of [11, 1_000, MAX]) {
        expect(await takeOne(limiter, START, check(cost))).toEqual({ exceeded: true, remaining: 10, reset: 0 });
      }
      expect(await takeOne(limiter, START, check(1))).toEqual({ exceeded: false, remaining: 9, reset: 100 });
      expect(await granted(limiter, START + 400 * DAY, check(MAX))).toBe(false);
    });

    it("clause 3, A139: twice the limit around every phase of a window grants no more than limit plus refill", async () => {
      for (let phase = 0; phase < 1_000; phase += 50) {
        const limiter = make();
        let sum = 0;
        for (const now of [START + phase, START + phase + 999, START + phase + 1_000]) {
          for (let i = 0; i < 20; i++) if (await granted(limiter, now, check(1))) sum++;
        }
        expect(sum).toBe(20);
      }
    });

    it("clause 3, A139: no stretch of time grants more than limit plus refill", async () => {
      await fc.assert(
        fc.asyncProperty(aPair, aHistory, async ([limit, duration], history) => {
          const takes = await grantedTakes(make(), limit, duration, history);
          for (let from = 0; from < takes.length; from++) {
            let sum = 0n;
            for (const { now, cost } of takes.slice(from)) {
              sum += BigInt(cost);
              const most = BigInt(limit) * BigInt(duration + now - takes[from]!.now);
              if (sum * BigInt(duration) > most) expect.fail(`${sum} tokens in ${now - takes[from]!.now} ms`);
            }
          }
        }),
      );
    });

    it("clauses 2 and 3: verdict, remaining and reset are exactly those of a replay of all takes", async () => {
      await fc.assert(
        fc.asyncProperty(aPair, aHistory, async ([limit, duration], history) => {
          const limiter = make();
          const takes: Take[] = [];
          let now = START;
          for (const { wait, cost } of history) {
            now += wait;
            const before = replay(limit, duration, takes, now);
            const exceeded = cost > 0 && before + BigInt(cost) * BigInt(duration) > BigInt(limit) * BigInt(duration);
            if (!exceeded && cost > 0) takes.push({ now, cost });
            const after = numbersOf(limit, duration, replay(limit, duration, takes, now));
            expect(await takeOne(limiter, now, check(cost, limit, duration))).toEqual({ exceeded, ...after });
          }
        }),
        { numRuns: runs(200) },
      );
    });

    it("clause 4, ruling C4: cost 0 passes and takes nothing, whatever the bucket holds", async () => {
      const limiter = make();
      for (let i = 0; i < 3; i++)
        expect(await takeOne(limiter, START, check(0))).toEqual({ exceeded: false, remaining: 10, reset: 0 });
      await takeOne(limiter, START, check(10));
      for (let i = 0; i < 3; i++)
        expect(await takeOne(limiter, START, check(0))).toEqual({ exceeded: false, remaining: 0, reset: 1_000 });
      expect(await takeOne(limiter, START, check(0, 0))).toMatchObject({ exceeded: false, remaining: 0 });
      expect(await granted(limiter, START + 100, check(1))).toBe(true);
    });

    it("clause 4, ruling C4: limit 0 refuses every cost above 0, and takes nothing", async () => {
      const limiter = make();
      for (const duration of [0, 1, 1_000, MAX]) {
        for (const cost of [1, 2, MAX])
          expect(await takeOne(limiter, START, check(cost, 0, duration))).toMatchObject({
            exceeded: true,
            remaining: 0,
          });
      }
      expect(await takeOne(limiter, START, check(10))).toMatchObject({ exceeded: false, remaining: 0 });
    });

    it("clause 4, ruling C4: duration 0 is a bucket that is always full", async () => {
      const limiter = make();
      for (let i = 0; i < 50; i++)
        expect(await takeOne(limiter, START, check(10, 10, 0))).toEqual({ exceeded: false, remaining: 10, reset: 0 });
      expect(await takeOne(limiter, START, check(11, 10, 0))).toEqual({ exceeded: true, remaining: 10, reset: 0 });
    });

    it("clause 5, ruling C2: another limit or duration leaves the tokens used in place", async () => {
      const limiter = make();
      await takeOne(limiter, START, check(8, 10, 60_000));
      expect(await takeOne(limiter, START, check(0, 20, 60_000))).toMatchObject({ exceeded: false, remaining: 12 });
      expect(await takeOne(limiter, START, check(0, 5, 60_000))).toMatchObject({ exceeded: false, remaining: 0 });
      expect(await takeOne(limiter, START, check(1, 5, 60_000))).toMatchObject({ exceeded: true, remaining: 0 });
      expect(await takeOne(limiter, START, check(1, 8, 1_000))).toMatchObject({ exceeded: true, remaining: 0 });
      expect(await takeOne(limiter, START, check(12, 20, 60_000))).toMatchObject({ exceeded: false, remaining: 0 });
      expect(await takeOne(limiter, START, check(1, 10, 60_000))).toMatchObject({ exceeded: true, remaining: 0 });
    });

    it("clause 5, ruling C2: a look through a fast override does not refill a slow limit", async () => {
      const limiter = make();
      await takeOne(limiter, START, check(10, 10, DAY));
      await takeOne(limiter, START + 10_000, check(0, 1_000_000, 1_000));
      await takeOne(limiter, START + 10_000, check(1, 1_000_000, 1_000));
      expect(await granted(limiter, START + 20_000, check(1, 10, DAY))).toBe(false);
    });

    it("clause 5, ruling C2: no pair ever grants more than it would alone, however pairs are mixed", async () => {
      const pairs = fc.uniqueArray(aPair, { minLength: 1, maxLength: 7, selector: String });
      const steps = fc.array(fc.record({ wait: aWait, cost: fc.integer({ min: 0, max: 40 }), pick: fc.nat(6) }), {
        maxLength: 60,
      });
      await fc.assert(
        fc.asyncProperty(pairs, steps, async (all, history) => {
          const limiter = make();
          const own = all.map((): Take[] => []);
          let now = START;
          for (const { wait, cost, pick } of history) {
            now += wait;
            const [limit, duration] = all[pick % all.length]!;
            const takes = own[pick % all.length]!;
            if (!(await granted(limiter, now, check(cost, limit, duration))) || cost === 0) continue;
            const used = replay(limit, duration, takes, now) + BigInt(cost) * BigInt(duration);
            if (used > BigInt(limit) * BigInt(duration))
              expect.fail(`${cost} of ${limit} in ${duration} ms granted too early`);
            takes.push({ now, cost });
          }
        }),
        { numRuns: runs(300) },
      );
    });

    it("clause 5, ruling C2: what is taken by overrides is used up for the limit itself, and comes back at its own speed", async () => {
      const own = { limit: 10, duration: 60_000 };
      const steps = fc.array(
        fc.record({
          wait: aWait,
          cost: fc.integer({ min: 0, max: 12 }),
          over: fc.option(fc.tuple(fc.nat(30), fc.constantFrom(0, 1, 1_000, DAY))),
        }),
        { maxLength: 40 },
      );
      await fc.assert(
        fc.asyncProperty(steps, async (history) => {
          const limiter = make();
          const capacity = BigInt(own.limit) * BigInt(own.duration);
          let used = 0n;
          let now = START;
          for (const { wait, cost, over } of history) {
            now += wait;
            used -= BigInt(own.limit) * BigInt(wait);
            if (used < 0n) used = 0n;
            const after = used + BigInt(cost) * BigInt(own.duration);
            const one =
              over === null ? check(cost, own.limit, own.duration) : { ...check(cost, ...over), configured: own };
            const { exceeded } = await takeOne(limiter, now, one);
            if (over === null) expect(exceeded, `${cost} by itself`).toBe(cost > 0 && after > capacity);
            if (!exceeded) used = after < capacity ? after : capacity;
          }
        }),
        { numRuns: runs(300) },
      );
    });

    it("clause 5: a limit that is used by generous overrides goes into no debt", async () => {
      const limiter = make();
      const own = { limit: 10, duration: 60_000 };
      const generous = (limit: number) => ({ ...check(1, limit, 60_000), configured: own });
      let now = START;
      for (; now < START + 3_600_000; now += 1_000) expect(await granted(limiter, now, generous(100))).toBe(true);
      expect(await takeOne(limiter, now, generous(200))).toMatchObject({ exceeded: false, remaining: 189 });
      expect(await granted(limiter, now, check(1, 10, 60_000))).toBe(false);
      expect(await granted(limiter, now + 6_000, check(1, 10, 60_000))).toBe(true);
    });

    it("clause 5: a first take by an override is the limit's first take too, whatever its duration", async () => {
      const own = { limit: 10, duration: 60_000 };
      for (const [limit, duration] of [
        [1_000, 60_000],
        [10, 1],
        [10, 0],
        [10, DAY],
      ] as const) {
        const limiter = make();
        expect(await granted(limiter, START, { ...check(10, limit, duration), configured: own })).toBe(true);
        expect(await takeOne(limiter, START + 10, check(1, 10, 60_000))).toEqual({
          exceeded: true,
          remaining: 0,
          reset: 59_990,
        });
        expect(await takeOne(limiter, START + 6_000, check(1, 10, 60_000))).toMatchObject({
          exceeded: false,
          remaining: 0,
        });
      }
      for (const first of [0, 1]) {
        const limiter = make();
        const both = [check(5, 10, 60_000), { ...check(5, 10, 0), configured: own }];
        await take(limiter, START, ...(first === 0 ? both : both.reverse()));
        expect(await takeOne(limiter, START, check(0, 10, 60_000))).toMatchObject({ remaining: 0 });
      }
    });

    it("clause 6, ruling C1, A129: two checks of one bucket must fit together, each with its own result", async () => {
      const limiter = make();
      const half = [check(6), check(6)];
      expect(await take(limiter, START, ...half)).toEqual([
        { exceeded: false, remaining: 10, reset: 0 },
        { exceeded: true, remaining: 10, reset: 0 },
      ]);
      expect((await take(limiter, START, check(1_000), check(0))).map(({ exceeded }) => exceeded)).toEqual([
        true,
        false,
      ]);
      expect(await take(limiter, START, check(6), check(4))).toEqual([
        { exceeded: false, remaining: 0, reset: 1_000 },
        { exceeded: false, remaining: 0, reset: 1_000 },
      ]);
      expect((await take(limiter, START + 500, check(2), check(4))).map(({ exceeded }) => exceeded)).toEqual([
        false,
        true,
      ]);
      expect((await take(limiter, START + 500, check(1), check(4))).map(({ exceeded }) => exceeded)).toEqual([
        false,
        false,
      ]);
    });

    it("clause 6: they fit together also under different limits and a duration of 0", async () => {
      const limiter = make();
      const exceeded = async (...checks: LimitCheck[]): Promise<boolean[]> =>
        (await take(limiter, START, ...checks)).map((one) => one.exceeded);
      expect(await exceeded(check(5, 100), check(6, 10))).toEqual([false, true]);
      expect(await exceeded(check(6, 10, 0), check(6, 10, 0))).toEqual([false, true]);
      expect(await exceeded(check(5, 10, 0), check(6, 10))).toEqual([false, true]);
      expect(await exceeded(check(4, 100), check(6, 10))).toEqual([false, false]);
      expect(await takeOne(limiter, START, check(0))).toMatchObject({ remaining: 0 });
      expect(await takeOne(limiter, START, check(0, 100))).toMatchObject({ remaining: 90 });
    });

    it("clause 7, ruling A7, A121: a clock that jumps 400 days ahead and back fills a bucket once at most", async () => {
      const limiter = make();
      expect(await granted(limiter, START, check(10))).toBe(true);
      expect(await granted(limiter, START + 400 * DAY, check(10))).toBe(true);
      let sum = 0;
      for (let ms = 0; ms < 5_000; ms += 10) if (await granted(limiter, START + ms, check(1))) sum++;
      expect(sum).toBe(0);
      expect(await takeOne(limiter, START + 400 * DAY + 100, check(1))).toEqual({
        exceeded: false,
        remaining: 0,
        reset: 1_000,
      });
    });

    it("clause 7, ruling A7: a clock that swings mints nothing", async () => {
      const limiter = make();
      expect(await granted(limiter, START + 1_000, check(10))).toBe(true);
      for (let i = 0; i < 50; i++) {
        expect(await granted(limiter, START + i, check(1))).toBe(false);
        expect(await granted(limiter, START + 1_000, check(1))).toBe(false);
      }
    });

    it("clause 7, ruling A7: any clock grants what the latest time seen so far would", async () => {
      const steps = fc.array(
        fc.record({ offset: fc.integer({ min: -3_000, max: 3_000 }), cost: fc.integer({ min: 0, max: 6 }) }),
        {
          maxLength: 40,
        },
      );
      await fc.assert(
        fc.asyncProperty(aPair, steps, async ([limit, duration], history) => {
          const [wild, steady] = [make(), make()];
          let latest = -Infinity;
          for (const { offset, cost } of history) {
            latest = Math.max(latest, START + offset);
            const one = check(cost, limit, duration);
            expect((await takeOne(wild, START + offset, one)).exceeded).toBe(
              (await takeOne(steady, latest, one)).exceeded,
            );
          }
        }),
      );
    });

    it("clause 8, ruling C6: a flood of other buckets makes it forget none that refuses", async () => {
      const limiter = make();
      await takeOne(limiter, START, check(10, 10, DAY));
      for (let i = 0; i < 20_000; i++) {
        await takeOne(limiter, START + i, check(1, 10, DAY, `flood ${i}`));
        if (i % 500 === 0) expect(await granted(limiter, START + i, check(1, 10, DAY))).toBe(false);
      }
      expect(await takeOne(limiter, START + 20_000, check(1, 10, DAY))).toMatchObject({ exceeded: true, remaining: 0 });
    });

    it("ruling C4, A125: every number stays a finite integer, and no limit becomes endless", async () => {
      const sizes = [
        0,
        1,
        2,
        3,
        999,
        1_000,
        1_000_000,
        2_592_000_000,
        2 ** 31,
        2 ** 32,
        2 ** 33 + 7,
        6_361 * 69_431,
        2 ** 52,
        MAX - 1,
        MAX,
      ];
      for (const limit of sizes) {
        for (const duration of sizes) {
          const limiter = make();
          const wholeLimit = check(limit, limit, duration);
          expect(await granted(limiter, START, wholeLimit)).toBe(true);
          expect(await granted(limiter, START, check(1, limit, duration))).toBe(limit > 0 && duration === 0);
          for (const now of [START, START + 1, START + 999, START + 400 * DAY, 8.64e15]) {
            for (const cost of [0, 1, limit, MAX]) {
              const { remaining, reset } = await takeOne(limiter, now, check(cost, limit, duration));
              expect([remaining, reset].every((value) => Number.isSafeInteger(value) && value >= 0)).toBe(true);
              expect(remaining).toBeLessThanOrEqual(limit);
            }
          }
        }
      }
    });
  });

  /** Runs a history and gives the takes that were granted. */
  async function grantedTakes(
    limiter: Limiter,
    limit: number,
    duration: number,
    history: readonly Step[],
  ): Promise<Take[]> {
    const takes: Take[] = [];
    let now = START;
    for (const { wait, cost } of history) {
      now += wait;
      if (await granted(limiter, now, check(cost, limit, duration))) takes.push({ now, cost });
    }
    return takes;
  }
}

interface Step {
  readonly wait: number;
  readonly cost: number;
}

const aWait = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 1, max: 20 }),
  fc.integer({ min: 1, max: 5_000 }),
  fc.integer({ min: 1, max: 40 * DAY }),
);
/** Limit and duration within the schema's bounds (spec §8), and small ones that are met often. */
const aPair = fc.oneof(
  fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 3_000 })),
  fc.tuple(fc.integer({ min: 1, max: 1_000_000 }), fc.integer({ min: 1_000, max: 2_592_000_000 })),
);
const aHistory: fc.Arbitrary<Step[]> = fc.array(
  fc.record({ wait: aWait, cost: fc.oneof(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 0, max: 1_000_000 })) }),
  { maxLength: 50 },
);
