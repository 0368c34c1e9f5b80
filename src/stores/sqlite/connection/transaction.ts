/**
 * Transactions that begin and end in one synchronous stretch, and waiting for other processes outside of them. Traps 1, 4.
 *
 * Why BEGIN IMMEDIATE: a transaction that reads first and writes later fails under contention however long it waits.
 * Why `run` and never `get`: better-sqlite3's `get` on a writing statement swallows the error of its commit.
 */
import { isBusy } from "./errors.js";
import type { Handle } from "./handle.js";

/**
 * Runs `work` as one transaction: committed when it answers, rolled back when it throws or answers `undefined`.
 * Answers only after COMMIT returned.
 * @param onUndone called after a rollback: nothing that `work` saw or did holds. A lock shows before `work` begins, or at COMMIT
 */
export type Transact = <T>(work: () => T | undefined, onUndone?: () => void) => T | undefined;

/** Milliseconds between attempts while the thread waits. */
const PAUSE = 2;

export function createTransact(handle: Handle): Transact {
  const begin = handle.prepare("BEGIN IMMEDIATE");
  const commit = handle.prepare("COMMIT");
  const rollback = handle.prepare("ROLLBACK");
  const undo = () => {
    try {
      rollback.run();
    } catch {
      // SQLite rolls back by itself on a full disk or a failed write: then there is nothing left to undo.
    }
  };
  return (work, onUndone) => {
    // Outside of the try: what did not begin here is not ours to roll back.
    begin.run();
    try {
      const answer = work();
      if (answer !== undefined) commit.run();
      else {
        undo();
        onUndone?.();
      }
      return answer;
    } catch (cause) {
      undo();
      onUndone?.();
      throw cause;
    }
  };
}

// Taken when the program loads: the fake timers of a test hold up no commit, hide no change of others and prolong no wait for a lock.
const {
  setImmediate: runNextTurn,
  setTimeout: runAfter,
  queueMicrotask: runAsMicrotask,
  performance: clock,
} = globalThis;
/** Node's own: calls back once the callback that runs now has ended. */
export const { nextTick } = process;

/** Milliseconds of a clock that never steps back. */
export function monotonic(): number {
  return clock.now();
}

/** Calls back once the code that runs now is done, before the event loop goes on. */
export function afterCallback(wake: () => void): void {
  runAsMicrotask(wake);
}

/** Calls back once this turn of the event loop is over. */
export function afterTurn(wake: () => void): void {
  runNextTurn(wake);
}

/** Calls back after so many milliseconds. */
export function afterDelay(wake: () => void, milliseconds: number): void {
  runAfter(wake, milliseconds);
}

/**
 * Runs `attempt` at once, and again while other connections hold the file, up to `total` milliseconds. Blocks the thread meanwhile: for
 * opening and closing, which have no event loop to give way to.
 */
export function retryWhileBusy<T>(attempt: () => T, total: number): T {
  const deadline = monotonic() + total;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    try {
      return attempt();
    } catch (cause) {
      if (!isBusy(cause) || monotonic() >= deadline) throw cause;
    }
    Atomics.wait(cell, 0, 0, PAUSE);
  }
}
