/**
 * The service as a request listener for the program's own `node:http` server, which sets header limits and timeouts.
 */
import type { Store } from "../../contracts/store.js";
import { createClientAddress, trustedProxies } from "../client-address.js";
import { checkServiceOptions, type ServiceOptions } from "../options.js";
import { createService, type Service, type ServiceParts } from "../service.js";
import { CONNECTION_BOUNDS, Connections } from "./connections.js";
import type { NodeRequest, NodeResponse } from "./node-request.js";
import { createRequestHandler } from "./request-handler.js";

/** Options of {@link createNodeListener}. */
export interface NodeListenerOptions extends ServiceOptions {
  /** As {@link ServerOptions.trustedProxies}. */
  readonly trustedProxies?: readonly string[];
}

/** Handles requests of `node:http`. */
export interface NodeListener {
  (request: NodeRequest, response: NodeResponse): void;
  /**
   * Closes what the listener created, such as a verifier, which returns its leases. Close the server first. The store
   * stays open.
   */
  close(): Promise<void>;
}

/**
 * The whole service as a request listener of `node:http` or `node:https`; over HTTP/2 every request is a 505.
 * `createServer` of this package also responds to broken connections and shuts down gracefully. Set the server's
 * `maxHeadersCount = 0`: otherwise Node silently drops headers after the first 1,000, which could hide a second
 * `Authorization`; the bytes of headers are bounded anyway. Install the listener before middleware that reads bodies: a
 * body that was already read is a 500, reported to `onError`.
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @example
 * const listener = createNodeListener(sqliteStore("keys.db"));
 * const server = http.createServer(listener);
 * server.maxHeadersCount = 0;
 * server.listen(8080);
 */
export function createNodeListener(source: Store | ServiceParts, options: NodeListenerOptions = {}): NodeListener {
  checkServiceOptions(options, { trustedProxies });
  return listenerOf(createService(source, options), options);
}

/** Refuses HTTP/2: its sockets throw when they are paused, and paced reading pauses them. */
function refuse(response: NodeResponse): void {
  response.writeHead(505, []);
  response.end("createNodeListener serves HTTP/1.1: put a proxy in front for HTTP/2, or use createHandler.\n");
}

/** Serves the requests of `node:http` with a service. */
export function listenerOf(
  service: Service,
  { trustedProxies = [] }: Pick<NodeListenerOptions, "trustedProxies">,
): NodeListener {
  const handle = createRequestHandler(service, new Connections(CONNECTION_BOUNDS, service), {
    clientAddressOf: createClientAddress(trustedProxies),
    isClosing: () => false,
  });
  const listener = (request: NodeRequest, response: NodeResponse): void => {
    if (request.httpVersion?.startsWith("2") === true) refuse(response);
    else handle(request, response, false);
  };
  return Object.assign(listener, { close: () => service.close() });
}
