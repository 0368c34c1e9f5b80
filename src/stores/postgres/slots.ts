/**
 * How many statements one node has on the server. A statement keeps its slot until it is over there, not until its
 * caller gave up: the server goes on waiting for a lock or a standby when the client has gone, and a node that sent the
 * next statement each time would use up all connections that the server has.
 */
import { clearTimeout, setTimeout } from "../../lib/timers.js";

/** The slots of one kind of statement. */
export interface Slots {
  /**
   * Takes a slot, once one is free.
   * @param ms for which it waits
   * @throws (rejects with) NoSlot: none was free in time, or every one is held by a statement that does not respond
   */
  take(ms: number): Promise<void>;
  /** Gives a slot back. */
  give(): void;
  /** A statement did not respond in time, and keeps its slot. */
  stall(): void;
  /** It is over. */
  recover(): void;
}

/** No slot was free: nothing was sent. */
export class NoSlot extends Error {}

export function createSlots(count: number): Slots {
  let free = count;
  let stalled = 0;
  /** Those that wait, first in first out: each is told whether it has a slot. */
  const waiting = new Set<(isGiven: boolean) => void>();
  const give = (): void => {
    const [next] = waiting;
    if (next === undefined) free++;
    else next(true);
  };
  return {
    take(ms) {
      if (free > 0) {
        free--;
        return Promise.resolve();
      }
      if (stalled >= count) return Promise.reject(new NoSlot());
      return new Promise((resolve, reject) => {
        const settle = (isGiven: boolean): void => {
          clearTimeout(timer);
          waiting.delete(settle);
          if (isGiven) resolve();
          else reject(new NoSlot());
        };
        const timer = setTimeout(settle, ms, false);
        waiting.add(settle);
      });
    },
    give,
    stall() {
      stalled++;
      if (stalled >= count) for (const settle of waiting) settle(false);
    },
    recover() {
      stalled--;
      give();
    },
  };
}
