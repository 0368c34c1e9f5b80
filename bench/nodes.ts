/**
 * How many verifications per second do 1, 2 and 4 processes on one PostgreSQL server do, with and without cache, exact
 * and leased?
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { createVerifier, type Verifier } from "../src/verify/verifier.js";
import type { CreditsOptions } from "../src/verify/verifier-options.js";
import { noPostgres, startPostgres } from "../test/servers/postgres.js";
import { nextMessage } from "./children.js";
import { connect, type Connected, openPool, TRIP } from "./connect.js";
import { median, QUICK, report, type Row, scaled } from "./harness.js";
import { keyIdOf, keyRow, keyText, requestsFor } from "./keys.js";
import { addLatency, createLatencies, type Latencies, latencyAt, mergeLatencies } from "./latencies.js";
import { assertSpent, prepare } from "./stores.js";
import { remember } from "./work.js";

const QUESTION =
  "How many verifications per second do 1, 2 and 4 processes on one PostgreSQL server do, with and without cache, exact and leased?";
const KEYS = scaled(1_000, 100);
/** Calls in each process. */
const IN_FLIGHT = 64;
const PROCESSES = QUICK ? [1, 2] : [1, 2, 4];
const MOST = Math.max(...PROCESSES);
const ROUNDS = scaled(5, 2);
const ROUND_MS = scaled(1_000, 60);
const WARM_UP_MS = scaled(2_000, 30);
/** Of one key more, which all processes spend at the end until it is empty. */
const SCARCE = scaled(20_000, 200);

/** Of the default size, but not growing from one credit and not ending while others have their turn. */
const LEASED: CreditsOptions = { mode: "leased", firstStep: 250, ttl: 600_000 };
const EXACT: CreditsOptions = { mode: "exact" };

/** What a process does; without `cached`: bare round trips. */
interface Way {
  readonly name: string;
  /** Of its own, so that its balances are its own. */
  readonly schema: string;
  readonly cached?: boolean;
  /** Absent: the keys are unlimited. */
  readonly credits?: CreditsOptions;
}

const FLOOR = "a bare round trip";
const ALL_WAYS: readonly Way[] = [
  { name: FLOOR, schema: "trip" },
  { name: "no credits, cached", schema: "free_cached", cached: true },
  { name: "no credits, not cached", schema: "free", cached: false },
  { name: "exact, cached", schema: "exact_cached", cached: true, credits: EXACT },
  { name: "exact, not cached", schema: "exact", cached: false, credits: EXACT },
  { name: "leased, cached", schema: "leased_cached", cached: true, credits: LEASED },
  { name: "leased, not cached", schema: "leased", cached: false, credits: LEASED },
];

/** In a smoke run some, with every path that the others take. */
const IN_SMOKE_RUN = [FLOOR, "exact, not cached", "leased, cached"];
const WAYS = ALL_WAYS.filter(({ name }) => !QUICK || IN_SMOKE_RUN.includes(name));

/** What the parent hands to a process at its start, as its last argument. */
interface Orders {
  readonly url: string;
  readonly way: Way;
}

/** `ms`: verify for so long; otherwise spend the scarce key until it is refused. */
interface Command {
  readonly ms?: number;
}

/** What came of it: calls that passed, each of them one credit where there are credits. */
interface Done {
  readonly passed: number;
  readonly seconds: number;
  readonly latencies: Latencies;
}

/** One call. @returns whether it passed */
type Call = () => Promise<boolean>;

/**
 * Resolves in the next turn of the event loop, with all others that wait for it: so calls come to a program from a
 * socket.
 */
function createTurns(): () => Promise<void> {
  let next: Promise<void> | undefined;
  return () =>
    (next ??= new Promise((resolve) => {
      setImmediate(() => {
        next = undefined;
        resolve();
      });
    }));
}

/** Keeps {@link IN_FLIGHT} calls in flight until the time is over, or a call is refused. */
async function callFor(call: Call, ms: number): Promise<Done & { readonly wasRefused: boolean }> {
  const latencies = createLatencies();
  const nextTurn = createTurns();
  const first = performance.now();
  let passed = 0;
  let wasRefused = false;
  const run = async (): Promise<void> => {
    for (let began: number; !wasRefused && (began = performance.now()) < first + ms;) {
      if (await call()) passed++;
      else wasRefused = true;
      addLatency(latencies, performance.now() - began);
      await nextTurn();
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, run));
  return { passed, seconds: (performance.now() - first) / 1_000, latencies, wasRefused };
}

const takes = async (verifier: Verifier, request: Parameters<Verifier["verify"]>[0]): Promise<boolean> => {
  const { code } = await verifier.verify(request);
  if (code !== "VALID" && code !== "USAGE_EXCEEDED") throw new Error(`a key of the bench is ${code}`);
  return code === "VALID";
};

/** Carries out what the parent commands, and ends with the channel. */
function listen(call: Call, spendScarce: Call, close: () => Promise<void>): void {
  const carryOut = async ({ ms }: Command): Promise<Done> => {
    if (ms === undefined) return callFor(spendScarce, Infinity);
    const done = await callFor(call, ms);
    if (done.wasRefused) throw new Error("a call of the bench was refused");
    return done;
  };
  process.on("message", (order: Command) => {
    void carryOut(order).then((done) => process.send?.(done));
  });
  process.once("disconnect", () => void close());
  process.send?.("ready");
}

