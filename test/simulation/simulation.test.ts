/** The simulator's short run, and whether it finds what it is for. The long run is `npm run simulate`. */
import { describe, expect, it } from "vitest";
import { runs } from "../runs.js";
import { memoryBed, sqliteBed } from "./beds.js";
import { CLAUSES, VIOLATIONS } from "./faults.js";
import { find, LENGTH, play } from "./playing.js";
import { shorten, simulate } from "./simulate.js";

describe("every interleaving of clients of one store", () => {
  it("memory store: what is acknowledged, spent, refilled and left agrees, whatever overlaps, fails or dies", async () => {
    // `npm test` takes a part of them: `explore.test.ts` makes 100,000 steps more.
    const steps = runs(100_000);
    expect(await play({ seed: 1, length: 1_000, bed: memoryBed }, steps)).toBeGreaterThanOrEqual(steps);
  });

  it("SQLite: the same with a handle for each client on one file", async () => {
    expect(await play({ seed: 1, length: LENGTH, bed: sqliteBed }, 4_000)).toBeGreaterThanOrEqual(4_000);
  });

  it("a seed reproduces a run step by step, answers included", async () => {
    for (const seed of [3, 7, 11]) {
      const run = { seed, length: LENGTH, bed: memoryBed, isTraced: true };
      const first = await simulate(run);
      const second = await simulate(run);
      expect(second).toEqual(first);
      expect(first.trace.length).toBeGreaterThan(LENGTH);
      // So does the schedule that it chose.
      expect((await simulate({ ...run, replay: first.schedule })).trace).toEqual(first.trace);
    }
  });
});

describe("control: the simulator finds what is planted", () => {
  it.each(Object.entries(VIOLATIONS))("a store or client that %s", async (_, plant) => {
    const found = await find(plant);
    expect((await simulate(found)).violation?.message.replace(/key_\w+/g, "")).toBe(
      found.violation?.message.replace(/key_\w+/g, ""),
    );
  });

  it.each(Object.entries(CLAUSES))("a store, client or limiter that %s", async (_, plant) => {
    const found = await find(plant, plant.clauses);
    expect(plant.clauses).toContain(found.violation?.clause);
  });

  it("a failing schedule is made short and fails again in the same clause", async () => {
    const plant = VIOLATIONS["gives a rerolled key a balance of its own, read outside its write"]!;
    const found = await find(plant, ["shared"]);
    const short = await shorten(found, found, 150);
    expect(short.violation?.clause).toBe("shared");
    expect(short.schedule.length).toBeLessThan(found.schedule.length / 2);
  });
});
