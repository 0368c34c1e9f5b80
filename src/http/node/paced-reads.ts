/**
 * Reading of connections, in turns: of each, Node reads 64 KiB at once, which may be one request, hundreds of them, or
 * ten thousand parts of a body. A few are read of in one turn of the event loop, lane by lane; how many follows from
 * how long the turns before took. Once those that had something took long, no other is read of in that turn.
 */
import { afterInput } from "../../lib/after-input.js";
import { Fifo } from "../../lib/fifo.js";

/** Milliseconds of a turn: below the one, twice as many may be read of; above the other, one. */
const SHORT_MS = 4;
const LONG_MS = 8;
/** Milliseconds for which turns in a row may be passed over. */
const MAX_PASSED_MS = 16;

/** Connections that take turns with all others together. */
export interface Lane {
  /** Requests that arrived before they could be handled. */
  ahead: number;
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
  /** Reads of it when it is its turn. */
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
): PacedReads {
  /** Those that wait, by lane, in the order of their turns. */
  const queues = new Map<Lane, Fifo<Paced>>();
  const waiting = new Set<Paced>();
  /** Those that are read of and have brought nothing yet. */
  const open = new Set<Paced>();
  let most = 1;
  /** When something was first read in this turn; NaN: nothing was. */
  let began = NaN;
  let [isScheduled, isHurried, passedSince] = [false, false, NaN];

  const next = (): Paced | undefined => {
    for (const [lane, queue] of queues) {
      if (lane.ahead > maxAhead) continue;
      // To the end, if it has more.
      queues.delete(lane);
      const paced = queue.shift();
      if (queue.size > 0) queues.set(lane, queue);
      if (paced !== undefined && waiting.delete(paced)) return paced;
    }
    return undefined;
  };
  const wait = (paced: Paced): void => {
    if (waiting.has(paced)) return;
    open.delete(paced);
    waiting.add(paced);
    const queue = queues.get(paced.lane) ?? new Fifo();
    queues.set(paced.lane, queue);
    queue.push(paced);
    schedule();
  };
  /** The system has told already which of them have something: what is stopped now is not read of in this turn. */
  const stopOthers = (): void => {
    most = 1;
    for (const paced of open) {
      paced.stop();
      wait(paced);
    }
  };
  const isPassed = (now: number): boolean => {
    if (!isHurried || now - passedSince > MAX_PASSED_MS) passedSince = NaN;
    else if (Number.isNaN(passedSince)) passedSince = now;
    return !Number.isNaN(passedSince);
  };
  /** @returns whether others may follow in the next turn */
  const readSome = (): boolean => {
    while (open.size < most) {
      const paced = next();
      if (paced === undefined) return false;
      open.add(paced);
      paced.read();
    }
    return waiting.size > 0;
  };
  const runTurn = (): void => {
    const now = clock();
    if (!(now - began > SHORT_MS)) most = Math.min(most * 2, open.size + waiting.size + 1);
    began = NaN;
    isScheduled = false;
    const isWaiting = isPassed(now) || readSome();
    isHurried = false;
    if (isWaiting) schedule();
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    atEnd(runTurn);
  };
  return {
    wait,
    done(paced) {
      waiting.delete(paced);
      if (!open.delete(paced)) return;
      const now = clock();
      if (Number.isNaN(began)) began = now;
      else if (now - began > LONG_MS) stopOthers();
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
