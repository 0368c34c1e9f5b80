/**
 * The entry `keystile/durable-object`: keys in a Durable Object of Cloudflare, and verifiers for Workers. It imports
 * `cloudflare:workers`, so that it loads nowhere else.
 * @module keystile/durable-object
 */
export type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "../contracts/limiter.js";
export type { MaybePromise } from "../contracts/types.js";
export type { ObjectStorage } from "../stores/durable-object/connection.js";
export { durableObjectLimiter, type ObjectLimiterOptions } from "../stores/durable-object/limiter.js";
export { durableObjectStore, type ObjectStoreOptions } from "../stores/durable-object/store.js";
export type { SqliteLimiter, SqliteLimiterCounters } from "../stores/sqlite/limits/wire-limiter.js";
export type { SqliteAuditOptions } from "../stores/sqlite/options.js";
export type { AlarmStorage, ObjectOptions, ObjectParts } from "./engine.js";
export { keystileObject, type KeystileObject, type KeystileObjectClass, type ObjectState } from "./object.js";
export {
  type ObjectStub,
  type RemoteCacheOptions,
  remoteKeyring,
  type RemoteKeyring,
  type RemoteOptions,
  remoteVerifier,
  type RemoteVerifierOptions,
} from "./remote.js";
