/**
 * Lets the finds of one turn of the event loop share a read transaction. README "Promises" (SQLite exact), trap 15. Knows no table.
 *
 * Why: each read outside of a transaction locks the file and lets it go. With 100,000 keys a find took 9.2 µs alone and takes 6.2 in
 * company; a verification with it 15.2 and 11.8, one of an unknown key 5.4 and 2.4.
 *
 * It begins with the second find in a row, so that a find alone in its turn costs no more if each turn asks what others changed; if none
 * asks, every second find gets a transaction of its own. It ends with the turn, after {@link MAX_FINDS} finds, and
 * before anything else is done on the connection: a write, another read, the question what others changed. So what it shows is never
 * older than the answer to that question, no write waits for its commit, and no transaction is open while the program waits.
 * The obvious twin is a find outside of any transaction (`read-transactions.test.ts`).
 */
import type { Handle } from "../connection/handle.js";
import { nextTick } from "../connection/transaction.js";

export interface SharedReads {
  /** The same find, in a transaction with the others of its turn. */
  within<A extends unknown[], T>(find: (...given: A) => T): (...given: A) => T;
  /** The same act, once that transaction has ended. */
  before<A extends unknown[], T>(act: (...given: A) => T): (...given: A) => T;
}

/** A turn may be long where nobody asks for changes; an open transaction keeps the log from being carried over. */
const MAX_FINDS = 256;

/** @param isShared others use the handle too, and could not begin a transaction of their own: then every find stays alone */
export function createSharedReads(handle: Handle, isShared: boolean): SharedReads {
  if (isShared) return { within: (find) => find, before: (act) => act };
  const begin = handle.prepare("BEGIN");
  const commit = handle.prepare("COMMIT");
  const rollback = handle.prepare("ROLLBACK");
  /** Finds since the last end. */
  let finds = 0;
  let isOpen = false;
  let isScheduled = false;

  /** Nothing was written that could be lost. Left open, it would take in writes that commit by themselves. */
  const undo = (): void => {
    try {
      rollback.run();
    } catch {
      // A read that failed may have ended it.
    }
  };
  const end = (): void => {
    finds = 0;
    if (!isOpen) return;
    isOpen = false;
    try {
      commit.run();
    } catch {
      undo();
    }
  };
  const endTurn = (): void => {
    isScheduled = false;
    end();
  };
  const join = (): void => {
    if (finds === MAX_FINDS) end();
    finds++;
    if (isOpen || finds === 1) return;
    begin.run();
    isOpen = true;
    if (isScheduled) return;
    isScheduled = true;
    nextTick(endTurn);
  };
  return {
    within:
      (find) =>
      (...given) => {
        join();
        try {
          return find(...given);
        } catch (cause) {
          end();
          throw cause;
        }
      },
    before:
      (act) =>
      (...given) => {
        end();
        return act(...given);
      },
  };
}
