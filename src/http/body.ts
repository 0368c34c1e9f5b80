/** The bytes of a body → the JSON value that they are. Rulings G1, G6, hostile inputs A017–A021. Knows no operation. */
import { badRequest, KeystileError } from "../contracts/errors.js";

/** Levels that any request can need: `meta` has 32, and stands three levels deep in an import. */
const MAX_LEVELS = 64;
/** A body shorter than this cannot be nested deep enough to take time. */
const SHALLOW_LENGTH = 4_096;
/** A verification with all that it may hold is shorter, in most letters of the world. */
const SHORT_BYTES = 1_024;
const CHARSET = /^charset="?utf-?8"?$/i;

const BRACKET = 0x5b;
const BRACE = 0x7b;
const CLOSING_BRACKET = 0x5d;
const CLOSING_BRACE = 0x7d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

// Stateless between calls: each decodes a whole body. A byte order mark stays, and is then no JSON.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Refuses what is not JSON by its headers, before a byte of the body is read.
 * @param header the value of a header by its lower-case name
 * @throws KeystileError UNSUPPORTED_MEDIA_TYPE: another type or charset, or encoded: nothing is ever decompressed
 */
export function checkContentType(header: (name: string) => string | undefined): void {
  const contentType = header("content-type");
  if (contentType !== "application/json" && !isJson(contentType)) {
    throw new KeystileError("UNSUPPORTED_MEDIA_TYPE", "the body must be sent as application/json in UTF-8");
  }
  if (!isPlain(header("content-encoding"), "identity")) {
    throw new KeystileError("UNSUPPORTED_MEDIA_TYPE", "the body must be sent without a Content-Encoding");
  }
  // Hosts take the chunks apart and leave any coding below them as it is: `gzip, chunked` would be read as something else than was sent.
  if (!isPlain(header("transfer-encoding"), "chunked")) {
    throw new KeystileError(
      "UNSUPPORTED_MEDIA_TYPE",
      "the body must be sent without a Transfer-Encoding other than chunked",
    );
  }
}

/** Absent, or the one coding that leaves the bytes as they are. */
const isPlain = (encoding: string | undefined, plain: string): boolean =>
  encoding === undefined || encoding.trim().toLowerCase() === plain;

/** JSON by any other spelling; of its parameters only a charset says something about the bytes. */
function isJson(contentType = ""): boolean {
  // Types that came in several headers are joined with a comma, which a type holds only between quotes.
  if (contentType.replace(/"[^"]*"/g, "").includes(",")) return false;
  const [type = "", ...parameters] = contentType.split(";").map((part) => part.trim());
  return (
    type.toLowerCase() === "application/json" &&
    parameters.every((part) => !/^charset/i.test(part) || CHARSET.test(part))
  );
}

/** @throws KeystileError BAD_REQUEST at `body`: no UTF-8, no JSON, or nested deeper than any request */
export function readJson(bytes: Uint8Array): unknown {
  const text = decode(bytes);
  if (text.length > SHALLOW_LENGTH && isDeep(text)) throw badBody(`must be nested at most ${MAX_LEVELS} levels deep`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // What the parser says quotes the body.
    throw badBody(text === "" ? "is required" : "is not valid JSON", "send one JSON value, without a byte order mark");
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw badBody("is not valid UTF-8", "encode the body as UTF-8");
  }
}

const badBody = (message: string, fix?: string): KeystileError =>
  badRequest([fix === undefined ? { location: "body", message } : { location: "body", message, fix }]);

/** Parsing a million brackets holds the event loop for 300 ms; counting them takes 2, and ends at the first level too many. */
function isDeep(text: string): boolean {
  let level = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = endOfText(text, i + 1);
    else if (unit === BRACKET || unit === BRACE) {
      if (++level > MAX_LEVELS) return true;
    } else if (unit === CLOSING_BRACKET || unit === CLOSING_BRACE) level--;
  }
  return false;
}

/** Where the JSON string open at `from` ends. */
function endOfText(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) return i;
    if (unit === BACKSLASH) i++;
  }
  return text.length;
}

/**
 * Whether a body of this declared length is likely to come along with its head.
 * @param contentLength absent: nothing is known
 */
export function isShort(contentLength: string | undefined): boolean {
  return contentLength !== undefined && Number(contentLength) <= SHORT_BYTES;
}

/** The 413 of every host. */
export function tooLarge(most: number): KeystileError {
  return new KeystileError("PAYLOAD_TOO_LARGE", `the body must be at most ${most} bytes`);
}

/** The 400 of a body that breaks off. */
export function endedEarly(): KeystileError {
  return badBody("ended before it was whole");
}

/**
 * The fault of a body that was read before: the program's mistake, a 500 that `onError` hears of. A 400 would blame the client, which
 * sent it whole.
 */
export function alreadyRead(): TypeError {
  return new TypeError(
    "the request's body was read, or taken, before the service got the request; hand it over unread",
  );
}

/** The fault of a body stream that gives anything but bytes: the program's mistake too. */
export function noBytes(): TypeError {
  return new TypeError("the stream of the request's body must give Uint8Arrays");
}

/** Chunks as one. */
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
