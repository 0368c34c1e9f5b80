/**
 * The rig of several processes on one file: what they are granted in all, against what was there. docs/guarantees.md.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker, tell } from "./workers.js";
import type { SpendOrders } from "./workers/spend.js";

export interface ProcessesReport {
  readonly granted: number;
  /** Left when all had closed. */
  readonly balance: number;
  /** Everything that was neither VALID nor USAGE_EXCEEDED. */
  readonly errors: readonly string[];
  readonly perProcess: readonly number[];
  readonly seconds: number;
}

/** @param remaining credits of all `keys` together, of each the same */
export async function runProcesses(
  processes: number,
  remaining: number,
  options: {
    readonly credits?: CreditsOptions;
    readonly inFlight?: number;
    readonly keys?: number;
    readonly readsThenWrites?: boolean;
  } = {},
): Promise<ProcessesReport> {
  const { credits = { mode: "exact" }, inFlight = 64, keys = 1, readsThenWrites = false } = options;
  const folder = rigFolder();
  const worker = await buildWorker("spend");
  try {
    const file = join(folder, "keys.db");
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "processes" });
    const made = [];
    for (let i = 0; i < keys; i++)
      made.push(await keyring.createKey({ apiId, credits: { remaining: remaining / keys } }));
    const orders: SpendOrders = { file, keys: made.map(({ key }) => key), credits, inFlight, readsThenWrites };
    const children = Array.from({ length: processes }, () => startWorker(worker, orders));
    await Promise.all(children.map(nextMessage));
    const begun = performance.now();
    const totals = children.map(nextMessage);
    for (const child of children) tell(child, "go");
    const reports = (await Promise.all(totals)) as unknown as { granted: number; errors: string[] }[];
    const seconds = (performance.now() - begun) / 1_000;
    await Promise.all(children.map(ended));
    let balance = 0;
    for (const { keyId } of made) balance += (await keyring.getKey({ keyId })).credits!.remaining!;
    await store.close();
    const perProcess = reports.map(({ granted }) => granted);
    const errors = [...new Set(reports.flatMap((report) => report.errors))];
    return { granted: perProcess.reduce((sum, granted) => sum + granted, 0), balance, errors, perProcess, seconds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}
