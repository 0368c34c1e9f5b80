/**
 * The service on `node:http`: limits of headers and time, faults of the connection in the envelope, shutdown that loses nothing.
 * Ruling G1. Knows connections, nothing of requests. Node's modules are loaded when a server listens, so that this loads anywhere.
 */
import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { Store } from "../../contracts/store.js";
import { checkOptions, integer, text } from "../../lib/check-options.js";
import { createClientAddress, trustedProxies } from "../client-address.js";
import { fireAndForget } from "../fire-and-forget.js";
import { checkServiceOptions, type ServiceOptions } from "../options.js";
import { createService, type ServiceParts } from "../service.js";
import { type ConnectionError, sendConnectionError, toFault } from "./connection-errors.js";
import { toFailedRequest } from "../failed-request.js";
import { createConnections } from "./connections.js";
import { CLOSING, NONE, send, toIncoming } from "./node-request.js";
import { createTurnBatch } from "./turn-batch.js";

/** Options of {@link createServer}. Times in milliseconds. */
export interface ServerOptions extends ServiceOptions {
  /**
   * Addresses and CIDR ranges of proxies of yours. From them, and only from them, `x-forwarded-for` is believed: the client is the
   * last address in it that is not one of them. Default: none, the client is who connects (ruling A4).
   */
  readonly trustedProxies?: readonly string[];
  /** Bytes of a request's headers, 1_024…1_048_576, default 16 KiB. */
  readonly maxHeaderBytes?: number;
  /** For the headers of a request to arrive, default 10_000; never longer than `requestTimeout`. */
  readonly headersTimeout?: number;
  /** For a whole request to arrive, default 30_000. */
  readonly requestTimeout?: number;
  /** Life of an idle connection, default 10_000. */
  readonly keepAliveTimeout?: number;
  /** Wait of a shutdown for what is in flight, before it cuts connections, default 10_000. */
  readonly graceTimeout?: number;
}

/** A server of the service. */
export interface Server {
  /**
   * Works once. Wrong options leave the server as it was; a refusal of the system does not.
   * @param options `port` 0…65_535, default 0: any that is free · `host` a name or address, default `127.0.0.1`
   * @returns where it listens
   * @throws (rejects) TypeError or RangeError naming the option · TypeError: it listened before, or was closed · whatever the system says
   */
  listen(options?: {
    readonly port?: number;
    readonly host?: string;
  }): Promise<{ readonly host: string; readonly port: number; readonly url: string }>;
  /** Takes no more connections, answers what is in flight, then closes what the server made: leases go back. The store stays open. */
  close(): Promise<void>;
}

const time = integer(1, 3_600_000);
const OPTIONS = {
  trustedProxies,
  maxHeaderBytes: integer(1_024, 1_048_576),
  headersTimeout: time,
  requestTimeout: time,
  keepAliveTimeout: time,
  graceTimeout: time,
};
const LISTEN_OPTIONS = {
  port: integer(0, 65_535),
  // Node takes an empty host for every address there is.
  host: text,
};
/** How often connections are looked over for those that take too long. */
const CHECK_INTERVAL_MS = 1_000;
const SWEEP_INTERVAL_MS = 20;
/** A shutdown gives connections in use this long for an answer. */
const LINGER_MS = 50;
/** Time for the client of a tunnel to read the refusal. */
const TUNNEL_MS = 1_000;

/**
 * A server of the whole service.
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @example
 * const server = createServer(sqliteStore("keys.db"));
 * const { url } = await server.listen({ port: 8080 });
 */
