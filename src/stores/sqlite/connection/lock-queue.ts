/**
 * The queue of the calls that wait for a lock of another connection. One call tries, the others wait behind it; the event loop runs
 * meanwhile. When the lock is free they run in the order in which they came.
 *
 * Why a queue: each call that tried by itself waited inside the driver, which blocks the thread. With another process holding the write
 * lock, 100 calls at once blocked it for 5 s.
 */
import { toStoreError } from "./errors.js";
import { afterDelay, afterTurn, monotonic } from "./transaction.js";

/** A call that waits, or several that are one transaction. */
export interface LockWaiter {
  /** Does the work and settles the call. @throws the driver's error while the file is locked: nothing was done */
  attempt(): void;
  /**
   * Called when the file turned out to be locked still.
   * @param lockedTime {@link LockQueue.lockedTime} now
   * @param toError makes what a call is rejected with that has waited long enough
   * @returns whether it goes on waiting
   */
  keepsWaiting(lockedTime: number, toError: () => Error): boolean;
}

export interface LockQueue {
  /** Whether calls wait. The next one must join them: it would get the same answer, or overtake them. */
  isWaiting(): boolean;
  /**
   * Milliseconds for which calls have waited for locks so far. Deadlines are counted in it: time in which the file is free, and the calls
   * further ahead are at work, makes no call time out.
   */
  lockedTime(): number;
  /** Adds a call that met a lock, or came while others waited. */
  join(waiter: LockWaiter): void;
}

/** Milliseconds of work in a turn of the event loop, apart from the last transaction of it. */
const SLICE = 10;
/** Milliseconds between two attempts: random, so that waiting processes do not wake together. */
const MIN_PAUSE = 2;
const MAX_PAUSE = 10;

/** @param probe runs an attempt for which the driver may wait a little */
export function createLockQueue(probe: (attempt: () => void) => void): LockQueue {
  let waiting: LockWaiter[] = [];
  let lockedBefore = 0;
  /** Since when the file is locked; NaN: it is not, as far as is known. */
  let lockedSince = NaN;

  const lockedTime = (now = monotonic()) => lockedBefore + (Number.isNaN(lockedSince) ? 0 : now - lockedSince);
  const endLock = (now?: number) => {
    lockedBefore = lockedTime(now);
    lockedSince = NaN;
  };
  const stayLocked = (cause: unknown) => {
    const now = monotonic();
    if (Number.isNaN(lockedSince)) lockedSince = now;
    let error: Error | undefined;
    const toError = () => (error ??= toStoreError(cause));
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
    isWaiting: () => waiting.length > 0,
    lockedTime: () => lockedTime(),
    join(waiter) {
      if (waiting.push(waiter) > 1) return;
      lockedSince = monotonic();
      afterTurn(run);
    },
  };
}
