/**
 * Group commit: one transaction for the work of one turn of the event loop. A spend that is alone in its turn is one
 * statement without a transaction.
 *
 * Why: a durable commit takes as long as a hundred updates. Calls resolve only after COMMIT has returned; an error
 * rolls the whole group back and rejects all of it. A group that finds the file locked waits in the queue of writes,
 * and calls that arrive in the meantime join it.
 *
 * Why a lone spend waits for the end of its turn as well: when it is made, nothing tells it from the first of many,
 * which would then take two commits. Guessing by the size of the last groups saved a program that awaits one spend after
 * the other 2 µs of 14 (durability "process"; 5 of 160 with "power"), and one that is called back for each nothing. It
 * took a probe for calls that become concurrent, and a clock so that the event loop goes on.
 */
import { isKeystileError } from "../../../contracts/errors.js";
import type { Change, Spend } from "../../../contracts/store.js";
import type { ChangeLog } from "../changes/change-log.js";
import { isBusy, toStoreError } from "../connection/errors.js";
import type { LockQueue, LockWaiter } from "../connection/lock-queue.js";
import { afterTurn, type Transact } from "../connection/transaction.js";
import type { AccountSession } from "./account-session.js";

/** A piece of work inside a transaction. Listeners are notified of the `changes` that it adds after the commit. */
export type Work<T> = (session: AccountSession, changes: Change[]) => T;

export interface GroupCommit {
  /** Runs `work` in the next transaction. */
  add<T>(work: Work<T>): Promise<T>;
  /** {@link AccountSession.spend} in the next transaction, or without one if no other call shares it. */
  spend(n: number, cost: number, period: number, now: number): Promise<Spend | undefined>;
  /** Resolves once everything added so far is settled; `undefined`: nothing is pending. */
  drain(): Promise<void> | undefined;
}

/** A spend is four numbers, without a closure, so that it can run without a transaction. */
interface Task {
  /** `undefined`: a spend. */
  readonly work: Work<unknown> | undefined;
  readonly n: number;
  readonly cost: number;
  readonly period: number;
  readonly now: number;
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
  result: unknown;
  failure: Error | undefined;
  /** When it times out waiting for a lock, in {@link LockQueue.lockedTime}; 0: it has not waited. */
  deadline: number;
}

/** Maximum pieces of work per transaction, so that a flood of calls does not block the event loop. */
const MAX_GROUP_SIZE = 1_024;

export function createGroupCommit(
  transact: Transact,
  session: AccountSession,
  log: ChangeLog,
  locked: LockQueue,
  busyTimeout: number,
): GroupCommit {
  let queue: Task[] = [];
  let isScheduled = false;
  const onDrained: (() => void)[] = [];

  /** Commits a group of one without a transaction, if possible. */
  const commitSingle = ([{ work, n, cost, period, resolve }]: readonly [Task]): boolean => {
    const result = work === undefined ? session.compareAndSpend(n, cost, period) : undefined;
    if (result !== undefined) resolve(result as never);
    return result !== undefined;
  };
  const commit = (group: readonly Task[]) => {
    // Not after a wait: others have written since, so that it would fail and the transaction would need the lock again.
    if (isOne(group) && !locked.isWaiting() && commitSingle(group)) return;
    const done = transact(() => {
      session.begin();
      const changes: Change[] = [];
      for (const task of group) perform(task, session, changes);
      session.save();
      return { recorded: log.record(changes) };
    }, session.forget);
    log.notify(done?.recorded);
    for (const { failure, result, resolve, reject } of group) {
      if (failure === undefined) resolve(result as never);
      else reject(failure);
    }
  };
  /** Commits the next group. @throws the driver's error while the file is locked: nothing was done */
  const commitNext = () => {
    const group = queue.length <= MAX_GROUP_SIZE ? queue : queue.slice(0, MAX_GROUP_SIZE);
    queue = queue.slice(group.length);
    try {
      commit(group);
    } catch (cause) {
      if (isBusy(cause)) {
        queue = [...group, ...queue];
        throw cause;
      }
      // Also after a spend without a transaction, which may or may not have been written.
      session.forget();
      const error = toStoreError(cause);
      for (const { reject } of group) reject(error);
    }
    scheduleRest();
  };
  const waiter: LockWaiter = {
    attempt: commitNext,
    keepsWaiting(lockedTime, toError) {
      queue = queue.filter((task) => {
        task.deadline ||= lockedTime + busyTimeout;
        if (lockedTime < task.deadline) return true;
        task.reject(toError());
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
    afterTurn(flush);
  };
  const scheduleRest = () => {
    isScheduled = false;
    if (queue.length > 0) schedule();
    else for (const resolve of onDrained.splice(0)) resolve();
  };
  const put = <T>(work: Work<unknown> | undefined, n: number, cost: number, period: number, now: number): Promise<T> =>
    new Promise((resolve, reject) => {
      queue.push({ work, n, cost, period, now, resolve, reject, result: undefined, failure: undefined, deadline: 0 });
      if (!isScheduled) schedule();
    });
  return {
    add: (work) => put(work, 0, 0, 0, 0),
    spend: (n, cost, period, now) => put(undefined, n, cost, period, now),
    drain: () => (queue.length === 0 ? undefined : new Promise((resolve) => onDrained.push(resolve))),
  };
}

function isOne(group: readonly Task[]): group is readonly [Task] {
  return group.length === 1;
}

/**
 * An invalid account in the file fails only the work that needed it, before it changed anything; any other error fails
 * the group.
 */
function perform(task: Task, session: AccountSession, changes: Change[]): void {
  const { work } = task;
  task.failure = undefined;
  try {
    task.result = work === undefined ? session.spend(task.n, task.cost, task.period, task.now) : work(session, changes);
  } catch (error) {
    if (!isKeystileError(error) || error.code !== "STORE_INVALID") throw error;
    task.failure = error;
  }
}
