/** What is under way on each connection, so that its faults are answered once and in order. Ruling G1. Knows no request's content. */
import type { KeystileError } from "../../contracts/errors.js";
import type { Connection } from "./connection-errors.js";

/** What is used of a request. */
interface Arriving {
  /** All of it has come. */
  readonly complete: boolean;
}

/** One connection. */
interface ConnectionState {
  /** Requests not answered yet. */
  pending: number;
  /** The last request, which alone can be on its way still. */
  last: Arriving;
  /** Ends the reading of its body. */
  breakOff: ((fault: Error) => void) | undefined;
  /** Nothing more will come: what is still to be answered is, and the connection ends. */
  fault: KeystileError | undefined;
}

/** The connections of a server. */
export interface Connections {
  /** A request begins. @returns what its answer and the reading of its body tell */
  begin(socket: Connection, request: Arriving): RequestSlot;
  /** Nothing well-formed comes from this connection any more. @param answer sends the fault, if no pending request can carry it */
  breakOff(socket: Connection, fault: KeystileError, answer: () => void): void;
}

/** What one request tells of itself. */
export interface RequestSlot {
  onReading(breakOff: (fault: Error) => void): void;
  /** The connection has to end with this answer. */
  isLast(): boolean;
  /** The answer is out, or never will be. */
  end(): void;
}

/** Connections are forgotten with their sockets. */
export function createConnections(): Connections {
  const states = new WeakMap<Connection, ConnectionState>();
  return {
    begin(socket, request) {
      const state = states.get(socket) ?? { pending: 0, last: request, breakOff: undefined, fault: undefined };
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
        end: () => void state.pending--,
      };
    },
    breakOff(socket, fault, answer) {
      const state = states.get(socket);
      if (state === undefined || (state.pending === 0 && state.last.complete)) {
        answer();
        return;
      }
      state.fault = fault;
      // A request that was answered before all of it came gets no second answer.
      if (state.pending === 0) return void socket.destroy();
      if (!state.last.complete) return void state.breakOff?.(fault);
      waitFor(state, socket, answer);
    },
  };
}

/** How often it is asked whether earlier answers of the connection are out. */
const ASK_MS = 5;

/** Ends with the connection too: what is pending then may never be answered. */
function waitFor(state: ConnectionState, socket: Connection, then: () => void): void {
  if (state.pending === 0 || !socket.writable) then();
  else setTimeout(() => waitFor(state, socket, then), ASK_MS);
}
