/**
 * Decides when the next group of spends is committed, from the sizes of the last groups.
 *
 * Why not always at the end of the turn: sequential calls have nobody to share a commit with, and the detour through
 * the event loop took 11 µs of 159 (durability "power", with cold code after the wait for the disk; "process" 4 of 22).
 * So a single call commits at once. Several calls of one callback are grouped at its end; concurrent calls of several
 * callbacks, as of sockets, show in the size of the groups.
 */
import { afterCallback, afterTurn } from "./transaction.js";

/** Schedules a callback. */
export type Later = (wake: () => void) => void;

export interface CommitScheduler {
  /** Whether calls are sequential, and have not held up the event loop for too long. */
  isSequential(): boolean;
  /** When to commit the next group: after the current callback or at the end of the turn. */
  next(): Later;
  /** Records that a group of this size was committed, or failed. */
  note(size: number): void;
}

/** After this many groups of one in a row, calls count as sequential. */
const MIN_SINGLES = 3;
/** One sequential call in this many waits for the end of the turn, to detect that calls have become concurrent. */
const PROBE_INTERVAL = 64;
/**
 * Milliseconds for which sequential calls may hold up the event loop, besides the last commit and the caller's work.
 */
const MAX_HELD_MS = 4;

export function createCommitScheduler(): CommitScheduler {
  let singles = 0;
  /** When the first call since the event loop's last turn arrived; NaN: none has. */
  let began = NaN;
  let isMarked = false;
  const isSequential = (): boolean => {
    if (singles < MIN_SINGLES || singles % PROBE_INTERVAL === 0) return false;
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
