/**
 * What do finds, spends, cached calls and imports cost on PostgreSQL, beside the plainest statements on the same
 * server?
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { KeyRecord } from "../src/contracts/store.js";
import { createVerifier } from "../src/verify/verifier.js";
import { noPostgres, startPostgres } from "../test/servers/postgres.js";
import { nextMessage } from "./children.js";
import { connect, CONNECTIONS, inFlight, makeBare, TAKE, TRIP } from "./connect.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { digestOf, endless, keyRow, sample } from "./keys.js";
import { openCopy, prepare } from "./stores.js";
import { remember, verifySide } from "./work.js";

const QUESTION =
  "What do finds, spends, cached calls and imports cost on PostgreSQL, beside the plainest statements on the same server?";
const KEYS = scaled(10_000, 100);
const CACHED = scaled(1_000, 100);
const IN_FLIGHT = 64;
const PROCESSES = 4;
const ROUNDS = scaled(5, 2);
const ROUND_MS = scaled(1_500, 60);
const IMPORTED = scaled(50_000, 500);
const IMPORTED_AT_ONCE = 5_000;
/** More records than the bench makes. */
const BOUNDS = { maxRecords: 1e9, maxPerWorkspace: 1e9 };

/**
 * A process that spends one key: says how many in the milliseconds that each message names, and ends with the channel.
 */
interface Orders {
  readonly url: string;
  readonly way: "single statements" | "keystile";
}

async function serve({ url, way }: Orders): Promise<void> {
  const { pool, store } = connect(url);
  const { ref } = (await store.findKey(digestOf(0))) as KeyRecord;
  const spend = async (): Promise<boolean> =>
    way === "keystile"
      ? (await store.spendCredits(ref, 1, 0, 0))?.ok === true
      : (await pool.query({ ...TAKE, values: ["0"] })).rowCount === 1;
  process.on("message", (ms: number) => {
    const until = performance.now() + ms;
    let done = 0;
    const run = async (): Promise<void> => {
      while (performance.now() < until) if (await spend()) done++;
    };
    void Promise.all(Array.from({ length: IN_FLIGHT }, run)).then(() => process.send?.(done));
  });
  process.once("disconnect", () => void Promise.resolve(store.close()).then(() => pool.end()));
  process.send?.("ready");
}

async function together(url: string): Promise<Row[]> {
  const ways = ["single statements", "keystile"] as const;
  const values = new Map<string, number[]>();
  const groups = new Map<string, ChildProcess[]>();
  for (const way of ways) {
    const orders = JSON.stringify({ url, way } satisfies Orders);
    const children = Array.from({ length: PROCESSES }, () =>
      fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), orders]),
    );
    await Promise.all(children.map(nextMessage));
    groups.set(way, children);
  }
  for (let round = -1; round < ROUNDS; round++) {
    for (const way of ways) {
      const children = groups.get(way) as ChildProcess[];
      const done = children.map(nextMessage) as Promise<number>[];
      for (const child of children) child.send(ROUND_MS);
      const sum = (await Promise.all(done)).reduce((all, one) => all + one, 0);
      // The first round warms up.
      if (round >= 0) values.set(way, [...(values.get(way) ?? []), (sum / ROUND_MS) * 1_000]);
    }
  }
  for (const child of [...groups.values()].flat()) child.disconnect();
  const nameOf = (way: string): string => `${PROCESSES} processes on one key, ${way}`;
  return ways.map((way) => ({
    name: nameOf(way),
    unit: "per second",
    values: values.get(way) ?? [],
    ...(way === "keystile" && { floor: nameOf(ways[0]), goal: "≥ 10" }),
  }));
}

/** Into empty tables, again and again: rows by COPY from a file beside the server, and keys by keystile. */
async function imports(url: string): Promise<Row[]> {
  const { pool, store } = connect(url);
  const keys = Array.from({ length: IMPORTED }, (_, n) => keyRow(n, false));
  const values = { copy: [] as number[], keystile: [] as number[] };
  const { rows: settings } = await pool.query<{ data_directory: string }>("SHOW data_directory");
  const folder = settings[0]?.data_directory ?? "";
  await pool.query("CREATE TABLE copied (LIKE keystile.keys INCLUDING ALL)");
  for (let round = 0; round < ROUNDS; round++) {
    await pool.query("TRUNCATE keystile.keys, keystile.accounts, keystile.leases, copied");
    const began = performance.now();
    for (let at = 0; at < IMPORTED; at += IMPORTED_AT_ONCE) {
      const inserted = await store.insertKeys(keys.slice(at, at + IMPORTED_AT_ONCE));
      if (!inserted.every(Boolean)) throw new Error("a key of the bench is there already");
    }
    values.keystile.push(((performance.now() - began) * 1e6) / IMPORTED);
    const file = `'${folder}/copied-rows'`;
    await pool.query(`COPY keystile.keys TO ${file}`);
    const copying = performance.now();
    const { rowCount } = await pool.query(`COPY copied FROM ${file}`);
    values.copy.push(((performance.now() - copying) * 1e6) / IMPORTED);
    if (rowCount !== IMPORTED) throw new Error("rows are missing");
  }
  await store.close();
  await pool.end();
  const floor = "a row by COPY";
  return [
    { name: floor, unit: "ns", values: values.copy },
    { name: "a key by insertKeys", unit: "ns", values: values.keystile, floor, goal: "≤ 1.5" },
  ];
}

