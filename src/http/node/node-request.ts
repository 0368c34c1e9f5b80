/** Converts a request of `node:http` to {@link Incoming}, and writes the response. */
import { badRequest } from "../../contracts/errors.js";
import type { Hold } from "../admission/admission.js";
import { alreadyRead, ArrivingBody, endedEarly, isShort, noBytes, tooLarge } from "../body.js";
import type { Incoming, Outgoing } from "../messages.js";
import { clearTimeout, setTimeout } from "../../lib/timers.js";
import type { RequestSlot } from "./connection.js";

/** The part of `http.IncomingMessage` that is used, declared here so that the package's types do not need Node's. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly httpVersion?: string;
  readonly url?: string | undefined;
  /** Alternating names and values, as sent: `headers` does not show a second `Authorization` or `Content-Type`. */
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: {
    readonly remoteAddress?: string | undefined;
    readonly destroyed?: boolean;
  };
  readonly complete?: boolean;
  readonly readableDidRead?: boolean;
  readonly readableLength?: number;
  readonly readableEnded?: boolean;
  readonly destroyed?: boolean;
  on(event: "data", listener: (chunk: unknown) => void): unknown;
  pause?(): unknown;
  /** Resumes a body that the program paused. */
  resume?(): unknown;
  on(event: "end" | "close" | "error", listener: () => void): unknown;
  destroy(): unknown;
}

/** The part of `http.ServerResponse` that is used. */
export interface NodeResponse {
  writeHead(status: number, headers: string[]): unknown;
  write(body: string | Uint8Array): unknown;
  end(body?: string | Uint8Array): unknown;
  writeContinue(): unknown;
  on(event: "close", listener: () => void): unknown;
}

/**
 * Up to these bytes and milliseconds, the rest of a refused body is read and dropped before the connection ends. If the
 * connection were closed at once, the client's system would drop the response before the client reads it.
 */
const DISCARDED_BYTES = 11_534_336;
const DISCARD_MS = 4_000;
/** Each dropped chunk counts as at least this many bytes: small chunks cost more than their bytes. */
const CHUNK_BYTES = 4_096;

/** What the server knows besides the request itself. */
export interface RequestContext extends Pick<RequestSlot, "onReading" | "onPart" | "goOn"> {
  /** The client's address, found with the trusted proxies. */
  readonly clientAddress: string | undefined;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly wantsContinue: boolean;
  /** What the request holds. */
  readonly hold: Hold;
}

/** The bytes of the body that the headers declare; `Infinity`: it comes in chunks. */
export function declaredBytes({ headers }: NodeRequest): number {
  const length = headers["content-length"] as string | undefined;
  return length === undefined ? (headers["transfer-encoding"] === undefined ? 0 : Infinity) : Number(length);
}

/** A request of `node:http` as the service sees it. Headers are read on demand; a short body is read at once. */
export function toIncoming(request: NodeRequest, response: NodeResponse, context: RequestContext): Incoming {
  const { method = "", url = "" } = request;
  const declared = declaredBytes(request);
  const isEager = !context.wantsContinue && declared > 0 && isShort(declared);
  const eager = isEager ? readBody(request, response, declared, context) : undefined;
  const end = url.indexOf("?");
  return {
    method,
    path: pathOf(url),
    query: end < 0 ? "" : url.slice(end + 1),
    toRequest: () => toRequest(request),
    ...(hasOneHost(request) ? undefined : { fault: wrongHost() }),
    authorization: valuesOf(request.rawHeaders, "authorization"),
    header(name) {
      // Not `headers`: it keeps only the first Content-Type.
      const values = valuesOf(request.rawHeaders, name);
      return values.length > 1 ? values.join(", ") : values[0];
    },
    clientAddress: context.clientAddress,
    isGone: () => request.socket.destroyed === true,
    bytesAhead: () => request.readableLength ?? 0,
    bodyIfBuffered: () => eager?.ifBuffered(),
    readBody: (maxBytes) => (eager ?? readBody(request, response, maxBytes, context)).whole(),
  };
}

/** The request without its body, which is read elsewhere. */
function toRequest({ method = "GET", url = "/", headers, rawHeaders }: NodeRequest): Request {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) pairs.push([rawHeaders[i]!, rawHeaders[i + 1]!]);
  return new Request(new URL(url, `http://${String(headers["host"])}`), { method, headers: pairs });
}

/** RFC 9112 3.2: a request without a `Host`, or with several, is refused. HTTP/1.0 needs none. */
function hasOneHost({ rawHeaders, httpVersion }: NodeRequest): boolean {
  const hosts = valuesOf(rawHeaders, "host").length;
  return hosts === 1 || (hosts === 0 && httpVersion !== "1.1");
}

const wrongHost = (): Error =>
  badRequest([{ location: "headers.Host", message: "must be there once", fix: "send one Host header" }]);

/**
 * Writes the response in one piece. A 413, or a response written before the whole body has arrived, ends the connection
 * after the rest of the body was read and dropped.
 * @param more further headers: alternating names and values
 */
