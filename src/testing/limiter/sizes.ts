/** Buckets under several limits and durations, and several checks of one bucket: clauses 5 and 6. */
import { expect } from "../expect.js";
import { withSeeds } from "../random.js";
import {
  check,
  DAY,
  granted,
  type LimiterClause,
  passed,
  randomSize,
  randomWait,
  refusals,
  refused,
  START,
  take,
  takeOne,
} from "./bed.js";
import { replay, type Take } from "./replay.js";

export function sizesClauses(clause: LimiterClause): void {
  clause("clause 5: another limit or duration leaves the tokens used in place", async (limiter) => {
    await takeOne(limiter, START, check(8, 10, 60_000));
    expect(await takeOne(limiter, START, check(0, 20, 60_000))).toMatchObject(passed(12));
    expect(await takeOne(limiter, START, check(0, 5, 60_000))).toMatchObject(passed(0));
    expect(await takeOne(limiter, START, check(1, 5, 60_000))).toMatchObject(refused(0));
    expect(await takeOne(limiter, START, check(1, 8, 1_000))).toMatchObject(refused(0));
    expect(await takeOne(limiter, START, check(12, 20, 60_000))).toMatchObject(passed(0));
    expect(await takeOne(limiter, START, check(1, 10, 60_000))).toMatchObject(refused(0));
  });

  clause("clause 5: a look through a fast override does not refill a slow limit", async (limiter) => {
    await takeOne(limiter, START, check(10, 10, DAY));
    await takeOne(limiter, START + 10_000, check(0, 1_000_000, 1_000));
    await takeOne(limiter, START + 10_000, check(1, 1_000_000, 1_000));
    expect(await granted(limiter, START + 20_000, check(1, 10, DAY))).toBe(false);
  });

  clause("clause 5: no size ever grants more than it would alone, however sizes are mixed", async (_, make) => {
    await withSeeds(200, async (random) => {
      const limiter = await make();
      const sizes = [randomSize(random), ...random.list(6, () => randomSize(random))];
      const own = new Map(sizes.map((size) => [String(size), [] as Take[]]));
      let now = START;
      for (const wait of random.list(60, () => randomWait(random))) {
        now += wait;
        const cost = random.integer(0, 40);
        const [limit, duration] = sizes[random.integer(0, sizes.length - 1)]!;
        const takes = own.get(String([limit, duration]))!;
        if (!(await granted(limiter, now, check(cost, limit, duration))) || cost === 0) continue;
        const used = replay(limit, duration, takes, now) + BigInt(cost) * BigInt(duration);
        const fits = used <= BigInt(limit) * BigInt(duration);
        expect(fits, `${cost} of ${limit} in ${duration} ms fit`).toBe(true);
        takes.push({ now, cost });
      }
    });
  });

  clause(
    "clause 5: what is taken by overrides is used up for the limit itself, and comes back at its own speed",
    async (_, make) => {
      const own = { limit: 10, duration: 60_000 };
      const capacity = BigInt(own.limit) * BigInt(own.duration);
      await withSeeds(200, async (random) => {
        const limiter = await make();
        let used = 0n;
        let now = START;
        for (const wait of random.list(40, () => randomWait(random))) {
          now += wait;
          used -= BigInt(own.limit) * BigInt(wait);
          if (used < 0n) used = 0n;
          const cost = random.integer(0, 12);
          const after = used + BigInt(cost) * BigInt(own.duration);
          const isOwn = random.pick([true, false]);
          const one = isOwn
            ? check(cost, own.limit, own.duration)
            : { ...check(cost, random.integer(0, 30), random.pick([0, 1, 1_000, DAY])), configured: own };
          const { exceeded } = await takeOne(limiter, now, one);
          if (isOwn) expect(exceeded, `${cost} by itself`).toBe(cost > 0 && after > capacity);
          if (!exceeded) used = after < capacity ? after : capacity;
        }
      });
    },
  );

  clause("clause 5: a limit that is used by generous overrides goes into no debt", async (limiter) => {
    const own = { limit: 10, duration: 60_000 };
    const generous = (limit: number) => ({ ...check(1, limit, 60_000), configured: own });
    let now = START;
    for (; now < START + 3_600_000; now += 1_000) expect(await granted(limiter, now, generous(100))).toBe(true);
    expect(await takeOne(limiter, now, generous(200))).toMatchObject(passed(189));
    expect(await granted(limiter, now, check(1, 10, 60_000))).toBe(false);
    expect(await granted(limiter, now + 6_000, check(1, 10, 60_000))).toBe(true);
  });

  clause(
    "clause 5: a first take by an override is the limit's first take too, whatever its duration",
    async (_, make) => {
      const own = { limit: 10, duration: 60_000 };
      for (const [limit, duration] of [
        [1_000, 60_000],
        [10, 1],
        [10, 0],
        [10, DAY],
      ] as const) {
        const limiter = await make();
        expect(await granted(limiter, START, { ...check(10, limit, duration), configured: own })).toBe(true);
        expect(await takeOne(limiter, START + 10, check(1, 10, 60_000))).toEqual(refused(0, 59_990));
        expect(await takeOne(limiter, START + 6_000, check(1, 10, 60_000))).toMatchObject(passed(0));
      }
      for (const first of [0, 1]) {
        const limiter = await make();
        const both = [check(5, 10, 60_000), { ...check(5, 10, 0), configured: own }];
        await take(limiter, START, ...(first === 0 ? both : both.reverse()));
        expect(await takeOne(limiter, START, check(0, 10, 60_000))).toMatchObject({ remaining: 0 });
      }
    },
  );

  clause("clause 5: of a limit of 0 nothing stays used, however overrides raise it", async (_, make) => {
    const closed = { limit: 0, duration: 60_000 };
    for (const [limit, duration] of [
      [5, 0],
      [5, 60_000],
    ] as const) {
      const limiter = await make();
      expect(await granted(limiter, START, { ...check(1, limit, duration), configured: closed })).toBe(true);
      for (const cost of [0, 1])
        expect(await takeOne(limiter, START + 1, check(cost, 0, 60_000))).toEqual({
          exceeded: cost > 0,
          remaining: 0,
          reset: 60_000,
        });
      // Raised for good: what is taken from now on returns.
      for (let i = 2; i < 5; i++) expect(await granted(limiter, START + i, check(1, 10, 60_000))).toBe(true);
      expect(await takeOne(limiter, START + 120_000, check(0, 11, 60_000))).toMatchObject({ remaining: 11, reset: 0 });
    }
  });

  clause("clause 6: two checks of one bucket must fit together, each with its own result", async (limiter) => {
    const half = [check(6), check(6)];
    expect(await take(limiter, START, ...half)).toEqual([passed(10, 0), refused(10, 0)]);
    expect(await refusals(limiter, START, check(1_000), check(0))).toEqual([true, false]);
    expect(await take(limiter, START, check(6), check(4))).toEqual([passed(0, 1_000), passed(0, 1_000)]);
    expect(await refusals(limiter, START + 500, check(2), check(4))).toEqual([false, true]);
    expect(await refusals(limiter, START + 500, check(1), check(4))).toEqual([false, false]);
  });

  clause("clause 6: they fit together also under different limits and a duration of 0", async (limiter) => {
    expect(await refusals(limiter, START, check(5, 100), check(6, 10))).toEqual([false, true]);
    expect(await refusals(limiter, START, check(6, 10, 0), check(6, 10, 0))).toEqual([false, true]);
    expect(await refusals(limiter, START, check(5, 10, 0), check(6, 10))).toEqual([false, true]);
    expect(await refusals(limiter, START, check(4, 100), check(6, 10))).toEqual([false, false]);
    expect(await takeOne(limiter, START, check(0))).toMatchObject({ remaining: 0 });
    expect(await takeOne(limiter, START, check(0, 100))).toMatchObject({ remaining: 90 });
  });
}
