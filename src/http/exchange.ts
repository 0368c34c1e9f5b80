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
  header(name: string): string | undefined;
  /** For allow-lists (ruling A4). */
  readonly clientAddress: string | undefined;
  /** The body is short and on its way: reading it before the caller is known costs nothing worth saving. */
  readonly isShort: boolean;
  /**
   * The whole body; asked for at most once, and only when it is wanted.
   * @throws VerifierError PAYLOAD_TOO_LARGE past `most` bytes
   */
  readBody(most: number): Promise<Uint8Array>;
}

/** What a host sends out. */
export interface Outgoing {
  readonly status: number;
  /** Names and values in turn, without `content-length`. */
  readonly headers: readonly string[];
  readonly text: string;
}
