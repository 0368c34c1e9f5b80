/** Limits that are configured anew, and the waits that refusals tell: clauses 5 and 9. */
import type { LimitCheck, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import { expect } from "../expect.js";
import { type Random, withSeeds } from "../random.js";
import { check, DAY, granted, type LimiterClause, randomSize, randomWait, START, take, takeOne } from "./bed.js";

const HOUR = 3_600_000;

/** A check of a limit that is configured so. */
const own = (cost: number, configured: LimitSize): LimitCheck => ({ ...check(cost), ...configured, configured });

/** Three sizes that a limit is given in turn. */
function threeSizes(random: Random): readonly [LimitSize, LimitSize, LimitSize] {
  const size = () => {
    const [limit, duration] = randomSize(random);
    return { limit, duration };
  };
  return [size(), size(), size()];
}

/**
 * The wait by clause 9 of checks of one bucket. The error of doubles is far below the smallest fraction that occurs,
 * a millionth.
 */
function waitOf(checks: readonly LimitCheck[], verdicts: readonly LimitVerdict[]): number {
  let sum = 0;
  const waits = checks.map(({ cost, limit, duration }, i) => {
    sum += cost;
    if (cost === 0) return 0;
    return sum > limit ? Infinity : verdicts[i]!.reset - ((limit - sum) * duration) / limit;
  });
  return Math.max(0, Math.ceil(Math.max(...waits) - 4e-7));
}

export function waitingClauses(clause: LimiterClause): void {
  clause(
    "clause 5: what is used drains at a rate that is configured anew, from the call that brings it",
    async (_, make) => {
      for (const [before, after, wait] of [
        [{ limit: 100, duration: DAY }, { limit: 100, duration: 60_000 }, 600],
        [{ limit: 1_000, duration: HOUR }, { limit: 10, duration: HOUR }, 99 * HOUR + HOUR / 10],
      ] as const) {
        for (const cost of [0, 1]) {
          const limiter = await make();
          await takeOne(limiter, START, own(before.limit, before));
          const { remaining, reset } = await takeOne(limiter, START, own(cost, after));
          expect([remaining, reset]).toEqual([0, (before.limit * after.duration) / after.limit]);
          expect(await granted(limiter, START + wait - 1, own(1, after))).toBe(false);
          expect(await granted(limiter, START + wait, own(1, after))).toBe(true);
        }
      }
    },
  );

  clause("clause 5: a rate that is configured again goes on with what is used by then", async (limiter) => {
    const [day, minute] = [DAY, 60_000].map((duration) => ({ limit: 10, duration }));
    await takeOne(limiter, START, own(10, day!));
    for (let n = 0; n < 100; n++)
      expect(await granted(limiter, START, own(1, n % 2 === 0 ? minute! : day!))).toBe(false);
    await takeOne(limiter, START, own(0, minute!));
    expect(await takeOne(limiter, START + 30_000, own(0, day!))).toMatchObject({ remaining: 5, reset: DAY / 2 });
    expect(await takeOne(limiter, START + 60_000, own(0, day!))).toMatchObject({ remaining: 5 });
  });

  clause("clause 5: however rates are configured and overridden in turn, nothing is gained", async (_, make) => {
    await withSeeds(150, async (random) => {
      const limiter = await make();
      const sizes = threeSizes(random);
      let [now, used, configured] = [START, 0, sizes[0]];
      for (const wait of random.list(60, () => randomWait(random))) {
        now += wait;
        used = Math.max(0, used - (wait * configured.limit) / configured.duration);
        configured = random.pick([configured, configured, random.pick(sizes)]);
        const cost = random.integer(0, 2 * configured.limit);
        const override = random.pick([undefined, undefined, random.pick(sizes)]);
        if (!(await granted(limiter, now, { ...own(cost, configured), ...override })) || cost === 0) continue;
        const isOwn = override === undefined || override === configured;
        if (isOwn) expect(used + cost - configured.limit, "tokens above the limit").toBeLessThan(1e-6);
        used = isOwn ? used + cost : Math.max(used, Math.min(configured.limit, used + cost));
      }
    });
  });

  clause(
    "clause 9: after the wait that it tells the same call passes, a millisecond before it does not",
    async (_, make) => {
      await withSeeds(150, async (random) => {
        const limiter = await make();
        const sizes = threeSizes(random);
        let [now, configured] = [START, sizes[0]];
        for (const wait of random.list(30, () => randomWait(random))) {
          now += wait;
          configured = random.pick([configured, random.pick(sizes)]);
          const isConfigured = random.pick([true, true, false]);
          const checks = Array.from({ length: random.integer(1, 3) }, (): LimitCheck => {
            const size = random.pick([configured, configured, random.pick(sizes)]);
            const cost = random.pick([0, 1, random.integer(1, size.limit), 2 * size.limit]);
            return { ...check(cost), ...size, configured: isConfigured ? configured : undefined };
          });
          const verdicts = await take(limiter, now, ...checks);
          if (verdicts.every(({ exceeded }) => !exceeded)) continue;
          const needed = waitOf(checks, verdicts);
          if (needed === Infinity) continue;
          const passes = async (at: number) => (await take(limiter, at, ...checks)).every(({ exceeded }) => !exceeded);
          expect(await passes(now + needed - 1), `a millisecond before ${needed} ms`).toBe(false);
          now += needed;
          expect(await passes(now), `after ${needed} ms`).toBe(true);
        }
      });
    },
  );
}
