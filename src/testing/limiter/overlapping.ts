/** Calls that are in flight at once: clauses 1 and 3. */
import type { LimitCheck, Limiter } from "../../contracts/limiter.js";
import { expect } from "../expect.js";
import { check, type LimiterClause, refused, START, take, takeOne } from "./bed.js";

/** Starts every call before it waits for the first. @returns for each call its last `remaining`; refused: undefined */
async function atOnce(limiter: Limiter, now: number, calls: readonly LimitCheck[][]): Promise<(number | undefined)[]> {
  const verdicts = await Promise.all(calls.map((checks) => take(limiter, now, ...checks)));
  return verdicts.map((of) => (of.some(({ exceeded }) => exceeded) ? undefined : of.at(-1)?.remaining));
}

const times = (count: number, call: (n: number) => LimitCheck[]): LimitCheck[][] =>
  Array.from({ length: count }, (_, n) => call(n));

export function overlappingClauses(clause: LimiterClause): void {
  clause(
    "clause 3: calls in flight at once are granted the limit and what refills, no more and no less",
    async (limiter) => {
      const rounds = [
        { now: START, cost: 1, left: [4, 3, 2, 1, 0] },
        { now: START + 400, cost: 1, left: [1, 0] },
        { now: START + 5_000, cost: 2, left: [3, 1] },
      ];
      for (const { now, cost, left } of rounds) {
        const calls = times(50, () => [check(cost, 5)]);
        const granted = await atOnce(limiter, now, calls);
        const remaining = granted.filter((one) => one !== undefined).sort((a, b) => b - a);
        expect(remaining, `at ${now - START} ms`).toEqual(left);
      }
      expect(await takeOne(limiter, START + 5_000, check(2, 5))).toMatchObject(refused(1));
    },
  );

  clause("clause 1: of calls in flight at once, each takes from all its buckets or from none", async (limiter) => {
    const [x, y, z] = ["x", "y", "z"].map((bucket, i) => (cost: number) => check(cost, [5, 8, 100][i], 60_000, bucket));
    const pairs = times(40, (n) => {
      const pair = n % 2 === 0 ? [x!(1), y!(1)] : [y!(1), z!(1)];
      return n % 4 < 2 ? pair : pair.reverse();
    });
    const granted = (await atOnce(limiter, START, pairs)).map((one) => one !== undefined);
    const count = (parity: number) => granted.filter((one, n) => one && n % 2 === parity).length;
    const [fromX, fromZ] = [count(0), count(1)];
    expect(fromX + fromZ, "granted by the bucket that all share").toBe(8);
    expect((await take(limiter, START, x!(0), y!(0), z!(0))).map(({ remaining }) => remaining)).toEqual([
      5 - fromX,
      0,
      100 - fromZ,
    ]);
  });
}
