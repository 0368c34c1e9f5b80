/** Turns of the event loop, whatever timers a program's tests replace. */
import { inNextTurn as nextOfHost, queueMicrotask, setTimeout } from "./timers.js";

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
