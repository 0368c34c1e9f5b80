import { afterEach, describe, expect, it, vi } from "vitest";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { nextTurn, pollingOf, withoutTicks } from "../support.js";

describe("askInTime", () => {
  afterEach(() => void vi.useRealTimers());

  it.each(["turn", "call", 1_000] as const)(
    "%s: a time that is not a number asks, whatever was asked before",
    (staleness) => {
      let asked = 0;
      const { pollChanges } = pollingOf(() => void asked++, staleness);
      pollChanges("anew");
      pollChanges("anew");
      pollChanges();
      pollChanges("anew");
      expect(asked).toBeGreaterThanOrEqual(3);
      asked = 0;
      pollChanges("anew");
      expect(asked).toBe(1);
    },
  );

  it("milliseconds: counts them by a clock that nobody sets, whatever time it is given", () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    let asked = 0;
    const { pollChanges } = pollingOf(() => void asked++, 1_000);
    pollChanges(50_000);
    vi.advanceTimersByTime(999);
    // The system's clock may have been set forward, or back by as much as has passed.
    for (const now of [60_000, 50_001, 1, undefined]) {
      pollChanges(now);
      expect(asked).toBe(1);
    }
    for (const [i, now] of [60_000, 50_001, 1, undefined].entries()) {
      vi.advanceTimersByTime(i === 0 ? 1 : 1_000);
      for (let times = 0; times < 2; times++) pollChanges(now);
      expect(asked).toBe(2 + i);
    }
  });

  it.each(["turn", 1_000] as const)(
    "%s: a call that throws counts as not asked, and so does what was asked before it",
    (staleness) => {
      let asked = 0;
      let fails = false;
      const { pollChanges } = pollingOf(() => {
        asked++;
        if (fails) throw new Error("busy");
      }, staleness);
      vi.useFakeTimers({ toFake: ["performance"] });
      for (const now of [1_000, undefined]) {
        pollChanges(now);
        vi.advanceTimersByTime(1_000);
        fails = true;
        expect(() => pollChanges("anew")).toThrow("busy");
        fails = false;
        asked = 0;
        pollChanges(now);
        expect(asked).toBe(1);
      }
    },
  );

  it("turn: what was noted holds for the microtasks of its callback, and no longer", async () => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    let asked = 0;
    const { pollChanges, note } = pollingOf(() => void asked++, "turn");
    await new Promise<void>((resolve) => {
      setImmediate(() => {
        // Of the next tick, which Node runs before the microtasks of this callback.
        process.nextTick(() => undefined);
        note();
        void Promise.resolve().then(() => {
          pollChanges(Date.now());
          pollChanges();
          expect(asked).toBe(0);
        });
      });
      setImmediate(() => {
        pollChanges(Date.now());
        resolve();
      });
    });
    expect(asked).toBe(1);
  });

  it("turn: it ends though the timers of the program's tests are faked, all of them", async () => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    for (const begin of ["pollChanges", "note"] as const) {
      let asked = 0;
      const staleness = pollingOf(() => void asked++, "turn");
      withoutTicks(() => staleness[begin](Date.now()));
      await nextTurn();
      asked = 0;
      staleness.pollChanges(Date.now());
      expect(asked, begin).toBe(1);
    }
  });

  it.each(["turn", 250] as const)("%s: what was noted is too old after its time, by either clock", (staleness) => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    let asked = 0;
    const { pollChanges, note } = pollingOf(() => void asked++, staleness);
    const bound = staleness === "turn" ? 1 : staleness;
    for (const now of [() => undefined, () => Date.now()]) {
      asked = 0;
      note();
      vi.advanceTimersByTime(bound - 1);
      pollChanges(now());
      expect(asked).toBe(0);
      vi.advanceTimersByTime(1);
      pollChanges(now());
      expect(asked).toBe(1);
    }
  });

  it.each(["turn", "call", 1_000] as const)(
    "%s: a store that was closed refuses, however recent its poll",
    (staleness) => {
      const store = sqliteStore(":memory:", { staleness });
      void store.pollChanges();
      void store.close();
      expect(() => store.pollChanges()).toThrow("closed");
    },
  );

  it("call: what was noted spares no question", () => {
    let asked = 0;
    const { pollChanges, note } = pollingOf(() => void asked++, "call");
    note();
    pollChanges();
    expect(asked).toBe(1);
  });
});
