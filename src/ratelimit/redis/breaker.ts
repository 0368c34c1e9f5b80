/**
 * Deadline and circuit breaker of calls over a network. Clients have neither by default: with a stopped or killed
 * server those of ioredis and redis still waited after four seconds.
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

export interface Breaker {
  /** @throws KeystileError LIMITER_UNAVAILABLE after so many failures in a row that no call is made */
  assertClosed(): void;
  /** The same promise, which rejects once the deadline has passed. */
  within<T>(call: Promise<T>): Promise<T>;
  /**
   * Waits for a call until the deadline, and counts whether it failed.
   * @throws (rejects with) KeystileError LIMITER_UNAVAILABLE if it rejects or takes longer
   */
  guard<T>(call: Promise<T>): Promise<T>;
  /** Calls that failed or were not made. */
  failedCalls(): number;
  /** Stops probing. */
  close(): void;
}

/**
 * @param deadline of a call, milliseconds
 * @param probe a call that changes nothing: while no others are made, its success within the deadline lets them pass
 *   again. The timer between probes does not keep the process alive
 */
export function createBreaker(deadline: number, probe: () => Promise<unknown>): Breaker {
  const expire = createDeadline(deadline);
  const timeoutError = (): Error => new Error(`Redis did not answer within ${deadline} ms.`);
  const within = <T>(call: Promise<T>): Promise<T> => expire(call, timeoutError);
  let failures = 0;
  let lastCause: unknown;
  let timer: unknown;
  /** Number of the latest probe; 0: none is awaited. */
  let probing = 0;
  let probes = 0;
  let probedAt = 0;
  let patience = FIRST_PATIENCE;

  const isOpen = (): boolean => failures >= MAX_FAILURES;
  const reset = (): void => {
    failures = 0;
    lastCause = undefined;
    probing = 0;
    patience = FIRST_PATIENCE;
    cancel(timer as undefined);
    timer = undefined;
  };
  const arm = (): void => {
    cancel(timer as undefined);
    timer = runAfter(tick, PROBE_INTERVAL);
    (timer as { unref?: () => void }).unref?.();
  };
  /** One probe at a time: a client queues what it cannot send, for as long as its server is gone. */
  const tick = (): void => {
    arm();
    const waited = clock.now() - probedAt;
    if (probing === 0) return send();
    if (waited < patience) return;
    patience = Math.min(MAX_PATIENCE, patience * 2);
    send();
  };
  const send = (): void => {
    const own = (probing = ++probes);
    const began = (probedAt = clock.now());
    probe().then(
      () => {
        if (timer === undefined) return;
        if (clock.now() - began <= deadline) reset();
        // Late: whatever held it up may be over.
        else if (own === probing) send();
      },
      () => {
        if (own === probing) probing = 0;
      },
    );
  };

  let failedCalls = 0;
  const fail = (cause: unknown): never => {
    failedCalls++;
    throw new KeystileError("LIMITER_UNAVAILABLE", "The rate limiter's Redis is unavailable.", { cause });
  };
  const succeed = <T>(result: T): T => {
    if (!isOpen()) failures = 0;
    return result;
  };
  const countFailure = (cause: unknown): never => {
    lastCause = cause;
    if (++failures === MAX_FAILURES) arm();
    return fail(cause);
  };

  return {
    assertClosed() {
      if (isOpen()) fail(lastCause);
    },
    within,
    guard: (call) => within(call).then(succeed, countFailure),
    failedCalls: () => failedCalls,
    close() {
      cancel(timer as undefined);
      timer = undefined;
    },
  };
}
