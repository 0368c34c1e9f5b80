/**
 * One transaction for the work of one turn of the event loop, or of one callback (`commit-scheduler.ts`). Trap 2; promises of `exact`.
 *
 * Why: a durable commit takes as long as a hundred updates. Answers are given only after COMMIT returned; any fault rolls the group
 * back and rejects all of it. A group that finds the file locked waits in the queue of the writes, and what arrives meanwhile joins it.
 */
import { isKeystileError } from "../../../contracts/errors.js";
import type { Change, Spend } from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import type { ChangeLog } from "../changes/change-log.js";
import { isBusy, toStoreError } from "../connection/errors.js";
import type { LockQueue, LockWaiter } from "../connection/lock-queue.js";
import type { Transact } from "../connection/transaction.js";
import type { BalanceSession } from "./balance-session.js";
import { createCommitScheduler } from "./commit-scheduler.js";

/** What a piece of work may use; changes that it reports are told after the commit. */
export type Work<T> = (session: BalanceSession, changes: Change[]) => T;

export interface GroupCommit {
  /** Does `work` in the next transaction. */
  add<T>(work: Work<T>): Promise<T>;
  /** Takes credits in the next transaction, or at once where nobody is there to share it: {@link BalanceSession.spend}. */
  spend(n: number, cost: number, period: number, now: number): MaybePromise<Spend | undefined>;
  /** Resolves once everything added so far is answered; `undefined`: it is. */
  drain(): Promise<void> | undefined;
}

/** A spend is four numbers: it needs no closure, and can be done alone. */
interface Task {
  /** `undefined`: a spend. */
  readonly work: Work<unknown> | undefined;
  readonly n: number;
  readonly cost: number;
  readonly period: number;
  readonly now: number;
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
  answer: unknown;
  fault: Error | undefined;
  /** When it has waited long enough for a lock, in {@link LockQueue.lockedTime}; 0: it has not waited. */
  deadline: number;
}

/** At most so many pieces of work in a transaction, so that a flood leaves the event loop its turns. */
const MAX_GROUP_SIZE = 1_024;

export function createGroupCommit(
  transact: Transact,
  session: BalanceSession,
  log: ChangeLog,
  locked: LockQueue,
  busyTimeout: number,
): GroupCommit {
  const scheduler = createCommitScheduler();
  let queue: Task[] = [];
  let isScheduled = false;
  const onDrained: (() => void)[] = [];

  /** Spends a group of one without a transaction. False: it needs one. */
  const commitSingle = ([{ work, n, cost, period, resolve }]: readonly [Task]): boolean => {
    const answer = work === undefined ? session.compareAndSpend(n, cost, period) : undefined;
    if (answer !== undefined) resolve(answer as never);
    return answer !== undefined;
  };
  const commit = (group: readonly Task[]) => {
    // Not after a wait: others have written meanwhile, so that the transaction would be needed as well, and another lock.
    if (isOne(group) && !locked.isWaiting() && commitSingle(group)) return;
    const done = transact(() => {
      session.begin();
      const changes: Change[] = [];
      for (const task of group) perform(task, session, changes);
      session.save();
      return { recorded: log.record(changes) };
    }, session.forget);
    log.notify(done?.recorded);
    for (const { fault, answer, resolve, reject } of group) {
      if (fault === undefined) resolve(answer as never);
      else reject(fault);
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
      // Also for a spend alone: it may or may not be written.
      session.forget();
      const error = toStoreError(cause);
      for (const { reject } of group) reject(error);
    }
    scheduler.note(group.length);
    goOn();
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
      if (queue.length === 0) goOn();
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
    scheduler.next()(flush);
  };
  const goOn = () => {
    isScheduled = false;
    if (queue.length > 0) schedule();
    else for (const resolve of onDrained.splice(0)) resolve();
  };
  /** A spend that comes alone. `undefined`: it takes a transaction, or has to wait for a lock. */
  const spendNow = (n: number, cost: number, period: number): Spend | undefined => {
    try {
      const answer = session.compareAndSpend(n, cost, period);
      if (answer !== undefined) scheduler.note(1);
      return answer;
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
      queue.push({ work, n, cost, period, now, resolve, reject, answer: undefined, fault: undefined, deadline: 0 });
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

/** A balance that is no balance fails the work that needed it, before anything was changed; any other fault fails the group. */
function perform(task: Task, session: BalanceSession, changes: Change[]): void {
  const { work } = task;
  task.fault = undefined;
  try {
    task.answer = work === undefined ? session.spend(task.n, task.cost, task.period, task.now) : work(session, changes);
  } catch (error) {
    if (!isKeystileError(error) || error.code !== "STORE_INVALID") throw error;
    task.fault = error;
  }
}
