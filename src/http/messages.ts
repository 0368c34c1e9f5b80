/** Request and response types shared by all hosts of the service (`node:http` and web `Request`). */
import type { Hold } from "./admission/admission.js";

/** A request, from the host. */
export interface Incoming {
  readonly method: string;
  /** Without the query string. */
  readonly path: string;
  /** After the `?`; operations ignore it. */
  readonly query: string;
  /** Every `Authorization` header as sent, one entry each, so that a second one is detected. */
  readonly authorization: readonly string[];
  /** The value of a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** For allow-lists. */
  readonly clientAddress: string | undefined;
  /** The request as the program's own functions get it, without its body. */
  toRequest(): Request;
  /** Whether the client has gone away, so that nobody gets the answer. Absent on hosts that cannot know. */
  isGone?(): boolean;
  /** Set if what arrived is not a valid request: the error to respond with. */
  readonly fault?: Error;
  /** Bytes of the body that the host has read already, and keeps until the body is read. Absent: it reads none. */
  bytesAhead?(): number;
  /**
   * The body, if it is short and all of it has arrived; otherwise, or if it is refused, `undefined`. Absent on hosts
   * that cannot know.
   */
  bodyIfBuffered?(): Uint8Array | undefined;
  /**
   * The whole body. Called at most once, possibly after `bodyIfBuffered`.
   * @param hold gets what it takes; more is read only once that fits
   * @throws (rejects) KeystileError PAYLOAD_TOO_LARGE above `maxBytes` · BAD_REQUEST: it ended early · OVERLOADED ·
   * TypeError: the program read it before
   */
  readBody(maxBytes: number, hold: Hold): Promise<Uint8Array>;
}

/** A response, for the host to send. */
export interface Outgoing {
  readonly status: number;
  /** Alternating names and values, without `content-length`. */
  readonly headers: readonly string[];
  readonly text: string;
}
