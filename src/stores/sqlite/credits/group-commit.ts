/**
 * Group commit: one transaction for the work of one turn of the event loop, or of one callback (`commit-scheduler.ts`).
 *
 * Why: a durable commit takes as long as a hundred updates. Calls resolve only after COMMIT has returned; an error
 * rolls the whole group back and rejects all of it. A group that finds the file locked waits in the queue of writes,
 * and calls that arrive in the meantime join it.
 */
import { isKeystileError } from "../../../contracts/errors.js";
import type { Change, Spend } from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import type { ChangeLog } from "../changes/change-log.js";
import { isBusy, toStoreError } from "../connection/errors.js";
import type { LockQueue, LockWaiter } from "../connection/lock-queue.js";
import { afterDelay, monotonic, type Transact } from "../connection/transaction.js";
import type { AccountSession } from "./account-session.js";
import { createCommitScheduler } from "./commit-scheduler.js";
import { createTurnTaking } from "./turn-taking.js";

/** A piece of work inside a transaction. Listeners are notified of the `changes` that it adds after the commit. */
export type Work<T> = (session: AccountSession, changes: Change[]) => T;

export interface GroupCommit {
  /** Runs `work` in the next transaction. */
  add<T>(work: Work<T>): Promise<T>;
  /** {@link AccountSession.spend} in the next transaction, or at once if no other call would share it. */
  spend(n: number, cost: number, period: number, now: number): MaybePromise<Spend | undefined>;
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
/** Milliseconds for which other processes are let go first: about as long as they take to look for the lock again. */
const PAUSE_MS = 2;

export function createGroupCommit(
  transact: Transact,
  session: AccountSession,
  log: ChangeLog,
  locked: LockQueue,
  busyTimeout: number,
): GroupCommit {
  const scheduler = createCommitScheduler();
  const turn = createTurnTaking();
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
      if (session.begin()) turn.noteOthers(monotonic());
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
    scheduler.note(group.length);
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
    if (turn.isOver(monotonic())) afterDelay(flush, PAUSE_MS);
    else scheduler.next()(flush);
  };
  const scheduleRest = () => {
    isScheduled = false;
    if (queue.length > 0) schedule();
    else for (const resolve of onDrained.splice(0)) resolve();
  };
  /** Spends at once, without a transaction. `undefined`: it needs one, or has to wait for a lock. */
  const spendNow = (n: number, cost: number, period: number): Spend | undefined => {
    try {
      const result = session.compareAndSpend(n, cost, period);
      if (result !== undefined) scheduler.note(1);
      return result;
    } catch (cause) {
      if (isBusy(cause)) {
        isScheduled = true;
        locked.join(waiter);
        return undefined;
      }
      session.forget();
      throw toStoreError(cause);
    }
  };
  const put = <T>(work: Work<unknown> | undefined, n: number, cost: number, period: number, now: number): Promise<T> =>
    new Promise((resolve, reject) => {
      queue.push({ work, n, cost, period, now, resolve, reject, result: undefined, failure: undefined, deadline: 0 });
      if (!isScheduled) schedule();
    });
  return {
    add: (work) => put(work, 0, 0, 0, 0),
    spend(n, cost, period, now) {
      const isSequential = queue.length === 0 && !isScheduled && !locked.isWaiting() && scheduler.isSequential();
      return (isSequential ? spendNow(n, cost, period) : undefined) ?? put(undefined, n, cost, period, now);
    },
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
