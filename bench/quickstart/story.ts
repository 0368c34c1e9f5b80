/** The quickstart's story: its chapters in order, and what one run leaves for the next. */
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { measure, remember, revoke, spend, verifyAll } from "./chapters-judging.js";
import { createKeys, importAll, prepare } from "./chapters-making.js";
import { DATABASE, openState, saveState, writeNdjson } from "./files.js";
import { makeSeed } from "./seed.js";
import type { Report, Stage } from "./stage.js";
import type { Screen } from "./terminal.js";
import { jobsOf, strangersOf } from "./workload.js";

/** Opens or makes the database, runs every chapter, and leaves what the next run compares. */
export async function runStory(screen: Screen, fresh: boolean): Promise<Report> {
  const before = openState(fresh);
  const run = (before?.runs ?? 0) + 1;
  const seeds = makeSeed();
  for (const seed of seeds) writeNdjson(seed);
  const store = sqliteStore(DATABASE);
  const verifier = createVerifier(store);
  const stage: Stage = { screen, keyring: createKeyring(store), verifier, seeds, checks: [] };
  try {
    screen.title("keystile quickstart", `run ${run} on ${DATABASE}`);
    const apiId = before?.apiId ?? (await prepare(stage));
    if (before) await remember(stage, before);
    const imports = await importAll(stage, apiId, before === undefined);
    const made = await createKeys(stage, apiId);
    const workload = await verifyAll(stage, [...made, ...jobsOf(seeds), ...strangersOf(seeds)]);
    const { example, balance } = await spend(stage);
    if (!before) await revoke(stage);
    saveState({ runs: run, apiId, balance: balance.after });
    const speed = await measure(stage);
    return { run, database: DATABASE, imports, workload, example, balance, speed, checks: stage.checks };
  } finally {
    await verifier.close();
    await store.close();
  }
}
