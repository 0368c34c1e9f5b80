/** One request and its answer, as every host of the service sees them. Types only: neither `node:http` nor `Request` is known here. */
/** What a host hands in. */
export interface Incoming {
  readonly method: string;
  /** Without the query, which nothing here reads. */
  readonly path: string;
  /** `http://host:port` as the client reached it; absent where that is not known. */
  readonly origin?: string;
  /** Every `Authorization` header, as sent: one text each, so that a second one is seen (ruling F2). */
  readonly authorization: readonly string[];
  /** The value of a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** For allow-lists (ruling A4). */
  readonly clientAddress: string | undefined;
  /** What came is no request, for this reason; absent: it is one. */
  readonly fault?: Error;
  /**
   * The body, if all of it is there at the end of this turn of the event loop; `undefined` if not, or if it cannot be taken. Never rejects.
   * Absent for a long body, which seldom comes in one turn, and on hosts that cannot tell.
   */
  readonly bodyIfBuffered: ((maxBytes: number) => Promise<Uint8Array | undefined>) | undefined;
  /**
   * The whole body; asked for at most once, and only when it is wanted: `bodyIfBuffered` may have been asked before.
   * @throws (rejects) KeystileError PAYLOAD_TOO_LARGE past `most` bytes · BAD_REQUEST: it broke off · TypeError: the program read it before
   */
  readBody(maxBytes: number): Promise<Uint8Array>;
}

/** What a host sends out. */
export interface Outgoing {
  readonly status: number;
  /** Names and values in turn, without `content-length`. */
  readonly headers: readonly string[];
  readonly text: string;
}
