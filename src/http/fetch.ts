/**
 * The service as a function from web `Request` to `Response`: for Hono, Next, Bun, Deno and workers. Uses no Node
 * modules.
 */
import { badRequest, type KeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import { fireAndForget, settled } from "../lib/callbacks.js";
import { callable, text } from "../lib/check-options.js";
import type { Hold } from "./admission/admission.js";
import { alreadyRead, ArrivingBody, endedEarly, noBytes, tooLarge } from "./body.js";
import type { Incoming, Outgoing } from "./messages.js";
import { toFailedRequest } from "./failed-request.js";
import { checkServiceOptions, type ServiceOptions } from "./options.js";
import { createService, type Service, type ServiceParts } from "./service.js";

/** Options of {@link createHandler}. */
export interface HandlerOptions extends ServiceOptions {
  /**
   * Returns the client's address, for allow-lists: a `Request` does not have it. Default: none, and keys with an
   * allow-list are FORBIDDEN. Use a header only if your own proxy sets it.
   */
  readonly clientAddress?: (request: Request, ...context: readonly unknown[]) => string | undefined;
  /**
   * Path below which the service is mounted, such as `/api/keys`: the operations are then at `/api/keys/v2/…`, and any
   * path outside it is a 404. Default: none.
   */
  readonly basePath?: string;
}

/** Handles requests. Further arguments from the host are passed to `options.clientAddress`. */
export interface Handler {
  (request: Request, ...context: readonly unknown[]): Promise<Response>;
  /** Closes what the handler created: a verifier returns its leases. The store stays open. */
  close(): Promise<void>;
}

/**
 * The whole service as one function. Its promise never rejects: every error is a response in the envelope. The body
 * must be unread; pass a clone if the program reads it too. A body that was read, a stream that does not yield bytes,
 * or a value that is not a `Request` with an absolute URL is a 500, reported to `onError`.
 * @param source a store, or parts that the program created itself
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @see contract 4, 5, 7
 * @example
 * const handler = createHandler(sqliteStore("keys.db"));
 * app.all("*", (c) => handler(c.req.raw));
 */
export function createHandler(source: Store | ServiceParts, options: HandlerOptions = {}): Handler {
  checkServiceOptions(options, WEB_OPTIONS);
  const { basePath: base = "" } = options;
  const service = createService(source, options, { basePath: base });
  /** An empty path is no route. */
  const withoutBase = (path: string): string => (path.startsWith(`${base}/`) ? path.slice(base.length) : "");
  return handlerOf(service, withoutBase, options);
}

/** The checks of what this host has besides. */
export const WEB_OPTIONS = { clientAddress: callable, basePath };

/** Serves web requests with a service. @param toPath the path that the service knows */
export function handlerOf(
  service: Pick<Service, "arrive" | "answer" | "close">,
  toPath: (path: string) => string,
  { clientAddress }: Pick<HandlerOptions, "clientAddress">,
): Handler {
  const toIncoming = (request: Request, context: readonly unknown[]): Incoming => {
    const { pathname, search } = new URL(request.url);
    const authorization = request.headers.get("authorization");
    return {
      method: request.method,
      path: toPath(pathname),
      query: search.slice(1),
      // `Headers` joins repeated headers with a comma, which no token contains.
      authorization: authorization === null ? [] : [authorization],
      header: (name) => request.headers.get(name) ?? undefined,
      clientAddress: addressOf(() => clientAddress?.(request, ...context)),
      toRequest: () => request,
      isGone: () => request.signal.aborted,
      // A web stream does not expose what is already buffered.
      readBody: (maxBytes, hold) => readBody(request, maxBytes, hold),
    };
  };
  const handle = async (request: Request, ...context: readonly unknown[]): Promise<Response> => {
    const incoming = orFailed(() => toIncoming(request, context));
    // The host bounds its connections, and holds the answer once it has it.
    const hold = service.arrive(incoming.authorization[0]);
    try {
      return toResponse(incoming.method, await service.answer(incoming, hold));
    } finally {
      hold.release();
    }
  };
  return Object.assign(handle, { close: () => service.close() });
}

/** The check of a mount path. */
function basePath(value: unknown, path: string): void {
  text(value, path);
  if (!/^(?:\/[A-Za-z0-9._~-]+)+$/.test(value as string))
    throw new TypeError(`${path} must be a path without a slash at its end, such as /api/keys`);
}

/** The host may pass something other than a `Request`. The original error is dropped, since it may quote the URL. */
function orFailed(read: () => Incoming): Incoming {
  try {
    return read();
  } catch {
    return toFailedRequest(new TypeError("the handler must be given a Request, with an absolute url"), "");
  }
}

/** If the program's function throws or returns a promise, the client has no address, which no allow-list includes. */
function addressOf(ask: () => unknown): string | undefined {
  try {
    const address = settled(ask(), "options.clientAddress");
    return typeof address === "string" ? address : undefined;
  } catch {
    return undefined;
  }
}

function toResponse(method: string, { status, headers, text }: Outgoing): Response {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) pairs.push([headers[i]!, headers[i + 1]!]);
  return new Response(method === "HEAD" ? null : text, { status, headers: pairs });
}

/**
 * A client that disconnected is not a server error. The host's error is dropped, since its message may contain
 * anything.
 */
function throwEndedEarly(): never {
  throw endedEarly();
}

const badLength = (): KeystileError =>
  badRequest([{ location: "headers.Content-Length", message: "must be the bytes of the body, in digits" }]);

async function readBody(request: Request, maxBytes: number, hold: Hold): Promise<Uint8Array> {
  const length = request.headers.get("content-length");
  // Node refuses it; another host may pass on what its client sent.
  if (length !== null && !/^\d+$/.test(length)) throw badLength();
  const declared = length === null ? Infinity : Number(length);
  if (length !== null && declared > maxBytes) throw tooLarge(maxBytes);
  const stream = request.body as ReadableStream<unknown> | null;
  if (request.bodyUsed || stream?.locked === true) throw alreadyRead();
  const reader = stream?.getReader();
  const body = new ArrivingBody(maxBytes, declared, hold);
  try {
    for (;;) {
      const chunk = await reader?.read().catch(throwEndedEarly);
      if (chunk === undefined || chunk.done) return body.bytes();
      // Not `instanceof Uint8Array`: in hosts with several realms the class differs.
      if (!ArrayBuffer.isView(chunk.value)) throw noBytes();
      const { buffer, byteOffset, byteLength } = chunk.value;
      await body.add(new Uint8Array(buffer, byteOffset, byteLength));
    }
  } catch (fault) {
    // Not awaited: a host's stream may fail or hang when cancelled, and the response is already known.
    fireAndForget(() => reader?.cancel());
    throw fault;
  }
}
