/** A request of `node:http` → {@link Incoming}, and an answer back, without `Request` or `Response` objects. Rulings F2, G1. */
import { alreadyRead, endedEarly, isShort, joined, noBytes, tooLarge } from "../body.js";
import type { Incoming, Outgoing } from "../messages.js";

/** What is used of `http.IncomingMessage`: said here, so that the declarations need no types of Node. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** Names and values in turn, as sent: the only place where a second `Authorization` or `Content-Type` shows. */
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: {
    readonly remoteAddress?: string | undefined;
    readonly localAddress?: string;
    readonly localPort?: number;
  };
  readonly readableDidRead?: boolean;
  readonly readableEnded?: boolean;
  readonly destroyed?: boolean;
  on(event: "data", listener: (chunk: unknown) => void): unknown;
  /** Resumes a body that the program paused. */
  resume?(): unknown;
  on(event: "end" | "close" | "error", listener: () => void): unknown;
  destroy(): unknown;
}

/** What is used of `http.ServerResponse`. */
export interface NodeResponse {
  writeHead(status: number, headers: string[]): unknown;
  end(text: string): unknown;
  writeContinue(): unknown;
  on(event: "close", listener: () => void): unknown;
}

/** Bytes of a refused body that are read all the same, so that the client gets to read why. */
const DISCARDED_BYTES = 67_108_864;
/** A host and port as a client may name them; anything else is not repeated. */
const HOST = /^(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$/;

/** What the server knows of a request besides the request. */
export interface RequestContext {
  /** As the program trusts it. */
  readonly clientAddress: string | undefined;
  /** Where the server listens, for requests that do not say how they reached it. */
  readonly origin: string;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly wantsContinue: boolean;
  /** Runs what is to be done with a body, at the end of this turn of the event loop. */
  batch(act: () => void): void;
  /** Given a function that ends the reading of the body with a fault. */
  onReading(breakOff: (fault: Error) => void): void;
}

/** A request of `node:http` as the service takes it. Nothing is copied but what is asked for. */
export function toIncoming(request: NodeRequest, response: NodeResponse, context: RequestContext): Incoming {
  const { method = "", url = "", headers } = request;
  const { host } = headers;
  let body: Body | undefined;
  const bodyOf = (maxBytes: number): Body => (body ??= readBody(request, response, maxBytes, context));
  const mayBeBuffered = !context.wantsContinue && isShort(headers["content-length"] as string | undefined);
  return {
    method,
    path: pathOf(url),
    origin: typeof host === "string" && HOST.test(host) ? `http://${host}` : context.origin,
    authorization: valuesOf(request.rawHeaders, "authorization"),
    header(name) {
      // Not `headers`: it keeps only the first Content-Type.
      const values = valuesOf(request.rawHeaders, name);
      return values.length > 1 ? values.join(", ") : values[0];
    },
    clientAddress: context.clientAddress,
    bodyIfBuffered: mayBeBuffered ? (maxBytes) => bodyOf(maxBytes).ifBuffered() : undefined,
    readBody: (maxBytes) => bodyOf(maxBytes).whole(),
  };
}

/** Writes the answer in one piece, with further headers: names and values in turn. */
export function send(response: NodeResponse, { status, headers, text }: Outgoing, more: readonly string[]): void {
  response.writeHead(status, [...headers, "content-length", `${Buffer.byteLength(text)}`, ...more]);
  response.end(text);
}

/** The header of an answer that the connection ends with. */
export const CLOSING: readonly string[] = Object.freeze(["connection", "close"]);
/** No further headers. */
export const NONE: readonly string[] = Object.freeze([]);

function pathOf(url: string): string {
  const end = url.indexOf("?");
  const path = end < 0 ? url : url.slice(0, end);
  if (path.startsWith("/")) return path;
  // The absolute form, as proxies send it.
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
interface Body {
  /** What is there at the end of this turn, if that is all. */
  ifBuffered(): Promise<Uint8Array | undefined>;
  /** @throws (rejects) KeystileError PAYLOAD_TOO_LARGE · BAD_REQUEST: it broke off · TypeError: it was read before · whatever ended the reading */
  whole(): Promise<Uint8Array>;
}

function readBody(request: NodeRequest, response: NodeResponse, maxBytes: number, context: RequestContext): Body {
  const { batch, onReading, wantsContinue } = context;
  const chunks: Uint8Array[] = [];
  let length = 0;
  let end: "whole" | Error | undefined;
  let onEnd: (() => void) | undefined;
  const finish = (how?: "whole" | Error): void => {
    if (end !== undefined) return;
    // Made only when needed: every request closes, and an error costs more than all the rest.
    end = how ?? endedEarly();
    onEnd?.();
  };
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) finish(tooLarge(maxBytes));
  // Past events do not come again: who waits for one would wait forever.
  else if (request.readableDidRead === true || request.readableEnded === true) finish(alreadyRead());
  else if (request.destroyed === true) finish();
  else {
    request.on("data", (chunk) => {
      if (!ArrayBuffer.isView(chunk)) return finish(noBytes());
      length += chunk.byteLength;
      if (length <= maxBytes) return void chunks.push(chunk as Uint8Array);
      chunks.length = 0;
      finish(tooLarge(maxBytes));
      if (length > maxBytes + DISCARDED_BYTES) request.destroy();
    });
    request.on("end", () => finish("whole"));
    request.on("error", () => finish());
    request.on("close", () => finish());
    // It may have been paused, for a check before this one.
    request.resume?.();
    onReading(finish);
    // Only now: a body that is too long by its own account is not asked for.
    if (wantsContinue) response.writeContinue();
  }
  return {
    ifBuffered: () =>
      new Promise((resolve) => batch(() => resolve(end === "whole" ? joined(chunks, length) : undefined))),
    whole: () =>
      new Promise((resolve, reject) => {
        const settle = (): void => (end instanceof Error ? reject(end) : resolve(joined(chunks, length)));
        onEnd = () => (end === "whole" ? batch(settle) : settle());
        if (end !== undefined) settle();
      }),
  };
}
