/** Who holds how much, compared with a plain list of counts. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Ranking } from "../../src/lib/ranking.js";
import { runs } from "../runs.js";

/** Compares all that a ranking says with the counts themselves. */
function expectCounts(ranking: Ranking<number>, counts: readonly number[]): void {
  expect(counts.map((_, holder) => ranking.countOf(holder))).toEqual(counts);
  expect(ranking.total).toBe(counts.reduce((sum, count) => sum + count, 0));
  expect(ranking.holders).toBe(counts.filter((count) => count > 0).length);
  const most = Math.max(0, ...counts);
  const largest = ranking.largest();
  expect(largest === undefined ? 0 : counts[largest]).toBe(most);
}

describe("Ranking: like a list of counts", () => {
  it("knows one of those who hold most, whoever adds and removes", () => {
    const step = fc.record({ holder: fc.nat(5), isAdded: fc.boolean(), times: fc.integer({ min: 1, max: 8 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const ranking = new Ranking<number>();
        const counts = [0, 0, 0, 0, 0, 0];
        for (const { holder, isAdded, times } of steps) {
          for (let i = 0; i < times; i++) {
            const held = counts[holder]!;
            if (!isAdded && held === 0) break;
            if (isAdded) ranking.add(holder);
            else ranking.remove(holder);
            counts[holder] = held + (isAdded ? 1 : -1);
            expectCounts(ranking, counts);
          }
        }
      }),
      { numRuns: runs(300) },
    );
  });

  it("counts to a hundred, and back to nothing", () => {
    const ranking = new Ranking<number>();
    const counts = [0, 0, 0];
    expect([ranking.countOf(99), ranking.largest()]).toEqual([0, undefined]);
    for (const [holder, change] of [
      [0, 31],
      [2, 100],
      [1, 70],
      [0, 40],
      [2, -31],
      [2, -69],
      [0, -71],
      [1, -70],
    ] as const) {
      for (let i = 0; i < Math.abs(change); i++) {
        if (change > 0) ranking.add(holder);
        else ranking.remove(holder);
        counts[holder]! += Math.sign(change);
        expectCounts(ranking, counts);
      }
    }
    expect(counts).toEqual([0, 0, 0]);
  });

  it("where several hold most, any of them may give some up or take more", () => {
    const HOLDERS = [0, 1, 2, 3];
    for (const first of HOLDERS) {
      for (const second of HOLDERS) {
        for (const change of [1, -1]) {
          const ranking = new Ranking<number>();
          const counts = [2, 2, 2, 2];
          for (const holder of [...HOLDERS, ...HOLDERS]) ranking.add(holder);
          for (const holder of [first, second, first]) {
            if (counts[holder] === 0) continue;
            if (change > 0) ranking.add(holder);
            else ranking.remove(holder);
            counts[holder]! += change;
            expectCounts(ranking, counts);
          }
        }
      }
    }
  });
});
