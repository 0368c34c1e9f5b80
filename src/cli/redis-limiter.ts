/**
 * The limiter of `keystile serve --limiter redis://…`. What answers a ping may still refuse every take, as a replica
 * does, or a user without the limiter's keys: one take at the start finds out. Later takes tell when Redis is lost and
 * when it is back.
 */
import type { Limiter } from "../contracts/limiter.js";
import { isThenable } from "../lib/thenable.js";
import { redisLimiter } from "../ratelimit/redis/index.js";
import type { Io } from "./io/io.js";
import { oneLine, toJson, warn } from "./io/text.js";
import { codeOf, connectRedis, type RedisConnection } from "./redis-client.js";

/** Milliseconds that the first take may need, on a connection that is new. */
const FIRST_DEADLINE = 2_000;
/** Of a bucket of its own, which is full again after a millisecond. */
const FIRST_TAKE = { bucket: "serve", limit: 1_000_000, duration: 1_000, cost: 1 };
/** Milliseconds without a failure after which Redis is back: one that fails now and then is told of once. */
const QUIET = 1_000;

/**
 * Connects to a Redis. If it takes no tokens the service starts all the same, with a warning.
 * @throws a failure if no client is installed, or the server refuses the user or password
 */
export async function openRedisLimiter(io: Io, url: string): Promise<{ readonly limiter: Limiter; close(): void }> {
  const connection = await connectRedis(url);
  const problem = await problemOf(connection);
  if (problem !== undefined) await warn(io, `the Redis of --limiter ${problem}, limits count here alone`);
  const limiter = redisLimiter(connection.client);
  return {
    limiter: watched(limiter, problem !== undefined, (state) => {
      void io.stderr.write(`${toJson({ time: io.now(), ...state })}\n`);
    }),
    close() {
      limiter.close();
      connection.close();
    },
  };
}

/** Why no tokens can be taken, and until when; undefined: they can. */
async function problemOf({ client, unreachable }: RedisConnection): Promise<string | undefined> {
  if (unreachable !== undefined) return `is out of reach (${unreachable}); until it is not`;
  const limiter = redisLimiter(client, { deadline: FIRST_DEADLINE });
  try {
    await limiter.take([FIRST_TAKE], 0);
    return undefined;
  } catch (error) {
    return `takes no tokens (${reasonOf(error)}); until it does`;
  } finally {
    limiter.close();
  }
}

/**
 * The same limiter, telling once when it fails and once when it no longer does.
 * @param isLost whether that it fails has been told already
 */
function watched(
  limiter: Limiter,
  isLost: boolean,
  tell: (state: { readonly limiter: "lost" | "back"; readonly reason?: string }) => void,
): Limiter {
  let failedAt = isLost ? -Infinity : undefined;
  const answered = <T>(verdicts: T): T => {
    if (failedAt === undefined || performance.now() - failedAt < QUIET) return verdicts;
    failedAt = undefined;
    tell({ limiter: "back" });
    return verdicts;
  };
  const failed = (error: unknown): never => {
    if (failedAt === undefined) tell({ limiter: "lost", reason: reasonOf(error) });
    failedAt = performance.now();
    throw error;
  };
  return {
    ...limiter,
    take(checks, now) {
      try {
        const taken = limiter.take(checks, now);
        // One that was refused by what is remembered says nothing about Redis.
        return isThenable(taken) ? Promise.resolve(taken).then(answered, failed) : taken;
      } catch (error) {
        return failed(error);
      }
    },
  };
}

/** What Redis said to a call that failed, without the names in the call. Its address is said nowhere. */
function reasonOf(error: unknown): string {
  const { cause } = error as { readonly cause?: unknown };
  const message = cause instanceof Error ? cause.message : "";
  const said = /^[A-Z]{2,} .*?(?=,? with args| script: |\n|$)/.exec(message)?.[0];
  return said === undefined ? (codeOf(cause) ?? "no answer") : oneLine(said);
}
