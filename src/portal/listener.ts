/** The portal as a request listener of `node:http`. */
import { listenerOf, type NodeListener } from "../http/node/listener.js";
import type { Keyring } from "../keyring/keyring.js";
import type { PortalOptions } from "./options.js";
import { createPortalService } from "./portal.js";

/**
 * {@link createPortal} as a request listener, for `node:http`, Express and Fastify. Install it before middleware that
 * reads bodies.
 * @throws as {@link createPortal}
 * @example
 * const ceiling = { keys: 5, identity: true }; // only owners that have credits
 * app.use("/account/keys", createPortalListener(keyring, { owner, apiId, ceiling, basePath: "/account/keys" }));
 */
export function createPortalListener(keyring: Keyring, options: PortalOptions): NodeListener {
  return listenerOf(createPortalService(keyring, options), {});
}
