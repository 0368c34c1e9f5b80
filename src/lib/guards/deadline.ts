/** Deadlines of what stores and limiters promise. One timer serves all that wait for the same time; none is set while nothing waits. */

// Taken when the program loads: the fake timers of a test neither hold a deadline up nor bring it forward.
const { setTimeout: runAfter, performance: clock } = globalThis;

/** What a promise becomes: rejected with what `late` makes unless it settles in time. A later outcome of it is dropped. */
export type Deadline = <T>(answer: PromiseLike<T>, resolved: () => Error) => Promise<T>;

interface Waiting {
  readonly until: number;
  readonly expire: () => void;
}

/** @param ms how long each promise has, milliseconds, ≥ 1. Its timer keeps no process alive. */
export function createDeadline(ms: number): Deadline {
  /** In the order in which they expire, since all of them have the same time. */
  const waiting = new Set<Waiting>();
  let isArmed = false;

  const arm = (run: () => void, delay: number): void => {
    const timer = runAfter(run, delay) as { unref?: () => void };
    timer.unref?.();
  };
  // An answer may have arrived while the event loop was blocked: it is read before the timers of the next turn.
  const wake = (): void => arm(expire, 0);
  const expire = (): void => {
    const now = clock.now();
    for (const one of waiting) {
      if (one.until > now) return arm(wake, one.until - now);
      waiting.delete(one);
      one.expire();
    }
    isArmed = false;
  };

  return (answer, resolved) =>
    new Promise((resolve, reject) => {
      const one = { until: clock.now() + ms, expire: () => reject(resolved()) };
      waiting.add(one);
      if (!isArmed) {
        isArmed = true;
        arm(wake, ms);
      }
      // Handled here in any case: a rejection after the deadline is nobody's any more, and must not end the process.
      Promise.resolve(answer).then(
        (value) => {
          waiting.delete(one);
          resolve(value);
        },
        (cause: unknown) => {
          waiting.delete(one);
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what was thrown, as it is
          reject(cause);
        },
      );
    });
}
