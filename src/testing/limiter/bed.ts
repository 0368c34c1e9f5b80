/** Checks, small steps and random histories for the suite of limiters. */
import type { LimitCheck, Limiter, LimitVerdict } from "../../contracts/limiter.js";
import { expect } from "../expect.js";
import type { Random } from "../random.js";

export const START = 1_700_000_000_000;
export const MAX = Number.MAX_SAFE_INTEGER;
export const DAY = 86_400_000;

/** Adds a test; its body receives a new limiter, and a function that creates another. */
export type LimiterClause = (
  title: string,
  body: (limiter: Limiter, make: () => Promise<Limiter>) => Promise<void>,
) => void;

export const check = (cost: number, limit = 10, duration = 1_000, bucket = "b"): LimitCheck => ({
  bucket,
  limit,
  duration,
  cost,
});

const verdict = (exceeded: boolean, remaining: number, reset?: number): Partial<LimitVerdict> => ({
  exceeded,
  remaining,
  ...(reset !== undefined && { reset }),
});
/** What is expected of a verdict, but for `reset` where it is not given. */
export const passed = verdict.bind(undefined, false);
/** The same of a refusal. */
export const refused = verdict.bind(undefined, true);

export async function take(limiter: Limiter, now: number, ...checks: LimitCheck[]): Promise<readonly LimitVerdict[]> {
  const verdicts = await limiter.take(checks, now);
  expect(verdicts).toHaveLength(checks.length);
  return verdicts;
}

export const takeOne = async (limiter: Limiter, now: number, one: LimitCheck): Promise<LimitVerdict> =>
  (await take(limiter, now, one))[0]!;

/** Whether each check was refused. */
export const refusals = async (limiter: Limiter, now: number, ...checks: LimitCheck[]): Promise<boolean[]> =>
  (await take(limiter, now, ...checks)).map(({ exceeded }) => exceeded);

export const granted = async (limiter: Limiter, now: number, one: LimitCheck): Promise<boolean> =>
  !(await takeOne(limiter, now, one)).exceeded;

/** Milliseconds: none, a few, some seconds or some days. */
export const randomWait = (random: Random): number =>
  random.pick([0, random.integer(1, 20), random.integer(1, 5_000), random.integer(1, 40 * DAY)]);

/** Limit and duration: within the bounds of requests, or small, so that they are met often. */
export const randomSize = (random: Random): readonly [limit: number, duration: number] =>
  random.pick([
    [random.integer(1, 12), random.integer(1, 3_000)],
    [random.integer(1, 1_000_000), random.integer(1_000, 2_592_000_000)],
  ]);

/** Up to 50 takes. */
export const randomHistory = (random: Random): { readonly wait: number; readonly cost: number }[] =>
  random.list(50, () => ({
    wait: randomWait(random),
    cost: random.pick([random.integer(0, 6), random.integer(0, 1_000_000)]),
  }));
