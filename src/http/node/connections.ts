/**
 * The connections of a server: how many there are, how many requests of each are handled at a time, and what happens to
 * those that wait when one fails or ends.
 */
import type { KeystileError } from "../../contracts/errors.js";
import type { Hold } from "../admission/admission.js";
import { createPacedReads, type Lane, newLane, type Paced } from "./paced-reads.js";

/** The part of a socket that is used. */
export interface Connection {
  readonly writable: boolean;
  readonly destroyed: boolean;
  readonly remoteAddress?: string | undefined;
  end(text: string): unknown;
  destroy(): unknown;
  pause(): unknown;
  emit(event: "pause" | "resume"): unknown;
  resume(): unknown;
  /** After so many milliseconds without progress Node ends the connection; 0: never. Only sockets have it. */
  setTimeout?(milliseconds: number): unknown;
  on(event: "close" | "resume", listener: () => void): unknown;
}

/** The part of a request that is used. */
interface Arriving {
  /** Whether all of it has arrived. */
  readonly complete?: boolean;
}

/** A request that has arrived, with or without its body. */
export interface ArrivedRequest {
  readonly request: Arriving;
  readonly hold: Hold;
  /** Whether its body may be long: nothing of it is read before it is wanted. */
  readonly isLong: boolean;
  readonly serve: (slot: RequestSlot) => void;
}

/** A request, from its arrival until the client has its answer. */
interface Slot extends ArrivedRequest {
  /** Whether its answer was handed to the socket. */
  isAnswered: boolean;
}

/** State of one connection. */
interface ConnectionState {
  /** Requests that are handled, or whose answers are not read yet, in order. */
  readonly served: Set<Slot>;
  /** Requests that wait until one of those has ended, in order. */
  readonly waiting: Set<Slot>;
  /** Of those that are served, how many were not handed to the socket; and what counts in the lane of others. */
  unanswered: number;
  ahead: number;
  /** The last request, the only one that may still be arriving. */
  last: Arriving | undefined;
  /** Aborts reading its body. */
  breakOff: ((fault: Error) => void) | undefined;
  /** Set once the connection failed: requests that are handled still get their answers, then it ends. */
  fault: KeystileError | undefined;
  /** Called once all its requests have ended, or it has itself: they may then never end. */
  atRest: (() => void) | undefined;
  /** Nothing more is read: it ends with the answer to its last request that is handled. */
  isEnding: boolean;
  /** Requests that came beyond what may wait: they get no answer, and Node keeps them until the connection ends. */
  dropped: number;
  /** Whether an answer waited to be read when connections were looked at last. */
  isTimed: boolean;
  /**
   * Whether more may be read of it. Reading the body of an earlier request resumes a socket, and Node does so itself.
   */
  isReading: boolean;
  /** Whether a request ever came before the one before it was handled; undefined: none was handled yet. */
  isPipelining: boolean | undefined;
  readonly address: Address;
  readonly paced: Paced;
}

/** Where connections come from; all that are not counted together. */
interface Address {
  readonly name: string;
  connections: number;
  /** Those without a request, the one that has been idle for longest first. */
  readonly idle: Set<Connection>;
  /** Those that send one request at a time; and all others. */
  readonly calm: Lane;
  readonly others: Lane;
}

/** Bounds of {@link createConnections}. */
export interface ConnectionBounds {
  /**
   * Connections at a time: beyond it the one that has been idle for longest makes space. An address that has more than
   * a sixteenth of them makes space by its own, and leaves a sixteenth to others.
   */
  readonly max: number;
  /** The same of one address; `undefined` addresses are not counted. */
  readonly maxPerAddress: number;
  /** Whether it does; otherwise the new one is closed. */
  readonly evicts: boolean;
  /** Requests of one connection that are handled at a time; while others wait, nothing more is read of it. */
  readonly pending: number;
  /**
   * Of one address, requests that arrived while their connections had others to handle: while there are more, nothing
   * is read of those of its connections that send more than one at a time, or have sent none yet. Each is 7 KiB of
   * objects that the collector moves: with 16,000 of them it took half of the time.
   */
  readonly ahead: number;
  /**
   * Of all connections that end with the answers to what was begun, requests that came with those and get none: beyond
   * it such a connection ends at once. Without it 330 of them kept 270 MiB beside unread answers until those timed out.
   */
  readonly dropped: number;
}

/** The bounds without a server's options. */
export const CONNECTION_BOUNDS: ConnectionBounds = Object.freeze({
  max: Infinity,
  maxPerAddress: Infinity,
  evicts: true,
  pending: 8,
  ahead: 256,
  dropped: 8_192,
});

/** The connections of a server. */
export interface Connections {
  /**
   * A connection was accepted; it, or one that is idle, is closed if there are too many. @param address that is counted
   */
  open(socket: Connection, address: string | undefined): void;
  /** Registers a request, and has it served in its turn. */
  begin(socket: Connection, arrived: ArrivedRequest): void;
  /** Fails a connection. @param answer sends the error, if no pending request can respond with it */
  breakOff(socket: Connection, fault: KeystileError, answer: () => void): void;
  /**
   * Call it every second or so: from then on a connection whose answers were not read has this long for the next bytes.
   * Why not a timeout from the start: most answers are read at once, and setting one each time would cost more than it
   * guards.
   */
  sweep(milliseconds: number): void;
}

