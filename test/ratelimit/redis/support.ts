/** What tests of the Redis limiter share. */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll } from "vitest";
import type { LimitCheck } from "../../../src/contracts/limiter.js";
import { redisLimiter, type RedisLimiter, type RedisLimiterOptions } from "../../../src/ratelimit/redis/limiter.js";
import { startRedis, type TestRedis } from "../../servers/redis.js";

export const START = 1_700_000_000_000;

export const check = (over: Partial<LimitCheck> = {}): LimitCheck => ({
  bucket: "key_1 requests",
  shard: "key_1",
  limit: 10,
  duration: 60_000,
  cost: 1,
  ...over,
});

/** Calls of the script that a server counted. */
export async function scriptCalls(client: Redis): Promise<number> {
  const stats = await client.info("commandstats");
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

/** A server of the tests of one `describe`, emptied after each, and limiters on it that are closed then. */
export function testServer() {
  const made: RedisLimiter[] = [];
  const bed = {
    server: undefined as unknown as TestRedis,
    client: undefined as unknown as Redis,
    limiterOf(options: RedisLimiterOptions = {}): RedisLimiter {
      const limiter = redisLimiter(bed.client, { deadline: 10_000, ...options });
      made.push(limiter);
      return limiter;
    },
  };
  beforeAll(async () => {
    bed.server = await startRedis();
    bed.client = new Redis(bed.server.url);
  });
  afterEach(async () => {
    for (const limiter of made.splice(0)) limiter.close();
    await bed.client.flushall();
  });
  afterAll(async () => {
    bed.client.disconnect();
    await bed.server.close();
  });
  return bed;
}
