import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { runWalPrefix } from "./wal-prefix.js";

describe("a log that is cut or spoilt anywhere", () => {
  it("recovers to whole turns of spends, the earlier ones first", async () => {
    const report = await runWalPrefix(60, 1);
    expect(report.problems).toEqual([]);
    expect(report.waves.size).toBeGreaterThan(15);
  });

  it("control: a store that commits the spends of a turn one by one is found out", async () => {
    const oneByOne = (store: Store): Store => {
      let before: Promise<unknown> = Promise.resolve();
      return {
        ...store,
        spendCredits: (ref, cost, period, now) => {
          const mine = before.then(() => store.spendCredits(ref, cost, period, now));
          before = mine;
          return mine;
        },
      };
    };
    const { problems } = await runWalPrefix(40, 2, oneByOne);
    expect(problems.filter((problem) => problem.includes("never were"))).not.toEqual([]);
  });
});
