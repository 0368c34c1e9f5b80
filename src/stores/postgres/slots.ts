/**
 * Bounds the statements that one node has on the server. A statement keeps its slot until the server has ended it, even
 * if its caller gave up: the server still waits for a lock or a standby when the client has gone. A node that kept
 * sending statements would use up all connections of the server.
 */
import { clearTimeout, setTimeout } from "../../lib/timers.js";

/** No slot was free: nothing was sent. */
export class NoSlot extends Error {}

export function createSlots(count: number) {
  let free = count;
  let stalled = 0;
  /** Waiting calls, first come first served; each is told whether it got a slot. */
  const waiting = new Set<(isGiven: boolean) => void>();
  const give = (): void => {
    const [next] = waiting;
    if (next === undefined) free++;
    else next(true);
  };
  return {
    /**
     * Takes a slot as soon as one is free.
     * @param ms milliseconds to wait
     * @throws (rejects with) NoSlot: none was free in time, or all are held by statements that do not respond
     */
    take(ms: number): Promise<void> {
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
    /** Gives a slot back. */
    give,
    /** Call when a statement did not respond in time: it keeps its slot. */
    stall(): void {
      stalled++;
      if (stalled >= count) for (const settle of waiting) settle(false);
    },
    /** Call when a stalled statement is over: gives its slot back. */
    recover(): void {
      stalled--;
      give();
    },
  };
}

/** The slots of one kind of statement. */
export type Slots = ReturnType<typeof createSlots>;
