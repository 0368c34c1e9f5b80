/** Runs work at once, or in the lock queue while another connection holds the file. */
import type { MaybePromise } from "../../../contracts/types.js";
import type { Counters } from "./counters.js";
import { isBusy, toStoreError } from "./errors.js";
import { createLockQueue, type LockQueue } from "./lock-queue.js";
import type { Connection } from "./connection.js";

/** Reads and writes each have their own: a lock that blocks writers does not block readers. */
export interface BusyRetry {
  readonly queue: LockQueue;
  /** Deadline for a call made now that consists of several pieces of work, to pass to {@link BusyRetry.run}. */
  deadline(): number;
  /**
   * Runs work now, or queues it if the file is locked or others wait. @throws (or rejects with) KeystileError STORE_…
   */
  run<T>(work: () => T, deadline?: number): MaybePromise<Awaited<T>>;
  /** A function that {@link BusyRetry.run}s the work of each call. */
  runOrRetry<A extends unknown[], T>(work: (...given: A) => T): (...given: A) => MaybePromise<Awaited<T>>;
  /** Queues work that failed because the file was locked. @throws KeystileError if it failed for any other cause */
  retry<T>(cause: unknown, work: () => T): Promise<Awaited<T>>;
}

/**
 * @param assertOpen throws once the store is closed; called before every attempt
 * @param probe as in {@link createLockQueue}
 * @param busyTimeout milliseconds for which a call waits for a locked file
 * @param counters as in {@link createLockQueue}
 */
export function createBusyRetry(
  assertOpen: () => void,
  probe: Connection["probe"],
  busyTimeout: number,
  counters: Counters,
): BusyRetry {
  const queue = createLockQueue(probe, counters);
  const deadline = () => queue.lockedTime() + busyTimeout;
  const wait = <T>(work: () => T, until = deadline()): Promise<Awaited<T>> =>
    new Promise((resolve, reject) => {
      queue.join({
        attempt() {
          try {
            assertOpen();
            const result = work();
            if (result instanceof Promise) result.then(resolve, (cause: unknown) => reject(toStoreError(cause)));
            else resolve(result as Awaited<T>);
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
    // Earlier pieces of the same call may have used up its time.
    if (!isBusy(cause)) throw toStoreError(cause);
    if (until !== undefined && queue.lockedTime() > until) {
      counters.busyErrors++;
      throw toStoreError(cause);
    }
    return wait(work, until);
  };
  const run = <T>(work: () => T, until?: number): MaybePromise<Awaited<T>> => {
    assertOpen();
    if (queue.isWaiting()) return wait(work, until);
    try {
      const result = work();
      if (result instanceof Promise) return result.catch((cause: unknown) => retry(cause, work, until));
      return result as Awaited<T>;
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
