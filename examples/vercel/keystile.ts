import { Redis } from "ioredis";
import pg from "pg";
import { createVerifier } from "keystile";
import { postgresStore } from "keystile/postgres";
import { redisLimiter } from "keystile/redis";

function open() {
  const { DATABASE_URL: connectionString, REDIS_URL = "" } = process.env;
  const pool = new pg.Pool({ connectionString, max: 2, idleTimeoutMillis: 5_000, connectionTimeoutMillis: 3_000 });
  const retryStrategy = (attempts: number) => Math.min(attempts * 50, 500);
  const redis = new Redis(REDIS_URL, { lazyConnect: true, connectTimeout: 1_000, retryStrategy });
  for (const client of [pool, redis]) client.on("error", console.error);
  const store = postgresStore({ query: (text, values) => pool.query(text, [...values]) });
  const limiter = redisLimiter(redis, { deadline: 500 });
  const verifier = createVerifier(store, { limiter, analytics: { interval: 60_000 } });
  let connected: Promise<void> | undefined;
  /** For the first call: until Redis is connected an instance grants whole limits by itself. */
  const connect = () => (connected ??= redis.connect().catch(() => undefined));
  return { verifier, connect };
}

// Kept through the hot reloads of `next dev`, and shared by all routes.
const kept = globalThis as typeof globalThis & { keystile?: ReturnType<typeof open> };
export const { verifier, connect } = (kept.keystile ??= open());
export const apiId = "api_documents";
