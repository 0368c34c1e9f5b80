/**
 * The long run of the model: `TEST_STEPS` steps in all (default 1,000,000) on `TEST_STORE` (memory, sqlite,
 * leased-memory, leased-sqlite; default memory), from `TEST_SEED` on. A failing history is told with its seed,
 * played again and made short; the exit code is then 1. `TEST_HISTORY` plays one history of step seeds, as a
 * failure prints them.
 */
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { fileBed, memoryBed } from "./beds.js";
import { seedsOf } from "./dice.js";
import { playLeased } from "./leased.js";
import { play } from "./play.js";
import { shrink } from "./shrink.js";
import type { Bed } from "./stage.js";

const STEPS = Number(process.env["TEST_STEPS"] ?? 1_000_000);
const LENGTH = 500;
const REPORT_EVERY = 100_000;

type Play = (seeds: readonly number[], counts: Map<string, number>) => Promise<void>;
const sqliteBed = () => fileBed((file) => sqliteStore(file, { durability: "process" }));
const exact =
  (bed: () => Bed): Play =>
  async (seeds, counts) =>
    void (await play(seeds, bed(), counts));
const leased =
  (bed: () => Bed): Play =>
  async (seeds, counts) => {
    const totals = await playLeased(seeds, bed());
    for (const [name, count] of Object.entries(totals)) counts.set(name, (counts.get(name) ?? 0) + count);
  };
const PLAYS: Readonly<Record<string, Play>> = {
  memory: exact(memoryBed),
  sqlite: exact(sqliteBed),
  "leased-memory": leased(memoryBed),
  "leased-sqlite": leased(sqliteBed),
};

async function main(): Promise<void> {
  const name = process.env["TEST_STORE"] ?? "memory";
  const playOnce = PLAYS[name];
  if (playOnce === undefined || !Number.isSafeInteger(STEPS)) {
    throw new TypeError(`TEST_STORE must be one of ${Object.keys(PLAYS).join(", ")}, TEST_STEPS an integer`);
  }
  const history = process.env["TEST_HISTORY"];
  if (history !== undefined) {
    await playOnce(history.split(",").map(Number), new Map());
    return console.log(`${name}: the history does not fail`);
  }
  const first = Number(process.env["TEST_SEED"] ?? 1);
  const counts = new Map<string, number>();
  const begun = performance.now();
  const rate = (done: number) =>
    `${Math.round((done / (performance.now() - begun)) * 1_000).toLocaleString("en")} steps/s`;
  for (let done = 0, seed = first; done < STEPS; seed++) {
    const length = Math.min(LENGTH, STEPS - done);
    const failure = await playOnce(seedsOf(seed, length), counts).then(() => undefined, String);
    if (failure !== undefined) return tell(seed, length, failure, playOnce);
    done += length;
    if (done % REPORT_EVERY < LENGTH) console.log(`${name}: ${done.toLocaleString("en")} steps, ${rate(done)}`);
  }
  console.log(`${name}: ${STEPS.toLocaleString("en")} steps from seed ${first}, 0 mismatches, ${rate(STEPS)}`);
  console.log(Object.fromEntries(counts));
}

async function tell(seed: number, length: number, failure: string, playOnce: Play): Promise<void> {
  process.exitCode = 1;
  console.error(`history of seed ${seed}, ${length} steps: ${failure}\nreplay: TEST_SEED=${seed} TEST_STEPS=${length}`);
  const fails = (seeds: readonly number[]) =>
    playOnce(seeds, new Map()).then(
      () => false,
      () => true,
    );
  const short = await shrink(seedsOf(seed, length), fails);
  const again = await playOnce(short, new Map()).then(() => "did not fail again", String);
  console.error(`made short, ${short.length} steps: ${again}\nreplay: TEST_HISTORY=${short.join()}`);
}

await main();
