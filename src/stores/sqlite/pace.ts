/**
 * When the next group is committed. Knows how large the last groups were, nothing of what they hold.
 *
 * Why not always at the end of the turn: one call after the other has nobody to share a commit with, and the way through the event
 * loop took 11 µs of 159 (power-durable, its code cold after a wait for the disk; process-durable 4 of 22). The end of the callback
 * still gathers what one callback begins; what several begin, as sockets do, is told from the size of the groups.
 */
import { afterTurn } from "./transaction.js";

/** Calls back later. */
export type Later = (wake: () => void) => void;

export interface Pace {
  /** How long to wait for more. */
  next(): Later;
  /** A group of so many pieces of work is being committed. */
  note(size: number): void;
}

/** So many groups of one in a row mean that calls come one after the other. */
const LEAST_ALONE = 3;
/** One in so many waits for the end of the turn: the event loop goes on, and calls that now come together are found out. */
const STRETCH = 16;

export function createPace(): Pace {
  let alone = 0;
  return {
    next: () => (alone >= LEAST_ALONE && alone % STRETCH !== 0 ? afterCallback : afterTurn),
    note(size) {
      alone = size === 1 ? alone + 1 : 0;
    },
  };
}

/** Calls back once the code that runs now is done, before the event loop goes on. */
function afterCallback(wake: () => void): void {
  queueMicrotask(wake);
}
