/** What does a call with one limit and with three cost in Redis beside a GET, one at a time and 64 in flight? */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { Redis } from "ioredis";
import type { LimitCheck, Limiter } from "../src/contracts/limiter.js";
import { redisLimiter } from "../src/ratelimit/redis/index.js";
import { measure, report, scaled, type Side } from "./harness.js";

const QUESTION =
  "What does a call with one limit and with three cost in Redis beside a GET, one at a time and 64 in flight?";
const KEYS = scaled(10_000, 100);
const IN_FLIGHT = 64;
/** So slow that nothing refills meanwhile: what is left then says what was taken. */
const LIMIT = 1_000_000_000;
const DURATION = 9_000_000_000_000_000;
const NAMES = ["requests", "exports", "tokens"];

if (spawnSync("redis-server", ["--version"]).status !== 0) {
  console.error("redis: skipped, there is no redis-server");
  report({ question: QUESTION, rows: [] });
} else await main();

function checksOf(key: number, names: readonly string[], cost: number): LimitCheck[] {
  const shard = `key_1111111111111111${100_000 + key}`;
  return names.map((name) => ({ bucket: `${shard} ${name}`, shard, limit: LIMIT, duration: DURATION, cost }));
}

async function main(): Promise<void> {
  const listening = createServer().listen(0, "127.0.0.1");
  await once(listening, "listening");
  const { port } = listening.address() as { port: number };
  await new Promise((resolve) => listening.close(resolve));
  const server = spawn("redis-server", ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""], { stdio: "ignore" });
  process.once("exit", () => server.kill("SIGKILL"));
  const redis = new Redis(port, "127.0.0.1").on("error", () => undefined);
  await redis.ping();
  const limiter = redisLimiter(redis, { deadline: 60_000 });
  for (let n = 0; n < KEYS; n++) await redis.set(`value${n}`, "a value as long as a bucket is: 32");

  const get = async (n: number) => (await redis.call("GET", `value${n % KEYS}`)) !== null;
  const take = (own: Limiter, names: readonly string[]) => async (n: number) =>
    (await own.take(checksOf(n % KEYS, names, 1), 0)).every(({ exceeded }) => !exceeded);
  const alone = async (one: (n: number) => Promise<boolean>, operations: number): Promise<number> => {
    let right = 0;
    for (let n = 0; n < operations; n++) if (await one(n)) right++;
    return right;
  };
  const together = async (one: (n: number) => Promise<boolean>, operations: number): Promise<number> => {
    let begun = 0;
    let right = 0;
    const lane = async (): Promise<void> => {
      while (begun < operations) if (await one(begun++)) right++;
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
    return right;
  };
  const one = take(limiter, NAMES.slice(0, 1));
  const three = take(limiter, NAMES);
  const [floor, floorTogether] = ["GET, one at a time", `GET, ${IN_FLIGHT} in flight`];
  const sides: Side[] = [
    { name: floor, run: (operations) => alone(get, operations) },
    { name: floorTogether, run: (operations) => together(get, operations) },
    { name: "one limit, one at a time", floor, run: (operations) => alone(one, operations) },
    {
      name: `one limit, ${IN_FLIGHT} in flight`,
      floor: floorTogether,
      goal: "≤ 2.0",
      run: (operations) => together(one, operations),
    },
    { name: "three limits, one at a time", floor, run: (operations) => alone(three, operations) },
    {
      name: `three limits, ${IN_FLIGHT} in flight`,
      floor: floorTogether,
      goal: "≤ 6.5",
      run: (operations) => together(three, operations),
    },
  ];
  let granted = 0;
  const counted = sides.map((side, i): Side => {
    const limits = i < 2 ? 0 : i < 4 ? 1 : 3;
    return { ...side, check: (operations) => void (granted += operations * limits) };
  });
  const rows = await measure(counted);
  let taken = 0;
  for (let n = 0; n < KEYS; n++)
    for (const { remaining } of await limiter.take(checksOf(n, NAMES, 0), 0)) taken += LIMIT - remaining;
  if (taken !== granted) throw new Error(`${granted} tokens were granted, and ${taken} taken`);
  redis.disconnect();
  server.kill("SIGKILL");
  report({ question: QUESTION, rows });
}
