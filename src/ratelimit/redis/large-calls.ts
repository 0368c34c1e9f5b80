/**
 * Calls of many limits. Redis is busy with one of 1,000 for some 5 to 20 ms, in which it does nothing else: a dozen at
 * once would make all calls behind them late. So only so many limits are in flight, and the others wait for their turn.
 */
import { createDeadline } from "../../lib/guards/deadline.js";

// Captured at load time, so that a test's fake timers do not affect it.
const { performance: clock } = globalThis;

/** Limits of a call that is not large, at most. */
export const MAX_SMALL = 16;
/** Limits of large calls in flight; one call alone may have more. */
const MAX_IN_FLIGHT = 1_000;
/** Milliseconds that a large call has beyond the deadline of others, for its turn and its answer. */
const PATIENCE = 450;

export interface LargeCalls {
  /** Whether none is in flight. */
  isIdle(): boolean;
  /**
   * Makes a call when it is its turn, in the order in which they came.
   * @param limits of the call
   * @returns its result; rejects once its deadline has passed. With less time left than other calls have it is not made
   */
  inTurn<T>(limits: number, make: () => Promise<T>): Promise<T>;
}

interface Waiting {
  readonly limits: number;
  readonly expiresAt: number;
  readonly start: () => void;
}

/** @param deadline of other calls, milliseconds */
export function createLargeCalls(deadline: number): LargeCalls {
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
    isIdle: () => inFlight === 0,
    inTurn<T>(limits: number, make: () => Promise<T>): Promise<T> {
      let start = (): void => undefined;
      const result = new Promise<T>((resolve) => (start = () => resolve(make())));
      const own: Waiting = { limits, expiresAt: clock.now() + longest, start };
      waiting.add(own);
      startNext();
      return expire(result, timeoutError).finally(() => {
        if (waiting.delete(own)) return;
        inFlight -= limits;
        startNext();
      });
    },
  };
}
