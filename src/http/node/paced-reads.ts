/**
 * Reading of connections, in turns: of each, Node reads 64 KiB at once, which may be one request, hundreds of them, or
 * ten thousand parts of a body, which take 20 ms. A few are read of in one turn of the event loop, one of each lane
 * after the other, by what reading there took before: as many as take a few milliseconds of those that are short, as
 * many again of those that may not be, and one that is long. Once those that had something took long, only what is
 * short is read of in that turn; and after a long one nothing long is, for as long as it took: beside bodies in parts
 * of a byte, half of a neighbour's calls take 4 ms in place of 19.
 */
import { afterInput } from "../../lib/after-input.js";
import { Fifo } from "../../lib/fifo.js";
import { startTimer } from "../../lib/start-timer.js";

/** Milliseconds of a turn that are planned. */
const TURN_MS = 4;
/** Above these nothing more is read in it of lanes in which that may take long; and of none. */
const LONG_MS = 8;
const MAX_MS = 32;
/** Milliseconds that reading of one takes at the least; and below which it is short. */
const MIN_READ_MS = TURN_MS / 256;
const SHORT_READ_MS = TURN_MS / 4;
/** What is planned for a lane that brought nothing yet: many of those bring nothing for long; and for more of it. */
const FIRST_READ_MS = TURN_MS / 64;
const NEXT_READ_MS = TURN_MS / 4;
/** Milliseconds for which turns in a row may be passed over. */
const MAX_PASSED_MS = 16;

/** Entries of a lane that wait no longer and are not looked for; beyond as many as wait. */
const MAX_GONE = 64;

/** Connections that take turns with all others together. */
export interface Lane {
  /** Requests that arrived before they could be handled. */
  ahead: number;
  /** Milliseconds that reading of one of them took lately; `undefined`: none has brought anything. */
  each: number | undefined;
}

export const newLane = (): Lane => ({ ahead: 0, each: undefined });

const lengthOf = ({ each }: Lane): "short" | "unknown" | "long" => {
  if (each !== undefined && each < SHORT_READ_MS) return "short";
  return each === undefined || each <= TURN_MS ? "unknown" : "long";
};

/** Those of one lane: the entries of some that have left are passed over. */
interface Queue {
  readonly paced: Fifo<Paced>;
  waiting: number;
}

/** What is read of. */
export interface Paced {
  /** For whose turn it waits. */
  readonly lane: Lane;
  /** Begins to read of it. */
  read(): void;
  /** Ends that. */
  stop(): void;
}

/** Hands out the turns in which connections are read of. */
export interface PacedReads {
  /** Reads of it when it is its turn; if it waits already and its lane has changed, last of that lane. */
  wait(paced: Paced): void;
  /** Something was read of it, or it ended: it is read of again after another {@link wait}. */
  done(paced: Paced): void;
  /** So many requests more are ahead in a lane, or fewer. */
  count(lane: Lane, change: number): void;
  /** Others wait for this turn to end: it is passed over, though not for long. */
  hurry(): void;
}

