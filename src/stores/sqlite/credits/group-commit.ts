/**
 * Group commit of credits: one transaction for the work of a group of calls (`../connection/grouping.ts`). A spend that
 * is alone in its turn is one statement without a transaction.
 *
 * Why: a durable commit takes as long as a hundred updates. Calls resolve only after COMMIT has returned; an error
 * rolls the whole group back and rejects all of it.
 */
import { isKeystileError } from "../../../contracts/errors.js";
import type { Spend } from "../../../contracts/store.js";
import type { ChangeLog, LoggedChange } from "../changes/change-log.js";
import { createGrouping, type Member } from "../connection/grouping.js";
import type { LockQueue } from "../connection/lock-queue.js";
import { monotonic, type Transact } from "../connection/transaction.js";
import type { AccountSession } from "./account-session.js";

/** A piece of work inside a transaction. Listeners are notified of the `changes` that it adds after the commit. */
export type Work<T> = (session: AccountSession, changes: LoggedChange[]) => T;

/** A spend is four numbers, without a closure, so that it can run without a transaction. */
interface Task extends Member {
  /** `undefined`: a spend. */
  readonly work: Work<unknown> | undefined;
  readonly n: number;
  readonly cost: number;
  readonly period: number;
  readonly now: number;
  result: unknown;
  failure: Error | undefined;
}

/** Maximum pieces of work per transaction, so that a flood of calls does not block the event loop. */
const MAX_GROUP_SIZE = 1_024;
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

export function createGroupCommit(
  transact: Transact,
  session: AccountSession,
  log: ChangeLog,
  locked: LockQueue,
  { assertOpen, busyTimeout }: { readonly assertOpen: () => void; readonly busyTimeout: number },
) {
  /** When another process was last found to have committed; `undefined`: not since the last pause. */
  let othersAt: number | undefined;

  const commit = (group: readonly Task[]) => {
    const [first] = group as readonly [Task];
    const isSingleSpend = group.length === 1 && first.work === undefined;
    // Not after a wait: others have written since, so that it would fail and the transaction would need the lock again.
    if (isSingleSpend && !locked.isWaiting()) {
      const spent = session.compareAndSpend(first.n, first.cost, first.period);
      if (spent !== undefined) {
        first.resolve(spent as never);
        return;
      }
    }
    const done = transact(() => {
      if (session.begin()) othersAt = monotonic();
      const changes: LoggedChange[] = [];
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
  // Also after a spend without a transaction, which may or may not have been written.
  const onFailed = session.forget;
  const pause = () => {
    if (othersAt === undefined || monotonic() - othersAt < TURN_MS) return 0;
    othersAt = undefined;
    return PAUSE_MS;
  };
  const grouping = createGrouping({ commit, onFailed, pause, locked, busyTimeout, maxSize: MAX_GROUP_SIZE });
  const put = <T>(
    work: Work<unknown> | undefined,
    n: number,
    cost: number,
    period: number,
    now: number,
  ): Promise<T> => {
    assertOpen();
    return new Promise((resolve, reject) =>
      grouping.add({ work, n, cost, period, now, resolve, reject, result: undefined, failure: undefined, deadline: 0 }),
    );
  };
  return {
    /** Runs `work` in the next transaction. @throws KeystileError STORE_CLOSED */
    add: <T>(work: Work<T>): Promise<T> => put(work, 0, 0, 0, 0),
    /** {@link AccountSession.spend} in the next transaction, or without one if no other call shares it. */
    spend: (n: number, cost: number, period: number, now: number): Promise<Spend | undefined> =>
      put(undefined, n, cost, period, now),
    /** Resolves once everything added so far is settled; `undefined`: nothing is pending. */
    drain: grouping.drain,
  };
}

export type GroupCommit = ReturnType<typeof createGroupCommit>;

/**
 * An invalid account in the file fails only the work that needed it, which has then removed expired records at most;
 * any other error fails the group.
 */
function perform(task: Task, session: AccountSession, changes: LoggedChange[]): void {
  const { work } = task;
  task.failure = undefined;
  try {
    task.result = work === undefined ? session.spend(task.n, task) : work(session, changes);
  } catch (error) {
    if (!isKeystileError(error) || error.code !== "STORE_INVALID") throw error;
    task.failure = error;
  }
}
