/**
 * What does a token of a limit in a file cost beside one in memory, one at a time, 64 in flight and from four
 * processes?
 */
import { type ChildProcess, fork } from "node:child_process";
import type { LimitCheck, Limiter } from "../src/contracts/limiter.js";
import { memoryLimiter } from "../src/ratelimit/memory/limiter.js";
import { sqliteLimiter } from "../src/stores/sqlite/index.js";
import { measure, report, scaled, type Side } from "./harness.js";
import { scratch } from "./stores.js";

const BUCKETS = scaled(1_000, 100);
const IN_FLIGHT = 64;
const PROCESSES = 4;
/** A slice of the processes: so many that their waking up does not count. */
const SHARED_OPERATIONS = scaled(4_000, 100);
/** So slow that nothing refills meanwhile: what is left then says what was taken. */
const LIMIT = 1_000_000_000;
const DURATION = 9_000_000_000_000_000;

const checkOf = (n: number, cost = 1): LimitCheck[] => [
  { bucket: `key_${n % BUCKETS} requests`, limit: LIMIT, duration: DURATION, cost, workspaceId: "ws_1" },
];

const PREFIX = "--taker=";
const takerPath = process.argv.find((one) => one.startsWith(PREFIX))?.slice(PREFIX.length);
if (takerPath === undefined) await main();
else serveOrders(sqliteLimiter({ path: takerPath }, { busyTimeout: 60_000 }));

async function takeAlone(limiter: Limiter, operations: number): Promise<number> {
  let right = 0;
  for (let i = 0; i < operations; i++) if (!(await limiter.take(checkOf(i), Date.now()))[0]!.exceeded) right++;
  return right;
}

async function takeTogether(limiter: Limiter, operations: number, inFlight = IN_FLIGHT): Promise<number> {
  let begun = 0;
  let right = 0;
  const lane = async (): Promise<void> => {
    while (begun < operations) if (!(await limiter.take(checkOf(begun++), Date.now()))[0]!.exceeded) right++;
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return right;
}

/** As one of several processes: takes so many, and says how many passed. */
function serveOrders(limiter: Limiter): void {
  process.on("message", (operations: number) => {
    void takeTogether(limiter, operations, IN_FLIGHT / PROCESSES).then((right) => process.send!(right));
  });
  process.once("disconnect", () => void limiter.close?.());
}

async function main(): Promise<void> {
  const path = scratch("limiter.db");
  const shared = `${path}-shared`;
  const memory = memoryLimiter();
  const file = sqliteLimiter({ path });
  const children = Array.from({ length: PROCESSES }, () => fork(process.argv[1]!, [`${PREFIX}${shared}`]));
  const ask = (child: ChildProcess, operations: number) =>
    new Promise<number>((resolve) => {
      child.once("message", resolve as (right: unknown) => void);
      child.send(operations);
    });
  const takeShared = async (operations: number): Promise<number> => {
    const share = Math.floor(operations / PROCESSES);
    const first = operations - share * (PROCESSES - 1);
    const taken = await Promise.all(children.map((child, i) => ask(child, i === 0 ? first : share)));
    return taken.reduce((sum, right) => sum + right, 0);
  };
  const warmUp = await takeShared(SHARED_OPERATIONS);
  const IN_MEMORY = "memory, one at a time";
  const IN_MEMORY_TOGETHER = `memory, ${IN_FLIGHT} in flight`;
  const sides: Side[] = [
    { name: IN_MEMORY, run: (operations) => takeAlone(memory, operations) },
    { name: IN_MEMORY_TOGETHER, run: (operations) => takeTogether(memory, operations) },
    { name: "file, one at a time", floor: IN_MEMORY, run: (operations) => takeAlone(file, operations) },
    {
      name: `file, ${IN_FLIGHT} in flight`,
      floor: IN_MEMORY_TOGETHER,
      run: (operations) => takeTogether(file, operations),
    },
    {
      name: `file, ${PROCESSES} processes with ${IN_FLIGHT / PROCESSES} in flight each`,
      floor: IN_MEMORY_TOGETHER,
      operations: SHARED_OPERATIONS,
      run: takeShared,
      async check(operations) {
        const reader = sqliteLimiter({ path: shared });
        let taken = 0;
        for (let n = 0; n < BUCKETS; n++) taken += LIMIT - (await reader.take(checkOf(n, 0), Date.now()))[0]!.remaining;
        await reader.close();
        if (taken !== operations + warmUp)
          throw new Error(`${operations + warmUp} tokens were granted, and ${taken} taken`);
      },
    },
  ];
  const rows = await measure(sides);
  for (const child of children) child.disconnect();
  await file.close();
  report({
    question:
      "What does a token of a limit in a file cost beside one in memory, one at a time, 64 in flight and from four processes?",
    rows,
  });
}
