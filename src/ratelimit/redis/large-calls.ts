/**
 * Calls of many limits. Redis is busy with one of 1,000 for some 5 to 20 ms, in which it does nothing else: a dozen at
 * once would make all calls behind them late. So only so many limits are in flight, and the others wait for their turn.
 */
import { createDeadline } from "../../lib/guards/deadline.js";

// Captured at load time, so that a test's fake timers do not affect it.
const { performance: clock } = globalThis;

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
