/**
 * Timers of the host for whatever a call waits for, captured at load: a program's tests may replace the globals by fake
 * timers, and calls must settle all the same. Work in the background goes by the globals, so that such tests can reach
 * it.
 */
export const { setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask } = globalThis;
