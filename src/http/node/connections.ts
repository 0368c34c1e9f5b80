/**
 * The connections of a server: their number, when each is read, and which request of each is served. Requests of one
 * connection are served one after the other, so pipelined requests are answered in order. If more than {@link
 * MAX_WAITING} requests of a connection wait, it is closed.
 */
import type { KeystileError } from "../../contracts/errors.js";
import { Fifo } from "../../lib/fifo.js";
import { Ranking } from "../../lib/ranking.js";
import type { Admission, Hold } from "../admission/admission.js";
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
  /** Makes Node end the connection after so many milliseconds without progress; 0: never. Absent on other streams. */
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
  /** Whether its body may be long: then it is not read until the service asks for it. */
  readonly isLong: boolean;
  readonly serve: (slot: RequestSlot) => void;
}

/** A request, from its arrival until the client has its answer. */
interface Slot extends ArrivedRequest {
  /** Whether its answer was handed to the socket. */
  isAnswered: boolean;
}

interface ConnectionState {
  /** The request being served, or answered but not yet read by the client. */
  served: Slot | undefined;
  /** Requests that wait for `served`. While there are any, the connection is not read. */
  readonly waiting: Fifo<Slot>;
  /** The last request, the only one that may still be arriving. */
  last: Arriving | undefined;
  /** Aborts reading the body of the last request. */
  breakOff: ((fault: Error) => void) | undefined;
  /** Set once the connection failed: requests in progress still get their answers, then it ends. */
  fault: KeystileError | undefined;
  /** Called once all requests have ended, or the connection has. */
  atRest: (() => void) | undefined;
  /** Whether {@link Connections.sweep} found an unread answer, and set a timeout. */
  isTimed: boolean;
  /** Whether the connection may be read. If not, a resume of the socket, by Node or by an earlier body, is undone. */
  isReading: boolean;
  /** Whether the client ever pipelined a request; undefined: no request was answered yet. */
  isPipelining: boolean | undefined;
  readonly address: Address;
  readonly paced: Paced;
}

/** A client address. All connections whose address is not counted share one. */
interface Address {
  readonly name: string;
  connections: number;
  /** Connections without a request, longest idle first. */
  readonly idle: Set<Connection>;
  /** The lane of connections that send one request at a time, and the lane of all others. */
  readonly calm: Lane;
  readonly others: Lane;
}

/** Bounds of {@link createConnections}. */
export interface ConnectionBounds {
  /**
   * Connections at a time. For a further one, a connection of the address with the most idle connections is closed, the
   * one that has been idle longest; or, if at most a sixteenth of `max` are idle, the oldest request of the workspace
   * with the most requests is ended. For an address that has more than a sixteenth, the bound is fifteen sixteenths,
   * and only its own idle connections are closed.
   */
  readonly max: number;
  /** Connections of one address at a time; `undefined` addresses are not counted. */
  readonly maxPerAddress: number;
  /** Whether another connection is closed to make space for a new one; false: the new one is closed. */
  readonly evicts: boolean;
}

/** The default bounds. */
export const CONNECTION_BOUNDS: ConnectionBounds = Object.freeze({
  max: Infinity,
  maxPerAddress: Infinity,
  evicts: true,
});

/** The request being served, for its handler. */
export interface RequestSlot {
  /** Call when reading the body starts. @param breakOff aborts the reading */
  onReading(breakOff: (fault: Error) => void): void;
  /** Call when a part of the body has arrived and more will come: the connection is paused. */
  onPart(): void;
  /** Call when more of the body is wanted: the connection is read in its turn. */
  goOn(): void;
  /** Whether the connection must end with this response. */
  isLast(): boolean;
  /** Call when the response was handed over. */
  answered(): void;
  /** Call when the response was sent, or will never be. */
  end(): void;
}

const ignore = (): void => undefined;
/** The slot of a request whose connection has ended. */
const ENDED: RequestSlot = {
  onReading: ignore,
  onPart: ignore,
  goOn: ignore,
  isLast: () => true,
  answered: ignore,
  end: ignore,
};

/** The name of connections that count for no address, and their idle ones where there are none. */
const UNCOUNTED = "";
const NONE: ReadonlySet<Connection> = new Set();

/** Most waiting requests of one connection: Node reads up to 64 KiB of them before the connection can be paused. */
const MAX_WAITING = 128;

