/**
 * Groups calls: one transaction for those of one turn of the event loop. A group that finds the file locked waits in a
 * queue for locks, and calls that arrive in the meantime join it. An error rejects the whole group.
 *
 * Why a single call waits for the end of its turn as well: when it is made, nothing tells it from the first of many,
 * which would then take two commits. Guessing by the size of the last groups saved a program that awaits one spend
 * after the other 2 µs of 14 (durability "process"; 5 of 160 with "power"), and one that is called back for each
 * nothing. It took a probe for calls that become concurrent, and a clock so that the event loop goes on.
 */
import { isBusy, toStoreError } from "./errors.js";
import type { LockQueue, LockWaiter } from "./lock-queue.js";
import { afterCalls, afterDelay } from "./transaction.js";

/** A call that waits for its transaction. */
export interface Member {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
  /** When it times out waiting for a lock, in {@link LockQueue.lockedTime}; 0: it has not waited. */
  deadline: number;
}

export interface GroupingOptions<M extends Member> {
  /**
   * Does the work of a group and settles its calls. What it throws rejects the group, unless it is the driver's error
   * for a locked file: nothing was done then, and the group waits.
   */
  readonly commit: (group: readonly M[]) => void;
  /** Called before a group is rejected. */
  readonly onFailed: () => void;
  /** Milliseconds to wait before the next group, for the sake of other processes; 0, the default: none. */
  readonly pause?: () => number;
  readonly locked: LockQueue;
  /** Milliseconds for which a call waits for a locked file. */
  readonly busyTimeout: number;
  /** Maximum calls per transaction, so that a flood of calls does not block the event loop. */
  readonly maxSize: number;
}

export function createGrouping<M extends Member>(options: GroupingOptions<M>) {
  const { commit, onFailed, pause = () => 0, locked, busyTimeout, maxSize } = options;
  let queue: M[] = [];
  let isScheduled = false;
  const onDrained: (() => void)[] = [];

  /** Commits the next group. @throws the driver's error while the file is locked: nothing was done */
  const commitNext = () => {
    const group = queue.length <= maxSize ? queue : queue.slice(0, maxSize);
    queue = queue.slice(group.length);
    try {
      commit(group);
    } catch (cause) {
      if (isBusy(cause)) {
        queue = [...group, ...queue];
        throw cause;
      }
      onFailed();
      const error = toStoreError(cause);
      for (const { reject } of group) reject(error);
    }
    scheduleRest();
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
      if (queue.length === 0) scheduleRest();
      return queue.length > 0;
    },
  };
  const flush = () => {
    try {
      if (locked.isWaiting()) locked.join(waiter);
      else commitNext();
    } catch {
      locked.join(waiter);
    }
  };
  const schedule = () => {
    isScheduled = true;
    const milliseconds = pause();
    if (milliseconds > 0) afterDelay(flush, milliseconds);
    else afterCalls(flush);
  };
  const scheduleRest = () => {
    isScheduled = false;
    if (queue.length > 0) schedule();
    else for (const resolve of onDrained.splice(0)) resolve();
  };
  return {
    /** Adds a call to the next group. */
    add(member: M): void {
      queue.push(member);
      if (!isScheduled) schedule();
    },
    /** Resolves once everything added so far is settled; `undefined`: nothing is pending. */
    drain: (): Promise<void> | undefined =>
      queue.length === 0 ? undefined : new Promise((resolve) => onDrained.push(resolve)),
  };
}
