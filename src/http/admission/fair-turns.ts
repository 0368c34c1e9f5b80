/**
 * Accounts take turns within each tick of the event loop. Requests that arrived in one tick continue together at its
 * end, so that they share one poll for changes and one commit of the store. A tick continues requests for a few
 * milliseconds, a group of each account in turn; the rest wait for the next tick.
 *
 * Measured with 32 connections and an SQLite file: 29 µs of CPU time per verification, 66 if each continues alone.
 */
import { afterInput } from "../../lib/timers.js";
import { Fifo } from "../../lib/fifo.js";

/** Weight of the calls in one callback, which share a poll: eight short calls, or one long one. */
const GROUP = 8;

/** Milliseconds for which ticks in a row may be skipped; ticks that continue no calls are short. */
const MAX_SKIPPED_MS = 16;

/** The weight of a call; a callback runs calls of weight {@link GROUP}. */
export const WEIGHT = Object.freeze({ short: 1, long: GROUP });

/** @param turnMs milliseconds for which calls are continued in one tick; the first callback always runs */
export function createFairTurns(turnMs: number, atEnd = afterInput, clock = () => performance.now()) {
  /** Queues by account; the first account has the next turn. */
  const queues = new Map<string, Fifo<{ readonly act: () => void; readonly weight: number }>>();
  let weight = 0;
  let scheduled = 0;
  let began = NaN;
  /** Whether the next tick is to be skipped, and whether this one is. */
  let [isNextHurried, isHurried] = [false, false];
  let [skippedSince, isSkipped] = [NaN, false];

  const schedule = (): void => {
    while (scheduled * GROUP < weight) {
      scheduled++;
      atEnd(runGroup);
    }
  };
  const endTurn = (): void => {
    began = NaN;
  };
  /** Runs one group: calls of the first account, and of the next ones if it has fewer. */
  const runCalls = (): void => {
    let done = 0;
    while (done < GROUP) {
      const [first] = queues;
      if (first === undefined) return;
      const [account, queue] = first;
      for (let call = queue.shift(); call !== undefined; call = done < GROUP ? queue.shift() : undefined) {
        done += call.weight;
        weight -= call.weight;
        call.act();
      }
      // An account with more calls goes to the end.
      queues.delete(account);
      if (queue.size > 0) queues.set(account, queue);
    }
  };
  const runGroup = (): void => {
    scheduled--;
    const isFirst = Number.isNaN(began);
    if (isFirst) {
      began = clock();
      [isHurried, isNextHurried] = [isNextHurried, false];
      if (!isHurried || began - skippedSince > MAX_SKIPPED_MS) skippedSince = NaN;
      else if (Number.isNaN(skippedSince)) skippedSince = began;
      isSkipped = !Number.isNaN(skippedSince);
      // Runs before the groups that are left for the next tick.
      atEnd(endTurn);
    }
    if (!isSkipped && (isFirst || clock() - began < turnMs)) runCalls();
    schedule();
  };
  return {
    /** Call when other work waits for this tick to end: it is skipped, but for at most 16 ms in a row. */
    hurry(): void {
      isNextHurried = true;
    },
    /** Calls `act` at the end of this tick, or of a later one. @param weight above 0, such as one of {@link WEIGHT} */
    wait(account: string, weighs: number, act: () => void): void {
      const call = { act, weight: weighs };
      const queue = queues.get(account) ?? new Fifo();
      queues.set(account, queue);
      queue.push(call);
      weight += weighs;
      schedule();
    },
  };
}
