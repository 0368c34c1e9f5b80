/**
 * The entry point `keystile/redis`: rate limits in Redis or Valkey, shared by many hosts.
 * @module keystile/redis
 */
export type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
export type { MaybePromise } from "../../contracts/types.js";
export type { IoredisClient, NodeRedisClient, NodeRedisCluster, RedisClient, RedisCommand } from "./client.js";
export { type RedisLimiter, type RedisLimiterCounters, redisLimiter, type RedisLimiterOptions } from "./limiter.js";
