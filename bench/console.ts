/**
 * How long do pages of the console take at 100,000 keys on SQLite and PostgreSQL, or at as many as `--keys` says, and
 * what does a console in use cost verifications?
 */
import { randomUUID } from "node:crypto";
import { allPermissions } from "../src/cli/database/database.js";
import { createConsole } from "../src/console/index.js";
import { noPostgres, startPostgres } from "../test/servers/postgres.js";
import { OUTCOMES } from "../src/contracts/outcomes.js";
import type { Store } from "../src/contracts/store.js";
import { createKeyring } from "../src/keyring/keyring.js";
import { createVerifier } from "../src/verify/verifier.js";
import { connect } from "./connect.js";
import { report, type Row, scaled } from "./harness.js";
import { API, keyIdOf, keyRow, requestsFor, WORKSPACE } from "./keys.js";
import { addLatency, createLatencies, latencyAt } from "./latencies.js";
import { openCopy, prepare } from "./stores.js";
import { remember, settle } from "./work.js";

const ASKED = process.argv.find((argument) => argument.startsWith("--keys="))?.slice("--keys=".length);
const KEYS = scaled(Number(ASKED ?? 100_000), 500);
const KEYS_AT_ONCE = 5_000;
/** Keys that verifications use. */
const USED = Math.min(KEYS, 100_000);
const OWNERS = scaled(100, 4);
const KEYS_EACH = scaled(10, 2);
/** Keys that were used on each of the last 30 days. */
const COUNTED = scaled(1_000, 20);
const ROUNDS = scaled(5, 2);
const LOADS = scaled(20, 2);
const ROUND_MS = scaled(4_000, 100);
const IN_FLIGHT = 8;
/** Milliseconds from one page to the next where the console is in use: someone who reads fast. */
const PAUSE_MS = scaled(200, 20);
const DAY = 86_400_000;
const ORIGIN = "http://localhost";
const HEALTH = "GET /health, the page that reads least";
const OVERVIEW = "overview, 30,000 counts";
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

/** Owners with a plan and keys that expire, as the pages of owners and of what ends soon have them. */
async function addOwners(store: Store): Promise<void> {
  const keyring = createKeyring(store);
  for (let n = 0; n < OWNERS; n++) {
    const externalId = `customer_${n}`;
    const refill = { interval: "monthly", amount: 1_000, refillDay: 1 } as const;
    await keyring.createIdentity({ externalId, credits: { remaining: 1_000, refill } });
    for (let i = 0; i < KEYS_EACH; i++)
      await keyring.createKey({ apiId: API, externalId, name: `of ${externalId}`, expiresIn: (n + 1) * DAY });
  }
}

/** Loads pages of a console as whoever may see all of them. */
interface Browser {
  /** @returns milliseconds, without the way over a network */
  load(path: string): Promise<number>;
  readonly verifier: ReturnType<typeof createVerifier>;
  close(): Promise<void>;
}

async function openConsole(store: Store): Promise<Browser> {
  await addOwners(store);
  await fillCounts(store);
  const { key: rootKey } = await createKeyring(store).createRootKey({ permissions: allPermissions() });
  const verifier = createVerifier(store);
  await remember(verifier, USED);
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
  return {
    verifier,
    async load(path) {
      const began = performance.now();
      const page = await show(new Request(ORIGIN + path, { headers: { cookie } }));
      const text = await page.text();
      const ms = performance.now() - began;
      if (page.status !== 200 || !text.includes("</main>")) throw new Error(`${path} is a ${page.status}`);
      return ms;
    },
    async close() {
      await show.close();
      await verifier.close();
    },
  };
}

