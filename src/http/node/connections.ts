/** Tracks the requests of each connection, so that a connection error gets one response, in order. */
import type { KeystileError } from "../../contracts/errors.js";
import type { Connection } from "./connection-errors.js";

/** The part of a request that is used. */
interface Arriving {
  /** Whether all of it has arrived. */
  readonly complete: boolean;
}

/** State of one connection. */
interface ConnectionState {
  /** Requests without a response. */
  pending: number;
  /** The last request, the only one that may still be arriving. */
  last: Arriving;
  /** Aborts reading its body. */
  breakOff: ((fault: Error) => void) | undefined;
  /** Set once the connection failed: pending requests still get their responses, then it ends. */
  fault: KeystileError | undefined;
}

/** The connections of a server. */
export interface Connections {
  /** Registers a request; `undefined`: the connection has too many without a response, and was cut. */
  begin(socket: Connection, request: Arriving): RequestSlot | undefined;
  /** Fails a connection. @param answer sends the error, if no pending request can respond with it */
  breakOff(socket: Connection, fault: KeystileError, answer: () => void): void;
}

/** One registered request. */
export interface RequestSlot {
  /** Call when reading the body starts. @param breakOff aborts the reading */
  onReading(breakOff: (fault: Error) => void): void;
  /** Whether the connection must end with this response. */
  isLast(): boolean;
  /** Call when the response was sent, or will never be. @returns requests of the connection still without a response */
  end(): number;
}

/**
 * Requests of one connection that may wait for their responses: clients that send several at once send a few. All that
 * a client sends at once are read before the first is answered.
 */
const MAX_PENDING = 128;

/** State is released with its socket. */
export function createConnections(): Connections {
  const states = new WeakMap<Connection, ConnectionState>();
  return {
    begin(socket, request) {
      const state = states.get(socket) ?? { pending: 0, last: request, breakOff: undefined, fault: undefined };
      if (state.pending >= MAX_PENDING) return void socket.destroy();
      states.set(socket, state);
      state.pending++;
      state.last = request;
      state.breakOff = undefined;
      return {
        onReading(breakOff) {
          state.breakOff = breakOff;
          if (state.fault !== undefined) breakOff(state.fault);
        },
        isLast: () => state.fault !== undefined && !request.complete,
        end: () => --state.pending,
      };
    },
    breakOff(socket, fault, answer) {
      const state = states.get(socket);
      if (state === undefined || (state.pending === 0 && state.last.complete)) {
        answer();
        return;
      }
      state.fault = fault;
      // The last request already got its response before all of it arrived: no second one.
      if (state.pending === 0) return void socket.destroy();
      if (!state.last.complete) return void state.breakOff?.(fault);
      waitFor(state, socket, answer);
    },
  };
}

/** Milliseconds between checks whether earlier responses of the connection were sent. */
const POLL_MS = 5;

/** Also calls back once the connection has ended, since pending requests may then never end. */
function waitFor(state: ConnectionState, socket: Connection, then: () => void): void {
  if (state.pending === 0 || !socket.writable) then();
  else setTimeout(() => waitFor(state, socket, then), POLL_MS);
}