export function createServer(source: Store | ServiceParts, options: ServerOptions = {}): Server {
  checkServiceOptions(options, OPTIONS);
  const service = createService(source, options);
  const clientAddressOf = createClientAddress(options.trustedProxies ?? []);
  const { requestTimeout = 30_000, keepAliveTimeout = 10_000, graceTimeout = 10_000 } = options;
  // Node refuses to listen where the part may take longer than the whole.
  const headersTimeout = Math.min(options.headersTimeout ?? 10_000, requestTimeout);
  const { maxHeaderBytes = 16_384 } = options;
  const connections = createConnections();
  const batch = createTurnBatch(setImmediate);
  const tunnels = new Set<Duplex>();
  let http: HttpServer | undefined;
  let hasBegun = false;
  let origin = "";
  let closing: Promise<void> | undefined;

  const handle = async (request: IncomingMessage, response: ServerResponse, wantsContinue: boolean): Promise<void> => {
    const { socket } = request;
    const { onReading, isLast, end } = connections.begin(socket, request);
    response.on("close", end);
    const clientAddress = clientAddressOf(socket.remoteAddress, request.headers["x-forwarded-for"]);
    const outgoing = await service.answer(
      toIncoming(request, response, { clientAddress, origin, wantsContinue, batch, onReading }),
    );
    // A client that waits for `100 Continue` and is refused sends no body: the connection cannot go on.
    const isEnd = closing !== undefined || isLast() || (wantsContinue && outgoing.status !== 200);
    send(response, outgoing, isEnd ? CLOSING : NONE);
  };
  const breakOff = (socket: Duplex, kind: ConnectionError, method = ""): void => {
    const fault = toFault(kind);
    const answer = async (): Promise<void> => {
      // A client that left: no answer, not counted.
      if (socket.writable)
        sendConnectionError(socket, fault, await service.answer(toFailedRequest(fault, method, origin)));
      else socket.destroy();
    };
    connections.breakOff(socket, fault, () => void answer());
  };

  const listen: Server["listen"] = async (where = {}) => {
    checkOptions(where, LISTEN_OPTIONS);
    const { port = 0, host = "127.0.0.1" } = where;
    if (hasBegun || closing !== undefined) throw new TypeError("a server listens once; make another");
    hasBegun = true;
    const { createServer: create } = await import("node:http");
    if (closing !== undefined) throw new TypeError("the server was closed before it listened");
    // A missing Host header would get Node's own bare 400; nothing here needs one.
    const limits = {
      maxHeaderSize: maxHeaderBytes,
      headersTimeout,
      requestTimeout,
      keepAliveTimeout,
      requireHostHeader: false,
    };
    const server = create({ ...limits, connectionsCheckingInterval: CHECK_INTERVAL_MS, noDelay: true });
    // Node drops headers past a count and says nothing: a second Authorization would hide there. Their bytes are bounded already.
    server.maxHeadersCount = 0;
    http = server;
    const take = (wantsContinue: boolean) => (request: IncomingMessage, response: ServerResponse) =>
      void handle(request, response, wantsContinue).catch(() => request.destroy());
    server.on("request", take(false));
    server.on("checkContinue", take(true));
    server.on("checkExpectation", take(false));
    server.on("connect", ({ method }: IncomingMessage, socket: Duplex) => {
      tunnels.add(adopt(socket));
      socket.on("close", () => tunnels.delete(socket));
      breakOff(socket, "method", method);
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => breakOff(socket, kindOf(error)));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
    // A connection that cannot be accepted, for want of files perhaps, is no reason to end the process.
    server.on("error", (error) => fireAndForget(() => options.onError?.(error, {})));
    const address = server.address() as AddressInfo;
    const name = address.family === "IPv6" ? `[${address.address}]` : address.address;
    origin = `http://${name}:${address.port}`;
    return { host: address.address, port: address.port, url: origin };
  };

  const shut = async (): Promise<void> => {
    if (http !== undefined) await drain(http, tunnels, graceTimeout);
    await service.close();
  };
  return Object.freeze({ listen, close: () => (closing ??= shut()) });
}

/** Waits until every connection has ended; after `graceTimeout` those that are left are cut. */
async function drain(server: HttpServer, tunnels: Iterable<Duplex>, graceTimeout: number): Promise<void> {
  await linger(server);
  const cut = setTimeout(() => {
    server.closeAllConnections();
    for (const socket of tunnels) socket.destroy();
  }, graceTimeout);
  // A connection whose answer was on its way when this began is idle only now.
  const sweep = setInterval(() => setImmediate(() => server.closeIdleConnections()), SWEEP_INTERVAL_MS);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  clearTimeout(cut);
  clearInterval(sweep);
}

/**
 * Waits until no open connection is in use. A request that came but was not read yet leaves its connection idle in Node's eyes, and
 * would be reset with it; answers end their connections from now on. Resolves right after input was read.
 */
async function linger(server: HttpServer): Promise<void> {
  const { Server: Listener } = await import("node:net");
  await afterInput();
  // Not the method of the server itself, which also ends connections at once.
  if (server instanceof Listener) Listener.prototype.close.call(server);
  const open = await new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count ?? 0)));
  if (open > 0) await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
  await afterInput();
}

/** Resolves once the input so far, new connections included, was read. */
const afterInput = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Node hands over the socket of a CONNECT: an unhandled error of it ends the process, and unread it never emits close. */
function adopt(socket: Duplex): Duplex {
  socket.on("finish", () => setTimeout(() => socket.destroy(), TUNNEL_MS).unref());
  return socket.on("error", () => socket.destroy()).resume();
}

function kindOf({ code }: NodeJS.ErrnoException): ConnectionError {
  if (code === "HPE_HEADER_OVERFLOW") return "headers";
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? "time" : "syntax";
}
