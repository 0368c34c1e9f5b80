import { afterEach, describe, expect, it, vi } from "vitest";
import { askInTime } from "../../../../src/stores/sqlite/changes/change-polling.js";
import { nextTurn, withoutTicks } from "../support.js";

describe("askInTime", () => {
  afterEach(() => void vi.useRealTimers());

  it.each(["turn", "call", 1_000] as const)("%s: a time that is no number asks, whatever was asked before", (staleness) => {
    let asked = 0;
    const { catchUp } = askInTime(() => void asked++, staleness);
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
    const { catchUp } = askInTime(() => {
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

  it("turn: what was noted holds for the microtasks of its callback, and no longer", async () => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    let asked = 0;
    const { catchUp, note } = askInTime(() => void asked++, "turn");
    await new Promise<void>((resolve) => {
      setImmediate(() => {
        // Of the next tick, which Node runs before the microtasks of this callback.
        process.nextTick(() => undefined);
        note();
        void Promise.resolve().then(() => {
          catchUp(Date.now());
          catchUp();
          expect(asked).toBe(0);
        });
      });
      setImmediate(() => {
        catchUp(Date.now());
        resolve();
      });
    });
    expect(asked).toBe(1);
  });

  it("turn: it ends though the timers of the program's tests are faked, all of them", async () => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    for (const begin of ["catchUp", "note"] as const) {
      let asked = 0;
      const staleness = askInTime(() => void asked++, "turn");
      withoutTicks(() => staleness[begin](Date.now()));
      await nextTurn();
      asked = 0;
      staleness.catchUp(Date.now());
      expect(asked, begin).toBe(1);
    }
  });

  it.each(["turn", 250] as const)("%s: what was noted is too old after its time, by either clock", (staleness) => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    let asked = 0;
    const { catchUp, note } = askInTime(() => void asked++, staleness);
    const bound = staleness === "turn" ? 1 : staleness;
    for (const now of [() => undefined, () => Date.now()]) {
      asked = 0;
      note();
      vi.advanceTimersByTime(bound - 1);
      catchUp(now());
      expect(asked).toBe(0);
      vi.advanceTimersByTime(1);
      catchUp(now());
      expect(asked).toBe(1);
    }
  });

  it("call: what was noted spares no question", () => {
    let asked = 0;
    const { catchUp, note } = askInTime(() => void asked++, "call");
    note();
    catchUp();
    expect(asked).toBe(1);
  });
});
