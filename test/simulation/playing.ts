/** Schedules played one after the other, until enough steps are made or a planted fault is found. */
import { expect } from "vitest";
import { memoryBed } from "./beds.js";
import { type Outcome, type Run, shorten, simulate } from "./simulate.js";
import type { Plant } from "./world.js";

export const LENGTH = 500;
/**
 * Of the schedules for planted faults: there the rare ones are soon found (`npm run simulate -- --plants`, from seed 1:
 * by the 24th).
 */
const FIRST_SEED = 110;

/** Plays schedules until so many steps are made. @throws with the trace of the first one that fails, made short */
export async function play(first: Run, steps: number): Promise<number> {
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
export async function find(
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
