/**
 * The service on `node:http`: header limits and timeouts, connection errors in the envelope, graceful shutdown.
 * Node's modules are loaded when a server listens, so that this module loads on any runtime.
 */
import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Store } from "../../contracts/store.js";
import { fireAndForget } from "../../lib/callbacks.js";
import { checkOptions, integer, text } from "../../lib/check-options.js";
import { createAllowlist } from "../../lib/ip-ranges.js";
import { createClientAddress, trustedProxies } from "../client-address.js";
import type { AdmissionBounds } from "../admission/admission.js";
import { checkServiceOptions, type ServiceOptions } from "../options.js";
import { createService, type ServiceParts } from "../service.js";
import { CONNECTION_FAULTS, type ConnectionError, sendConnectionError } from "./connection-errors.js";
import { toFailedRequest } from "../failed-request.js";
import { CONNECTION_BOUNDS, type ConnectionBounds, Connections } from "./connections.js";
import { createRequestHandler } from "./request-handler.js";
import { clearInterval, clearTimeout, setInterval, setTimeout, afterInput, nextTurn } from "../../lib/timers.js";

/** Options of {@link createServer}. Times in milliseconds. */
export interface ServerOptions extends ServiceOptions {
  /**
   * IP addresses and CIDR ranges of your proxies. Only their `x-forwarded-for` is trusted: the client's address is the
   * last one in it that is not a trusted proxy. Default: none; the client's address is that of the connection.
   */
  readonly trustedProxies?: readonly string[];
  /** Bytes of a request's headers, 1_024…1_048_576, default 16 KiB. */
  readonly maxHeaderBytes?: number;
  /** Time for the headers of a request to arrive, 1…3_600_000, default 10_000; at most `requestTimeout`. */
  readonly headersTimeout?: number;
  /** Time for a whole request to arrive, 1…3_600_000, default 30_000. */
  readonly requestTimeout?: number;
  /** How long an idle connection stays open, 1…3_600_000, default 10_000. */
  readonly keepAliveTimeout?: number;
  /**
   * How long a client may leave an answer unread without progress, 1…3_600_000, default 30_000; then its connection is
   * closed.
   */
  readonly unreadTimeout?: number;
  /**
   * Connections at a time, 1…1_000_000, default 4_096. For a further one, the connection that has been idle longest is
   * closed; or, if at most a sixteenth of `maxConnections` are idle, the oldest request of the workspace with the most
   * requests is ended. For an address that has more than a sixteenth, the bound is fifteen sixteenths, and only its own
   * idle connections are closed.
   */
  readonly maxConnections?: number;
  /**
   * Connections of one address at a time, 1…1_000_000; default: no separate bound. Those of trusted proxies are not
   * counted.
   */
  readonly maxConnectionsPerAddress?: number;
  /** How long `close` waits for requests in flight before it closes their connections, 1…3_600_000, default 10_000. */
  readonly graceTimeout?: number;
}

/** An HTTP server of the service. */
export interface Server {
  /**
   * Starts listening, once. After an error of the system create another server; after invalid options call it again.
   * @param options `port` 0…65_535, default 0: any free port · `host` a name or address, default `127.0.0.1` ·
   *   `backlog` connections that the system keeps until they are accepted, 1…65_535, default 511; Linux bounds it by
   *   `net.core.somaxconn`
   * @returns where it listens
   * @throws (rejects) TypeError or RangeError naming the option · TypeError: it listened before, or was closed · the
   *   error of the system, such as EADDRINUSE
   */
  listen(options?: {
    readonly port?: number;
    readonly host?: string;
    readonly backlog?: number;
  }): Promise<{ readonly host: string; readonly port: number; readonly url: string }>;
  /**
   * Accepts no more connections, finishes requests in flight, then closes what the server created, such as a verifier,
   * which returns its leases. The store stays open.
   */
  close(): Promise<void>;
}

const time = integer(1, 3_600_000);
const OPTIONS = {
  trustedProxies,
  maxHeaderBytes: integer(1_024, 1_048_576),
  headersTimeout: time,
  requestTimeout: time,
  keepAliveTimeout: time,
  unreadTimeout: time,
  maxConnections: integer(1, 1_000_000),
  maxConnectionsPerAddress: integer(1, 1_000_000),
  graceTimeout: time,
};
const LISTEN_OPTIONS = {
  port: integer(0, 65_535),
  // Not empty: Node would listen on every address.
  host: text,
  backlog: integer(1, 65_535),
};
/** How often Node checks connections for timeouts. */
const CHECK_INTERVAL_MS = 1_000;
const SWEEP_INTERVAL_MS = 20;
/** How long a shutdown waits for open connections before it closes idle ones. */
const LINGER_MS = 50;
/** How long the client of a CONNECT has to read the refusal. */
const TUNNEL_MS = 1_000;

/**
 * Creates an HTTP server of the whole service. Unless `verifier.cache.by` is `tag`, it finds keys by their digest,
 * which costs less than a hundredth of a request.
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @example
 * const server = createServer(sqliteStore("keys.db"));
 * const { url } = await server.listen({ port: 8080 });
 */
export function createServer(source: Store | ServiceParts, options: ServerOptions = {}): Server {
  return createBoundedServer(source, options, {});
}