async function serve({ url, way: { cached, credits, schema } }: Orders): Promise<void> {
  if (cached === undefined) {
    const pool = openPool(url);
    const call: Call = async () => (await pool.query(TRIP)).rowCount === 1;
    listen(call, call, () => pool.end());
    return;
  }
  const { store, close } = connect(url, schema);
  const verifier = createVerifier(store, {
    ...(credits !== undefined && { credits }),
    // A single record: each call but one in a thousand finds its key anew.
    ...(!cached && { cache: { size: 1 } }),
  });
  await remember(verifier, KEYS, { cost: 0 });
  const { next } = requestsFor(KEYS);
  listen(
    () => takes(verifier, next()),
    () => takes(verifier, { key: keyText(KEYS) }),
    async () => {
      await verifier.close();
      await close();
    },
  );
}

async function command(children: readonly ChildProcess[], what: Command): Promise<Done[]> {
  const done = children.map(nextMessage) as Promise<Done>[];
  for (const child of children) child.send(what);
  return Promise.all(done);
}

const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);

/** A way with its processes and what they have reached. */
interface Lane {
  readonly way: Way;
  readonly children: readonly ChildProcess[];
  readonly rounds: ReadonlyMap<number, Done[][]>;
  /** Of the parent, on the same database. */
  readonly node: Connected;
  passed: number;
}

async function open(url: string, way: Way): Promise<Lane> {
  const node = connect(url, way.schema);
  await node.store.setUp();
  await prepare(node.store);
  const limited = way.credits !== undefined;
  const scarce = keyRow(KEYS, limited);
  const keys = Array.from({ length: KEYS }, (_, n) => keyRow(n, limited));
  const balance = scarce.balance && { ...scarce.balance, remaining: SCARCE };
  const inserted = await node.store.insertKeys([...keys, { row: scarce.row, ...(balance && { balance }) }]);
  if (!inserted.every(Boolean)) throw new Error("a key of the bench is there already");
  const orders = JSON.stringify({ url, way } satisfies Orders);
  const children = Array.from({ length: MOST }, () =>
    fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), orders]),
  );
  await Promise.all(children.map(nextMessage));
  return { way, children, node, rounds: new Map(PROCESSES.map((count) => [count, []])), passed: 0 };
}

/**
 * Spends the scarce key to its end, in all processes at once, and compares the ledger with what passed.
 * @returns credits granted beyond those that were there
 * @throws Error if one is missing or was taken without an answer
 */
async function settle({ way, children, node, passed }: Lane): Promise<number | undefined> {
  const granted = way.credits && sum((await command(children, {})).map((done) => done.passed));
  const ends = children.map((child) => new Promise((resolve) => child.once("exit", resolve)));
  for (const child of children) child.disconnect();
  await Promise.all(ends);
  if (granted !== undefined) {
    const [left] = await node.store.readBalances([{ keyId: keyIdOf(KEYS), period: 0 }], Date.now());
    const refusedEarly = way.credits?.mode === "exact" && granted < SCARCE;
    if (granted + (left?.remaining ?? NaN) !== SCARCE || refusedEarly)
      throw new Error(`${way.name}: ${granted} of ${SCARCE} credits granted, ${left?.remaining} left`);
    await assertSpent(node.store, KEYS, passed);
  }
  await node.close();
  return granted && Math.max(0, granted - SCARCE);
}

function toRows({ way, rounds }: Lane, overGranted: number | undefined): Row[] {
  const nameOf = (name: string, count: number) => `${name}: ${count} ${count === 1 ? "process" : "processes"}`;
  return [...rounds].map(([count, all]): Row => {
    const percentile = (p: number): string => {
      const ms = all.map((done) => latencyAt(mergeLatencies(done.map(({ latencies }) => latencies)), p));
      return String(Number(median(ms).toPrecision(2)));
    };
    return {
      name: nameOf(way.name, count),
      unit: "per second",
      values: all.map((done) => sum(done.map(({ passed, seconds }) => passed / seconds))),
      ...(way.name !== FLOOR && { floor: nameOf(FLOOR, count) }),
      notes: {
        "p50, ms": percentile(0.5),
        "p99, ms": percentile(0.99),
        ...(overGranted !== undefined && count === MOST && { "over-granted": String(overGranted) }),
      },
    };
  });
}

async function main(): Promise<void> {
  const server = await startPostgres(["max_connections = 400", "fsync = on"]);
  const url = await server.newDatabase();
  const lanes: Lane[] = [];
  for (const way of WAYS) lanes.push(await open(url, way));
  await lanes[0]?.node.pool.query("VACUUM ANALYZE");
  for (const lane of lanes) lane.passed += sum((await command(lane.children, { ms: WARM_UP_MS })).map((d) => d.passed));
  for (let round = 0; round < ROUNDS; round++) {
    // All ways with one number of processes follow each other, so that a noisy minute hits all of them.
    for (const count of round % 2 === 0 ? PROCESSES : PROCESSES.toReversed()) {
      for (const lane of round % 2 === 0 ? lanes : lanes.toReversed()) {
        const done = await command(lane.children.slice(0, count), { ms: ROUND_MS });
        lane.passed += sum(done.map(({ passed }) => passed));
        lane.rounds.get(count)?.push(done);
      }
    }
  }
  const rows: Row[] = [];
  for (const lane of lanes) rows.push(...toRows(lane, await settle(lane)));
  await server.close();
  report({ question: QUESTION, rows });
}

const orders = process.argv.at(-1);
if (orders?.startsWith("{")) await serve(JSON.parse(orders) as Orders);
else if (noPostgres === undefined) await main();
else report({ question: QUESTION, rows: [] });
