/** Waiting outside transactions: timers, a clock, and attempts that block the thread. */
import { isBusy } from "./errors.js";

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

/** Milliseconds of a clock that never goes backwards. */
export const monotonic: () => number = performance.now.bind(performance);

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

/** Milliseconds between attempts while the thread is blocked. */
const PAUSE = 2;

/** Blocks the thread for the time between two attempts. */
export function pauseThread(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
}