/** @param maxAhead requests that are ahead in a lane, while which nothing is read there */
export function createPacedReads(
  maxAhead: number,
  atEnd = afterInput() ?? queueMicrotask,
  clock = () => performance.now(),
  later: (act: () => void, ms: number) => unknown = startTimer,
): PacedReads {
  /** Those that wait, by lane, in the order of their turns. */
  const queues = new Map<Lane, Queue>();
  const waiting = new Map<Paced, Lane>();
  /** Those that are read of and have brought nothing yet. */
  const open = new Map<Paced, Lane>();
  /** When something was first read in this turn; NaN: nothing was. */
  let began = NaN;
  /** What was read last in this turn, and since when its lane is charged with the time. */
  let handled: { readonly paced: Paced; readonly lane: Lane; readonly since: number } | undefined;
  let [isScheduled, isHurried, passedSince] = [false, false, NaN];
  /** After what took long, as long again nothing of those lanes is read: others need some turns in a row. */
  let restsUntil = -Infinity;
  let isWoken = false;

  /** Until something else is handled, or the turn ends: Node does not tell when it has handled all of a read. */
  const charge = (now: number): void => {
    if (handled === undefined) return;
    const { lane, since } = handled;
    const took = now - since;
    lane.each = Math.max(took, (lane.each ?? 0) / 2, MIN_READ_MS);
    if (took > TURN_MS) restsUntil = now + took;
    handled = undefined;
  };
  const wait = (paced: Paced): void => {
    const { lane } = paced;
    if (waiting.get(paced) === lane) return;
    leave(paced);
    open.delete(paced);
    waiting.set(paced, lane);
    const queue = queues.get(lane) ?? { paced: new Fifo(), waiting: 0 };
    queues.set(lane, queue);
    queue.paced.push(paced);
    queue.waiting++;
    schedule();
  };
  /** Takes it out of its lane, which may not be read of for long while connections come and go. */
  const leave = (paced: Paced): void => {
    const lane = waiting.get(paced);
    const queue = lane && queues.get(lane);
    if (queue === undefined) return;
    waiting.delete(paced);
    if (--queue.waiting === 0) queues.delete(lane as Lane);
    if (queue.paced.size <= 2 * queue.waiting + MAX_GONE) return;
    const left = new Set<Paced>();
    for (let one = queue.paced.shift(); one !== undefined; one = queue.paced.shift())
      if (waiting.get(one) === lane) left.add(one);
    for (const one of left) queue.paced.push(one);
  };
  /**
   * All, or those that may take long as well. The system has told already which of them have something: what is stopped
   * now is not read of in this turn.
   */
  const stopOthers = (isAll: boolean): void => {
    for (const [paced, lane] of [...open]) {
      if (!isAll && lengthOf(lane) === "short") continue;
      paced.stop();
      wait(paced);
    }
  };
  const isPassed = (now: number): boolean => {
    if (!isHurried || now - passedSince > MAX_PASSED_MS) passedSince = NaN;
    else if (Number.isNaN(passedSince)) passedSince = now;
    return !Number.isNaN(passedSince);
  };
  const isResting = (lane: Lane, now: number): boolean => now < restsUntil && lengthOf(lane) === "long";
  /** Reads of the next one of a lane. */
  const readNext = (lane: Lane, queue: Queue): void => {
    for (let paced = queue.paced.shift(); paced !== undefined; paced = queue.paced.shift()) {
      if (waiting.get(paced) !== lane) continue;
      waiting.delete(paced);
      queue.waiting--;
      open.set(paced, lane);
      paced.read();
      return;
    }
  };
  const readSome = (now: number): void => {
    // What is known to be short does not wait for what is not.
    const planned = { short: 0, unknown: 0, long: 0 };
    const seen = new Set<Lane>();
    for (const [lane, queue] of queues) {
      if (lane.ahead > maxAhead || isResting(lane, now)) continue;
      const length = lengthOf(lane);
      const ms = planned[length] + (lane.each ?? (seen.has(lane) ? NEXT_READ_MS : FIRST_READ_MS));
      // One that takes long fits where nothing else is planned.
      if (ms > TURN_MS && planned[length] > 0) continue;
      planned[length] = ms;
      seen.add(lane);
      readNext(lane, queue);
      // To the end, if it has more: it has another turn once each other lane had one.
      queues.delete(lane);
      if (queue.waiting > 0) queues.set(lane, queue);
    }
  };
  /** Has the next turn run, as soon as any lane may be read of. */
  const scheduleNext = (now: number): void => {
    let hasResting = false;
    for (const lane of queues.keys()) {
      if (lane.ahead > maxAhead) continue;
      if (!isResting(lane, now)) return schedule();
      hasResting = true;
    }
    if (!hasResting || isWoken) return;
    isWoken = true;
    later(wake, restsUntil - now);
  };
  const wake = (): void => {
    isWoken = false;
    schedule();
  };
  const runTurn = (): void => {
    const now = clock();
    charge(now);
    began = NaN;
    isScheduled = false;
    if (!isPassed(now)) readSome(now);
    isHurried = false;
    scheduleNext(now);
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    atEnd(runTurn);
  };
  return {
    wait,
    done(paced) {
      leave(paced);
      const now = clock();
      if (handled?.paced !== paced) charge(now);
      const lane = open.get(paced);
      if (lane === undefined) return;
      open.delete(paced);
      handled = { paced, lane, since: now };
      if (Number.isNaN(began)) began = now;
      else if (now - began > LONG_MS) stopOthers(now - began > MAX_MS);
      // Its time tells of the next ones.
      schedule();
    },
    count(lane, change) {
      lane.ahead += change;
      if (change < 0 && lane.ahead <= maxAhead && waiting.size > 0) schedule();
    },
    hurry() {
      isHurried = true;
    },
  };
}
