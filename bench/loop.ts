/** How long does other work wait while keys are verified as fast as they can be? */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { SqliteStoreOptions } from "../src/stores/sqlite/index.js";
import { createVerifier, type Verifier } from "../src/verify/verifier.js";
import { report, type Row, scaled } from "./harness.js";
import { requestsFor } from "./keys.js";
import { assertSpent, openCopy } from "./stores.js";
import { LARGE_LEASES, remember, verifyTogether } from "./work.js";
import { compileWriter } from "./writer.js";

const KEYS = scaled(10_000, 200);
const ROUNDS = scaled(5, 2);
const ROUND_MS = scaled(2_000, 60);
const WARM_UP_MS = scaled(1_000, 10);
/** What waits is a timer of 1 ms; its own millisecond is taken off. */
const RESOLUTION_MS = 1;
const BASE = { keys: KEYS, limited: true };

/** Work to do again and again; answers how many keys it verified. */
type Work = () => Promise<number>;

const { next } = requestsFor(KEYS);

async function repeat(work: Work, ms: number): Promise<number> {
  const began = performance.now();
  let verified = 0;
  while (performance.now() - began < ms) verified += await work();
  return verified;
}

/** Percentile 99 of the delay, milliseconds, and verifications a second, of each round. */
async function watch(
  work: Work,
): Promise<{ readonly p99: number[]; readonly rates: number[]; readonly verified: number }> {
  let verified = await repeat(work, WARM_UP_MS);
  const [p99, rates]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
    delay.enable();
    const began = performance.now();
    const count = await repeat(work, ROUND_MS);
    const seconds = (performance.now() - began) / 1_000;
    delay.disable();
    p99.push(Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS));
    rates.push(count / seconds);
    verified += count;
  }
  return { p99, rates, verified };
}

/** @throws Error unless each is VALID */
async function verify(verifier: Verifier, count: number, inFlight: number): Promise<number> {
  const right = await verifyTogether(verifier, next, count, inFlight);
  if (right !== count) throw new Error(`${right} of ${count} answers were right`);
  return count;
}

/** From memory: 64 requests come in with every turn of the event loop. */
async function fullSpeed(name: string, goal: string): Promise<Row[]> {
  const { store } = await openCopy(BASE, {}, "leased.db");
  const verifier = createVerifier(store, { credits: LARGE_LEASES });
  await remember(verifier, KEYS);
  const { p99, rates, verified } = await watch(async () => {
    const count = await verify(verifier, 64, 64);
    await new Promise(setImmediate);
    return count;
  });
  await verifier.close();
  await assertSpent(store, KEYS, verified + KEYS);
  await store.close();
  return toRows(name, goal, p99, rates);
}

/** Exact and power-durable, as many as the file takes. */
async function saturated(
  inFlight: number,
  name: string,
  goal: string,
  options: SqliteStoreOptions = {},
): Promise<Row[]> {
  const { store } = await openCopy(
    BASE,
    options,
    `exact-${inFlight}-${options.writer === undefined ? "inline" : "thread"}.db`,
  );
  const verifier = createVerifier(store);
  await remember(verifier, KEYS, { cost: 0 });
  const { p99, rates, verified } = await watch(() => verify(verifier, 16 * inFlight, inFlight));
  await assertSpent(store, KEYS, verified);
  await verifier.close();
  await store.close();
  return toRows(name, goal, p99, rates);
}

const IDLE = "delay p99: an event loop with nothing to do";

function toRows(name: string, goal: string, p99: number[], rates: number[]): Row[] {
  return [
    { name: `delay p99: ${name}`, unit: "ms", values: p99, floor: IDLE, goal },
    { name: `verified meanwhile: ${name}`, unit: "per second", values: rates },
  ];
}

const writer = await compileWriter();
const idle = await watch(async () => {
  await new Promise((resolve) => setTimeout(resolve, 10));
  return 0;
});
report({
  question: "How long does other work wait while keys are verified as fast as they can be?",
  rows: [
    { name: IDLE, unit: "ms", values: idle.p99 },
    ...(await fullSpeed("from memory, 64 requests a turn", "≤ 5 ms")),
    ...(await saturated(64, "exact, power-durable, 64 in flight", "≤ 20 ms")),
    ...(await saturated(1_024, "exact, power-durable, 1,024 in flight", "≤ 20 ms")),
    ...(await saturated(64, "the same with a writer thread, 64 in flight", "≤ 20 ms", { writer })),
    ...(await saturated(1_024, "the same with a writer thread, 1,024 in flight", "≤ 20 ms", { writer })),
  ],
});
