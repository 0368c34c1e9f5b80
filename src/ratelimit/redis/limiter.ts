/** Token buckets in Redis: one set of limits for many hosts. Port: src/contracts/limiter.ts. */
import { KeystileError } from "../../contracts/errors.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitVerdict } from "../../contracts/limiter.js";
import type { MaybePromise } from "../../contracts/types.js";
import { type Check, checkOptions, integer, oneOf } from "../../lib/check-options.js";
import { digestText } from "../../lib/hash.js";
import { assertCheck } from "../memory/bucket.js";
import { createBreaker } from "./breaker.js";
import { isOneServer, type RedisClient, toCommand } from "./client.js";
import { createLargeCalls } from "./large-calls.js";
import { createRefusals } from "./refusals.js";
import { SCRIPT } from "./script.js";
import type { Mode } from "./script.js";
import {
  createShardCalls,
  isRefused,
  readReply,
  receiptsOf,
  type ShardCall,
  type ShardReply,
  toWords,
} from "./shard-call.js";
import { createShardTakes, type Taken } from "./shard-takes.js";

/** Options of {@link redisLimiter}. */
export interface RedisLimiterOptions {
  /**
   * What the keys in Redis begin with: up to 100 characters of visible ASCII without braces, default `keystile:`.
   * Limiters with one prefix share their buckets.
   */
  readonly prefix?: string;
  /**
   * Milliseconds within which a call settles, 1…60_000, default 50; one of more than 16 limits has 450 more. Keep it
   * so far below the `limiterTimeout` of verifiers (1_000).
   */
  readonly deadline?: number;
  /**
   * By which clock buckets refill: that of the Redis `server` (default), or that of the `caller`, which `take` is
   * given. With `caller`, hosts whose clocks differ refill by the one that is ahead.
   */
  readonly clock?: "server" | "caller";
}

/** Counts since the limiter was created, of this process alone. */
export interface RedisLimiterCounters extends LimiterCounters {
  /** Times that the script was asked for; `EVAL` after an unknown `EVALSHA` does not count again. */
  readonly scriptCalls: number;
  /**
   * Shards of calls that were refused by what a refusal before had told, without asking Redis about the tokens of that
   * shard.
   */
  readonly rememberedRefusals: number;
  /** Calls that failed, those included that were not made because so many before them had. */
  readonly failedCalls: number;
}

/** A {@link Limiter} whose buckets are in Redis. */
export interface RedisLimiter extends Limiter {
  /**
   * Takes tokens according to limiter clauses 1–7 and 9; of clause 8, what Redis has memory for. Checks of one shard
   * are one call of a script. Those of several shards are taken at once, and returned if one of them is refused: for
   * that moment others may be refused because of them.
   * @param now used with `clock: "caller"`
   * @throws RangeError if a number of a check is not an integer from 0 to 2^53 − 1, a name or a shard is not a
   *   well-formed text of at most 2,048 UTF-16 units, or `now` is not a number of milliseconds
   * @throws (or rejects with) KeystileError LIMITER_UNAVAILABLE after `close`, when Redis fails or does not answer
   *   within the deadline, which for calls of more than 16 limits includes waiting for others of them, and at once
   *   after five such calls in a row until a probe succeeds. In a cluster calls are made as long as a shard answers.
   *   Tokens that Redis grants to a call that failed are returned as soon as its late reply arrives; if none does, they
   *   may stay taken
   */
  take(checks: readonly LimitCheck[], now: number): MaybePromise<readonly LimitVerdict[]>;
  counters(): RedisLimiterCounters;
  /** Makes `take` fail from now on. The client is yours to close. */
  close(): void;
}

const DEFAULT_PREFIX = "keystile:";
const DEFAULT_DEADLINE = 50;
/**
 * Milliseconds for which a full bucket is kept where callers bring the time: it must outlast their clocks' differences.
 * By the server's own clock one is gone the moment it is full.
 */
const CALLER_SLACK = 60_000;
/** Limits of a call that is not large, at most. */
const MAX_SMALL = 16;

const OPTIONS = {
  prefix(value, path) {
    if (typeof value !== "string" || !/^[!-z|~]{0,100}$/.test(value))
      throw new TypeError(`${path} must be up to 100 characters of visible ASCII without braces`);
  },
  deadline: integer(1, 60_000),
  clock: oneOf("server", "caller"),
} as const satisfies Record<keyof RedisLimiterOptions, Check>;

/**
 * Token buckets in Redis 7 or Valkey 8, exact over all hosts that use it: the same arithmetic as `memoryLimiter`, one
 * call of a script for a verification, whatever its limits. A bucket takes some 150 to 200 bytes and expires once it is
 * full.
 *
 * Deadline: a call takes at most `deadline`, one of more than 16 limits 450 ms more, whatever the client's options.
 * After five failures in a row none waits; a probe every 200 ms, which takes nothing, finds out when Redis is back.
 * While some slots of a cluster answer, only calls for the others fail. Verifiers do as `onLimiterFailure` says.
 *
 * Remembered refusals: a call that was refused is refused without asking Redis until it can fit, at most for a second.
 *
 * What Redis loses (a restart without persistence, a flush, a failover to a replica that lagged) starts full: one
 * capacity more at most.
 * @param client of ioredis 5 or 6, or of `redis` 5 or 6, standalone or a cluster; or a function that sends a command.
 *   The program connects it, listens to its errors and closes it
 * @throws TypeError or RangeError naming an option, or if `client` is none
 * @see docs/rate-limits.md for sizes, keys and what happens when Redis fails
 * @example
 * const limiter = redisLimiter(new Redis("redis://localhost"));
 * const verifier = createVerifier(store, { limiter });
 */
