/**
 * Deadline and circuit breaker of calls over a network. Clients have neither by default: with a stopped or killed
 * server those of ioredis and redis still waited after four seconds.
 *
 * Why one breaker, though a cluster has many servers: which shards share a server is known to the client alone, and
 * shards are as many as keys. Failures in a row open it only while nothing else answers: after the second of them the
 * shard that answered last is asked too, and as long as it does, only the calls of the others fail.
 */
import { KeystileError } from "../../contracts/errors.js";
import { createDeadline } from "../../lib/guards/deadline.js";

// Captured at load time, so that a test's fake timers do not affect them.
const { setTimeout: runAfter, clearTimeout: cancel, performance: clock } = globalThis;

/** Failures in a row after which no call is made. */
const MAX_FAILURES = 5;
/** Milliseconds between probes. */
const PROBE_INTERVAL = 200;
/** Milliseconds after which a probe that has not settled counts as lost; each one lost doubles it, up to the second. */
const FIRST_PATIENCE = 1_000;
const MAX_PATIENCE = 60_000;

/** What the breaker knows of a call. */
export interface Target {
  readonly shard: string;
  /** Becomes true when the call fails for its caller; what it does to Redis may still be to come. */
  isAbandoned?: boolean;
}

/**
 * Probes at an interval until one succeeds within `deadline`. One is awaited at a time: a client queues what it cannot
 * send, for as long as its server is gone. The timer does not keep the process alive.
 */
function createProbes(probe: () => Promise<unknown>, deadline: number, onSuccess: () => void) {
  let timer: unknown;
  let sent = 0;
  let sentAt = 0;
  /** The number of the latest probe; 0: none is awaited. */
  let awaited = 0;
  let patience = FIRST_PATIENCE;

  const start = (): void => {
    cancel(timer as undefined);
    timer = runAfter(tick, PROBE_INTERVAL);
    (timer as { unref?: () => void }).unref?.();
  };
  const tick = (): void => {
    start();
    const waited = clock.now() - sentAt;
    if (awaited === 0) return send();
    if (waited < patience) return;
    patience = Math.min(MAX_PATIENCE, patience * 2);
    send();
  };
  const send = (): void => {
    const own = (awaited = ++sent);
    const began = (sentAt = clock.now());
    probe().then(
      () => {
        if (timer === undefined) return;
        if (clock.now() - began <= deadline) onSuccess();
        // Late: whatever held it up may be over.
        else if (own === awaited) send();
      },
      () => {
        if (own === awaited) awaited = 0;
      },
    );
  };
  return {
    start,
    stop(): void {
      cancel(timer as undefined);
      timer = undefined;
      awaited = 0;
      patience = FIRST_PATIENCE;
    },
  };
}

/**
 * @param deadline of a call, milliseconds
 * @param probe makes a call in a way that takes nothing: while no others are made, its success within the deadline
 *   lets them pass again. The timer between probes does not keep the process alive
 * @param isOneServer all shards fail together: the breaker opens at once, not only after another shard has failed too
 */
export function createBreaker<C extends Target>(
  deadline: number,
  probe: (call: C) => Promise<unknown>,
  isOneServer: boolean,
) {
  const expire = createDeadline(deadline);
  const timeoutError = (): Error => new Error(`Redis did not answer within ${deadline} ms.`);
  const within = <T>(call: Promise<T>): Promise<T> => expire(call, timeoutError);
  /** In a row. */
  let failures = 0;
  let lastCause: unknown;
  /** The latest that failed, and whether those in a row were of several shards. */
  let failed: C | undefined;
  let isSpread = false;
  /** The latest that was answered in time. */
  let answered: C | undefined;
  /** Whether the shard that answered last was asked since the failures began, still is, and when it answered. */
  let hasAsked = false;
  let isAsking = false;
  let aliveAt = -Infinity;
  let isOpen = false;
  /** The latest that was not made. */
  let wanted: C | undefined;

  const reset = (): void => {
    failures = 0;
    lastCause = undefined;
    failed = wanted = undefined;
    isSpread = isOpen = hasAsked = false;
    probes.stop();
  };
  const probes = createProbes(() => probe((wanted ?? failed) as C), deadline, reset);
  /** Whether all shards are shut, and not only the one that failed. */
  const isShutForAll = (): boolean => isOpen && (isOneServer || isSpread);
  const openIfDue = (): void => {
    if (isOpen || failures < MAX_FAILURES || (isAsking && !isOneServer)) return;
    isOpen = true;
    probes.start();
  };
  /** Asks the shard that answered last, and waits as long as for a call. */
  const askAnswered = (call: C): void => {
    hasAsked = isAsking = true;
    within(probe(call)).then(
      () => {
        isAsking = false;
        aliveAt = clock.now();
        reset();
      },
      () => {
        isAsking = false;
        openIfDue();
      },
    );
  };

  let failedCalls = 0;
  let isClosed = false;
  const fail = (call: Target, cause: unknown): never => {
    call.isAbandoned = true;
    failedCalls++;
    throw new KeystileError("LIMITER_UNAVAILABLE", "The rate limiter's Redis is unavailable.", { cause });
  };
  const succeed = (call: C): void => {
    answered = call;
    if (failures > 0 && !isShutForAll()) reset();
  };
  const countFailure = (call: C, cause: unknown): void => {
    // Another shard has just said that it answers.
    if (isClosed || (!isOneServer && clock.now() - aliveAt < PROBE_INTERVAL)) return;
    lastCause = cause;
    if (failed !== undefined && failed.shard !== call.shard) isSpread = true;
    failed = call;
    failures++;
    if (failures > 1 && !hasAsked && !isAsking && answered !== undefined && answered.shard !== call.shard)
      askAnswered(answered);
    openIfDue();
  };
  const settle = async <T>(result: Promise<T>, call: C, blamed?: () => C | undefined): Promise<T> => {
    let value: T;
    try {
      value = await result;
    } catch (cause) {
      countFailure(blamed?.() ?? call, cause);
      return fail(call, cause);
    }
    succeed(call);
    return value;
  };

  return {
    /** @throws KeystileError LIMITER_UNAVAILABLE after so many failures in a row that the call is not made */
    assertClosed(call: C): void {
      if (!isOpen || !(isShutForAll() || failed?.shard === call.shard)) return;
      wanted = call;
      fail(call, lastCause);
    },
    /** The same promise, which rejects once the deadline has passed. */
    within,
    /**
     * Waits for a call until the deadline, and counts whether it failed.
     * @param blamed after a failure, the call of the shard that failed, if it is known to be another
     * @throws (rejects with) KeystileError LIMITER_UNAVAILABLE if it rejects or takes longer
     */
    guard: <T>(result: Promise<T>, call: C, blamed?: () => C | undefined): Promise<T> =>
      settle(within(result), call, blamed),
    /** The same as `guard` for a call that has a deadline of its own. */
    settle,
    /**
     * Counts a failed call which says nothing about Redis.
     * @throws KeystileError LIMITER_UNAVAILABLE
     */
    fail,
    /** Calls that failed or were not made. */
    failedCalls: (): number => failedCalls,
    /** Stops probing. */
    close(): void {
      isClosed = true;
      probes.stop();
    },
  };
}

export type Breaker<C extends Target> = ReturnType<typeof createBreaker<C>>;
