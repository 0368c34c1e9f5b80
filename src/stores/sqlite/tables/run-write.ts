/** A transaction that writes rows, and tells of it once it was committed. Port clauses 8, 15. Knows no table. */
import type { Change } from "../../../contracts/store.js";
import type { ChangeLog } from "../changes/change-log.js";
import type { BusyRetry } from "../connection/retry-busy.js";
import { afterTurn, type Transact } from "../connection/transaction.js";
import type { BalanceSession } from "../credits/balance-session.js";
import type { ReferenceCache } from "./reference-cache.js";

/**
 * @param work answers what it changed; `undefined`: something is not as it was read, so nothing is written
 * @param deadline of a call with several transactions, which together wait no longer than one
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
  session: BalanceSession,
): RunWrite {
  /** What was read inside may never have been committed. */
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
      session.forgetBalances();
      log.notify(done?.recorded);
      return done !== undefined;
    };
    const committed = await run(commit, deadline);
    // A loop that awaits its writes would otherwise leave no turn to timers, input and spends.
    await new Promise<void>(afterTurn);
    return committed;
  };
}
