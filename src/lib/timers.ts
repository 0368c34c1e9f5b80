/**
 * Timers of the host for whatever a call waits for, captured at load: a program's tests may replace the globals by fake
 * timers, and calls must settle all the same. Work in the background goes by the globals, so that such tests can reach
 * it. A simulator of all of keystile's time puts its own under a symbol.
 */
const { setTimeout: setHost, clearTimeout: clearHost, setInterval, clearInterval, queueMicrotask } = globalThis;
const setNext = Reflect.get(globalThis, "setImmediate") as ((act: () => void) => unknown) | undefined;

interface Simulated {
  readonly setTimeout: typeof setHost;
  readonly clearTimeout: typeof clearHost;
  readonly inNextTurn: (act: () => void) => unknown;
}

const SIMULATED = Symbol.for("keystile.timers");
const simulated = () => Reflect.get(globalThis, SIMULATED) as Simulated | undefined;

export { clearInterval, queueMicrotask, setInterval };
export const setTimeout = ((...given: Parameters<typeof setHost>) =>
  (simulated()?.setTimeout ?? setHost)(...given)) as typeof setHost;
export const clearTimeout = ((timer?: number) => (simulated()?.clearTimeout ?? clearHost)(timer)) as typeof clearHost;
/** `undefined` where the host has none; only Node, Bun and Deno do. */
const nextOfHost = setNext && ((act: () => void): unknown => (simulated()?.inNextTurn ?? setNext)(act));

/** Runs a function once pending input was read; as a microtask where the host cannot. */
export const afterInput: (act: () => void) => unknown = nextOfHost ?? queueMicrotask;

/** Runs a function in another turn of the event loop. */
export const inNextTurn: (act: () => void) => unknown = nextOfHost ?? ((act) => setTimeout(act, 0));

/**
 * Yields to timers, input and other writers.
 *
 * Why not a timer of 0 ms where the runtime has better: in Node one that fell due while others ran goes on in the same
 * turn of the event loop. Eight long requests that took turns by it took one, of 300 ms.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void inNextTurn(resolve));
}

/** Starts a timer for work in the background, which does not keep the process alive. */
export function startTimer(work: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = globalThis.setTimeout(work, ms);
  (timer as { unref?: () => void }).unref?.();
  return timer;
}
