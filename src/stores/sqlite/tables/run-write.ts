/** A transaction that writes rows, and tells of it once it was committed. Port clauses 8, 15. Knows no table. */
import type { Change } from "../../../contracts/store.js";
import type { ChangeLog } from "../changes/change-log.js";
import type { Answering } from "../connection/retry-busy.js";
import { afterTurn, type Transact } from "../connection/transaction.js";
import type { Ledger } from "../credits/balance-session.js";
import type { Directory } from "./reference-cache.js";

/**
 * @param work answers what it changed; `undefined`: something is not as it was read, so nothing is written
 * @param deadline of a call with several transactions, which together wait no longer than one
 * @returns whether the transaction was committed
 */
export type RunWrite = (transact: Transact, work: () => readonly Change[] | undefined, deadline?: number) => Promise<boolean>;

export function createWriting({ run }: Answering, log: ChangeLog, directory: Directory, ledger: Ledger): RunWrite {
  /** What was read inside may never have been committed. */
  const forget = () => {
    directory.clear();
    ledger.forget();
  };
  return async (transact, work, deadline) => {
    const commit = () => {
      const done = transact(() => {
        ledger.begin();
        const changes = work();
        return changes && { recorded: log.record(changes) };
      }, forget);
      ledger.forgetAccounts();
      log.tell(done?.recorded);
      return done !== undefined;
    };
    const committed = await run(commit, deadline);
    // A loop that awaits its writes would otherwise leave no turn to timers, input and spends.
    await new Promise<void>(afterTurn);
    return committed;
  };
}
