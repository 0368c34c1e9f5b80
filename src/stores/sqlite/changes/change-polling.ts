/** When to poll the file for changes of other processes: the option `staleness`. */
import { afterCallback, nextTick } from "../connection/transaction.js";
import type { SqliteStoreOptions } from "../options.js";

/** In a long turn of the event loop, milliseconds after which it polls again. */
const MAX_AGE_IN_TURN_MS = 1;

export interface ChangePolling {
  /** Whether the last poll is recent enough: then {@link ChangePolling.pollChanges} does nothing. */
  isCurrent(when?: number | "anew"): boolean;
  /**
   * Polls if the last poll is too old. If polling throws, the next call polls again.
   * @param when as for `Store.pollChanges`: within a turn the system clock, where the caller has just read it, saves
   *   reading the monotonic clock (45 ns, a sixteenth of a hot verification). Polls in any case if it went backwards.
   */
  pollChanges(when?: number | "anew"): void;
  /** Records that all changes so far are known, as if it had just polled. */
  note(): void;
}

/**
 * Why nextTick ends a turn: it runs after the current callback and its microtasks. A reset in setImmediate would let
 * calls of the check phase rely on the poll of the turn before.
 *
 * Measured on Node 20: 50 ns without a poll, 2.1 µs more with one (`PRAGMA data_version`).
 */
export function createChangePolling(
  poll: () => void,
  staleness: Required<SqliteStoreOptions>["staleness"],
): ChangePolling {
  if (staleness === "call") return { isCurrent: () => false, pollChanges: () => poll(), note: () => undefined };
  const bound = staleness === "turn" ? MAX_AGE_IN_TURN_MS : staleness;
  // Time of the last poll on the clock that the call used (the other is NaN): monotonic, and system. `note` sets both.
  let polledAt = NaN;
  let polledNow = NaN;
  const isFresh = (now?: number): boolean =>
    now === undefined ? performance.now() - polledAt < bound : now >= polledNow && now - polledNow < bound;
  const pollNow = (when: number | "anew" | undefined): void => {
    const now = when === "anew" ? undefined : when;
    // Read before polling: a commit during the poll may be missed, so its age counts from here.
    const began = now === undefined ? performance.now() : NaN;
    polledAt = NaN;
    polledNow = NaN;
    poll();
    polledAt = began;
    polledNow = now ?? NaN;
  };
  const noteNow = (): void => {
    polledAt = performance.now();
    polledNow = Date.now();
  };
  if (staleness !== "turn") {
    // By the monotonic clock alone: the system's may be set back by as much as has passed.
    const isCurrent = (when?: number | "anew"): boolean => when !== "anew" && isFresh();
    return {
      isCurrent,
      pollChanges(when) {
        if (!isCurrent(when)) pollNow("anew");
      },
      note: noteNow,
    };
  }
  let sameTurn = false;
  const endTurn = () => {
    sameTurn = false;
  };
  const endThisTurn = () => nextTick(endTurn);
  const isCurrent = (when?: number | "anew"): boolean => when !== "anew" && sameTurn && isFresh(when);
  return {
    isCurrent,
    pollChanges(when) {
      if (isCurrent(when)) return;
      pollNow(when);
      if (sameTurn) return;
      sameTurn = true;
      endThisTurn();
    },
    note() {
      noteNow();
      if (sameTurn) return;
      sameTurn = true;
      // Node runs nextTick callbacks before the microtasks of the running callback, which still belong to this turn.
      afterCallback(endThisTurn);
    },
  };
}
