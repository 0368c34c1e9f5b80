/**
 * One connection of a server: which of its requests is served, and whether it is read. Its requests are served one
 * after the other, so pipelined requests are answered in order. If more than {@link MAX_WAITING} of them wait, it is
 * closed.
 */
import type { KeystileError } from "../../contracts/errors.js";
import { Fifo } from "../../lib/fifo.js";
import type { Hold } from "../admission/admission.js";
import type { Lane, Paced, PacedReads } from "./paced-reads.js";

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

/** A client address. All connections whose address is not counted share one. */
export interface Address {
  readonly name: string;
  connections: number;
  /** Connections without a request, longest idle first. */
  readonly idle: Set<OpenConnection>;
  /** The lane of connections that send one request at a time, and the lane of all others. */
  readonly calm: Lane;
  readonly others: Lane;
}

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
export const ENDED: RequestSlot = {
  onReading: ignore,
  onPart: ignore,
  goOn: ignore,
  isLast: () => true,
  answered: ignore,
  end: ignore,
};

/** Most waiting requests of one connection: Node reads up to 64 KiB of them before the connection can be paused. */
const MAX_WAITING = 128;

/** A connection that was accepted and has not ended. */
export class OpenConnection implements Paced {
  readonly #reads: PacedReads;
  readonly #onIdle: (connection: OpenConnection) => void;
  /** The request being served, or answered but not yet read by the client. */
  #served: Slot | undefined;
  /** Requests that wait for `#served`. While there are any, the connection is not read. */
  readonly #waiting = new Fifo<Slot>();
  /** The last request, the only one that may still be arriving. */
  #last: Arriving | undefined;
  /** Aborts reading the body of the last request. */
  #breakOff: ((fault: Error) => void) | undefined;
  /** Set once the connection failed: requests in progress still get their answers, then it ends. */
  #fault: KeystileError | undefined;
  /** Called once all requests have ended, or the connection has. */
  #atRest: (() => void) | undefined;
  /** Whether {@link OpenConnection.expire} found an unread answer, and set a timeout. */
  #isTimed = false;
  /** Whether the connection may be read. If not, a resume of the socket, by Node or by an earlier body, is undone. */
  #isReading = true;
  /** Whether the client ever pipelined a request; undefined: no request was answered yet. */
  #isPipelining: boolean | undefined;

  /** @param onIdle called when its last request has ended */
  constructor(
    readonly socket: Connection,
    readonly address: Address,
    reads: PacedReads,
    onIdle: (connection: OpenConnection) => void,
  ) {
    this.#reads = reads;
    this.#onIdle = onIdle;
    socket.on("resume", () => {
      // Not `pause()`: the stream counts as paused already, and Node stops reading at the event.
      if (!this.#isReading) socket.emit("pause");
    });
  }

  get lane(): Lane {
    // The rest of a body must not wait behind new connections.
    const isBetween = this.#last?.complete !== false;
    return this.#isPipelining === false || !isBetween ? this.address.calm : this.address.others;
  }

  read(): void {
    this.#isReading = true;
    this.socket.resume();
    // A stream that already counts as resumed emits nothing.
    this.socket.emit("resume");
  }

  stop(): void {
    this.#isReading = false;
    this.socket.pause();
  }

  #pause(): void {
    this.#reads.done(this);
    this.stop();
  }

  /** Registers a request; it is served after the connection's earlier requests. */
  begin(arrived: ArrivedRequest): void {
    const { request, isLong } = arrived;
    const slot: Slot = { ...arrived, isAnswered: false };
    this.#reads.done(this);
    this.#last = request;
    this.#breakOff = undefined;
    if (this.#served === undefined) {
      this.#serve(slot);
      // The request came with the end of an earlier body, which had paused the connection.
      if (!this.#isReading && !isLong) this.#reads.wait(this);
      return;
    }
    if (!this.#served.isAnswered) this.#isPipelining = true;
    this.#waiting.push(slot);
    this.#pause();
    if (this.#waiting.size > MAX_WAITING) this.socket.destroy();
  }

  #serve(slot: Slot): void {
    this.#served = slot;
    if (slot.isLong) this.#pause();
    slot.serve({
      onReading: (breakOff) => {
        // A body that has fully arrived is read to its end.
        if (this.#last !== slot.request || slot.request.complete === true) return;
        this.#breakOff = breakOff;
        if (this.#fault !== undefined) breakOff(this.#fault);
      },
      onPart: () => {
        if (this.#isReading) this.#pause();
      },
      goOn: () => {
        if (!this.#isReading && this.#waiting.size === 0) this.#reads.wait(this);
      },
      isLast: () => this.#fault !== undefined && !slot.request.complete,
      answered: () => void (slot.isAnswered = true),
      end: () => this.#end(slot),
    });
  }

  #end(slot: Slot): void {
    if (this.#served !== slot) return;
    this.#served = undefined;
    if (this.socket.destroyed) return;
    const next = this.#waiting.shift();
    // If no request is left, Node itself sets the timeout of idle connections.
    if (this.#isTimed && next !== undefined) this.socket.setTimeout?.(0);
    this.#isTimed = false;
    if (next !== undefined) {
      this.#serve(next);
      if (this.#waiting.size === 0 && !next.isLong) this.#reads.wait(this);
    } else if (this.#atRest !== undefined) this.#rest();
    else {
      this.#isPipelining ??= false;
      this.#onIdle(this);
      // The connection is still paused, or the request was answered without reading its body, which had all arrived.
      if (!this.#isReading) this.#reads.wait(this);
    }
  }

  #rest(): void {
    const atRest = this.#atRest;
    this.#atRest = undefined;
    atRest?.();
  }

  /** Fails the connection. @param answer sends the error if no pending request can respond with it */
  fail(fault: KeystileError, answer: () => void): void {
    if (this.#fault !== undefined) return;
    this.#fault = fault;
    if (this.#last === undefined || (this.#served === undefined && this.#last.complete)) {
      answer();
      return;
    }
    // The last request was answered before all of it arrived: it gets no second answer.
    if (this.#served === undefined) return void this.socket.destroy();
    if (!this.#last.complete) return void this.#breakOff?.(fault);
    if (!this.socket.writable) answer();
    else this.#atRest = answer;
  }

  /** With an unread answer it is closed after so many milliseconds without progress. */
  expire(milliseconds: number): void {
    if (this.#isTimed || this.#served?.isAnswered !== true) return;
    this.#isTimed = true;
    this.socket.setTimeout?.(milliseconds);
  }

  /** Call once the socket is closed. */
  ended(): void {
    this.#reads.done(this);
    // A request in progress is released with its answer.
    if (this.#served?.isAnswered === true) this.#served.hold.release();
    else this.#served?.hold.abandon();
    this.#served = undefined;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) next.hold.release();
    this.#rest();
  }
}
