/** What is under way on each connection, so that its faults are answered once and in order. Ruling G1. Knows no request's content. */
import type { VerifierError } from "../../contracts/errors.js";
import type { Connection } from "./connection-errors.js";

/** What is used of a request. */
interface Arriving {
  /** All of it has come. */
  readonly complete: boolean;
}

/** One connection. */
interface Line {
  /** Requests not answered yet. */
  pending: number;
  /** The last request, which alone can be on its way still. */
  last: Arriving;
  /** Ends the reading of its body. */
  breakOff: ((fault: Error) => void) | undefined;
  /** Nothing more will come: what is still to be answered is, and the connection ends. */
  fault: VerifierError | undefined;
}

/** The connections of a server. */
export interface Lines {
  /** A request begins. @returns what its answer and the reading of its body tell */
  begin(socket: Connection, request: Arriving): Turn;
  /** Nothing well-formed comes from this connection any more. @param answer sends the fault, if no pending request can carry it */
  breakOff(socket: Connection, fault: VerifierError, answer: () => void): void;
}

/** What one request tells of itself. */
export interface Turn {
  onReading(breakOff: (fault: Error) => void): void;
  /** The connection has to end with this answer. */
  isLast(): boolean;
  /** The answer is out, or never will be. */
  end(): void;
}

/** Connections are forgotten with their sockets. */
export function createLines(): Lines {
  const lines = new WeakMap<Connection, Line>();
  return {
    begin(socket, request) {
      const line = lines.get(socket) ?? { pending: 0, last: request, breakOff: undefined, fault: undefined };
      lines.set(socket, line);
      line.pending++;
      line.last = request;
      line.breakOff = undefined;
      return {
        onReading(breakOff) {
          line.breakOff = breakOff;
          if (line.fault !== undefined) breakOff(line.fault);
        },
        isLast: () => line.fault !== undefined && !request.complete,
        end: () => void line.pending--,
      };
    },
    breakOff(socket, fault, answer) {
      const line = lines.get(socket);
      if (line === undefined || (line.pending === 0 && line.last.complete)) {
        answer();
        return;
      }
      line.fault = fault;
      // A request that was answered before all of it came gets no second answer.
      if (line.pending === 0) return void socket.destroy();
      if (!line.last.complete) return void line.breakOff?.(fault);
      waitFor(line, socket, answer);
    },
  };
}

/** How often it is asked whether earlier answers of the connection are out. */
const ASK_MS = 5;

/** Ends with the connection too: what is pending then may never be answered. */
function waitFor(line: Line, socket: Connection, then: () => void): void {
  if (line.pending === 0 || !socket.writable) then();
  else setTimeout(() => waitFor(line, socket, then), ASK_MS);
}
