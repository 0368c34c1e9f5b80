/**
 * Group commit: one transaction for the calls of one turn of the event loop. A group that finds the file locked waits
 * in a queue for locks, and calls that arrive in the meantime join it. Calls resolve only after COMMIT has returned; an
 * error rolls the whole group back and rejects all of it.
 *
 * Why: a durable commit takes as long as a hundred updates.
 *
 * Why a single call waits for the end of its turn as well: when it is made, nothing tells it from the first of many,
 * which would then take two commits. Guessing by the size of the last groups saved a program that awaits one spend
 * after the other 2 µs of 14 (durability "process"; 5 of 160 with "power"), and one that is called back for each
 * nothing. It took a probe for calls that become concurrent, and a clock so that the event loop goes on.
 */
import { isBusy, toStoreError } from "./errors.js";
import type { LockQueue, LockWaiter } from "./lock-queue.js";
import type { Transact } from "./connection.js";
import { afterCalls, afterDelay, monotonic } from "./waiting.js";

/** What the calls of a group work on, inside a transaction. */
export interface GroupSession<T> {
  /** Called first in a transaction. @returns true: others have committed since the last one, and want the lock */
  begin(): unknown;
  /** Called last in a transaction. */
  save(): T;
  /** Called after the commit, with what `save` returned. */
  committed(saved: T | undefined): void;
  /** Called after a rollback, and after a failure that may have written something or nothing. */
  forget(): void;
  /** Whether an error of one call leaves the work of the others whole: it then rejects that call alone. */
  isOfOneCall?(error: unknown): error is Error;
}

/** What a group commit runs on. */
export interface GroupCommitOptions<T> {
  readonly transact: Transact;
  readonly session: GroupSession<T>;
  readonly locked: LockQueue;
  /** Called by each `add`; throws once it is closed. */
  readonly assertOpen: () => void;
  /** Milliseconds for which a call waits for a locked file. */
  readonly busyTimeout: number;
  /** Maximum calls per transaction, so that a flood of calls does not block the event loop. */
  readonly maxSize: number;
}

/** A call that waits for its transaction. */
interface Member {
  readonly work: () => unknown;
  readonly alone: (() => unknown) | undefined;
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
  /** When it times out waiting for a lock, in {@link LockQueue.lockedTime}; 0: it has not waited. */
  deadline: number;
  result: unknown;
  failure: Error | undefined;
}

/**
 * Milliseconds of commits beside other processes until a pause, and of the pause: about as long as they take to look
 * for the lock again.
 *
 * Why: SQLite has no queue for its lock. A process that waits for it looks a few times in 10 ms, and one that commits
 * again and again leaves it free for moments only, so that the others waited for long. A pause costs a process that
 * writes alone nothing: it pauses only if another has committed, and once for each time that it sees so. Calls that
 * arrive meanwhile share the next transaction.
 *
 * Measured with four processes, 8 calls in flight in each, power-durable, on an overloaded machine with two cores, in
 * six runs in turns with the same without pauses: together 0.8 to 1.4 times as many spends (median 1.2), p99 of a call
 * 0.6 to 1.0 times as long (median 0.8). Longer turns and pauses (8 and 4 ms) gained less. Looking for the lock more
 * often, each millisecond, took so much processor time from the one that held it that all did less.
 */
const TURN_MS = 3;
const PAUSE_MS = 2;

export function createGroupCommit<T>(options: GroupCommitOptions<T>) {
  const { transact, session, locked, assertOpen, busyTimeout, maxSize } = options;
  let queue: Member[] = [];
  let isScheduled = false;
  /** When another process was last found to have committed; `undefined`: not since the last pause. */
  let othersAt: number | undefined;
  const onDrained: (() => void)[] = [];

  const perform = (member: Member): void => {
    // It may be the second attempt.
    member.failure = undefined;
    try {
      member.result = member.work();
    } catch (error) {
      if (session.isOfOneCall?.(error) !== true) throw error;
      member.failure = error;
    }
  };
  const commit = (group: readonly Member[]): void => {
    const [first] = group as readonly [Member];
    // Not after a wait: others have written since, so that it would fail and the transaction would need the lock again.
    if (group.length === 1 && !locked.isWaiting()) {
      const result = first.alone?.();
      if (result !== undefined) {
        first.resolve(result as never);
        return;
      }
    }
    const done = transact(() => {
      if (session.begin() === true) othersAt = monotonic();
      for (const member of group) perform(member);
      return { saved: session.save() };
    }, session.forget);
    session.committed(done?.saved);
    for (const { failure, result, resolve, reject } of group) {
      if (failure === undefined) resolve(result as never);
      else reject(failure);
    }
  };
  /** Commits the next group. @throws the driver's error while the file is locked: nothing was done */
  const commitNext = (): void => {
    const group = queue.length <= maxSize ? queue : queue.slice(0, maxSize);
    queue = queue.slice(group.length);
    try {
      commit(group);
    } catch (cause) {
      if (isBusy(cause)) {
        queue = [...group, ...queue];
        throw cause;
      }
      session.forget();
      const error = toStoreError(cause);
      for (const { reject } of group) reject(error);
    }
    schedule();
  };
  const waiter: LockWaiter = {
    attempt: commitNext,
    keepsWaiting(lockedTime, toError) {
      queue = queue.filter((member) => {
        member.deadline ||= lockedTime + busyTimeout;
        if (lockedTime < member.deadline) return true;
        member.reject(toError());
        return false;
      });
      if (queue.length === 0) schedule();
      return queue.length > 0;
    },
  };
  const flush = (): void => {
    try {
      if (locked.isWaiting()) locked.join(waiter);
      else commitNext();
    } catch {
      locked.join(waiter);
    }
  };
  /** Schedules the next group, if calls are waiting. */
  const schedule = (): void => {
    isScheduled = queue.length > 0;
    if (!isScheduled) for (const resolve of onDrained.splice(0)) resolve();
    else if (othersAt === undefined || monotonic() - othersAt < TURN_MS) afterCalls(flush);
    else {
      othersAt = undefined;
      afterDelay(flush, PAUSE_MS);
    }
  };
  return {
    /**
     * Runs `work` in the next transaction.
     * @param alone tried first if no other call shares the transaction: does the same in one statement without one, or
     * returns `undefined` and has changed nothing
     */
    add<R>(work: () => R, alone?: () => R | undefined): Promise<R> {
      assertOpen();
      return new Promise((resolve, reject) => {
        queue.push({ work, alone, resolve, reject, deadline: 0, result: undefined, failure: undefined });
        if (!isScheduled) schedule();
      });
    },
    /** Resolves once everything added so far is settled; `undefined`: nothing is pending. */
    drain: (): Promise<void> | undefined =>
      queue.length === 0 ? undefined : new Promise((resolve) => onDrained.push(resolve)),
  };
}

export type GroupCommit = ReturnType<typeof createGroupCommit>;
