/**
 * Verifications a second beside the bare hash of a key, which no verification can do without. A taste: `npm run bench`
 * measures.
 */
import * as crypto from "node:crypto";
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { V2KeysVerifyKeyRequestBody } from "../../src/contracts/types.js";
import type { Verifier } from "../../src/verify/verifier.js";

/** One row of the table of speeds. */
export interface Speed {
  readonly what: string;
  readonly perSecond: number;
}

const ROUNDS = 5;
const ROUND_MS = 120;
/** Calls between two looks at the clock. */
const BATCH = 64;

/**
 * Medians of five rounds each, the floors in the same run.
 * @param folder where the database lies, to ask its disk
 * @param remembered requests that need no store once their keys are remembered; awaited one after the other
 * @param spending requests that each take a credit from the file, durably; 64 in flight
 */
export async function measureSpeed(
  verifier: Verifier,
  folder: string,
  remembered: readonly Request[],
  spending: readonly Request[],
): Promise<readonly Speed[]> {
  const hash = bareHash();
  const verify = async (request: Request): Promise<void> => {
    const { code } = await verifier.verify(request);
    if (code !== "VALID") throw new Error(`a measured verification answered ${code}`);
  };
  const hashes = await medianRate(async (next) => {
    for (let i = 0; i < BATCH; i++) if (hash(next(remembered).key).length !== 44) throw new Error("the hash is wrong");
  });
  const oneByOne = await medianRate(async (next) => {
    for (let i = 0; i < BATCH; i++) await verify(next(remembered));
  });
  const together = await medianRate(async (next) => {
    await Promise.all(Array.from({ length: BATCH }, () => verify(next(spending))));
  });
  const syncs = await onDisk(folder, (write) => medianRate(async () => write(), 1));
  return [
    { what: "bare SHA-256 of the key", perSecond: hashes },
    { what: "verify: key remembered, query of three names, rate limit", perSecond: oneByOne },
    { what: "bare write of 4 kB and fsync on this disk", perSecond: syncs },
    { what: `verify and take a credit: on disk before the answer, ${BATCH} in flight`, perSecond: together },
  ];
}

type Request = V2KeysVerifyKeyRequestBody;
type Next = (requests: readonly Request[]) => Request;

/** The fastest that this Node has; `crypto.hash` came with 20.12. */
function bareHash(): (key: string) => string {
  if (typeof crypto.hash === "function") return (key) => crypto.hash("sha256", key, "base64");
  return (key) => crypto.createHash("sha256").update(key).digest("base64");
}

/** What a durable answer cannot do without. */
async function onDisk<T>(folder: string, measure: (write: () => void) => Promise<T>): Promise<T> {
  const path = join(folder, "quickstart-fsync");
  const file = openSync(path, "w");
  const page = new Uint8Array(4_096);
  try {
    return await measure(() => {
      writeSync(file, page, 0, page.length, 0);
      fsyncSync(file);
    });
  } finally {
    closeSync(file);
    rmSync(path);
  }
}

/** @param size calls in a batch */
async function medianRate(batch: (next: Next) => Promise<void>, size = BATCH): Promise<number> {
  let turn = 0;
  const next: Next = (requests) => requests[turn++ % requests.length] as Request;
  const rates: number[] = [];
  // One more round than is counted: the first warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    const began = performance.now();
    let calls = 0;
    let elapsed = 0;
    for (; elapsed < ROUND_MS; elapsed = performance.now() - began) {
      await batch(next);
      calls += size;
    }
    if (round > 0) rates.push((calls / elapsed) * 1_000);
  }
  return rates.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0;
}