async function main(): Promise<void> {
  const server = await startPostgres(["fsync = on"]);
  const url = await server.newDatabase();
  const { pool, store } = connect(url);
  await store.setUp();
  await prepare(store);
  for (let n = 0; n < KEYS; n += IMPORTED_AT_ONCE)
    await store.insertKeys(Array.from({ length: Math.min(IMPORTED_AT_ONCE, KEYS - n) }, (_, i) => keyRow(n + i, true)));
  await makeBare(pool, KEYS);
  await pool.query("VACUUM ANALYZE");
  const numbers = sample(KEYS);
  const nextDigest = endless(numbers.map(digestOf));
  const nextId = endless(numbers.map(String));
  const records = await Promise.all(Array.from({ length: KEYS }, (_, n) => store.findKey(digestOf(n))));
  const nextRef = endless(numbers.map((n) => (records[n] as KeyRecord).ref));

  const [trip, update, updates] = [
    "a bare round trip",
    "a bare UPDATE, one at a time",
    `bare UPDATEs, ${IN_FLIGHT} in flight over ${CONNECTIONS} connections`,
  ];
  const spend = async () => (await store.spendCredits(nextRef(), 1, 0, 0))?.ok === true;
  let calls = 0;
  const spendOnce = async () => {
    const record = { workspaceId: "ws_bench", id: `bench_${calls++}`, body: "b", until: 1 };
    return (
      (await store.spendOnce(nextRef(), 0, { cost: 1, now: 0, once: { record, bounds: BOUNDS } })).spend?.ok === true
    );
  };
  const take = async () => (await pool.query({ ...TAKE, values: [nextId()] })).rowCount === 1;
  const one = (name: string, work: () => Promise<boolean>, more: object = {}): Side => ({
    name,
    ...more,
    run: (operations) => inFlight(1, operations, work),
  });
  const rows = await measure([
    one(trip, async () => (await pool.query(TRIP)).rowCount === 1),
    one("find", async () => (await store.findKey(nextDigest())) !== undefined, { floor: trip, goal: "≤ 2.5" }),
    one(update, take),
    one("exact spend, one at a time", spend, { floor: update, goal: "≤ 1.2" }),
    { name: updates, run: (operations) => inFlight(IN_FLIGHT, operations, take) },
    {
      name: `exact spends, ${IN_FLIGHT} in flight`,
      floor: updates,
      goal: "≤ 0.2",
      run: (operations) => inFlight(IN_FLIGHT, operations, spend),
    },
    {
      name: `the same with an idempotency key each, ${IN_FLIGHT} in flight`,
      floor: updates,
      goal: "≤ 2",
      run: (operations) => inFlight(IN_FLIGHT, operations, spendOnce),
    },
  ]);
  rows.push(...(await together(url)));

  const unlimited = await server.newDatabase();
  const node = connect(unlimited);
  await node.store.setUp();
  await prepare(node.store);
  await node.store.insertKeys(Array.from({ length: CACHED }, (_, n) => keyRow(n, false)));
  const { store: sqlite } = await openCopy({ keys: CACHED, limited: false });
  const cachedOn = "a cached call on an unlimited key, SQLite";
  const verifiers = [createVerifier(sqlite), createVerifier(node.store)] as const;
  for (const verifier of verifiers) await remember(verifier, CACHED);
  rows.push(
    ...(await measure([
      verifySide(verifiers[0], CACHED, { name: cachedOn }),
      verifySide(verifiers[1], CACHED, { name: "the same, PostgreSQL", floor: cachedOn, goal: "≤ 1.1" }),
    ])),
  );
  for (const verifier of verifiers) await verifier.close();
  await sqlite.close();
  await node.store.close();
  await node.pool.end();
  rows.push(...(await imports(unlimited)));
  await store.close();
  await pool.end();
  await server.close();
  report({ question: QUESTION, rows });
}

const orders = process.argv.at(-1);
if (orders?.startsWith("{")) await serve(JSON.parse(orders) as Orders);
else if (noPostgres === undefined) await main();
else report({ question: QUESTION, rows: [] });
