/** Token buckets in Redis: one set of limits for many hosts. Port: src/contracts/limiter.ts. */
import { KeystileError } from "../../contracts/errors.js";
import type { LimitCheck, Limiter, LimiterCounters, LimitVerdict } from "../../contracts/limiter.js";
import type { MaybePromise } from "../../contracts/types.js";
import { type Check, checkOptions, integer, oneOf } from "../../lib/check-options.js";
import { digestText } from "../../lib/hash.js";
import { assertCheck } from "../memory/bucket.js";
import { createBreaker } from "./breaker.js";
import { isOneServer, type RedisClient, toCommand } from "./client.js";
import { createRefusals } from "./refusals.js";
import { type Mode, SCRIPT } from "./script.js";
import { createShardCalls, readReply, type ShardCall, type ShardReply, toArguments } from "./shard-call.js";
import { createDeadline } from "../../lib/guards/deadline.js";

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
   *   Tokens of a call that failed may have been taken
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
  const command = toCommand(client);
  const toShardCalls = createShardCalls(prefix);
  const refusals = createRefusals();
  const sha = digestText("sha1", SCRIPT, "hex");
  const counters = { scriptCalls: 0, rememberedRefusals: 0 };
  let latest = -Infinity;
  let isClosed = false;

  /** By the clock that buckets refill by; of the server's only differences are known here. */
  const time = clock === "caller" ? () => latest : () => performance.now();

  const ask = async (call: ShardCall, mode: Mode, receipts?: readonly string[]): Promise<ShardReply> => {
    counters.scriptCalls++;
    const header = clock === "caller" ? `${mode} ${latest} ${CALLER_SLACK}` : mode;
    const rest = toArguments(call, header, receipts);
    const firstKey = call.keys[0] as string;
    let reply: unknown;
    try {
      reply = await command(["EVALSHA", await sha, ...rest], firstKey);
    } catch (error) {
      if (!isUnknownScript(error)) throw error;
      reply = await command(["EVAL", SCRIPT, ...rest], firstKey);
    }
    const read = readReply(call, reply);
    refusals.learn(call, read, time);
    return read;
  };
  const breaker = createBreaker(deadline, (call: ShardCall) => ask(call, "look"), isOneServer(client));

  const largeCalls = createLargeCalls(deadline);

  const refuse = (call: ShardCall): readonly LimitVerdict[] | undefined => {
    const refused = refusals.refuse(call, time());
    if (refused !== undefined) counters.rememberedRefusals++;
    return refused;
  };

  /** Takes where a call like it was refused before: one asks Redis, and the others wait for its result. */
  const takeInTurn = async (call: ShardCall): Promise<readonly LimitVerdict[]> => {
    for (;;) {
      const known = refusals.find(call);
      if (known === undefined) return (await ask(call, "take")).verdicts;
      const refused = refuse(call);
      if (refused !== undefined) return refused;
      if (known.asking === undefined) {
        const asked = breaker.within(ask(call, "take"));
        known.asking = asked;
        try {
          return (await asked).verdicts;
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
    const taken = largeCalls.inTurn(call.checks.length, () => ask(call, "take").then(verdictsOf));
    return wasIdle ? breaker.settle(taken, call) : taken.catch(breaker.fail);
  };

  /**
   * Takes from several shards at once, and returns what it took unless all of them granted.
   * @param onFailure is told of a shard that failed
   */
  const takeOfShards = async (
    calls: readonly ShardCall[],
    onFailure: (call: ShardCall) => void,
  ): Promise<readonly LimitVerdict[]> => {
    const within = <T>(reply: Promise<T>, i: number): Promise<T> =>
      breaker.within(reply).catch((cause: unknown) => {
        onFailure(calls[i] as ShardCall);
        throw cause;
      });
    const known = calls.map(refuse);
    const mode = known.some((refused) => refused !== undefined) ? "look" : "hold";
    const asked = calls.map(async (call, i): Promise<Omit<ShardReply, "used">> => {
      const refused = known[i];
      return refused === undefined ? ask(call, mode) : { exceeded: true, verdicts: refused, receipts: [] };
    });
    const undo = (i: number, receipts: readonly string[]) => ask(calls[i] as ShardCall, "undo", receipts);
    let replies: Omit<ShardReply, "used">[];
    try {
      replies = await Promise.all(asked.map(within));
    } catch (error) {
      // Whatever was granted, or is granted too late.
      if (mode === "hold")
        for (const [i, reply] of asked.entries())
          void reply
            .then(({ exceeded, receipts }) => (exceeded ? undefined : undo(i, receipts)))
            .catch(() => undefined);
      throw error;
    }
    const isReturned = mode === "hold" && replies.some(({ exceeded }) => exceeded);
    const final = await Promise.all(
      replies.map((reply, i) => (isReturned && !reply.exceeded ? within(undo(i, reply.receipts), i) : reply)),
    );
    const verdicts: LimitVerdict[] = [];
    for (const [i, { places }] of calls.entries())
      places.forEach((place, n) => (verdicts[place] = final[i]?.verdicts[n] as LimitVerdict));
    return verdicts;
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
      const isKnown = refusals.find(call) !== undefined;
      const refused = isKnown ? refuse(call) : undefined;
      if (refused !== undefined) return refused;
      breaker.assertClosed(call);
      if (checks.length > MAX_SMALL) return takeLarge(call);
      return breaker.guard(isKnown ? takeInTurn(call) : ask(call, "take").then(verdictsOf), call);
    },
    counters: () => ({ newcomersRefused: 0, bucketsDisplaced: 0, ...counters, failedCalls: breaker.failedCalls() }),
    close() {
      isClosed = true;
      breaker.close();
    },
  };
}

const verdictsOf = ({ verdicts }: ShardReply): readonly LimitVerdict[] => verdicts;

const isUnknownScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith("NOSCRIPT");

/*
 * Calls of many limits. Redis is busy with one of 1,000 for some 5 to 20 ms, in which it does nothing else: a dozen at
 * once would make all calls behind them late. So only so many limits are in flight, and the others wait for their turn.
 */

// Captured at load time, so that a test's fake timers do not affect it.
const { performance: clock } = globalThis;

/** Limits of a call that is not large, at most. */
const MAX_SMALL = 16;
/** Limits of large calls in flight; one call alone may have more. */
const MAX_IN_FLIGHT = 1_000;
/** Milliseconds that a large call has beyond the deadline of others, for its turn and its answer. */
const PATIENCE = 450;

interface Waiting {
  readonly limits: number;
  readonly expiresAt: number;
  readonly start: () => void;
}

/** @param deadline of other calls, milliseconds */
export function createLargeCalls(deadline: number) {
  const longest = deadline + PATIENCE;
  const expire = createDeadline(longest);
  const timeoutError = (): Error => new Error(`Redis did not answer a call of many limits within ${longest} ms.`);
  const waiting = new Set<Waiting>();
  let inFlight = 0;

  const startNext = (): void => {
    for (const next of waiting) {
      if (inFlight > 0 && inFlight + next.limits > MAX_IN_FLIGHT) return;
      // Too late for an answer in time.
      if (next.expiresAt - clock.now() < deadline) continue;
      waiting.delete(next);
      inFlight += next.limits;
      next.start();
    }
  };

  return {
    /** Whether no large call is in flight. */
    isIdle: (): boolean => inFlight === 0,
    /**
     * Makes a call as soon as the limits in flight leave room for it, first come first.
     * @param limits how many the call has
     * @returns its result; rejects at its own deadline. A call whose turn comes with less time left than `deadline` is
     *   not made
     */
    inTurn<T>(limits: number, make: () => Promise<T>): Promise<T> {
      let start = (): void => undefined;
      const result = new Promise<T>((resolve) => (start = () => resolve(make())));
      const queued: Waiting = { limits, expiresAt: clock.now() + longest, start };
      waiting.add(queued);
      startNext();
      return expire(result, timeoutError).finally(() => {
        if (waiting.delete(queued)) return;
        inFlight -= limits;
        startNext();
      });
    },
  };
}
