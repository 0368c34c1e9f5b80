/**
 * Synchronous transactions, and timers for waiting outside them.
 *
 * Why BEGIN IMMEDIATE: a transaction that reads first and writes later fails under contention however long it waits.
 * Why `run` and never `get`: better-sqlite3's `get` on a statement that writes swallows the error of its commit.
 */
import { isBusy } from "./errors.js";
import type { Handle } from "./handle.js";

/**
 * Runs `work` as one transaction: committed if it returns a value, rolled back if it throws or returns `undefined`.
 * Returns only after COMMIT has.
 * @param onUndone called after a rollback: nothing that `work` read or wrote holds. A lock is met before `work`, or at
 * COMMIT
 */
export type Transact = <T>(work: () => T | undefined, onUndone?: () => void) => T | undefined;

/** Milliseconds between attempts while the thread is blocked. */
const PAUSE = 2;

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

/** What Node, Bun and Deno have, and a worker lacks. */
const host = globalThis as Partial<Pick<typeof globalThis, "process" | "setImmediate">>;

/** Calls back once the current callback has ended, before the next one. */
export const nextTick: (act: () => void) => void = host.process?.nextTick ?? queueMicrotask;

/**
 * Captured at load, so that fake timers in a program's tests delay no commits, polls of changes or waits for locks.
 * `afterCallback`: as a microtask, before the event loop continues; `afterTurn`: once this turn of the event loop is
 * over.
 */
export const { setTimeout: afterDelay, queueMicrotask: afterCallback } = globalThis;
export const afterTurn: (act: () => void) => unknown = host.setImmediate ?? ((act) => afterDelay(act, 0));
/** When a group of calls is complete: as {@link afterTurn}, or as a microtask in a worker: its events come singly. */
export const afterCalls: (act: () => void) => unknown = host.setImmediate ?? queueMicrotask;
const clock = performance;

/** Milliseconds of a clock that never goes backwards. */
export const monotonic = (): number => clock.now();

/**
 * Runs `attempt`, and again while other connections hold the file, for up to `total` milliseconds. Blocks the thread:
 * only for opening, closing and health checks, which are synchronous.
 */
export function retryWhileBusy<T>(attempt: () => T, total: number): T {
  const deadline = monotonic() + total;
  for (;;) {
    try {
      return attempt();
    } catch (cause) {
      if (!isBusy(cause) || monotonic() >= deadline) throw cause;
    }
    pauseThread();
  }
}

/** Blocks the thread for the time between two attempts. */
export function pauseThread(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
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
