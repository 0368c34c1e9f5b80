/**
 * The long run of the simulator: `npm run simulate -- --steps N --seed S`. The exit code is 1 if a run broke an
 * invariant; the failing schedule is then printed, made short and printed again with its trace.
 *
 *   --steps N        steps in all, default 1,000,000
 *   --seed S         first seed, default 1; each schedule takes the next one
 *   --length N       steps that the scheduler chooses in one schedule, default 500
 *   --store NAME     memory, sqlite or postgres, default memory
 *   --replay WORDS   plays one schedule of --seed, as a failure prints it
 *   --explore        plays every order of the short critical pairs instead
 *   --plants         tells how many schedules it takes to find each planted fault instead
 */
import { parseArgs } from "node:util";
import { BEDS } from "./beds.js";
import { explore } from "./explore.js";
import { CLAUSES, CONNECTION_FAULTS, VIOLATIONS } from "./faults.js";
import { PAIRS, type PairName, sceneOf } from "./scenes.js";
import { type Outcome, type Run, shorten, simulate } from "./simulate.js";
import type { Clause } from "./violation.js";
import type { Plant } from "./world.js";

const REPORT_EVERY_MS = 10_000;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      steps: { type: "string", default: "1000000" },
      seed: { type: "string", default: "1" },
      length: { type: "string", default: "500" },
      store: { type: "string", default: "memory" },
      replay: { type: "string" },
      explore: { type: "boolean", default: false },
      plants: { type: "boolean", default: false },
    },
  });
  const bed = BEDS[values.store];
  const [steps, seed, length] = [values.steps, values.seed, values.length].map(Number) as [number, number, number];
  if (bed === undefined || ![steps, seed, length].every(Number.isSafeInteger)) {
    throw new TypeError("--store must be memory, sqlite or postgres; --steps, --seed and --length integers");
  }
  if (values.explore) return exploreAll();
  if (values.plants) return findPlants({ seed, length, bed }, values.store === "postgres");
  if (values.replay === undefined) return runMany({ seed, length, bed }, values.store, steps);
  const outcome = await simulate({ seed, length, bed, replay: values.replay.split(" "), isTraced: true });
  tell(outcome);
  process.exitCode = outcome.violation === undefined ? 0 : 1;
}

async function runMany(first: Run, store: string, steps: number): Promise<void> {
  const begun = process.hrtime.bigint();
  const elapsedMs = () => Number(process.hrtime.bigint() - begun) / 1e6;
  let done = 0;
  let reported = 0;
  let { seed } = first;
  const report = () => {
    const rate = Math.round((done / elapsedMs()) * 1_000).toLocaleString("en");
    const schedules = (seed - first.seed).toLocaleString("en");
    console.log(`${store}: ${done.toLocaleString("en")} steps, ${schedules} schedules, ${rate} steps/s`);
  };
  for (; done < steps; seed++) {
    const run = { ...first, seed };
    const outcome = await simulate(run);
    done += outcome.steps;
    if (outcome.violation !== undefined) return fail(run, store, outcome);
    if (elapsedMs() - reported < REPORT_EVERY_MS) continue;
    reported = elapsedMs();
    report();
  }
  report();
  console.log(`${store}: no violation from seed ${first.seed} on`);
}

async function fail(run: Run, store: string, outcome: Outcome): Promise<void> {
  process.exitCode = 1;
  const replay = `npm run simulate -- --store ${store} --seed ${run.seed} --length ${run.length}`;
  console.error(`seed ${run.seed}: ${outcome.violation?.message}\nagain: ${replay} --steps 1`);
  const short = await shorten(run, outcome);
  tell(short);
  console.error(`made short, ${short.schedule.length} steps: ${replay} --replay "${short.schedule.join(" ")}"`);
}

function tell({ trace, violation }: Outcome): void {
  console.log(trace.join("\n"));
  console.log(violation?.message ?? "no violation");
}

async function exploreAll(): Promise<void> {
  for (const name of Object.keys(PAIRS) as PairName[]) {
    const { schedules, steps, failed } = await explore(sceneOf(name));
    console.log(`${name}: ${schedules} schedules, ${steps} steps, ${failed?.violation.message ?? "no violation"}`);
    if (failed === undefined) continue;
    process.exitCode = 1;
    console.error(`choices: ${failed.choices.join(" ")}`);
  }
}

/** Within as many schedules each must be found. */
const MAX_SCHEDULES = 100_000;

async function findPlants(first: Run, hasConnections: boolean): Promise<void> {
  const plants: Record<string, Plant & { readonly clauses?: readonly Clause[] }> = hasConnections
    ? CONNECTION_FAULTS
    : { ...VIOLATIONS, ...CLAUSES };
  for (const [name, plant] of Object.entries(plants)) {
    let found: Clause | undefined;
    let { seed } = first;
    for (; seed < first.seed + MAX_SCHEDULES && found === undefined; seed++) {
      const clause = (await simulate({ ...first, seed, plant })).violation?.clause;
      if (clause !== undefined && plant.clauses?.includes(clause) !== false) found = clause;
    }
    if (found === undefined) process.exitCode = 1;
    console.log(`${name}: ${seed - first.seed} schedules, ${found ?? "not found"}`);
  }
}

await main();
