/**
 * The rig of counts: processes that are killed while they flush, repeats on purpose. No call is counted twice, and a
 * kill loses at most what an interval holds. docs/analytics.md.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createAnalytics } from "../../src/analytics/analytics.js";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { dice } from "../model/dice.js";
import { buildWorker, ended, rigFolder, startWorker } from "./workers.js";
import type { CountOrders } from "./workers/count.js";

export interface CountReport {
  /** Every third process was told to end. */
  readonly kills: number;
  /** Calls that were answered, and that were counted. */
  readonly answered: number;
  readonly counted: number;
  /** Calls counted beyond those that were made: must be 0. */
  readonly twice: number;
  /** Calls answered longer before a kill than an interval and a repeat, and not counted: must be 0. */
  readonly lost: number;
  /** Keys whose days do not add up to what their account says was spent: must be 0. */
  readonly unbalanced: number;
}

const KEYS = 50;
const CREDITS = 1_000_000_000;
const IN_FLIGHT = 8;
const INTERVAL = 250;
/** A repeat waits for an interval, and a flush takes its time. */
const LONGEST_DELAY = 4 * INTERVAL;
const TIME_BYTES = 8;

/** @param open another handle on the database, whose tables are there */
export async function runCounting(
  kills: number,
  processes: number,
  database: string | undefined,
  open: (database: string) => Store,
  options: { readonly seed?: number; readonly forgetsIds?: boolean } = {},
): Promise<CountReport> {
  const { seed = 1, forgetsIds = false } = options;
  const folder = rigFolder();
  const place = database ?? join(folder, "keys.db");
  const worker = await buildWorker("count");
  const store = open(place);
  try {
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "counts" });
    const made: { readonly key: string; readonly keyId: string }[] = [];
    for (let i = 0; i < KEYS; i++) made.push(await keyring.createKey({ apiId, credits: { remaining: CREDITS } }));
    const keys = made.map(({ key }) => key);
    const sums = { answered: 0, counted: 0, twice: 0, lost: 0 };
    const life = async (n: number): Promise<void> => {
      const isKilled = n % 3 !== 2;
      const rolled = dice(seed * 1_000 + n);
      const acks = join(folder, `acks-${n}`);
      writeFileSync(acks, "");
      const child = startWorker(worker, {
        database: place,
        keys,
        acks,
        interval: INTERVAL,
        life: `life=${n}`,
        forgetsIds,
      } satisfies CountOrders);
      while (readFileSync(acks).length === 0) await pause(10);
      await pause(INTERVAL + rolled.below(6 * INTERVAL));
      const end = Date.now();
      child.kill(isKilled ? "SIGKILL" : "SIGTERM");
      await ended(child);
      const bytes = readFileSync(acks);
      const times = Array.from({ length: Math.floor(bytes.length / TIME_BYTES) }, (_, i) =>
        bytes.readDoubleLE(i * TIME_BYTES),
      );
      const counted = await countOf(store, `life=${n}`);
      // Of those that were killed, calls in flight may be counted without an answer.
      sums.twice += Math.max(0, counted - times.length - (isKilled ? IN_FLIGHT : 0));
      const expected = isKilled ? times.filter((time) => time < end - LONGEST_DELAY) : times;
      sums.lost += Math.max(0, expected.length - counted);
      sums.answered += times.length;
      sums.counted += counted;
    };
    for (let n = 0; n < kills; n += processes)
      await Promise.all(Array.from({ length: processes }, (_, i) => life(n + i)));
    // A last count of each key takes down what its account says.
    const verifier = createVerifier(store, { analytics: true });
    for (const key of keys) await verifier.verify({ key });
    await verifier.close();
    return {
      kills,
      ...sums,
      unbalanced: await unbalanced(store, made),
    };
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

async function countOf(store: Store, tag: string): Promise<number> {
  const { rows } = await createAnalytics(store).query({ from: 0, to: Date.now(), where: { tag: [tag] } });
  return rows[0]?.count ?? 0;
}

async function unbalanced(store: Store, made: readonly { readonly keyId: string }[]): Promise<number> {
  const month = new Date().toISOString().slice(0, 7);
  const balances = await store.readBalances(
    made.map(({ keyId }) => ({ keyId, period: 0 })),
    Date.now(),
  );
  let wrong = 0;
  for (const [i, { keyId }] of made.entries()) {
    const { spent, closing } = await createAnalytics(store).statement({ keyId }, month);
    if (spent !== balances[i]?.totals?.spent || closing !== balances[i]?.remaining) wrong++;
  }
  return wrong;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
