/**
 * Paces the reading of connections. Node reads up to 64 KiB of a connection at once: one request, hundreds of them, or
 * ten thousand chunks of a body, which take 20 ms. So each tick of the event loop reads only some connections: lanes
 * take turns, one connection each. How many are read depends on how long the last read of each lane took:
 *
 * - short reads (below 1 ms), as many as take 4 ms;
 * - reads of unknown length, as many again;
 * - one long read; afterwards no long lane is read for the same length of time.
 *
 * If the reads of a tick already took 8 ms, only short lanes are still read in that tick; after 32 ms, none. Measured
 * beside bodies in chunks of one byte: the median of another client's calls is 4 ms instead of 19.
 */
import { afterInput, startTimer } from "../../lib/timers.js";
import { Fifo } from "../../lib/fifo.js";

/** Milliseconds of reads that are planned for one tick, of each kind. */
const TURN_MS = 4;
/** Milliseconds of a tick after which only short lanes are still read, and after which none is. */
const LONG_MS = 8;
const MAX_MS = 32;
/** The shortest time that is planned for a read, and the bound below which a read is short. */
const MIN_READ_MS = TURN_MS / 256;
const SHORT_READ_MS = TURN_MS / 4;
/** The time planned for the first read of a new lane (most new connections are silent), and for its other reads. */
const FIRST_READ_MS = TURN_MS / 64;
const NEXT_READ_MS = TURN_MS / 4;
/** Milliseconds for which ticks in a row may be skipped. */
const MAX_SKIPPED_MS = 16;

/** Entries of connections that have left a lane which may stay in its queue; with more it is compacted. */
const MAX_GONE = 64;

/** Connections that share a turn, such as those of one client address. */
export interface Lane {
  /** Milliseconds that a read of this lane took lately; `undefined`: there was none. */
  each: number | undefined;
}

export const newLane = (): Lane => ({ each: undefined });

const lengthOf = ({ each }: Lane): "short" | "unknown" | "long" => {
  if (each !== undefined && each < SHORT_READ_MS) return "short";
  return each === undefined || each <= TURN_MS ? "unknown" : "long";
};

/** The waiting connections of a lane. Entries of connections that have left are skipped. */
interface Queue {
  readonly paced: Fifo<Paced>;
  waiting: number;
}

/** A connection that is read in turns. */
export interface Paced {
  /** The lane in which it waits now. */
  readonly lane: Lane;
  /** Starts reading. */
  read(): void;
  /** Stops reading. */
  stop(): void;
}

export function createPacedReads(
  atEnd = afterInput,
  clock = () => performance.now(),
  later: (act: () => void, ms: number) => unknown = startTimer,
) {
  /** The lanes with waiting connections; the first has the next turn. */
  const queues = new Map<Lane, Queue>();
  const waiting = new Map<Paced, Lane>();
  /** Connections being read that have brought nothing yet. */
  const open = new Map<Paced, Lane>();
  /** Time of the first read in this tick; NaN: none yet. */
  let began = NaN;
  /** The connection read last in this tick, and since when its lane is charged for the time. */
  let handled: { readonly paced: Paced; readonly lane: Lane; readonly since: number } | undefined;
  let [isScheduled, isHurried, skippedSince] = [false, false, NaN];
  /** After a long read, the time until which no long lane is read: other lanes need some ticks in a row. */
  let restsUntil = -Infinity;
  let isWoken = false;

  /** Charges the last read to its lane. Its end is known only when the next read or tick begins. */
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
  /** Takes a connection out of its lane, and compacts the queue: while a lane rests, many connections may leave it. */
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
  /** Stops reading all open connections, or all but short lanes, so that Node does not read them in this tick. */
  const stopOthers = (isAll: boolean): void => {
    for (const [paced, lane] of [...open]) {
      if (!isAll && lengthOf(lane) === "short") continue;
      paced.stop();
      wait(paced);
    }
  };
  const isSkipped = (now: number): boolean => {
    if (!isHurried || now - skippedSince > MAX_SKIPPED_MS) skippedSince = NaN;
    else if (Number.isNaN(skippedSince)) skippedSince = now;
    return !Number.isNaN(skippedSince);
  };
  const isResting = (lane: Lane, now: number): boolean => now < restsUntil && lengthOf(lane) === "long";
  /** Reads the next connection of a lane. */
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
    // Each kind has its own time, so that short reads do not wait for others.
    const planned = { short: 0, unknown: 0, long: 0 };
    const seen = new Set<Lane>();
    for (const [lane, queue] of queues) {
      if (isResting(lane, now)) continue;
      const length = lengthOf(lane);
      const ms = planned[length] + (lane.each ?? (seen.has(lane) ? NEXT_READ_MS : FIRST_READ_MS));
      // A read longer than the planned time fits only if it is the first of its kind.
      if (ms > TURN_MS && planned[length] > 0) continue;
      planned[length] = ms;
      seen.add(lane);
      readNext(lane, queue);
      // A lane with more connections goes to the end.
      queues.delete(lane);
      if (queue.waiting > 0) queues.set(lane, queue);
    }
  };
  /** Schedules the next turn as soon as a lane may be read. */
  const scheduleNext = (now: number): void => {
    for (const lane of queues.keys()) if (!isResting(lane, now)) return schedule();
    if (queues.size === 0 || isWoken) return;
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
    if (!isSkipped(now)) readSome(now);
    isHurried = false;
    scheduleNext(now);
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    atEnd(runTurn);
  };
  return {
    /** Reads the connection in its turn. If its lane has changed, it goes to the end of the new lane. */
    wait,
    /** Call when the connection has brought a request or a part, or has ended: it is read again after {@link wait}. */
    done(paced: Paced): void {
      leave(paced);
      const now = clock();
      if (handled?.paced !== paced) charge(now);
      const lane = open.get(paced);
      if (lane === undefined) return;
      open.delete(paced);
      handled = { paced, lane, since: now };
      if (Number.isNaN(began)) began = now;
      else if (now - began > LONG_MS) stopOthers(now - began > MAX_MS);
      // The time of this read is known in the next tick.
      schedule();
    },
    /** Call when others wait for this tick to end: nothing is read in it, for at most 16 ms in a row. */
    hurry(): void {
      isHurried = true;
    },
  };
}

/** Decides when each connection is read. */
export type PacedReads = ReturnType<typeof createPacedReads>;
