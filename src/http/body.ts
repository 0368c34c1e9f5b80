/** Checks the headers of a body, collects its bytes and parses them as JSON. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { MaybePromise } from "../contracts/types.js";
import type { Hold } from "./admission/admission.js";
import { BodyMemory } from "./body-memory.js";
import { badBody } from "./json-text.js";
import { type BodyShape, countJson, parseCounted } from "./long-json.js";

/** A body up to this length is parsed at once: it can be neither nested deep enough nor wide enough to be slow. */
const SHORT_JSON_BYTES = 4_096;
/** A typical verification request is shorter: it arrives with its headers, and is read before anything is asked. */
const EAGER_BYTES = 1_024;
/** Longer bodies grow in turns, in memory of their own. */
const LONG_BYTES = 65_536;
/** Decoded in about a millisecond. */
const BYTES_PER_TURN = 262_144;
/** Chunks that a body may have, whatever their size; then they must have {@link MIN_CHUNK_BYTES} on average. */
const MAX_SMALL_CHUNKS = 1_024;
const MIN_CHUNK_BYTES = 16;
const CHARSET = /^charset="?utf-?8"?$/i;

// Shared, since without `stream: true` calls keep no state. It leaves out a byte order mark at the start.
const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Checks the headers of a body, before any of it is read.
 * @param header returns the value of a header by its lower-case name
 * @throws KeystileError UNSUPPORTED_MEDIA_TYPE: another type or charset, or an encoding: nothing is ever decompressed
 */
export function checkContentType(header: (name: string) => string | undefined): void {
  const contentType = header("content-type");
  if (contentType !== "application/json" && !isJson(contentType)) {
    throw new KeystileError("UNSUPPORTED_MEDIA_TYPE", "the body must be sent as application/json in UTF-8");
  }
  if (!isPlain(header("content-encoding"), "identity")) {
    throw new KeystileError("UNSUPPORTED_MEDIA_TYPE", "the body must be sent without a Content-Encoding");
  }
  // Hosts decode `chunked` and leave other codings as they are, so `gzip, chunked` would be read as gzip bytes.
  if (!isPlain(header("transfer-encoding"), "chunked")) {
    throw new KeystileError(
      "UNSUPPORTED_MEDIA_TYPE",
      "the body must be sent without a Transfer-Encoding other than chunked",
    );
  }
}

/** Whether the header is absent or has the one value that leaves the bytes unchanged. */
const isPlain = (encoding: string | undefined, plain: string): boolean =>
  encoding === undefined || encoding.trim().toLowerCase() === plain;

/** Whether it is a variant of application/json; of the parameters only the charset matters. */
function isJson(contentType = ""): boolean {
  // Several headers are joined with a comma, which a single type has only between quotes.
  if (contentType.replace(/"[^"]*"/g, "").includes(",")) return false;
  const [type = "", ...parameters] = contentType.split(";").map((part) => part.trim());
  return (
    type.toLowerCase() === "application/json" &&
    parameters.every((part) => !/^charset/i.test(part) || CHARSET.test(part))
  );
}

/** Whether a body is parsed at once, or in turns. */
export const isShortJson = (bytes: Uint8Array): boolean => bytes.length <= SHORT_JSON_BYTES;

/**
 * Parses a short body at once.
 * @throws KeystileError BAD_REQUEST at `body`: not UTF-8, or not JSON
 */
export function readShortJson(bytes: Uint8Array): unknown {
  const text = decode(bytes);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw notJson(text);
  }
}

/**
 * Parses a long body in several turns of the event loop, once there is space for its values.
 * @throws KeystileError BAD_REQUEST at `body`: not UTF-8, not JSON, nested too deep, or with more than any legal body
 *   has · OVERLOADED
 */
export async function readLongJson(bytes: Uint8Array, shape: BodyShape, hold: Hold): Promise<unknown> {
  const turn = (): Promise<void> => hold.turn(true);
  const text = await decodeInTurns(bytes, turn);
  hold.freeBody();
  try {
    const counted = await countJson(text, shape, turn);
    await hold.growValues(counted.bytes);
    return await parseCounted(counted, turn);
  } catch (error) {
    throw isKeystileError(error) ? error : notJson(text);
  }
}

/**
 * The bytes of a body that is arriving, in memory that grows: of each chunk a host may keep far more alive than its
 * bytes. The first chunk is kept as it is if it is all. What is held ends with the request.
 */
export class ArrivingBody {
  #bytes: Uint8Array = new Uint8Array(0);
  /** Of one that is long. */
  #memory: BodyMemory | undefined;
  #length = 0;
  #chunks = 0;
  readonly #maxBytes: number;
  readonly #declared: number;
  readonly #hold: Hold;

  /**
   * @param declared bytes by `content-length`; `Infinity`: unknown
   * @param hold gets what the memory takes
   */
  constructor(maxBytes: number, declared: number, hold: Hold) {
    this.#maxBytes = maxBytes;
    this.#declared = declared;
    this.#hold = hold;
  }