export function send(
  request: NodeRequest,
  response: NodeResponse,
  { status, headers, text }: Outgoing,
  more: readonly string[],
  pace: Pick<RequestContext, "onPart" | "goOn">,
): void {
  const isEarly = status === TOO_LARGE || (request.complete === false && declaredBytes(request) > 0);
  const body = text.length > LONG_TEXT ? Buffer.from(text) : text;
  const length = ["content-length", `${Buffer.byteLength(body)}`];
  response.writeHead(status, [...headers, ...length, ...(isEarly ? CLOSING : more)]);
  if (!isEarly) return void response.end(body);
  response.write(body);
  endAfterBody(request, response, pace);
}

const TOO_LARGE = 413;
/** Longer answers are handed over as bytes: Node takes three bytes per character for a text that waits. */
const LONG_TEXT = 16_384;

function endAfterBody(
  request: NodeRequest,
  response: NodeResponse,
  { onPart, goOn }: Pick<RequestContext, "onPart" | "goOn">,
): void {
  let discarded = 0;
  const end = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, DISCARD_MS);
  request.on("data", (chunk) => {
    discarded += Math.max(CHUNK_BYTES, (chunk as Uint8Array).byteLength);
    onPart();
    if (discarded > DISCARDED_BYTES) end();
    else goOn();
  });
  for (const event of ["end", "close", "error"] as const) request.on(event, end);
  request.resume?.();
  goOn();
}

/** The header of the last response on a connection. */
export const CLOSING: readonly string[] = Object.freeze(["connection", "close"]);
/** No further headers. */
export const NONE: readonly string[] = Object.freeze([]);

function pathOf(url: string): string {
  const end = url.indexOf("?");
  const path = end < 0 ? url : url.slice(0, end);
  if (path.startsWith("/")) return path;
  // The absolute form, which proxies send.
  return /^https?:\/\/[^/]*(\/.*)$/i.exec(path)?.[1] ?? path;
}

/** Every value of a header, by its lower-case name. */
function valuesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  let values: readonly string[] = NONE;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const one = rawHeaders[i]!;
    if (one.length === name.length && one.toLowerCase() === name) values = [...values, rawHeaders[i + 1]!];
  }
  return values;
}

/** A body that is being read. */
function readBody(request: NodeRequest, response: NodeResponse, maxBytes: number, context: RequestContext) {
  const { hold, onReading, onPart, goOn, wantsContinue } = context;
  const declared = declaredBytes(request);
  const body = new ArrivingBody(maxBytes, declared, hold);
  let end: "whole" | Error | undefined;
  let onEnd: (() => void) | undefined;
  const finish = (how?: "whole" | Error): void => {
    if (end !== undefined) return;
    // Created only when needed: every request closes, and creating an error is expensive.
    end = how ?? endedEarly();
    onEnd?.();
  };
  const fail = (error: unknown): void => finish(error as Error);
  /** Set while a chunk waits for space; a paused stream may still deliver further chunks. */
  let adding: Promise<void> | undefined;
  const add = (chunk: Uint8Array): void => {
    if (end !== undefined) return;
    const waiting = body.add(chunk);
    if (waiting === undefined) return;
    request.pause?.();
    adding = waiting.then(() => {
      adding = undefined;
      request.resume?.();
      goOn();
    });
    adding.catch(fail);
  };
  if (declared > maxBytes && declared !== Infinity) finish(tooLarge(maxBytes));
  // Past events are not emitted again, so waiting for one would never end.
  else if (request.readableDidRead === true || request.readableEnded === true) finish(alreadyRead());
  else if (request.destroyed === true) finish();
  else {
    request.on("data", (chunk) => {
      if (!ArrayBuffer.isView(chunk)) return finish(noBytes());
      try {
        if (adding === undefined) add(chunk as Uint8Array);
        else adding.then(() => add(chunk as Uint8Array)).catch(fail);
      } catch (error) {
        fail(error);
      }
      if (body.length < declared) onPart();
      if (adding === undefined) goOn();
    });
    request.on("end", () => {
      if (adding === undefined) finish("whole");
      else adding.then(() => finish("whole"), fail);
    });
    request.on("error", () => finish());
    request.on("close", () => finish());
    // The program may have paused it.
    request.resume?.();
    onReading(finish);
    goOn();
    // Only here: a body whose declared length is too long is not requested.
    if (wantsContinue) response.writeContinue();
  }
  return {
    /** The body, if all of it has arrived. */
    ifBuffered: (): Uint8Array | undefined => (end === "whole" ? body.bytes() : undefined),
    /**
     * @throws (rejects) KeystileError PAYLOAD_TOO_LARGE · BAD_REQUEST: it ended early, or came in too many small chunks
     *   · OVERLOADED · TypeError: it was read before · the error it was aborted with
     */
    whole: (): Promise<Uint8Array> =>
      new Promise((resolve, reject) => {
        onEnd = () => (end instanceof Error ? reject(end) : resolve(body.bytes()));
        if (end !== undefined) onEnd();
      }),
  };
}
