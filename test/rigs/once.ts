/**
 * The rig of repeats after kill −9: every call is repeated by the next process, and each idempotency key has taken one
 * credit.
 */
import { rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { dice } from "../model/dice.js";
import { buildWorker, ended, rigFolder, startWorker } from "./workers.js";
import type { OnceOrders } from "./workers/once.js";

export interface OnceReport {
  readonly kills: number;
  /** Calls that were acknowledged before a kill. */
  readonly acknowledged: number;
  /** Idempotency keys used in all. */
  readonly calls: number;
  /** Credits taken in all: must be the number of calls. */
  readonly taken: number;
  /** Repeats that were not VALID: must be 0. */
  readonly refused: number;
}

const IN_FLIGHT = 32;
const CREDITS = 1_000_000_000;
/** The longest a worker lives after its first acknowledgement, milliseconds. */
const LONGEST_LIFE = 60;

export async function runOnce(
  kills: number,
  { seed = 1, fault }: { readonly seed?: number; readonly fault?: OnceOrders["fault"] } = {},
): Promise<OnceReport> {
  const rolled = dice(seed);
  const folder = rigFolder();
  const worker = await buildWorker("once");
  let [acknowledged, calls, refused] = [0, 0, 0];
  try {
    const [file, acks] = [join(folder, "keys.db"), join(folder, "acks")];
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "once" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: CREDITS } });
    for (let kill = 0; kill < kills; kill++) {
      writeFileSync(acks, "");
      const orders: OnceOrders = { file, key, acks, from: calls, inFlight: IN_FLIGHT, ...(fault && { fault }) };
      const child = startWorker(worker, orders);
      while (statSync(acks).size === 0 && child.exitCode === null) await pause(2);
      await pause(rolled.below(LONGEST_LIFE));
      child.kill("SIGKILL");
      await ended(child);
      const done = statSync(acks).size;
      acknowledged += done;
      // The worker took its keys in a row: those in flight are the next after what it acknowledged, at most.
      const until = calls + done + IN_FLIGHT;
      const verifier = createVerifier(store);
      const repeats = Array.from({ length: until - calls }, (_, i) =>
        verifier.verify({ key }, { idempotencyKey: `call-${calls + i}` }),
      );
      for (const { code } of await Promise.all(repeats)) if (code !== "VALID") refused++;
      calls = until;
      await verifier.close();
    }
    const left = (await keyring.getKey({ keyId })).credits?.remaining as number;
    await store.close();
    return { kills, acknowledged, calls, taken: CREDITS - left, refused };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
