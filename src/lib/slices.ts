/**
 * Long work in slices: one turn of the event loop does so much of all of it, so that calls which have nothing to do
 * with it do not wait for it.
 *
 * Why by what steps cost and not by the clock: what is done at once is the same on every machine.
 */
import type { MaybePromise } from "../contracts/types.js";
import { inNextTurn } from "./timers.js";
import { Fifo } from "./fifo.js";

/** What a turn does of all work, in units of some 0.3 µs: 3 ms. */
const BUDGET = 10_000;
/** Work that costs no more never waits. */
const SMALL = 1_000;

/** Called after a step with what it cost. @returns when to go on; undefined: at once */
export type Pause = (cost: number) => Promise<void> | undefined;

/** Work that pauses after its steps. */
export type Steps<T> = Generator<Promise<void> | undefined, T>;

/** Does work. @returns a promise only if one of its pauses has to be waited for */
export function inSteps<T>(work: Steps<T>): MaybePromise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    if (value !== undefined) return goOn(work, value);
  }
}

async function goOn<T>(work: Steps<T>, first: Promise<void>): Promise<T> {
  for (let pause: Promise<void> | undefined = first; ;) {
    if (pause !== undefined) await pause;
    const { done, value } = work.next();
    if (done === true) return value;
    pause = value;
  }
}

/** @returns makes the pauses of one piece of work. Of all pieces that wait, one goes on in each turn: a queue */
export function createSlices(): () => Pause {
  const waiting = new Fifo<() => void>();
  let left = BUDGET;
  let isScheduled = false;
  const schedule = (): void => {
    if (!isScheduled) inNextTurn(startTurn);
    isScheduled = true;
  };
  const startTurn = (): void => {
    isScheduled = false;
    left = BUDGET;
    waiting.shift()?.();
    if (waiting.size > 0) schedule();
  };
  return () => {
    let spent = 0;
    return (cost) => {
      spent += cost;
      left -= cost;
      schedule();
      return spent > SMALL && left <= 0 ? new Promise((resolve) => waiting.push(resolve)) : undefined;
    };
  };
}
