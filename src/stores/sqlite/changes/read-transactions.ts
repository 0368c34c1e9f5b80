/**
 * Lets the finds of one turn of the event loop share a read transaction.
 *
 * Why: each read outside a transaction locks and unlocks the file. With 100,000 keys a find took 9.2 µs alone and 6.2
 * in a shared transaction; a verification with it 15.2 and 11.8, one of an unknown key 5.4 and 2.4.
 *
 * The transaction begins with the second find in a row, so that a single find per turn costs no more. It ends with the
 * turn, after {@link MAX_FINDS} finds, and before anything else uses the connection: a write, another read, a poll for
 * changes. So its snapshot is never older than the last poll, no write waits for its commit, and it is never open while
 * the program waits. `read-transactions.test.ts` compares it with finds outside any transaction.
 */
import type { Handle } from "../connection/handle.js";
import { nextTick } from "../connection/transaction.js";

export interface SharedReads {
  /** Call before a find: it runs in one transaction with the others of its turn. */
  join(): void;
  /** Call before anything else, and after a find that failed: ends that transaction. */
  end(): void;
}

/** A turn may be long when nothing polls for changes; an open transaction holds back the WAL checkpoint. */
const MAX_FINDS = 256;

/** @param isShared other code uses the handle, and could not begin its own transaction: then no finds are shared */
export function createSharedReads(handle: Handle, isShared: boolean): SharedReads {
  if (isShared) return { join: () => undefined, end: () => undefined };
  const begin = handle.prepare("BEGIN");
  const commit = handle.prepare("COMMIT");
  const rollback = handle.prepare("ROLLBACK");
  /** Finds since the last transaction ended. */
  let finds = 0;
  let isOpen = false;
  let isScheduled = false;

  /** Nothing was written. Left open, the transaction would include later autocommit writes. */
  const undo = (): void => {
    try {
      rollback.run();
    } catch {
      // A failed read may have ended it.
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
  return { join, end };
}
