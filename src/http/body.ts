/** Checks the headers of a body and parses its bytes as JSON. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import { badBody, endOfText } from "./json-text.js";
import { parseLong } from "./long-json.js";

/** Maximum nesting: `meta` may have 32 levels, and is three levels deep in an import. */
const MAX_LEVELS = 64;
/**
 * Maximum properties, nested ones included: a legal body has at most 10,000, since `meta` has at most 64 KB. Parsing
 * takes two microseconds for each name that was not seen before. In imports each key may have as many.
 */
const MAX_PROPERTIES = 16_384;
/** A body shorter than this can be neither nested deep enough nor wide enough to be slow. */
const SHALLOW_LENGTH = 4_096;
/** A typical verification request is shorter. */
const SHORT_BYTES = 1_024;
const CHARSET = /^charset="?utf-?8"?$/i;

const BRACKET = 0x5b;
const BRACE = 0x7b;
const CLOSING_BRACKET = 0x5d;
const CLOSING_BRACE = 0x7d;
const COLON = 0x3a;
const QUOTE = 0x22;

// Shared, since without `stream: true` calls keep no state. A byte order mark is kept, and then is not valid JSON.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

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

/**
 * Parses a short body at once.
 * @throws KeystileError BAD_REQUEST at `body`: not UTF-8, not JSON, nested too deep, or with too many properties
 */
export function readJson(bytes: Uint8Array): unknown {
  const text = decode(bytes);
  if (text.length > SHALLOW_LENGTH) checkShape(text);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw notJson(text);
  }
}

/**
 * Parses a long body in several turns of the event loop.
 * @param isImport whether the body lists keys, each of which may have as many properties as another body has in all
 * @param turn waits for another turn
 * @throws (rejects) KeystileError BAD_REQUEST as {@link readJson}, and for too many items or values
 */
export async function readLongJson(bytes: Uint8Array, isImport: boolean, turn: () => Promise<void>): Promise<unknown> {
  const text = decode(bytes);
  await turn();
  try {
    return await parseLong(text, { maxLevels: MAX_LEVELS, maxProperties: MAX_PROPERTIES, ofEachItem: isImport }, turn);
  } catch (error) {
    throw isKeystileError(error) ? error : notJson(text);
  }
}

/** The parser's message is dropped, since it quotes the body. */
const notJson = (text: string): KeystileError =>
  badBody(text === "" ? "is required" : "is not valid JSON", "send one JSON value, without a byte order mark");

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw badBody("is not valid UTF-8", "encode the body as UTF-8");
  }
}

/**
 * Parsing a million brackets blocks the event loop for 300 ms, and 100,000 names for 200; counting them takes 2, and
 * stops at the first excess one.
 */
function checkShape(text: string): void {
  let level = 0;
  let properties = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = endOfText(text, i + 1);
    else if (unit === BRACKET || unit === BRACE) {
      if (++level > MAX_LEVELS) throw badBody(`must be nested at most ${MAX_LEVELS} levels deep`);
    } else if (unit === CLOSING_BRACKET || unit === CLOSING_BRACE) level--;
    else if (unit === COLON && ++properties > MAX_PROPERTIES)
      throw badBody(`must have at most ${MAX_PROPERTIES} properties in all`);
  }
}

/**
 * Whether a body of this declared length is likely to arrive together with its headers.
 * @param contentLength absent: unknown
 */
export function isShort(contentLength: string | undefined): boolean {
  return contentLength !== undefined && Number(contentLength) <= SHORT_BYTES;
}

/** The error of a body above the limit (413). */
export function tooLarge(maxBytes: number): KeystileError {
  return new KeystileError("PAYLOAD_TOO_LARGE", `the body must be at most ${maxBytes} bytes`);
}

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

/** Concatenates chunks. */
export function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