const key = (n: number): string => `/keys/${keyIdOf(n % KEYS)}`;
/** Each page, of another key at every load. */
const PAGES: readonly (readonly [name: string, path: (n: number) => string])[] = [
  [HEALTH, () => "/health"],
  [OVERVIEW, () => "/"],
  ["keys, newest", () => "/keys"],
  ["keys, expiring soonest", () => "/keys?order=expires"],
  ["keys, fewest credits", () => "/keys?order=credits"],
  ["keys, last used", () => "/keys?order=lastUsed"],
  ["keys, without credits", () => "/keys?state=exhausted"],
  ["keys, a search by id", (n) => `/keys?search=${keyIdOf((n * 977) % KEYS)}`],
  ["keys, a search by the beginning of a name", (n) => `/keys?search=Key+${(n * 977) % KEYS}`],
  ["keys, a search that finds nothing", (n) => `/keys?search=nothing${n}`],
  ["a key, with a query", (n) => `${key(n * 977)}?query=documents.read+AND+exports.run`],
  ["a key that was used on 30 days", (n) => key(n % COUNTED)],
  ["the statement of a key", (n) => `${key(n % COUNTED)}/statement`],
  ["owners", () => "/owners"],
  ["an owner", (n) => `/owners/customer_${n % OWNERS}`],
  ["the statement of an owner", (n) => `/owners/customer_${n % OWNERS}/statement`],
  ["roles", () => "/roles"],
  ["audit", () => "/audit"],
];

/** Percentiles 50 and 95 of each page. @param on which store, to name the rows */
async function pages({ load }: Browser, on: string): Promise<Row[]> {
  const values = PAGES.map(() => ({ p50: [] as number[], p95: [] as number[] }));
  for (const [, path] of PAGES) for (let n = 0; n < LOADS; n++) await load(path(n));
  for (let round = 1; round <= ROUNDS; round++)
    for (const [i, [, path]] of PAGES.entries()) {
      const latencies = createLatencies();
      for (let n = 0; n < LOADS; n++) addLatency(latencies, await load(path(round * LOADS + n)));
      values[i]!.p50.push(latencyAt(latencies, 0.5));
      values[i]!.p95.push(latencyAt(latencies, 0.95));
    }
  return PAGES.flatMap(([name], i) => [
    { name: `${on}: ${name}: p50`, unit: "ms" as const, values: values[i]!.p50 },
    {
      ...{ name: `${on}: ${name}: p95`, unit: "ms" as const, values: values[i]!.p95 },
      ...(i > 0 && { floor: `${on}: ${HEALTH}: p95`, goal: name === OVERVIEW ? "≤ 300 ms" : "≤ 100 ms" }),
    },
  ]);
}

const { next } = requestsFor(USED);

/** Percentile 99 of a verification, milliseconds. @param isUsed whether somebody looks at pages meanwhile */
async function verifying({ verifier, load }: Browser, isUsed: boolean): Promise<number> {
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

async function cost(browser: Browser): Promise<Row[]> {
  const [alone, beside]: [number[], number[]] = [[], []];
  await verifying(browser, true);
  for (let round = 0; round < ROUNDS; round++)
    for (const isUsed of round % 2 === 0 ? [false, true] : [true, false])
      (isUsed ? beside : alone).push(await verifying(browser, isUsed));
  return [
    { name: ALONE, unit: "ms", values: alone },
    {
      ...{ name: `the same, while a page is loaded every ${PAUSE_MS} ms`, unit: "ms", values: beside },
      ...{ floor: ALONE, goal: "≤ 1.10" },
    },
  ];
}

async function onPostgres(): Promise<Row[]> {
  if (noPostgres !== undefined) return [];
  const server = await startPostgres();
  const { pool, store, close } = connect(await server.newDatabase());
  await store.setUp();
  await prepare(store);
  for (let n = 0; n < KEYS; n += KEYS_AT_ONCE)
    await store.insertKeys(Array.from({ length: Math.min(KEYS_AT_ONCE, KEYS - n) }, (_, i) => keyRow(n + i, true)));
  // What autovacuum does within a minute or two.
  await pool.query("VACUUM ANALYZE");
  const browser = await openConsole(store);
  const rows = await pages(browser, "PostgreSQL");
  await browser.close();
  await close();
  await server.close();
  return rows;
}

const { store } = await openCopy({ keys: KEYS, limited: true }, { durability: "process" });
const browser = await openConsole(store);
const rows = [...(await pages(browser, "SQLite")), ...(await cost(browser))];
await browser.close();
await store.close();
rows.push(...(await onPostgres()));
report({
  question: `How long do pages of the console take at ${KEYS.toLocaleString("en-US")} keys, and what does a console in use cost verifications?`,
  rows,
});
