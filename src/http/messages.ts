/** Request and response types shared by all hosts of the service (`node:http` and web `Request`). */
/** A request, from the host. */
export interface Incoming {
  readonly method: string;
  /** Without the query string, which is ignored. */
  readonly path: string;
  /** Every `Authorization` header as sent, one entry each, so that a second one is detected. */
  readonly authorization: readonly string[];
  /** The value of a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** For allow-lists. */
  readonly clientAddress: string | undefined;
  /** Set if what arrived is not a valid request: the error to respond with. */
  readonly fault?: Error;
  /**
   * The body, if all of it has arrived at the end of this turn of the event loop; otherwise, or if it is refused,
   * `undefined`. Never rejects. Absent for long bodies, which seldom arrive in one turn, and on hosts that cannot know.
   */
  readonly bodyIfBuffered: ((maxBytes: number) => Promise<Uint8Array | undefined>) | undefined;
  /**
   * The whole body. Called at most once, possibly after `bodyIfBuffered`.
   * @throws (rejects) KeystileError PAYLOAD_TOO_LARGE above `maxBytes` · BAD_REQUEST: it ended early · TypeError: the
   * program read it before
   */
  readBody(maxBytes: number): Promise<Uint8Array>;
}

/** A response, for the host to send. */
export interface Outgoing {
  readonly status: number;
  /** Alternating names and values, without `content-length`. */
  readonly headers: readonly string[];
  readonly text: string;
}
