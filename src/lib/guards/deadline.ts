/**
 * Deadlines for promises of stores and limiters. One timer serves all promises with the same timeout; none runs while
 * nothing is pending.
 */

// Captured at load time, so that a test's fake timers do not affect deadlines.
const { setTimeout: runAfter, performance: clock } = globalThis;

/**
 * Returns a promise that rejects with the error of `timeoutError` unless `promise` settles in time. A later outcome is
 * dropped.
 */
export type Deadline = <T>(promise: PromiseLike<T>, timeoutError: () => Error) => Promise<T>;

/** @param ms timeout of each promise, milliseconds, ≥ 1. The timer does not keep the process alive. */
export function createDeadline(ms: number): Deadline {
  /** In the order in which they expire, because all have the same timeout. */
  const pending = new Set<{ readonly expiresAt: number; readonly expire: () => void }>();
  let isArmed = false;

  const arm = (run: () => void, delay: number): void => {
    const timer = runAfter(run, delay) as { unref?: () => void };
    timer.unref?.();
  };
  // A result may have arrived while the event loop was blocked, so expire only in the next turn, after it was read.
  const wake = (): void => arm(expire, 0);
  const expire = (): void => {
    const now = clock.now();
    for (const entry of pending) {
      if (entry.expiresAt > now) return arm(wake, entry.expiresAt - now);
      pending.delete(entry);
      entry.expire();
    }
    isArmed = false;
  };

  return (promise, timeoutError) =>
    new Promise((resolve, reject) => {
      const entry = { expiresAt: clock.now() + ms, expire: () => reject(timeoutError()) };
      pending.add(entry);
      if (!isArmed) {
        isArmed = true;
        arm(wake, ms);
      }
      // Handled in any case: a rejection after the deadline must not become an unhandled one that ends the process.
      Promise.resolve(promise).then(
        (value) => {
          pending.delete(entry);
          resolve(value);
        },
        (cause: unknown) => {
          pending.delete(entry);
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- what was thrown, as it is
          reject(cause);
        },
      );
    });
}
