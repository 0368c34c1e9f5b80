import { expect, it } from "vitest";
import { mergeRuns } from "../../src/lib/merge-runs.js";
import { inSteps } from "../../src/lib/slices.js";

const compare = (a: number, b: number) => a - b;

it("mergeRuns: pauses every few thousand items, however long the runs are; of equal items one is left", () => {
  const run = (n: number) => Array.from({ length: 20_000 }, (_, i) => i * 3 + n);
  const steps: number[] = [];
  const merged = inSteps(
    mergeRuns([run(0), run(1), run(2), [5, 7], []], compare, (cost) => void steps.push(cost)),
  ) as readonly number[];
  expect(merged).toEqual(Array.from({ length: 60_000 }, (_, i) => i));
  expect(Math.max(...steps)).toBeLessThan(5_000);
  expect(steps.reduce((sum, cost) => sum + cost)).toBeGreaterThan(60_000);
  expect(inSteps(mergeRuns([], compare, () => undefined))).toEqual([]);
});
