import { describe, expect, it } from "vitest";
import { askInTime } from "../../../src/stores/sqlite/staleness.js";

describe("askInTime", () => {
  it.each(["turn", "call", 1_000] as const)("%s: a time that is no number asks, whatever was asked before", (staleness) => {
    let asked = 0;
    const catchUp = askInTime(() => void asked++, staleness);
    catchUp(NaN);
    catchUp(NaN);
    catchUp();
    catchUp(NaN);
    expect(asked).toBeGreaterThanOrEqual(3);
    asked = 0;
    catchUp(NaN);
    expect(asked).toBe(1);
  });

  it.each(["turn", 1_000] as const)("%s: a call that throws counts as not asked, and so does what was asked before it", (staleness) => {
    let asked = 0;
    let fails = false;
    const catchUp = askInTime(() => {
      asked++;
      if (fails) throw new Error("busy");
    }, staleness);
    for (const now of [1_000, undefined]) {
      catchUp(now);
      fails = true;
      expect(() => catchUp(NaN)).toThrow("busy");
      fails = false;
      asked = 0;
      catchUp(now);
      expect(asked).toBe(1);
    }
  });
});
