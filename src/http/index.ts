/**
 * The entry `keystile/http`: the service around the engine, for any host.
 * @module keystile/http
 */
export {
  createAuthenticator,
  type AuthenticatedCaller,
  type Authenticator,
  type AuthenticatorOptions,
} from "../access/authenticate.js";
export type {
  AsymmetricKey,
  CryptoKeyLike,
  JsonWebKeyLike,
  KeyObjectLike,
  ProxyTokenKey,
} from "../access/proxy-keys.js";
export {
  type ProxyTokenClaims,
  type ProxyTokenOptions,
  signProxyToken,
  type SignProxyTokenOptions,
} from "../access/proxy-token.js";
export { createHandler, type Handler, type HandlerOptions } from "./fetch.js";
export { createNodeListener, type NodeListener, type NodeListenerOptions } from "./node/listener.js";
export type { NodeRequest, NodeResponse } from "./node/node-request.js";
export { createServer, type Server, type ServerOptions } from "./node/server.js";
export type { ServiceOptions } from "./options.js";
export type { ServiceParts } from "./service.js";
export type { RequestLimitOptions } from "./workspace-limit.js";
