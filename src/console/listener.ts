/** The console as a request listener of `node:http`. */
import type { Store } from "../contracts/store.js";
import { trustedProxies } from "../http/client-address.js";
import { listenerOf, type NodeListener, type NodeListenerOptions } from "../http/node/listener.js";
import { createConsoleService } from "./console.js";
import { checkConsoleOptions, type ConsoleOptions } from "./options.js";
import { LOOPBACK_HOSTS } from "../lib/loopback.js";

/** Options of {@link createConsoleListener}. */
export interface ConsoleListenerOptions extends ConsoleOptions, Pick<NodeListenerOptions, "trustedProxies"> {}

/**
 * {@link createConsole} as a request listener, for `node:http`, Express and Fastify. Without `hosts` it answers to
 * names of the machine itself alone: `localhost`, `127.0.0.1` and `[::1]`.
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @example
 * const listener = createConsoleListener(sqliteStore("keys.db"));
 * http.createServer(listener).listen(5398, "127.0.0.1");
 */
export function createConsoleListener(store: Store, options: ConsoleListenerOptions = {}): NodeListener {
  checkConsoleOptions(options, { trustedProxies });
  return listenerOf(createConsoleService(store, { ...options, hosts: options.hosts ?? LOOPBACK_HOSTS }), options);
}