  /**
   * Adds a chunk.
   * @returns a promise: no more chunks until it resolves
   * @throws KeystileError PAYLOAD_TOO_LARGE · BAD_REQUEST: it comes in chunks of a few bytes · OVERLOADED (rejects)
   */
  add(chunk: Uint8Array): MaybePromise<void> {
    const length = this.#length + chunk.length;
    if (length > this.#maxBytes) throw tooLarge(this.#maxBytes);
    if (++this.#chunks > MAX_SMALL_CHUNKS && length < this.#chunks * MIN_CHUNK_BYTES) throw crumbled();
    const capacity = this.#bytes.length;
    if (length <= capacity) return this.#append(chunk);
    if (length === this.#declared && this.#length === 0 && length <= EAGER_BYTES) {
      this.#bytes = chunk;
      this.#length = length;
      return undefined;
    }
    // Twice what has come, whatever was declared: memory for the rest is taken once it comes.
    const size = Math.min(
      this.#maxBytes,
      Math.max(length, Math.min(this.#declared, Math.max(EAGER_BYTES, 2 * capacity))),
    );
    const growing = this.#hold.growBody(size - capacity);
    if (size > LONG_BYTES) return this.#growInTurn(growing, size, chunk);
    // It waits here rather than in its chunk, which is freed later.
    this.#grow(size, chunk);
    return growing;
  }

  /** Many that grow in one turn take long: the system gives memory a page at a time. */
  async #growInTurn(growing: MaybePromise<void>, size: number, chunk: Uint8Array): Promise<void> {
    await growing;
    await this.#hold.turn(true);
    this.#grow(size, chunk);
  }

  /** Bytes that arrived. */
  get length(): number {
    return this.#length;
  }

  /** All of them. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(size: number, chunk: Uint8Array): void {
    const isLong = size > LONG_BYTES || (this.#declared > LONG_BYTES && this.#declared !== Infinity);
    if (isLong) this.#growMemory(size);
    else {
      const grown = new Uint8Array(size);
      grown.set(this.bytes());
      this.#bytes = grown;
    }
    this.#append(chunk);
  }

  #growMemory(size: number): void {
    if (this.#memory?.isFreed === true) throw endedEarly();
    if (this.#memory !== undefined) this.#memory.grow(size);
    else {
      // A host may pass on more than was declared.
      this.#memory = new BodyMemory(size, Math.max(size, Math.min(this.#maxBytes, this.#declared)));
      this.#memory.bytes.set(this.bytes());
      this.#hold.keepBody(this.#memory);
    }
    this.#bytes = this.#memory.bytes;
  }

  #append(chunk: Uint8Array): void {
    this.#bytes.set(chunk, this.#length);
    this.#length += chunk.length;
  }
}

/** The parser's message is dropped, since it quotes the body. */
const notJson = (text: string): KeystileError =>
  badBody(text === "" ? "is required" : "is not valid JSON", "send one JSON value");

const scratch = new Uint8Array(BYTES_PER_TURN);

function decode(bytes: Uint8Array, by = decoder, stream = false): string {
  if ((bytes.buffer as ArrayBuffer).resizable) {
    // Some runtimes decode no memory that can grow.
    scratch.set(bytes);
    return decode(scratch.subarray(0, bytes.length), by, stream);
  }
  try {
    return by.decode(bytes, { stream });
  } catch {
    throw badBody("is not valid UTF-8", "encode the body as UTF-8");
  }
}

/** Whether a body of this declared length is likely to arrive together with its headers. */
export function isShort(declared: number): boolean {
  return declared <= EAGER_BYTES;
}

/** Decoding 1 MiB takes 5 ms. */
async function decodeInTurns(bytes: Uint8Array, turn: () => Promise<void>): Promise<string> {
  const inPieces = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  for (let at = 0; at < bytes.length; at += BYTES_PER_TURN) {
    await turn();
    text += decode(bytes.subarray(at, at + BYTES_PER_TURN), inPieces, at + BYTES_PER_TURN < bytes.length);
  }
  return text;
}

/** The error of a body above the limit (413). */
export function tooLarge(maxBytes: number): KeystileError {
  return new KeystileError("PAYLOAD_TOO_LARGE", `the body must be at most ${maxBytes} bytes`);
}

/** The error of a body in chunks that cost far more than they bring (400). */
const crumbled = (): KeystileError =>
  badBody(`came in more than ${MAX_SMALL_CHUNKS} chunks of less than ${MIN_CHUNK_BYTES} bytes on average`);

/** The error of a body that ends early (400). */
export function endedEarly(): KeystileError {
  return badBody("ended before it was whole");
}

/**
 * The error of a body that the program read before: a 500, reported to `onError`. A 400 would blame the client, which
 * sent a complete body.
 */
export function alreadyRead(): TypeError {
  return new TypeError(
    "the request's body was read, or taken, before the service got the request; hand it over unread",
  );
}

/** The error of a body stream that yields anything but bytes: also a mistake of the program. */
export function noBytes(): TypeError {
  return new TypeError("the stream of the request's body must give Uint8Arrays");
}