export function redisLimiter(client: RedisClient, options: RedisLimiterOptions = {}): RedisLimiter {
  const { prefix = DEFAULT_PREFIX, deadline = DEFAULT_DEADLINE, clock = "server" } = checkOptions(options, OPTIONS);
  const toShardCalls = createShardCalls(prefix);
  const command = toCommand(client);
  const sha = digestText("sha1", SCRIPT, "hex");
  let [scriptCalls, latest, isClosed] = [0, -Infinity, false];
  // Of the server's clock only differences are known here.
  const refusals = createRefusals(clock === "caller" ? () => latest : () => performance.now());

  /** @param granted what an `undo` is to return; @param read makes the result of the reply */
  const run = async <T>(
    call: ShardCall,
    mode: Mode,
    read: (reply: ShardReply, call: ShardCall) => T,
    receipts?: readonly string[],
  ): Promise<T> => {
    scriptCalls++;
    const header = clock === "caller" ? `${mode} ${latest} ${CALLER_SLACK}` : mode;
    const words = toWords(["EVALSHA", typeof sha === "string" ? sha : await sha], call, { header, receipts });
    const firstKey = call.keys[0] as string;
    let answer: unknown;
    try {
      answer = await command(words, firstKey);
    } catch (error) {
      if (!isUnknownScript(error)) throw error;
      answer = await command(["EVAL", SCRIPT, ...words.slice(2)], firstKey);
    }
    const reply = readReply(call, answer);
    refusals.learn(call, reply);
    return read(reply, call);
  };
  const asItIs = (reply: ShardReply): Taken => reply;
  const ask = (call: ShardCall, mode: Mode): Promise<Taken> => run(call, mode, asItIs);
  const undo = (call: ShardCall, granted: Taken): Promise<Taken> =>
    run(call, "undo", asItIs, receiptsOf(call, granted));
  /** Of a call that its caller was told has failed, what Redis granted late is returned. */
  const verdictsOf = (reply: ShardReply, call: ShardCall): readonly LimitVerdict[] => {
    if (call.isAbandoned && !isRefused(reply)) undo(call, reply).catch(() => undefined);
    return reply.verdicts;
  };
  const take = (call: ShardCall): Promise<readonly LimitVerdict[]> => run(call, "take", verdictsOf);
  const breaker = createBreaker(deadline, (call: ShardCall) => ask(call, "look"), isOneServer(client));
  const largeCalls = createLargeCalls(deadline);
  const takeOfShards = createShardTakes({ ask, undo, within: breaker.within }, refusals);

  /** Takes where a call like it was refused before: one asks Redis, and the others wait for its result. */
  const takeInTurn = async (call: ShardCall): Promise<readonly LimitVerdict[]> => {
    for (;;) {
      const known = refusals.find(call);
      if (known === undefined) return take(call);
      const refused = refusals.refuse(call, known);
      if (refused !== undefined) return refused;
      if (known.asking === undefined) {
        const asked = breaker.within(take(call));
        known.asking = asked;
        try {
          return await asked;
        } finally {
          known.asking = undefined;
        }
      }
      await known.asking;
    }
  };

  /** Takes in turn with other large calls. That one came late since others were before it says nothing about Redis. */
  const takeLarge = (call: ShardCall): Promise<readonly LimitVerdict[]> => {
    const wasIdle = largeCalls.isIdle();
    const taken = largeCalls.inTurn(call.checks.length, () => take(call));
    return wasIdle ? breaker.settle(taken, call) : taken.catch((cause: unknown) => breaker.fail(call, cause));
  };

  return {
    take(checks, now) {
      if (isClosed) throw new KeystileError("LIMITER_UNAVAILABLE", "The limiter is closed.");
      if (!(Math.abs(now) <= Number.MAX_SAFE_INTEGER))
        throw new RangeError("now must be a finite number of milliseconds");
      checks.forEach(assertCheck);
      const calls = toShardCalls(checks);
      const [call] = calls;
      if (call === undefined) return [];
      latest = Math.max(latest, Math.floor(now));
      if (calls.length > 1) {
        calls.forEach(breaker.assertClosed);
        let failed: ShardCall | undefined;
        const taken = takeOfShards(calls, (one) => void (failed ??= one));
        return breaker.guard(taken, call, () => failed);
      }
      const known = refusals.find(call);
      const refused = known && refusals.refuse(call, known);
      if (refused !== undefined) return refused;
      breaker.assertClosed(call);
      if (checks.length > MAX_SMALL) return takeLarge(call);
      return breaker.guard(known === undefined ? take(call) : takeInTurn(call), call);
    },
    counters: () => ({
      newcomersRefused: 0,
      bucketsDisplaced: 0,
      scriptCalls,
      rememberedRefusals: refusals.count(),
      failedCalls: breaker.failedCalls(),
    }),
    close() {
      isClosed = true;
      breaker.close();
    },
  };
}

const isUnknownScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith("NOSCRIPT");
