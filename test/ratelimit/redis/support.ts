/** What tests of the Redis limiter share. */
import type { Redis } from "ioredis";
import type { LimitCheck } from "../../../src/contracts/limiter.js";

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