/** @param admission `hurry` and `makeSpace` are called when connections arrive, and when there are too many */
export function createConnections(
  { max, maxPerAddress, evicts }: ConnectionBounds,
  admission: Pick<Admission, "hurry" | "makeSpace">,
) {
  const states = new Map<Connection, ConnectionState>();
  /** Counted addresses by their idle connections. */
  const idle = new Ranking<Address>();
  /** An address with more connections than this leaves as many places to others. */
  const share = Math.max(1, max / 16);
  const maxOfLarge = max - Math.floor(max / 16);
  const addresses = new Map<string, Address>();
  const reads = createPacedReads();

  const stopReading = (socket: Connection, state: ConnectionState): void => {
    state.isReading = false;
    socket.pause();
  };
  const startReading = (socket: Connection, state: ConnectionState): void => {
    state.isReading = true;
    socket.resume();
    // A stream that already counts as resumed emits nothing.
    socket.emit("resume");
  };
  const pause = (socket: Connection, state: ConnectionState): void => {
    reads.done(state.paced);
    stopReading(socket, state);
  };
  const addIdle = (socket: Connection, address: Address): void => {
    if (address.name !== UNCOUNTED && !address.idle.has(socket)) idle.add(address);
    address.idle.add(socket);
  };
  const removeIdle = (socket: Connection, address: Address): void => {
    if (address.idle.delete(socket) && address.name !== UNCOUNTED) idle.remove(address);
  };
  const stateOf = (socket: Connection, name = UNCOUNTED): ConnectionState => {
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
      served: undefined,
      waiting: new Fifo(),
      last: undefined,
      breakOff: undefined,
      fault: undefined,
      atRest: undefined,
      isTimed: false,
      isReading: true,
      isPipelining: undefined,
      address,
      paced: {
        get lane() {
          // The rest of a body must not wait behind new connections.
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
      // A request in progress is released with its answer.
      if (state.served?.isAnswered === true) state.served.hold.release();
      else state.served?.hold.abandon();
      state.served = undefined;
      for (let next = state.waiting.shift(); next !== undefined; next = state.waiting.shift()) next.hold.release();
      rest(state);
    });
    socket.on("resume", () => {
      // Not `pause()`: the stream counts as paused already, and Node stops reading at the event.
      if (!state.isReading) socket.emit("pause");
    });
    return state;
  };
  const start = (socket: Connection, state: ConnectionState, slot: Slot): void => {
    state.served = slot;
    if (slot.isLong) pause(socket, state);
    slot.serve({
      onReading(breakOff) {
        // A body that has fully arrived is read to its end.
        if (state.last !== slot.request || slot.request.complete === true) return;
        state.breakOff = breakOff;
        if (state.fault !== undefined) breakOff(state.fault);
      },
      onPart() {
        if (state.isReading) pause(socket, state);
      },
      goOn() {
        if (!state.isReading && state.waiting.size === 0) reads.wait(state.paced);
      },
      isLast: () => state.fault !== undefined && !slot.request.complete,
      answered: () => void (slot.isAnswered = true),
      end() {
        if (state.served !== slot) return;
        state.served = undefined;
        if (socket.destroyed) return;
        const next = state.waiting.shift();
        // If no request is left, Node itself sets the timeout of idle connections.
        if (state.isTimed && next !== undefined) socket.setTimeout?.(0);
        state.isTimed = false;
        if (next !== undefined) {
          start(socket, state, next);
          if (state.waiting.size === 0 && !next.isLong) reads.wait(state.paced);
        } else if (state.atRest !== undefined) rest(state);
        else {
          state.isPipelining ??= false;
          addIdle(socket, state.address);
          // The connection is still paused, or the request was answered without reading its body, which had all
          // arrived.
          if (!state.isReading) reads.wait(state.paced);
        }
      },
    });
  };
  return {
    /**
     * Call when a connection was accepted; if there are too many, one is closed. @param address undefined: not counted
     */
    open(socket: Connection, address: string | undefined): void {
      // The system hands over one connection per tick, so connections of others wait behind this one.
      reads.hurry();
      admission.hurry();
      const state = stateOf(socket, address);
      stopReading(socket, state);
      reads.wait(state.paced);
      const { connections, idle: own } = state.address;
      const isOver = address !== undefined && connections > maxPerAddress;
      const isLarge = address !== undefined && connections > share;
      if (!isOver && states.size <= (isLarge ? maxOfLarge : max)) return;
      const uncounted = addresses.get(UNCOUNTED)?.idle ?? NONE;
      const most = idle.largest()?.idle ?? NONE;
      // With a single idle connection the address may be that of this very connection.
      const [oldest] = isOver || isLarge ? own : most.size > 1 || uncounted.size === 0 ? most : uncounted;
      if (!evicts) socket.destroy();
      else if (isOver || isLarge || idle.total + uncounted.size > share) oldest?.destroy();
      else admission.makeSpace();
    },
    /** Registers a request; it is served after the connection's earlier requests. */
    begin(socket: Connection, arrived: ArrivedRequest): void {
      const { request, isLong, serve } = arrived;
      // A program may pass a request on late. The socket is gone: its state would never be removed.
      if (socket.destroyed && !states.has(socket)) {
        serve(ENDED);
        return;
      }
      const state = stateOf(socket, socket.remoteAddress);
      const slot: Slot = { ...arrived, isAnswered: false };
      removeIdle(socket, state.address);
      reads.done(state.paced);
      state.last = request;
      state.breakOff = undefined;
      if (state.served === undefined) {
        start(socket, state, slot);
        // The request came with the end of an earlier body, which had paused the connection.
        if (!state.isReading && !isLong) reads.wait(state.paced);
        return;
      }
      if (!state.served.isAnswered) state.isPipelining = true;
      state.waiting.push(slot);
      pause(socket, state);
      if (state.waiting.size > MAX_WAITING) socket.destroy();
    },
    /** Fails a connection. @param answer sends the error if no pending request can respond with it */
    breakOff(socket: Connection, fault: KeystileError, answer: () => void): void {
      const state = states.get(socket);
      if (state?.fault !== undefined) return;
      if (state !== undefined) state.fault = fault;
      if (state?.last === undefined || (state.served === undefined && state.last.complete)) {
        answer();
        return;
      }
      // The last request was answered before all of it arrived: it gets no second answer.
      if (state.served === undefined) return void socket.destroy();
      if (!state.last.complete) return void state.breakOff?.(fault);
      if (!socket.writable) answer();
      else state.atRest = answer;
    },
    /**
     * Call every second or so: a connection with an unread answer is then closed after this long without progress. Why
     * not a timeout per answer: most answers are read at once, and setting one for each would cost too much.
     */
    sweep(milliseconds: number): void {
      for (const [socket, state] of states) {
        if (state.isTimed || state.served?.isAnswered !== true) continue;
        state.isTimed = true;
        socket.setTimeout?.(milliseconds);
      }
    },
  };
}

/** The connections of a server. */
export type Connections = ReturnType<typeof createConnections>;

function rest(state: ConnectionState): void {
  const { atRest } = state;
  state.atRest = undefined;
  atRest?.();
}
