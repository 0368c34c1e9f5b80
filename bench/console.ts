/** How long do pages of the console take at 100,000 keys, and what does a console in use cost verifications? */
import { randomUUID } from "node:crypto";
import { allPermissions } from "../src/cli/database/database.js";
import { createConsole } from "../src/console/index.js";
import { OUTCOMES } from "../src/contracts/outcomes.js";
import type { Store } from "../src/contracts/store.js";
import { createKeyring } from "../src/keyring/keyring.js";
import { createVerifier } from "../src/verify/verifier.js";
import { report, type Row, scaled } from "./harness.js";
import { API, keyIdOf, requestsFor, WORKSPACE } from "./keys.js";
import { addLatency, createLatencies, latencyAt } from "./latencies.js";
import { openCopy } from "./stores.js";
import { remember, settle } from "./work.js";

const KEYS = scaled(100_000, 500);
/** Keys that were used on each of the last 30 days. */
const COUNTED = scaled(1_000, 20);
const ROUNDS = scaled(7, 2);
const LOADS = scaled(40, 2);
const ROUND_MS = scaled(4_000, 100);
const IN_FLIGHT = 8;
/** Milliseconds from one page to the next where the console is in use: someone who reads fast. */
const PAUSE_MS = scaled(200, 20);
const DAY = 86_400_000;
const ORIGIN = "http://localhost";
const HEALTH = "GET /health, the page that reads least";
const ALONE = "verify, exact, 8 in flight: p99";

/** Counts as verifiers leave them: {@link COUNTED} keys on each of 30 days. */
async function fillCounts(store: Store): Promise<void> {
  const source = randomUUID();
  const counts = OUTCOMES.map((_, i) => (i === 0 ? 40 : i === 6 ? 2 : 0));
  const today = Math.floor(Date.now() / DAY) * DAY;
  let seq = 0;
  for (let day = 0; day < 30; day++)
    for (let first = 0; first < COUNTED; first += 250) {
      const cells = Array.from({ length: Math.min(250, COUNTED - first) }, (_, i) => ({
        ...{ minute: today - day * DAY, workspaceId: WORKSPACE, apiId: API, keyId: keyIdOf(first + i), spent: 40 },
        ...{ externalId: `customer_${(first + i) % 100}`, tags: ["plan=pro"], counts },
      }));
      await store.countOutcomes({ source, seq: ++seq, at: today, maxTagSets: 10, cells });
    }
}

const { store } = await openCopy({ keys: KEYS, limited: true }, { durability: "process" });
await fillCounts(store);
const { key: rootKey } = await createKeyring(store).createRootKey({ permissions: allPermissions() });
const verifier = createVerifier(store);
await remember(verifier, KEYS);
await settle();
const show = createConsole(store, { verifier });
const signedIn = await show(
  new Request(`${ORIGIN}/sign-in`, {
    method: "POST",
    headers: { origin: ORIGIN },
    body: new URLSearchParams({ key: rootKey }),
  }),
);
const cookie = signedIn.headers.get("set-cookie")?.split(";")[0] ?? "";

/** @returns milliseconds, without the way over a network */
async function load(path: string): Promise<number> {
  const began = performance.now();
  const page = await show(new Request(ORIGIN + path, { headers: { cookie } }));
  const text = await page.text();
  const ms = performance.now() - began;
  if (page.status !== 200 || !text.includes("</main>")) throw new Error(`${path} is a ${page.status}`);
  return ms;
}

const key = (n: number): string => `/keys/${keyIdOf(n % KEYS)}`;
/** Each page, of another key at every load. */
const PAGES: readonly (readonly [name: string, path: (n: number) => string, goal?: number])[] = [
  [HEALTH, () => "/health"],
  ["overview, 30,000 counts", () => "/", 50],
  ["keys, newest", () => "/keys", 50],
  ["keys, expiring soonest", () => "/keys?order=expires", 50],
  ["keys, a search by id", (n) => `/keys?search=${keyIdOf(n * 977)}`, 100],
  ["keys, a search that finds nothing", (n) => `/keys?search=nothing${n}`, 100],
  ["a key, with a query", (n) => `${key(n * 977)}?query=documents.read+AND+exports.run`, 50],
  ["a key that was used on 30 days", (n) => key(n % COUNTED), 50],
  ["its statement", (n) => `${key(n % COUNTED)}/statement`, 50],
  ["owners", () => "/owners", 50],
  ["roles", () => "/roles", 50],
  ["audit", () => "/audit", 50],
];

async function pages(): Promise<Row[]> {
  const values = PAGES.map((): number[] => []);
  for (const [, path] of PAGES) for (let n = 0; n < LOADS; n++) await load(path(n));
  for (let round = 1; round <= ROUNDS; round++)
    for (const [i, [, path]] of PAGES.entries()) {
      const latencies = createLatencies();
      for (let n = 0; n < LOADS; n++) addLatency(latencies, await load(path(round * LOADS + n)));
      values[i]!.push(latencyAt(latencies, 0.95));
    }
  return PAGES.map(([name, , goal], i) => ({
    ...{ name: `${name}: p95`, unit: "ms", values: values[i]! },
    ...(i > 0 && { floor: `${HEALTH}: p95` }),
    ...(goal !== undefined && { goal: `≤ ${goal} ms` }),
  }));
}

const { next } = requestsFor(KEYS);

/** Percentile 99 of a verification, milliseconds. @param isUsed whether somebody looks at pages meanwhile */
async function verifying(isUsed: boolean): Promise<number> {
  const latencies = createLatencies();
  const end = performance.now() + ROUND_MS;
  const work = async (): Promise<void> => {
    while (performance.now() < end) {
      const began = performance.now();
      if ((await verifier.verify(next())).code !== "VALID") throw new Error("a key of the bench is not VALID");
      addLatency(latencies, performance.now() - began);
      // So that timers and pages have their turns.
      await new Promise(setImmediate);
    }
  };
  const look = async (): Promise<void> => {
    for (let n = 0; performance.now() < end; n++) {
      await load(PAGES[n % PAGES.length]![1](n));
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  await Promise.all([...Array.from({ length: IN_FLIGHT }, work), ...(isUsed ? [look()] : [])]);
  return latencyAt(latencies, 0.99);
}

async function cost(): Promise<Row[]> {
  const [alone, beside]: [number[], number[]] = [[], []];
  await verifying(true);
  for (let round = 0; round < ROUNDS; round++)
    for (const isUsed of round % 2 === 0 ? [false, true] : [true, false])
      (isUsed ? beside : alone).push(await verifying(isUsed));
  return [
    { name: ALONE, unit: "ms", values: alone },
    {
      ...{ name: `the same, while a page is loaded every ${PAUSE_MS} ms`, unit: "ms", values: beside },
      ...{ floor: ALONE, goal: "≤ 1.10" },
    },
  ];
}

const rows = [...(await pages()), ...(await cost())];
await verifier.close();
await store.close();
report({
  question: "How long do pages of the console take at 100,000 keys, and what does a console in use cost verifications?",
  rows,
});
