/** The entry `keystile/http`: the service around the engine, for any host. */
export { createAuthenticator, type AuthenticatedCaller, type Authenticator, type AuthenticatorOptions } from "./authenticate.js";
export { createHandler, type Handler, type HandlerOptions } from "./http/fetch.js";
export { createNodeListener, type NodeListener, type NodeListenerOptions } from "./http/listener.js";
export type { NodeRequest, NodeResponse } from "./http/node-exchange.js";
export { createServer, type Server, type ServerOptions } from "./http/node.js";
export type { ServiceOptions } from "./http/options.js";
export type { ServiceParts } from "./http/service.js";
export type { AsymmetricKey, CryptoKeyLike, JsonWebKeyLike, KeyObjectLike, ProxyTokenKey } from "./callers/proxy-keys.js";
export { type ProxyTokenClaims, type ProxyTokenOptions, signProxyToken, type SignProxyTokenOptions } from "./callers/proxy-token.js";
export type { RequestLimitOptions } from "./request-limit.js";
