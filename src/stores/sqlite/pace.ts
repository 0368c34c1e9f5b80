/**
 * When the next group is committed. Knows how large the last groups were, nothing of what they hold.
 *
 * Why not always at the end of the turn: one call after the other has nobody to share a commit with, and the way through the event
 * loop took 11 µs of 159 (power-durable, its code cold after a wait for the disk; process-durable 4 of 22). So a call that comes alone is
 * committed at once. What one callback begins besides is gathered at its end; what several begin, as sockets do, is told from the
 * size of the groups.
 */
import { afterTurn } from "./transaction.js";

/** Calls back later. */
export type Later = (wake: () => void) => void;

export interface Pace {
  /** Whether calls come one after the other, and the event loop has had its turn. */
  isAlone(): boolean;
  /** How long to wait for more. */
  next(): Later;
  /** A group of so many pieces of work was committed, or failed. */
  note(size: number): void;
}

/** So many groups of one in a row mean that calls come one after the other. */
const LEAST_ALONE = 3;
/** One in so many waits for the end of the turn, so that calls that now come together are found out. */
const STRETCH = 64;
/** Milliseconds for which calls in a row hold up the event loop at most, but for the last commit and what the caller does. */
const HELD = 4;

export function createPace(): Pace {
  let alone = 0;
  /** When the first call came after the event loop's last turn; NaN: none has. */
  let began = NaN;
  let isMarked = false;
  const isAlone = (): boolean => {
    if (alone < LEAST_ALONE || alone % STRETCH === 0) return false;
    const now = performance.now();
    if (Number.isNaN(began)) began = now;
    return now - began < HELD;
  };
  const markTurn = () => {
    began = NaN;
    isMarked = false;
  };
  return {
    isAlone,
    next: () => (isAlone() ? afterCallback : afterTurn),
    note(size) {
      alone = size === 1 ? alone + 1 : 0;
      if (isMarked) return;
      isMarked = true;
      afterTurn(markTurn);
    },
  };
}

/** Calls back once the code that runs now is done, before the event loop goes on. */
function afterCallback(wake: () => void): void {
  queueMicrotask(wake);
}
