/** Runs a transaction that writes rows, and notifies listeners of the changes after the commit. */
import type { OnceRefusal, WrittenBalance } from "../../../contracts/store.js";
import type { ChangeLog, LoggedChange } from "../changes/change-log.js";
import type { BusyRetry } from "../connection/lock-queue.js";
import type { Transact } from "../connection/connection.js";
import { afterTurn } from "../connection/waiting.js";
import type { AccountSession } from "../credits/account-session.js";
import type { ReferenceCache } from "./reference-cache.js";

/** Why rows cannot be written (store clause 13). */
export type Refusal = "conflict" | "taken";
/** What became of one row, or of all. */
export type RowOutcome = "written" | Refusal;

/** What writes have done: what a find could see of it, and the balances that they left. */
export interface Effects {
  readonly changes: LoggedChange[];
  readonly balances: WrittenBalance[];
}

/** What such a transaction runs on. */
export interface RunWriteOptions {
  readonly run: BusyRetry["run"];
  readonly log: ChangeLog;
  readonly references: ReferenceCache;
  readonly session: AccountSession;
}

export function createRunWrite({ run, log, references, session }: RunWriteOptions) {
  /** After a rollback: what was read inside the transaction may never have been committed. */
  const forget = () => {
    references.clear();
    session.forget();
  };
  /**
   * @param work returns its changes, or why it must be rolled back
   * @param deadline when to stop waiting for a lock, for a call with several transactions
   */
  return async (
    transact: Transact,
    work: () => readonly LoggedChange[] | Refusal | OnceRefusal,
    deadline?: number,
  ): Promise<RowOutcome | OnceRefusal> => {
    const commit = (): RowOutcome | OnceRefusal => {
      let outcome: RowOutcome | OnceRefusal = "written";
      const done = transact(() => {
        session.begin();
        const changes = work();
        if (typeof changes !== "string") return { recorded: log.record(changes) };
        outcome = changes;
        return undefined;
      }, forget);
      session.forget();
      log.notify(done?.recorded);
      return outcome;
    };
    const outcome = await run(commit, deadline);
    // Otherwise a loop that awaits its writes would starve timers, I/O and spends.
    await new Promise<void>(afterTurn);
    return outcome;
  };
}

export type RunWrite = ReturnType<typeof createRunWrite>;
