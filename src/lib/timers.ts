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
export const inNextTurn = setNext && ((act: () => void): unknown => (simulated()?.inNextTurn ?? setNext)(act));
