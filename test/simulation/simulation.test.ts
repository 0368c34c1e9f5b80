/** The simulator's short run, and whether it finds what it is for. The long run is `npm run simulate`. */
import { afterAll, describe, expect, it } from "vitest";
import { runs } from "../runs.js";
import { memoryBed, sqliteBed } from "./beds.js";
import { CLAUSES, CONNECTION_FAULTS, VIOLATIONS } from "./faults.js";
import { endPostgres, postgresBed } from "./postgres-bed.js";
import { type Outcome, type Run, shorten, simulate } from "./simulate.js";
import type { Plant } from "./world.js";

const LENGTH = 500;
/** Of the schedules for planted faults: there the rare ones are soon found (`npm run simulate -- --plants`, from seed 1: by the 24th). */
const FIRST_SEED = 110;
/** The same with PostgreSQL, whose schedules take longer. */
const FIRST_CONNECTED_SEED = 6;

afterAll(() => endPostgres());

/** Plays schedules until so many steps are made. @throws with the trace of the first one that fails, made short */
async function play(first: Run, steps: number): Promise<number> {
  let done = 0;
  for (let { seed } = first; done < steps; seed++) {
    const run = { ...first, seed };
    const outcome = await simulate(run);
    done += outcome.steps;
    if (outcome.violation === undefined) continue;
    const { trace, schedule, violation } = await shorten(run, outcome);
    throw new Error(`seed ${seed}: ${violation?.message}\n${schedule.join(" ")}\n${trace.join("\n")}`);
  }
  return done;
}

/** The first schedule that finds a planted fault, in one of these clauses if any are given. */
async function find(
  plant: Plant,
  clauses?: readonly string[],
  { bed, first }: { bed: Run["bed"]; first: number } = { bed: memoryBed, first: FIRST_SEED },
): Promise<Outcome & Run> {
  for (let seed = first; seed < first + 5_000; seed++) {
    const run = { seed, length: LENGTH, bed, plant };
    const outcome = await simulate(run);
    const { violation } = outcome;
    if (violation !== undefined && clauses?.includes(violation.clause) !== false) return { ...run, ...outcome };
  }
  return expect.unreachable("no schedule found the fault");
}

describe("every interleaving of clients of one store", () => {
  it("memory store: what is acknowledged, spent, refilled and left agrees, whatever overlaps, fails or dies", async () => {
    // `npm test` takes a part of them: `explore.test.ts` makes 100,000 steps more.
    const steps = runs(100_000);
    expect(await play({ seed: 1, length: 1_000, bed: memoryBed }, steps)).toBeGreaterThanOrEqual(steps);
  });

  it("SQLite: the same with a handle for each client on one file", async () => {
    expect(await play({ seed: 1, length: LENGTH, bed: sqliteBed }, 4_000)).toBeGreaterThanOrEqual(4_000);
  });

  it("PostgreSQL: the same with a handle for each client, whose statements fail, come late or lose their answers", async () => {
    expect(await play({ seed: 1, length: 200, bed: postgresBed }, 400)).toBeGreaterThanOrEqual(400);
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

  it.each(["polls and drops the changes", "sends a spend again after its answer was lost"])(
    "a client of PostgreSQL that %s",
    async (name) => {
      const { clauses, ...plant } = CONNECTION_FAULTS[name]!;
      const found = await find(plant, clauses, { bed: postgresBed, first: FIRST_CONNECTED_SEED });
      expect(clauses).toContain(found.violation?.clause);
    },
  );

  it("a failing schedule is made short and fails again in the same clause", async () => {
    const plant = VIOLATIONS["gives a rerolled key a balance of its own, read outside its write"]!;
    const found = await find(plant, ["shared"]);
    const short = await shorten(found, found, 150);
    expect(short.violation?.clause).toBe("shared");
    expect(short.schedule.length).toBeLessThan(found.schedule.length / 2);
  });
});
