/**
 * When the next group is committed. Knows how large the last groups were, nothing of what they hold.
 *
 * Why not always at the end of the turn: calls made one after another have no one to share a commit with, and the way through the event
 * loop took 11 µs of 159 (power-durable, its code cold after a wait for the disk; process-durable 4 of 22). So a call that comes alone is
 * committed at once. More calls of one callback are gathered at its end; those of several, as of sockets, show in the size of the
 * groups.
 */
import { afterCallback, afterTurn } from "../connection/transaction.js";

/** Calls back later. */
export type Later = (wake: () => void) => void;

export interface CommitScheduler {
  /** Whether calls come one after the other, and the event loop has had its turn. */
  isSequential(): boolean;
  /** How long to wait for more. */
  next(): Later;
  /** A group of so many pieces of work was committed, or failed. */
  note(size: number): void;
}

/** So many groups of one in a row mean that calls come one after the other. */
const MIN_SINGLES = 3;
/** One in this many waits for the end of the turn, to notice calls that have begun to come together. */
const STRETCH = 64;
/** Milliseconds that calls in a row may hold up the event loop, apart from the last commit and the caller's own work. */
const MAX_HELD_MS = 4;

export function createCommitScheduler(): CommitScheduler {
  let singles = 0;
  /** When the first call came after the event loop's last turn; NaN: none has. */
  let began = NaN;
  let isMarked = false;
  const isSequential = (): boolean => {
    if (singles < MIN_SINGLES || singles % STRETCH === 0) return false;
    const now = performance.now();
    if (Number.isNaN(began)) began = now;
    return now - began < MAX_HELD_MS;
  };
  const markTurn = () => {
    began = NaN;
    isMarked = false;
  };
  return {
    isSequential,
    next: () => (isSequential() ? afterCallback : afterTurn),
    note(size) {
      singles = size === 1 ? singles + 1 : 0;
      if (isMarked) return;
      isMarked = true;
      afterTurn(markTurn);
    },
  };
}
