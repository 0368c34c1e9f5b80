/** Clocks, floods and extreme numbers: clauses 7 and 8. */
import { expect } from "../expect.js";
import { withSeeds } from "../random.js";
import { check, DAY, granted, type LimiterClause, MAX, passed, randomSize, refused, START, takeOne } from "./bed.js";

export function timeClauses(clause: LimiterClause): void {
  clause("clause 7: a clock that jumps 400 days ahead and back fills a bucket once at most", async (limiter) => {
    expect(await granted(limiter, START, check(10))).toBe(true);
    expect(await granted(limiter, START + 400 * DAY, check(10))).toBe(true);
    let sum = 0;
    for (let ms = 0; ms < 5_000; ms += 10) if (await granted(limiter, START + ms, check(1))) sum++;
    expect(sum).toBe(0);
    expect(await takeOne(limiter, START + 400 * DAY + 100, check(1))).toEqual(passed(0, 1_000));
  });

  clause("clause 7: a clock that swings mints nothing", async (limiter) => {
    expect(await granted(limiter, START + 1_000, check(10))).toBe(true);
    for (let i = 0; i < 50; i++) {
      expect(await granted(limiter, START + i, check(1))).toBe(false);
      expect(await granted(limiter, START + 1_000, check(1))).toBe(false);
    }
  });

  clause("clause 7: any clock grants what the latest time seen so far would", async (_, make) => {
    await withSeeds(100, async (random) => {
      const [limit, duration] = randomSize(random);
      const [wild, steady] = [await make(), await make()];
      let latest = -Infinity;
      for (const offset of random.list(40, () => random.integer(-3_000, 3_000))) {
        latest = Math.max(latest, START + offset);
        const one = check(random.integer(0, 6), limit, duration);
        const { exceeded } = await takeOne(wild, START + offset, one);
        expect(exceeded).toBe((await takeOne(steady, latest, one)).exceeded);
      }
    });
  });

  clause("clause 8: a flood of other buckets makes it forget none that refuses", async (limiter) => {
    await takeOne(limiter, START, check(10, 10, DAY));
    for (let i = 0; i < 20_000; i++) {
      await takeOne(limiter, START + i, check(1, 10, DAY, `flood ${i}`));
      if (i % 500 === 0) expect(await granted(limiter, START + i, check(1, 10, DAY))).toBe(false);
    }
    expect(await takeOne(limiter, START + 20_000, check(1, 10, DAY))).toMatchObject(refused(0));
  });

  clause("clauses 2 and 3: every number stays finite, and no limit becomes endless", async (_, make) => {
    const whole = [0, 1, 2, 3, 999, 1_000, 1_000_000, 2_592_000_000, 6_361 * 69_431];
    const sizes = [...whole, ...[31, 32, 52].map((n) => 2 ** n), 2 ** 33 + 7, MAX - 1, MAX];
    for (const limit of sizes) {
      for (const duration of sizes) {
        const limiter = await make();
        const wholeLimit = check(limit, limit, duration);
        expect(await granted(limiter, START, wholeLimit)).toBe(true);
        expect(await granted(limiter, START, check(1, limit, duration))).toBe(limit > 0 && duration === 0);
        for (const now of [START, START + 1, START + 999, START + 400 * DAY, 8.64e15]) {
          for (const cost of [0, 1, limit, MAX]) {
            const { remaining, reset } = await takeOne(limiter, now, check(cost, limit, duration));
            expect(Number.isSafeInteger(remaining) && remaining >= 0 && remaining <= limit).toBe(true);
            expect(reset >= 0 && reset <= MAX).toBe(true);
          }
        }
      }
    }
  });
}
