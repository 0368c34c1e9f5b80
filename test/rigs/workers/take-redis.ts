/** Takes from rate limits in Redis as one of several processes, and says what it was granted. */
import { Redis } from "ioredis";
import type { LimitCheck } from "../../../src/contracts/limiter.js";
import { redisLimiter } from "../../../src/ratelimit/redis/index.js";

export interface TakeRedisOrders {
  readonly url: string;
  readonly inFlight: number;
  readonly limits: readonly Pick<LimitCheck, "bucket" | "limit" | "duration">[];
  /** The planted fault: a count is read, and one more is written. */
  readonly getsThenSets?: boolean;
  /** Stops after so many refusals in a row. */
  readonly refusals: number;
}

const orders = JSON.parse(process.argv[2]!) as TakeRedisOrders;
const redis = new Redis(orders.url).on("error", () => undefined);
const limiter = redisLimiter(redis, { deadline: 20_000 });
const checks: LimitCheck[] = orders.limits.map((limit) => ({ ...limit, cost: 1, shard: "key_1" }));
const totals = { granted: 0, first: Infinity, last: -Infinity };
const errors: string[] = [];
let refusedInARow = 0;

async function takeOnce(): Promise<boolean> {
  if (!orders.getsThenSets) return (await limiter.take(checks, 0)).every(({ exceeded }) => !exceeded);
  const { bucket, limit } = orders.limits[0]!;
  const used = Number((await redis.get(bucket)) ?? 0);
  if (used >= limit) return false;
  await redis.set(bucket, used + 1);
  return true;
}

/** By the server's clock, which refills. */
async function now(): Promise<number> {
  const [seconds = 0, micros = 0] = (await redis.time()).map(Number);
  return seconds * 1_000 + micros / 1_000;
}

async function run(): Promise<void> {
  while (refusedInARow < orders.refusals) {
    try {
      const began = totals.first === Infinity ? await now() : totals.first;
      if (!(await takeOnce())) {
        refusedInARow++;
        continue;
      }
      refusedInARow = 0;
      totals.granted++;
      totals.first = Math.min(totals.first, began);
    } catch (error) {
      errors.push(String(error));
      return;
    }
  }
}

process.once("message", () => {
  void (async () => {
    await Promise.all(Array.from({ length: orders.inFlight }, run));
    totals.last = await now();
    redis.disconnect();
    process.send!({ ...totals, errors: [...new Set(errors)] }, () => process.disconnect());
  })();
});
void redis.ping().then(() => process.send!({ ready: true }));
