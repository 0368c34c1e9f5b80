/**
 * One transaction for the work of one turn of the event loop. Goals trap 2; promises of `exact`.
 *
 * Why: a durable commit takes as long as a hundred updates. Answers are given only after COMMIT returned; any fault rolls the group
 * back and rejects all of it. A group that finds the file locked waits, and what arrives meanwhile joins it.
 */
import { isVerifierError } from "../../errors.js";
import type { Change } from "../../store.js";
import type { ChangeLog } from "./changes.js";
import { isBusy, toStoreError } from "./errors.js";
import type { Ledger } from "./ledger.js";
import { afterPause, afterTurn, type Transact } from "./transaction.js";

/** What a piece of work may use; changes that it reports are told after the commit. */
export type Work<T> = (ledger: Ledger, changes: Change[]) => T;

export interface GroupCommit {
  /** Does `work` in the next transaction. */
  add<T>(work: Work<T>): Promise<T>;
  /** Resolves once everything added so far is answered; `undefined`: it is. */
  drain(): Promise<void> | undefined;
}

interface Task {
  readonly work: Work<unknown>;
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
  answer: unknown;
  fault: Error | undefined;
  /** When it has waited long enough for a lock; 0: it has not waited. */
  deadline: number;
}

/** At most so many pieces of work in a transaction, so that a flood leaves the event loop its turns. */
const MOST = 1_024;

export function createGroupCommit(transact: Transact, ledger: Ledger, log: ChangeLog, busyTimeout: number): GroupCommit {
  let queue: Task[] = [];
  let isScheduled = false;
  const onDrained: (() => void)[] = [];

  const commit = (group: readonly Task[]) => {
    const done = transact(() => {
      ledger.begin();
      const changes: Change[] = [];
      for (const task of group) perform(task, ledger, changes);
      ledger.save();
      return { recorded: log.record(changes) };
    });
    log.tell(done?.recorded);
    for (const { fault, answer, resolve, reject } of group) {
      if (fault === undefined) resolve(answer as never);
      else reject(fault);
    }
  };
  /** Rejects a group that failed, apart from what may still wait for a lock: that goes back into the queue. */
  const fail = (group: readonly Task[], cause: unknown): Task[] => {
    ledger.forget();
    const now = performance.now();
    const waits = isBusy(cause) ? (task: Task) => now < (task.deadline ||= now + busyTimeout) : () => false;
    const error = toStoreError(cause);
    return group.filter((task) => {
      const isWaiting = waits(task);
      if (!isWaiting) task.reject(error);
      return isWaiting;
    });
  };
  const flush = () => {
    isScheduled = false;
    const group = queue.length <= MOST ? queue : queue.slice(0, MOST);
    queue = queue.slice(group.length);
    let waiting: Task[] = [];
    try {
      commit(group);
    } catch (cause) {
      waiting = fail(group, cause);
    }
    queue = [...waiting, ...queue];
    if (queue.length > 0) schedule(waiting.length > 0 ? afterPause : afterTurn);
    else for (const resolve of onDrained.splice(0)) resolve();
  };
  const schedule = (later: (wake: () => void) => void) => {
    if (isScheduled) return;
    isScheduled = true;
    later(flush);
  };
  return {
    add(work) {
      return new Promise((resolve, reject) => {
        queue.push({ work, resolve, reject, answer: undefined, fault: undefined, deadline: 0 });
        schedule(afterTurn);
      });
    },
    drain: () => (queue.length === 0 ? undefined : new Promise((resolve) => onDrained.push(resolve))),
  };
}

/** A balance that is no balance fails the work that needed it, before anything was changed; any other fault fails the group. */
function perform(task: Task, ledger: Ledger, changes: Change[]): void {
  task.fault = undefined;
  try {
    task.answer = task.work(ledger, changes);
  } catch (error) {
    if (!isVerifierError(error) || error.code !== "STORE_INVALID") throw error;
    task.fault = error;
  }
}
