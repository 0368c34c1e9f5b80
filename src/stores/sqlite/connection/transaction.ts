/**
 * Synchronous transactions: those that write, and those that the finds of one turn share.
 *
 * Why BEGIN IMMEDIATE: a transaction that reads first and writes later fails under contention however long it waits.
 * Why `run` and never `get`: better-sqlite3's `get` on a statement that writes swallows the error of its commit.
 */
import type { MaybePromise } from "../../../contracts/types.js";
import type { FileWatch, Transact } from "./connection.js";
import type { Counters } from "./counters.js";
import { isBusy, isOfDisk, isSyncFailure, toCommitError } from "./errors.js";
import type { Handle } from "./handle.js";
import type { BusyRetry } from "./lock-queue.js";
import { nextTick } from "./waiting.js";

export function createTransact(handle: Handle): Transact {
  const begin = handle.prepare("BEGIN IMMEDIATE");
  const commit = handle.prepare("COMMIT");
  const rollback = handle.prepare("ROLLBACK");
  const undo = () => {
    try {
      rollback.run();
    } catch {
      // SQLite itself rolls back on a full disk or a failed write.
    }
  };
  return (work, onUndone) => {
    // Outside the try: if BEGIN fails inside the caller's transaction, that must not be rolled back.
    begin.run();
    try {
      const result = work();
      if (result !== undefined) commit.run();
      else {
        undo();
        onUndone?.();
      }
      return result;
    } catch (cause) {
      undo();
      onUndone?.();
      throw cause;
    }
  };
}

/**
 * Wraps what commits to a file that another program may delete, replace or truncate, on a disk that may fail: the file
 * is checked before, and what fails on the disk is counted afterwards. A lock, and an error of the work itself, are not
 * of the disk.
 * @param endReads ends a transaction of reads: in it an autocommit statement would return before it is durable
 */
export function guardCommits(file: FileWatch, counters: Counters, endReads: () => void = () => undefined) {
  return <A extends unknown[], T>(commit: (...given: A) => T) =>
    (...given: A): T => {
      endReads();
      file.assertRecent();
      let result: T;
      try {
        result = commit(...given);
      } catch (cause) {
        if (!isBusy(cause) && isOfDisk(cause)) {
          counters.failedWrites++;
          counters.failedInARow++;
          if (isSyncFailure(cause)) counters.failedSyncs++;
        }
        throw toCommitError(cause, file.isFull);
      }
      if (counters.failedInARow > 0 && result !== undefined) counters.failedInARow = 0;
      return result;
    };
}

/*
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

/** A turn may be long when nothing polls for changes; an open transaction holds back the WAL checkpoint. */
const MAX_FINDS = 256;

/** @param isShared other code uses the handle, and could not begin its own transaction: then no finds are shared */
export function createSharedReads(handle: Handle, isShared: boolean) {
  if (isShared) return { join: (): void => undefined, end: (): void => undefined };
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
  /** Call before anything else, and after a find that failed: ends that transaction. */
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
  /** Call before a find: it runs in one transaction with the others of its turn. */
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

type SharedReads = ReturnType<typeof createSharedReads>;

/** Wraps reads: they wait for locks. @param run as {@link BusyRetry} has it */
export function createReads({ join, end }: SharedReads, file: FileWatch, run: BusyRetry["run"]) {
  const after =
    (enter: () => void) =>
    <A extends unknown[], T>(work: (...given: A) => T) =>
    (...given: A): MaybePromise<Awaited<T>> =>
      run(() => {
        try {
          enter();
          return work(...given);
        } catch (cause) {
          end();
          // What a read meets in a file that was deleted or truncated may look like damage.
          file.assertSame();
          throw cause;
        }
      });
  return {
    /** Of a find: it joins the transaction of its turn. */
    finding: after(join),
    /** Of any other read. */
    reading: after(end),
  };
}