/** {@link createServer} with bounds that options cannot set, for tests of what each bound prevents. */
export function createBoundedServer(
  source: Store | ServiceParts,
  options: ServerOptions,
  bounds: Partial<AdmissionBounds & ConnectionBounds>,
): Server {
  checkServiceOptions(options, OPTIONS);
  const service = createService(source, options, { findKeysBy: "digest", bounds });
  const trusted = options.trustedProxies ?? [];
  const isProxy = createAllowlist([trusted]);
  const { requestTimeout = 30_000, keepAliveTimeout = 10_000, graceTimeout = 10_000 } = options;
  // Node requires headersTimeout ≤ requestTimeout.
  const headersTimeout = Math.min(options.headersTimeout ?? 10_000, requestTimeout);
  const { maxHeaderBytes = 16_384, maxConnections = 4_096 } = options;
  const { unreadTimeout = 30_000, maxConnectionsPerAddress = Infinity } = options;
  const connections = new Connections(
    {
      ...CONNECTION_BOUNDS,
      max: maxConnections,
      maxPerAddress: maxConnectionsPerAddress,
      ...bounds,
    },
    service,
  );
  const tunnels = new Set<Duplex>();
  let http: HttpServer | undefined;
  let sweeping: NodeJS.Timeout | undefined;
  let hasBegun = false;
  let closing: Promise<void> | undefined;

  const handle = createRequestHandler(service, connections, {
    clientAddressOf: createClientAddress(trusted),
    isClosing: () => closing !== undefined,
  });
  const breakOff = (socket: Duplex, kind: ConnectionError, method = ""): void => {
    const fault = CONNECTION_FAULTS[kind]();
    const answer = async (): Promise<void> => {
      // A client that disconnected gets no response and is not counted.
      if (!socket.writable) return void socket.destroy();
      const hold = service.arrive(undefined);
      sendConnectionError(socket, fault, await service.answer(toFailedRequest(fault, method), hold));
      hold.release();
    };
    connections.breakOff(socket, fault, () => void answer());
  };

  const listen: Server["listen"] = async (where = {}) => {
    checkOptions(where, LISTEN_OPTIONS);
    const { port = 0, host = "127.0.0.1", backlog } = where;
    if (hasBegun || closing !== undefined) throw new TypeError("a server listens once; make another");
    hasBegun = true;
    const { createServer: create } = await import("node:http");
    if (closing !== undefined) throw new TypeError("the server was closed before it listened");
    // With requireHostHeader a missing Host would get Node's own 400, without the envelope.
    const limits = {
      maxHeaderSize: maxHeaderBytes,
      headersTimeout,
      requestTimeout,
      keepAliveTimeout,
      requireHostHeader: false,
    };
    const server = create({ ...limits, connectionsCheckingInterval: CHECK_INTERVAL_MS, noDelay: true });
    // Node silently drops headers above a count, which could hide a second Authorization. Their bytes are bounded
    // anyway.
    server.maxHeadersCount = 0;
    server.on("connection", (socket: Socket) => {
      const { remoteAddress } = socket;
      connections.open(socket, trusted.length > 0 && isProxy(remoteAddress) ? undefined : remoteAddress);
    });
    sweeping = setInterval(() => connections.sweep(unreadTimeout), CHECK_INTERVAL_MS);
    sweeping.unref();
    http = server;
    const onRequest = (wantsContinue: boolean) => (request: IncomingMessage, response: ServerResponse) =>
      handle(request, response, wantsContinue);
    server.on("request", onRequest(false));
    server.on("checkContinue", onRequest(true));
    server.on("checkExpectation", onRequest(false));
    server.on("connect", ({ method }: IncomingMessage, socket: Duplex) => {
      tunnels.add(takeOverSocket(socket));
      socket.on("close", () => tunnels.delete(socket));
      breakOff(socket, "method", method);
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => breakOff(socket, kindOf(error)));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ port, host, backlog }, resolve);
    });
    // A connection that cannot be accepted (no file descriptors, for example) must not end the process.
    server.on("error", (error) => fireAndForget(() => options.onError?.(error, {})));
    const address = server.address() as AddressInfo;
    const name = address.family === "IPv6" ? `[${address.address}]` : address.address;
    return { host: address.address, port: address.port, url: `http://${name}:${address.port}` };
  };

  const shutDown = async (): Promise<void> => {
    if (http !== undefined) await drain(http, tunnels, graceTimeout);
    clearInterval(sweeping);
    await service.close();
  };
  return Object.freeze({ listen, close: () => (closing ??= shutDown()) });
}

/** Waits until every connection has ended; closes the remaining ones after `graceTimeout`. */
async function drain(server: HttpServer, tunnels: Iterable<Duplex>, graceTimeout: number): Promise<void> {
  await linger(server);
  const cut = setTimeout(() => {
    server.closeAllConnections();
    for (const socket of tunnels) socket.destroy();
  }, graceTimeout);
  // Connections become idle as their responses are sent.
  const sweep = setInterval(() => afterInput(() => server.closeIdleConnections()), SWEEP_INTERVAL_MS);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  clearTimeout(cut);
  clearInterval(sweep);
}

/**
 * Stops accepting, and gives open connections a short time: a connection whose request has arrived but was not read yet
 * is idle to Node, and closing it would reset the request. Resolves right after input was read.
 */
async function linger(server: HttpServer): Promise<void> {
  const { Server: Listener } = await import("node:net");
  // First read the input so far, including new connections.
  await nextTurn();
  // Not `server.close()`, which also closes idle connections at once.
  if (server instanceof Listener) Listener.prototype.close.call(server);
  const open = await new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count ?? 0)));
  if (open > 0) await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
  await nextTurn();
}

/**
 * Node leaves the socket of a CONNECT to the listener: an unhandled error would end the process, and a socket that is
 * not read never closes.
 */
function takeOverSocket(socket: Duplex): Duplex {
  socket.on("finish", () => setTimeout(() => socket.destroy(), TUNNEL_MS).unref());
  return socket.on("error", () => socket.destroy()).resume();
}

function kindOf({ code }: NodeJS.ErrnoException): ConnectionError {
  if (code === "HPE_HEADER_OVERFLOW") return "headers";
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? "time" : "syntax";
}
