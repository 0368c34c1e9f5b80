/** Runs work at once, or in the queue of those that wait where another process holds the file. Trap 4. */
import type { MaybePromise } from "../../../contracts/types.js";
import { isBusy, toStoreError } from "./errors.js";
import { createLockQueue, type LockQueue } from "./lock-queue.js";
import type { Connection } from "./open.js";

/** Reads have one, and writes another: what keeps writers waiting keeps no reader out. */
export interface BusyRetry {
  readonly queue: LockQueue;
  /** Until when a call waits that does several pieces of work, for {@link BusyRetry.run}. */
  deadline(): number;
  /** Runs work now; where the file is locked, or others wait, in its turn. @throws (or rejects with) KeystileError STORE_… */
  run<T>(work: () => T, deadline?: number): MaybePromise<Awaited<T>>;
  /** A function that {@link BusyRetry.run}s the work of each call. */
  runOrRetry<A extends unknown[], T>(work: (...given: A) => T): (...given: A) => MaybePromise<Awaited<T>>;
  /** Runs work again that failed because the file was locked. @throws KeystileError for any other cause */
  retry<T>(cause: unknown, work: () => T): Promise<Awaited<T>>;
}

/**
 * @param assertOpen throws once the store is closed; asked before every attempt
 * @param probe as in {@link createLockQueue}
 * @param busyTimeout milliseconds for which a locked file is waited for
 */
export function createBusyRetry(assertOpen: () => void, probe: Connection["probe"], busyTimeout: number): BusyRetry {
  const queue = createLockQueue(probe);
  const deadline = () => queue.lockedTime() + busyTimeout;
  const wait = <T>(work: () => T, until = deadline()): Promise<Awaited<T>> =>
    new Promise((resolve, reject) => {
      queue.join({
        attempt() {
          try {
            assertOpen();
            resolve(work() as Awaited<T>);
          } catch (cause) {
            if (isBusy(cause)) throw cause;
            reject(toStoreError(cause));
          }
        },
        keepsWaiting(lockedTime, toError) {
          if (lockedTime < until) return true;
          reject(toError());
          return false;
        },
      });
    });
  const retry = <T>(cause: unknown, work: () => T, until?: number): Promise<Awaited<T>> => {
    // What it did before may have taken all the time that it has.
    if (!isBusy(cause) || (until !== undefined && queue.lockedTime() > until)) throw toStoreError(cause);
    return wait(work, until);
  };
  const run = <T>(work: () => T, until?: number): MaybePromise<Awaited<T>> => {
    assertOpen();
    if (queue.isWaiting()) return wait(work, until);
    try {
      return work() as Awaited<T>;
    } catch (cause) {
      return retry(cause, work, until);
    }
  };
  return {
    queue,
    deadline,
    run,
    runOrRetry:
      <A extends unknown[], T>(work: (...given: A) => T) =>
      (...given: A) =>
        run(() => work(...given)),
    retry,
  };
}
