/** Takes, refusals and their numbers: clauses 1 to 4. */
import { expect } from "../expect.js";
import { withSeeds } from "../random.js";
import {
  check,
  DAY,
  granted,
  type LimiterClause,
  MAX,
  passed,
  randomHistory,
  randomSize,
  refused,
  START,
  take,
  takeOne,
} from "./bed.js";
import { numbersOf, replay, type Take } from "./replay.js";

export function takingClauses(clause: LimiterClause): void {
  clause(
    "clause 1: a check that is exceeded leaves the others' buckets as they were, and all are reported",
    async (limiter) => {
      await takeOne(limiter, START, check(2, 10, 1_000, "first"));
      const verdicts = await take(
        limiter,
        START,
        check(3, 10, 1_000, "first"),
        check(6, 5, 1_000, "second"),
        check(0, 7, 1_000, "third"),
      );
      expect(verdicts).toEqual([passed(8, 200), refused(5, 0), passed(7, 0)]);
      expect(await takeOne(limiter, START, check(8, 10, 1_000, "first"))).toEqual(passed(0, 1_000));
      expect(await takeOne(limiter, START, check(5, 5, 1_000, "second"))).toEqual(passed(0, 1_000));
    },
  );

  clause("clause 1: takes from every bucket of a call that fits, and reports them in order", async (limiter) => {
    expect(await take(limiter, START, check(1, 10, 1_000, "x"), check(2, 20, 60_000, "y"))).toEqual([
      passed(9, 100),
      passed(18, 6_000),
    ]);
    expect(await take(limiter, START)).toEqual([]);
  });

  clause("clause 2: a bucket is full at first sight and refills by the millisecond", async (limiter) => {
    expect(await takeOne(limiter, START, check(10))).toEqual(passed(0, 1_000));
    expect(await takeOne(limiter, START + 99, check(1))).toEqual(refused(0, 901));
    expect(await takeOne(limiter, START + 100, check(1))).toEqual(passed(0, 1_000));
    expect(await takeOne(limiter, START + 350, check(0))).toEqual(passed(2, 750));
    expect(await takeOne(limiter, START + 5_000, check(10))).toEqual(passed(0, 1_000));
  });

  clause("clause 2: owners do not share buckets", async (limiter) => {
    await takeOne(limiter, START, check(10, 10, 1_000, "a"));
    for (const bucket of ["", "b", "A", "a ", "__proto__", "constructor", "a\u0000", "é", "e\u0301"]) {
      expect(await granted(limiter, START, check(10, 10, 1_000, bucket))).toBe(true);
      expect(await granted(limiter, START, check(1, 10, 1_000, bucket))).toBe(false);
    }
  });

  clause("clause 3: a cost above the limit is refused and changes nothing", async (limiter) => {
    for (const cost of [11, 1_000, MAX]) {
      expect(await takeOne(limiter, START, check(cost))).toEqual(refused(10, 0));
    }
    expect(await takeOne(limiter, START, check(1))).toEqual(passed(9, 100));
    expect(await granted(limiter, START + 400 * DAY, check(MAX))).toBe(false);
  });

  clause(
    "clause 3: twice the limit around every phase of a window grants no more than limit plus refill",
    async (_, make) => {
      for (let phase = 0; phase < 1_000; phase += 50) {
        const limiter = await make();
        let sum = 0;
        for (const now of [START + phase, START + phase + 999, START + phase + 1_000]) {
          for (let i = 0; i < 20; i++) if (await granted(limiter, now, check(1))) sum++;
        }
        expect(sum).toBe(20);
      }
    },
  );

  clause("clause 3: no stretch of time grants more than limit plus refill", async (_, make) => {
    await withSeeds(100, async (random) => {
      const [limit, duration] = randomSize(random);
      const limiter = await make();
      const takes: Take[] = [];
      let now = START;
      for (const { wait, cost } of randomHistory(random)) {
        now += wait;
        if (await granted(limiter, now, check(cost, limit, duration))) takes.push({ now, cost });
      }
      for (let from = 0; from < takes.length; from++) {
        let sum = 0n;
        for (const take of takes.slice(from)) {
          sum += BigInt(take.cost);
          const elapsed = take.now - takes[from]!.now;
          const fits = sum * BigInt(duration) <= BigInt(limit) * BigInt(duration + elapsed);
          expect(fits, `${sum} tokens in ${elapsed} ms fit`).toBe(true);
        }
      }
    });
  });

  clause(
    "clauses 2 and 3: verdict, remaining and reset are exactly those of a replay of all takes",
    async (_, make) => {
      await withSeeds(200, async (random) => {
        const [limit, duration] = randomSize(random);
        const limiter = await make();
        const takes: Take[] = [];
        let now = START;
        for (const { wait, cost } of randomHistory(random)) {
          now += wait;
          const before = replay(limit, duration, takes, now);
          const exceeded = cost > 0 && before + BigInt(cost) * BigInt(duration) > BigInt(limit) * BigInt(duration);
          if (!exceeded && cost > 0) takes.push({ now, cost });
          const { remaining, reset } = numbersOf(limit, duration, replay(limit, duration, takes, now));
          const verdict = await takeOne(limiter, now, check(cost, limit, duration));
          expect(verdict).toMatchObject({ exceeded, remaining });
          expect(Math.abs(verdict.reset - reset), "error of reset, in milliseconds").toBeLessThan(0.001);
        }
      });
    },
  );

  clause("clause 4: cost 0 passes and takes nothing, whatever the bucket holds", async (limiter) => {
    for (let i = 0; i < 3; i++) expect(await takeOne(limiter, START, check(0))).toEqual(passed(10, 0));
    await takeOne(limiter, START, check(10));
    for (let i = 0; i < 3; i++) expect(await takeOne(limiter, START, check(0))).toEqual(passed(0, 1_000));
    expect(await takeOne(limiter, START, check(0, 0))).toMatchObject(passed(0));
    expect(await granted(limiter, START + 100, check(1))).toBe(true);
  });

  clause("clause 4: limit 0 refuses every cost above 0, and takes nothing", async (limiter) => {
    for (const duration of [0, 1, 1_000, MAX]) {
      for (const cost of [1, 2, MAX])
        expect(await takeOne(limiter, START, check(cost, 0, duration))).toMatchObject(refused(0));
    }
    expect(await takeOne(limiter, START, check(10))).toMatchObject(passed(0));
  });

  clause("clause 4: duration 0 is a bucket that is always full", async (limiter) => {
    for (let i = 0; i < 50; i++) expect(await takeOne(limiter, START, check(10, 10, 0))).toEqual(passed(10, 0));
    expect(await takeOne(limiter, START, check(11, 10, 0))).toEqual(refused(10, 0));
  });
}