/** One request that is served. */
export interface RequestSlot {
  /** Call when reading the body starts. @param breakOff aborts the reading */
  onReading(breakOff: (fault: Error) => void): void;
  /** Call when a part of the body has arrived, and more is to come: nothing more is read. */
  onPart(): void;
  /** Call when more of the body may come: it is read when it is the connection's turn. */
  goOn(): void;
  /** Whether the connection must end with this response. */
  isLast(): boolean;
  /** Call when the response was handed over. */
  answered(): void;
  /** Call when the response was sent, or will never be. */
  end(): void;
}

const ignore = (): void => undefined;
/** Of a connection that has ended. */
const OF_NONE: RequestSlot = {
  onReading: ignore,
  onPart: ignore,
  goOn: ignore,
  isLast: () => true,
  answered: ignore,
  end: ignore,
};

/**
 * Requests of one connection that may wait: all that Node reads of it at once (64 KiB) arrive before it can be paused.
 * More are shorter than any that the service handles.
 */
const MAX_WAITING = 1_024;

/** @param hurry called where others wait for the turn of the event loop to end */
export function createConnections(
  { max, maxPerAddress, evicts, pending, ahead: maxAhead, dropped: maxDropped }: ConnectionBounds,
  hurry: () => void,
): Connections {
  const states = new Map<Connection, ConnectionState>();
  /** The idle ones of all addresses. */
  const idle = new Set<Connection>();
  /** Of one address, above which its own make space for it, and as many places stay free for others. */
  const share = Math.max(1, max / 16);
  const maxOfLarge = max - Math.floor(max / 16);
  const addresses = new Map<string, Address>();
  const reads = createPacedReads(maxAhead);
  let dropped = 0;

  /** Counts what is ahead: nothing while the client has yet to read answers before anything else can be done. */
  const count = (state: ConnectionState): void => {
    const ahead = state.unanswered === 0 ? 0 : state.unanswered - 1 + state.waiting.size;
    if (ahead !== state.ahead) reads.count(state.address.others, ahead - state.ahead);
    state.ahead = ahead;
  };
  /** Forgets what waits. */
  const forget = (state: ConnectionState): void => {
    for (const { hold } of state.waiting) hold.release();
    state.waiting.clear();
    count(state);
  };
  const stopReading = (socket: Connection, state: ConnectionState): void => {
    state.isReading = false;
    socket.pause();
  };
  const startReading = (socket: Connection, state: ConnectionState): void => {
    state.isReading = true;
    socket.resume();
    // The stream may count as resumed already, and then says nothing.
    socket.emit("resume");
  };
  const pause = (socket: Connection, state: ConnectionState): void => {
    reads.done(state.paced);
    stopReading(socket, state);
  };
  const addIdle = (socket: Connection, address: Address): void => {
    idle.add(socket);
    address.idle.add(socket);
  };
  const removeIdle = (socket: Connection, address: Address): void => {
    idle.delete(socket);
    address.idle.delete(socket);
  };
  const stateOf = (socket: Connection, name = ""): ConnectionState => {
    const known = states.get(socket);
    if (known !== undefined) return known;
    const address = addresses.get(name) ?? {
      name,
      connections: 0,
      idle: new Set(),
      calm: newLane(),
      others: newLane(),
    };
    addresses.set(name, address);
    address.connections++;
    const state: ConnectionState = {
      served: new Set(),
      waiting: new Set(),
      unanswered: 0,
      ahead: 0,
      last: undefined,
      breakOff: undefined,
      fault: undefined,
      atRest: undefined,
      isEnding: false,
      dropped: 0,
      isTimed: false,
      isReading: true,
      isPipelining: undefined,
      address,
      paced: {
        get lane() {
          // The rest of a body is what others wait for.
          const isBetween = state.last?.complete !== false;
          return state.isPipelining === false || !isBetween ? address.calm : address.others;
        },
        read: () => startReading(socket, state),
        stop: () => stopReading(socket, state),
      },
    };
    states.set(socket, state);
    addIdle(socket, address);
    socket.on("close", () => {
      states.delete(socket);
      removeIdle(socket, address);
      reads.done(state.paced);
      if (--address.connections === 0) addresses.delete(name);
      dropped -= state.dropped;
      state.unanswered = 0;
      forget(state);
      // Those that are still handled are released with their answers.
      for (const { hold, isAnswered } of state.served)
        if (isAnswered) hold.release();
        else hold.abandon();
      state.served.clear();
      rest(state);
    });
    socket.on("resume", () => {
      // Not `pause()`: the stream counts as paused all the time, and Node stops reading at the event alone.
      if (!state.isReading) socket.emit("pause");
    });
    return state;
  };
  const drop = (socket: Connection, state: ConnectionState, count: number): void => {
    state.dropped += count;
    dropped += count;
    if (dropped > maxDropped) socket.destroy();
  };
  /** The client sees that the connection ended before these were answered. */
  const endEarly = (socket: Connection, state: ConnectionState): void => {
    drop(socket, state, state.waiting.size);
    forget(state);
    state.isEnding = true;
    if (state.served.size === 0) socket.destroy();
    else pause(socket, state);
  };
  const start = (socket: Connection, state: ConnectionState, slot: Slot): void => {
    state.served.add(slot);
    state.unanswered++;
    count(state);
    const answered = (): void => {
      if (slot.isAnswered || !state.served.has(slot)) return;
      slot.isAnswered = true;
      state.unanswered--;
      count(state);
    };
    if (slot.isLong) pause(socket, state);
    slot.serve({
      onReading(breakOff) {
        if (state.last !== slot.request) return;
        state.breakOff = breakOff;
        if (state.fault !== undefined) breakOff(state.fault);
      },
      onPart() {
        if (state.isReading) pause(socket, state);
      },
      goOn() {
        if (!state.isReading && !state.isEnding && state.waiting.size === 0) reads.wait(state.paced);
      },
      isLast: () =>
        (state.fault !== undefined && !slot.request.complete) || (state.isEnding && lastOf(state.served) === slot),
      answered,
      end() {
        answered();
        if (!state.served.delete(slot)) return;
        if (socket.destroyed) return;
        // With none left Node sets the timeout of idle connections itself.
        if (state.isTimed && state.served.size > 0) socket.setTimeout?.(0);
        state.isTimed = false;
        const [next] = state.waiting;
        if (next !== undefined) {
          state.waiting.delete(next);
          start(socket, state, next);
          if (state.waiting.size === 0 && !next.isLong && !state.isEnding) reads.wait(state.paced);
        } else if (state.served.size > 0) return;
        else if (state.atRest !== undefined) rest(state);
        else if (state.isEnding) socket.destroy();
        else {
          state.isPipelining ??= false;
          addIdle(socket, state.address);
          // It waits still, or was answered before anybody wanted its body, all of which had come.
          if (!state.isReading) reads.wait(state.paced);
        }
      },
    });
  };
  return {
    open(socket, address) {
      // The system hands over one a turn, and those of others stand behind it.
      reads.hurry();
      hurry();
      const state = stateOf(socket, address);
      stopReading(socket, state);
      reads.wait(state.paced);
      const { connections, idle: own } = state.address;
      const isOver = address !== undefined && connections > maxPerAddress;
      const isLarge = address !== undefined && connections > share;
      if (!isOver && states.size <= (isLarge ? maxOfLarge : max)) return;
      const [oldest] = isOver || isLarge ? own : idle;
      (evicts ? oldest : socket)?.destroy();
    },
    begin(socket, { request, hold, isLong, serve }) {
      // A program may hand it over late: of a socket that is gone nothing would ever forget the state.
      if (socket.destroyed && !states.has(socket)) {
        serve(OF_NONE);
        return;
      }
      const state = stateOf(socket, socket.remoteAddress);
      if (state.isEnding) {
        hold.release();
        drop(socket, state, 1);
        return;
      }
      if (state.unanswered > 0) state.isPipelining = true;
      const slot: Slot = { request, hold, isLong, serve, isAnswered: false };
      removeIdle(socket, state.address);
      reads.done(state.paced);
      state.last = request;
      state.breakOff = undefined;
      // One at a time while its account holds more than its share.
      if (state.served.size < (hold.isWithin ? pending : Math.min(pending, 1))) {
        start(socket, state, slot);
        // It came with the end of the body before, a part of which had paused the connection.
        if (!state.isReading && !isLong) reads.wait(state.paced);
        return;
      }
      state.waiting.add(slot);
      count(state);
      pause(socket, state);
      // What arrives with others at once cannot wait unread: too much of it ends the connection.
      if (state.waiting.size > MAX_WAITING || !hold.isWithin) endEarly(socket, state);
    },
    breakOff(socket, fault, answer) {
      const state = states.get(socket);
      if (state?.fault !== undefined) return;
      if (state !== undefined) state.fault = fault;
      const unanswered = state === undefined ? 0 : state.served.size + state.waiting.size;
      if (state?.last === undefined || (unanswered === 0 && state.last.complete)) {
        answer();
        return;
      }
      // The last request already got its response before all of it arrived: no second one.
      if (unanswered === 0) return void socket.destroy();
      if (!state.last.complete) return void state.breakOff?.(fault);
      if (!socket.writable) answer();
      else state.atRest = answer;
    },
    sweep(milliseconds) {
      for (const [socket, state] of states) {
        if (state.isTimed || ![...state.served].some(({ isAnswered }) => isAnswered)) continue;
        state.isTimed = true;
        socket.setTimeout?.(milliseconds);
      }
    },
  };
}

function rest(state: ConnectionState): void {
  const { atRest } = state;
  state.atRest = undefined;
  atRest?.();
}

function lastOf<T>(values: ReadonlySet<T>): T | undefined {
  let last: T | undefined;
  for (const value of values) last = value;
  return last;
}
