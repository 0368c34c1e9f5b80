/** The service as a function of a web `Request`: for Hono, Next, Bun, Deno, workers. Knows no Node. Spec §4, ruling G1. */
import type { Store } from "../contracts/store.js";
import { callable } from "../lib/check-options.js";
import { isThenable } from "../lib/thenable.js";
import { alreadyRead, endedEarly, joined, noBytes, tooLarge } from "./body.js";
import { fireAndForget } from "./fire-and-forget.js";
import type { Incoming, Outgoing } from "./messages.js";
import { toFailedRequest } from "./failed-request.js";
import { checkServiceOptions, type ServiceOptions } from "./options.js";
import { createService, type ServiceParts } from "./service.js";

/** Options of {@link createHandler}. */
export interface HandlerOptions extends ServiceOptions {
  /**
   * The client's address, for allow-lists (ruling A4): a `Request` does not hold it. Default: none, and keys with an allow-list are
   * FORBIDDEN. Take a header only where a proxy of yours sets it.
   */
  readonly clientAddress?: (request: Request, ...context: readonly unknown[]) => string | undefined;
}

/** Answers requests. What a host passes besides the request goes to `options.clientAddress`. */
export interface Handler {
  (request: Request, ...context: readonly unknown[]): Promise<Response>;
  /** Closes what the handler made: a verifier gives its leases back. The store stays open. */
  close(): Promise<void>;
}

/**
 * The whole service as one function.
 * @param source a store, or pieces that the program made itself
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @see spec §4, §5, §7 · never rejects: every fault is an answer in the envelope. What is no `Request` with an absolute url, a body that
 * the program read before, or a stream that gives no bytes is a 500 that `onError` hears of: hand over the request unread, or a clone of it
 * @example
 * const handler = createHandler(sqliteStore("keys.db"));
 * app.all("*", (c) => handler(c.req.raw));
 */
export function createHandler(source: Store | ServiceParts, options: HandlerOptions = {}): Handler {
  checkServiceOptions(options, { clientAddress: callable });
  const { clientAddress } = options;
  const service = createService(source, options);
  const toIncoming = (request: Request, context: readonly unknown[]): Incoming => {
    const { pathname, origin } = new URL(request.url);
    const authorization = request.headers.get("authorization");
    return {
      method: request.method,
      path: pathname,
      origin,
      // A web `Headers` joins a header that came twice with a comma, which no token holds.
      authorization: authorization === null ? [] : [authorization],
      header: (name) => request.headers.get(name) ?? undefined,
      clientAddress: addressOf(() => clientAddress?.(request, ...context)),
      // A stream does not say what is there.
      bodyIfBuffered: undefined,
      readBody: (maxBytes) => readBody(request, maxBytes),
    };
  };
  const handle = async (request: Request, ...context: readonly unknown[]): Promise<Response> => {
    const incoming = orFailed(() => toIncoming(request, context));
    return toResponse(incoming.method, await service.answer(incoming));
  };
  return Object.assign(handle, { close: () => service.close() });
}

/** A host may hand over what is no `Request`. The error that shows it is dropped: it may quote the url. */
function orFailed(read: () => Incoming): Incoming {
  try {
    return read();
  } catch {
    return toFailedRequest(new TypeError("the handler must be given a Request, with an absolute url"), "", "");
  }
}

/** A function of the program's that throws, or answers late, leaves the client without an address, which is in no allow-list. */
function addressOf(ask: () => unknown): string | undefined {
  try {
    const address = ask();
    if (isThenable(address)) fireAndForget(() => address);
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

/** A client that went away is no fault of the server; what the host says of it may hold anything. */
function cutShort(): never {
  throw endedEarly();
}

async function readBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  const stream = request.body as ReadableStream<unknown> | null;
  if (request.bodyUsed || stream?.locked === true) throw alreadyRead();
  const reader = stream?.getReader();
  const cutOff = (fault: Error): never => {
    // Not awaited: a host's stream may fail or hang when cancelled, and the answer is known already.
    fireAndForget(() => reader?.cancel());
    throw fault;
  };
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const chunk = await reader?.read().catch(cutShort);
    if (chunk === undefined || chunk.done) return joined(chunks, length);
    // By its kind and not by its class, which differs where a host keeps programs in realms of their own.
    if (!ArrayBuffer.isView(chunk.value)) return cutOff(noBytes());
    const { buffer, byteOffset, byteLength } = chunk.value;
    length += byteLength;
    if (length > maxBytes) return cutOff(tooLarge(maxBytes));
    chunks.push(new Uint8Array(buffer, byteOffset, byteLength));
  }
}
