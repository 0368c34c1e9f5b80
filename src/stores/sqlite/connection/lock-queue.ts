/**
 * Runs work at once, or in a queue while another connection holds the file. Only the first call of the queue retries;
 * the others wait behind it while the event loop runs. Once the lock is free they run in order of arrival.
 *
 * Why a queue: when each call retried by itself, it waited inside the driver, which blocks the thread. With another
 * process holding the write lock, 100 concurrent calls blocked it for 5 s.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { MaybePromise } from "../../../contracts/types.js";
import type { Connection } from "./connection.js";
import type { Counters } from "./counters.js";
import { isBusy, toStoreError } from "./errors.js";
import { afterDelay, afterTurn, monotonic } from "./waiting.js";

/** A waiting call, or a group of calls that share one transaction. */
export interface LockWaiter {
  /** Does the work and settles the call. @throws the driver's error if the file is locked: nothing was done */
  attempt(): void;
  /**
   * Called when the file is still locked. Rejects what has waited long enough.
   * @param lockedTime {@link LockQueue.lockedTime} now
   * @param toError makes the error to reject with
   * @returns whether it keeps waiting
   */
  keepsWaiting(lockedTime: number, toError: () => Error): boolean;
}

/** Milliseconds of work per turn of the event loop; the last transaction may exceed it. */
const SLICE = 10;
/** Milliseconds between two attempts: random, so that waiting processes do not wake at the same time. */
const MIN_PAUSE = 2;
const MAX_PAUSE = 10;

/**
 * @param probe runs an attempt for which the driver may wait a little
 * @param counters where waits, their time and the calls that they failed are counted
 */
export function createLockQueue(probe: (attempt: () => void) => void, counters: Counters) {
  let waiting: LockWaiter[] = [];
  let lockedBefore = 0;
  /** Since when the file has been locked; NaN: it is not known to be locked. */
  let lockedSince = NaN;

  const lockedTime = (now = monotonic()) => lockedBefore + (Number.isNaN(lockedSince) ? 0 : now - lockedSince);
  const endLock = (now?: number) => {
    const before = lockedBefore;
    lockedBefore = lockedTime(now);
    counters.lockWaitMs += lockedBefore - before;
    lockedSince = NaN;
  };
  const stayLocked = (cause: unknown) => {
    const now = monotonic();
    if (Number.isNaN(lockedSince)) lockedSince = now;
    let error: Error | undefined;
    const toError = () => {
      counters.busyErrors++;
      return (error ??= toStoreError(cause));
    };
    waiting = waiting.filter((waiter) => waiter.keepsWaiting(lockedTime(now), toError));
    if (waiting.length > 0) afterDelay(run, MIN_PAUSE + Math.random() * (MAX_PAUSE - MIN_PAUSE));
    else endLock(now);
  };
  const attempt = (waiter: LockWaiter) => {
    if (Number.isNaN(lockedSince)) {
      waiter.attempt();
      return;
    }
    probe(() => waiter.attempt());
    endLock();
  };
  const run = () => {
    const until = monotonic() + SLICE;
    let done = 0;
    try {
      do attempt(waiting[done] as LockWaiter);
      while (++done < waiting.length && monotonic() < until);
      waiting.splice(0, done);
      if (waiting.length > 0) afterTurn(run);
    } catch (cause) {
      waiting.splice(0, done);
      stayLocked(cause);
    }
  };
  return {
    /** Whether calls are waiting. If so, the next call must join: it would find the file locked, or overtake them. */
    isWaiting: (): boolean => waiting.length > 0,
    /**
     * Total milliseconds for which calls have waited for locks. Deadlines count in this time, so that no call times out
     * while the file is free and the calls ahead of it run.
     */
    lockedTime: (): number => lockedTime(),
    /** Adds a call that found the file locked, or arrived while others waited. */
    join(waiter: LockWaiter): void {
      counters.lockWaits++;
      if (waiting.push(waiter) > 1) return;
      lockedSince = monotonic();
      afterTurn(run);
    },
  };
}

export type LockQueue = ReturnType<typeof createLockQueue>;

/**
 * Runs the calls of a store, each at once or in a queue, until it is closed. Reads and writes have a queue each: a lock
 * that blocks writers does not block readers.
 * @param busyTimeout milliseconds for which a call waits for a locked file
 */
export function createLocks({ probe }: Pick<Connection, "probe">, busyTimeout: number, counters: Counters) {
  let isClosed = false;
  /** @throws KeystileError STORE_CLOSED */
  const assertOpen = () => {
    if (isClosed) throw new KeystileError("STORE_CLOSED", "the store was closed; open it again to use it");
  };
  const createBusyRetry = () => {
    const queue = createLockQueue(probe, counters);
    /** Deadline for a call made now that consists of several pieces of work, to pass to `run`. */
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
    /** Queues work that failed because the file was locked. @throws KeystileError if it failed for any other cause */
    const retry = <T>(cause: unknown, work: () => T, until?: number): Promise<Awaited<T>> => {
      // Earlier pieces of the same call may have used up its time.
      if (!isBusy(cause)) throw toStoreError(cause);
      if (until !== undefined && queue.lockedTime() > until) {
        counters.busyErrors++;
        throw toStoreError(cause);
      }
      return wait(work, until);
    };
    /**
     * Runs work now, or queues it if the file is locked or others wait. @throws (or rejects with) KeystileError STORE_…
     */
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
    return { queue, deadline, run };
  };
  return {
    reads: createBusyRetry(),
    writes: createBusyRetry(),
    assertOpen,
    /** Refuses later calls, and calls that wait for a lock. @returns false: it was closed before */
    close: (): boolean => !isClosed && (isClosed = true),
  };
}

export type Locks = ReturnType<typeof createLocks>;
/** The calls of one queue. */
export type BusyRetry = Locks["reads"];
