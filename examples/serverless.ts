/**
 * A function on a serverless host, with keys in PostgreSQL (`DATABASE_URL`) and limits in Redis (`REDIS_URL`). Here
 * Node stands for the host. `API_ID` is that of the keys.
 */
import { serve } from "@hono/node-server";
import { Redis } from "ioredis";
import pg from "pg";
import { createVerifier } from "keystile";
import { postgresStore } from "keystile/postgres";
import { redisLimiter } from "keystile/redis";
import { apiKey } from "keystile/web";

/** Put your host's in its place: `import { waitUntil } from "@vercel/functions"`. This one waits for nothing. */
const waitUntil = (work: Promise<void>): void => void work;

// Made once for each instance, outside the handler.
const { DATABASE_URL: connectionString, REDIS_URL = "", API_ID: apiId = "api_documents" } = process.env;
const pool = new pg.Pool({ connectionString, max: 2, idleTimeoutMillis: 5_000, connectionTimeoutMillis: 3_000 });
const retryStrategy = (attempts: number) => Math.min(attempts * 50, 500);
const redis = new Redis(REDIS_URL, { lazyConnect: true, connectTimeout: 1_000, retryStrategy });
for (const client of [pool, redis]) client.on("error", console.error);
// Until Redis is connected an instance grants whole limits by itself: its first call waits, for a second at most.
const connected = redis.connect().catch(() => undefined);

// A function in place of the pool: no connection listens for changes, and a pooler in between changes nothing.
const store = postgresStore({ query: (text, values) => pool.query(text, [...values]) });
// Counts are written after each response, see below, and not by the timer.
const limiter = redisLimiter(redis, { deadline: 500 });
const verifier = createVerifier(store, { limiter, analytics: { interval: 60_000 } });

const documents = apiKey(verifier, { apiId, permissions: "documents.read" }, (_request, key) =>
  Response.json({ documents: [], credits: key.credits }),
);

export async function GET(request: Request): Promise<Response> {
  await connected;
  const response = await documents(request);
  // The host freezes the instance once this is settled.
  waitUntil(verifier.flush());
  return response;
}

/** Hosts that end instances in order send SIGTERM first. */
async function end() {
  await verifier.close();
  await store.close();
  await pool.end();
  redis.disconnect();
}

const host = serve({ fetch: GET, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  console.log(`http://127.0.0.1:${port}/documents`),
);
process.once("SIGTERM", () => host.close(() => void end()));
