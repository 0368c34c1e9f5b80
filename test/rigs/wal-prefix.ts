/**
 * The rig of the torn log: the file and its log are copied while the store is open, the copy's log is cut or spoilt
 * anywhere, and what SQLite recovers must be the state after some of the waves of spends, in their order, each wave
 * whole.
 *
 * What it shows: that one turn's spends are one transaction, and that no damage at the log's end brings out half of
 * one. What it cannot show: whether a wave was on the disk before it was acknowledged. That takes a record of writes
 * and syncs: see powercut/.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { CountedBalance, Store } from "../../src/contracts/store.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { dice } from "../model/dice.js";
import { CREDITS, damagesOf, prepare } from "./kill.js";
import { rigFolder } from "./workers.js";

export interface PrefixReport {
  readonly cuts: number;
  /** States that were recovered, as counts of waves. */
  readonly waves: ReadonlySet<number>;
  /** What must not be: empty. */
  readonly problems: readonly string[];
}

const WAVES = 60;

/** @param between what stands between the verifier and the store: a planted fault, or nothing */
export async function runWalPrefix(
  cuts: number,
  seed: number,
  between: (store: Store) => Store = (store) => store,
): Promise<PrefixReport> {
  const rolled = dice(seed);
  const folder = rigFolder();
  try {
    const file = join(folder, "keys.db");
    const { made } = await prepare(file);
    const store = sqliteStore(file);
    const verifier = createVerifier(between(store));
    const balances = made.map(() => CREDITS);
    const states = new Map<string, number>([[balances.join(), 0]]);
    for (let wave = 1; wave <= WAVES; wave++) {
      const spent = Array.from({ length: 1 + rolled.below(12) }, () => rolled.below(made.length));
      const answers = await Promise.all(
        spent.map((i) => verifier.verify({ key: made[i]!.key, credits: { cost: i + 1 } })),
      );
      if (!answers.every(({ valid }) => valid)) throw new Error("a wave was refused");
      for (const i of spent) balances[i]! -= i + 1;
      states.set(balances.join(), wave);
    }
    const [database, log] = [readFileSync(file), readFileSync(`${file}-wal`)];
    await verifier.close();
    await store.close();

    const waves = new Set<number>();
    const problems: string[] = [];
    const lengths = Array.from({ length: cuts }, () => rolled.below(log.length + 1)).sort((a, b) => a - b);
    lengths.push(log.length);
    let last = 0;
    for (const length of lengths) {
      // A log that ends sooner never holds more.
      const cut = recover(folder, database, log.subarray(0, length), made, states);
      if (typeof cut === "string") problems.push(`cut at ${length}: ${cut}`);
      else {
        if (cut < last) problems.push(`cut at ${length}: ${cut} waves, and ${last} when it was cut before that`);
        waves.add((last = cut));
      }
      const spoilt = Buffer.from(log);
      for (let i = 0; i < 40 && length + i < spoilt.length; i++) spoilt[length + i] = rolled.below(256);
      const torn = recover(folder, database, spoilt, made, states);
      if (typeof torn === "string") problems.push(`spoilt at ${length}: ${torn}`);
    }
    if (last !== WAVES) problems.push(`the whole log holds ${last} of ${WAVES} waves`);
    return { cuts: cuts * 2, waves, problems };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How many waves the recovered file holds; a text: it is the state after none, or damaged. */
function recover(
  folder: string,
  database: Buffer,
  log: Buffer,
  made: readonly { readonly keyId: string }[],
  states: ReadonlyMap<string, number>,
): number | string {
  const copy = join(folder, "copy");
  mkdirSync(copy);
  const file = join(copy, "keys.db");
  writeFileSync(file, database);
  writeFileSync(`${file}-wal`, log);
  const handle = new Database(file);
  try {
    const [damage] = damagesOf(handle);
    if (damage !== undefined) return damage;
    const store = sqliteStore(handle, { durability: "process" });
    const balances = made
      .map(({ keyId }) => (store.readBalances([{ keyId, period: 0 }], 0) as CountedBalance[])[0]?.remaining)
      .join();
    return states.get(balances) ?? `balances that never were: ${balances}`;
  } finally {
    handle.close();
    rmSync(copy, { recursive: true });
  }
}
