/** How many exact, durable spends do 1, 2 and 4 processes on one file do together, with 8 calls in flight in each? */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isKeystileError } from "../src/contracts/errors.js";
import { sqliteStore, type SqliteStoreOptions } from "../src/stores/sqlite/index.js";
import { createVerifier, type Verifier } from "../src/verify/verifier.js";
import { nextMessage } from "./children.js";
import { median, report, type Row, scaled } from "./harness.js";
import { requestsFor } from "./keys.js";
import { assertSpent, openCopy } from "./stores.js";
import { remember } from "./work.js";
import { compileWriter } from "./writer.js";

const KEYS = scaled(1_000, 100);
const ROUNDS = scaled(5, 2);
const ROUND_MS = scaled(1_500, 60);
const WARM_UP_MS = scaled(1_000, 10);
const PROCESSES = [1, 2, 4];
const MOST = Math.max(...PROCESSES);
const IN_FLIGHT = 8;

/** What the parent hands to a child process at its start, as its last argument. */
interface Orders {
  readonly path: string;
  readonly durability: "power" | "process";
  /** The writer thread's program. */
  readonly writer?: string;
}
/** What a child did in a round. */
interface Done {
  /** Milliseconds from each call to its answer, VALID each. */
  readonly waits: readonly number[];
  /** Calls that failed with STORE_BUSY. */
  readonly refused: number;
}

async function spendFor(verifier: Verifier, next: ReturnType<typeof requestsFor>["next"], ms: number): Promise<Done> {
  const until = performance.now() + ms;
  const waits: number[] = [];
  let refused = 0;
  const work = async (): Promise<void> => {
    for (let began: number; (began = performance.now()) < until;) {
      try {
        const { code } = await verifier.verify(next());
        if (code !== "VALID") throw new Error(`a key of the bench is ${code}`);
        waits.push(performance.now() - began);
      } catch (error) {
        if (!isKeystileError(error) || error.code !== "STORE_BUSY") throw error;
        refused++;
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
  return { waits, refused };
}

/** A child process: spends for as many milliseconds as each message says, and ends with the channel. */
async function serve({ path, durability, writer }: Orders): Promise<void> {
  const options: SqliteStoreOptions = { durability, ...(writer !== undefined && { writer: new URL(writer) }) };
  const store = sqliteStore(path, options);
  const verifier = createVerifier(store);
  await remember(verifier, KEYS, { cost: 0 });
  const { next } = requestsFor(KEYS);
  process.on("message", (ms: number) => void spendFor(verifier, next, ms).then((done) => process.send?.(done)));
  process.once("disconnect", () => void verifier.close().then(() => store.close()));
  process.send?.("ready");
}

async function start(orders: Orders): Promise<ChildProcess> {
  const child = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), JSON.stringify(orders)]);
  await nextMessage(child);
  return child;
}

async function round(children: readonly ChildProcess[], ms: number): Promise<Done> {
  const answers = children.map(nextMessage) as Promise<Done>[];
  for (const child of children) child.send(ms);
  const all = await Promise.all(answers);
  const waits = all.flatMap((done) => done.waits).toSorted((a, b) => a - b);
  return { waits, refused: all.reduce((sum, { refused }) => sum + refused, 0) };
}

const percentile = (sorted: readonly number[], p: number): number => sorted[Math.floor((sorted.length - 1) * p)] ?? NaN;

/** The same processes all the time; in each round one, two and four of them work, in turns. */
async function together(name: string, file: string, orders: Omit<Orders, "path">): Promise<Row[]> {
  const { store, path } = await openCopy({ keys: KEYS, limited: true }, { durability: orders.durability }, file);
  const children: ChildProcess[] = [];
  for (let i = 0; i < MOST; i++) children.push(await start({ path, ...orders }));
  let spent = (await round(children, WARM_UP_MS)).waits.length;
  const results = new Map<number, Done[]>(PROCESSES.map((count) => [count, []]));
  for (let i = 0; i < ROUNDS; i++) {
    for (const count of i % 2 === 0 ? PROCESSES : PROCESSES.toReversed()) {
      const done = await round(children.slice(0, count), ROUND_MS);
      spent += done.waits.length;
      results.get(count)?.push(done);
    }
  }
  const ends = children.map((child) => new Promise((resolve) => child.once("exit", resolve)));
  for (const child of children) child.disconnect();
  await Promise.all(ends);
  await assertSpent(store, KEYS, spent);
  await store.close();
  return toRows(name, results);
}

function toRows(name: string, results: ReadonlyMap<number, readonly Done[]>): Row[] {
  const rateOf = (count: number) => `${name}: ${count} ${count === 1 ? "process" : "processes"}`;
  return [...results].map(([count, rounds]) => {
    const waits = (p: number) => median(rounds.map((done) => percentile(done.waits, p))).toPrecision(2);
    const refused = rounds.reduce((sum, done) => sum + done.refused, 0);
    return {
      name: rateOf(count),
      unit: "per second",
      values: rounds.map((done) => (done.waits.length / ROUND_MS) * 1_000),
      ...(count > 1 && { floor: rateOf(1) }),
      ...(count === MOST && { goal: "≥ 1, p99 ≤ 20 ms" }),
      notes: { "p50, ms": waits(0.5), "p99, ms": waits(0.99), refused: String(refused) },
    };
  });
}

async function main(): Promise<void> {
  const writer = (await compileWriter()).href;
  report({
    question: "How many exact, durable spends do 1, 2 and 4 processes on one file do together, 8 in flight in each?",
    rows: [
      ...(await together("power", "power.db", { durability: "power" })),
      ...(await together("power, writer thread", "power-thread.db", { durability: "power", writer })),
      ...(await together("process", "process.db", { durability: "process" })),
      ...(await together("process, writer thread", "process-thread.db", { durability: "process", writer })),
    ],
  });
}

const orders = process.argv.at(-1);
await (orders?.startsWith("{") ? serve(JSON.parse(orders) as Orders) : main());
