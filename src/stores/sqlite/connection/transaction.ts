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
