/** Runs a transaction that writes rows, and notifies listeners of the changes after the commit. */
import type { Change } from "../../../contracts/store.js";
import type { ChangeLog } from "../changes/change-log.js";
import type { BusyRetry } from "../connection/retry-busy.js";
import { afterTurn, type Transact } from "../connection/transaction.js";
import type { AccountSession } from "../credits/account-session.js";
import type { ReferenceCache } from "./reference-cache.js";

/**
 * @param work returns its changes, or `undefined` to roll back: a row has another version than was read
 * @param deadline when to stop waiting for a lock, for a call with several transactions
 * @returns whether the transaction was committed
 */
export type RunWrite = (
  transact: Transact,
  work: () => readonly Change[] | undefined,
  deadline?: number,
) => Promise<boolean>;

export function createWriting(
  { run }: BusyRetry,
  log: ChangeLog,
  references: ReferenceCache,
  session: AccountSession,
): RunWrite {
  /** After a rollback: what was read inside the transaction may never have been committed. */
  const forget = () => {
    references.clear();
    session.forget();
  };
  return async (transact, work, deadline) => {
    const commit = () => {
      const done = transact(() => {
        session.begin();
        const changes = work();
        return changes && { recorded: log.record(changes) };
      }, forget);
      session.forget();
      log.notify(done?.recorded);
      return done !== undefined;
    };
    const committed = await run(commit, deadline);
    // Otherwise a loop that awaits its writes would starve timers, I/O and spends.
    await new Promise<void>(afterTurn);
    return committed;
  };
}
