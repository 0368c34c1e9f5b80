/** createRatelimits: rate limits of anything, by namespace and identifier: the operations `ratelimit.*`. */
import { strictCaller } from "../../access/check-caller.js";
import type { Caller } from "../../contracts/caller.js";
import type { Limiter } from "../../contracts/limiter.js";
import type { Store } from "../../contracts/store.js";
import { type Check, checkOptions, contextError, isPlainObject, narrowing } from "../../lib/check-options.js";
import { checkStore, type StoreGuardOptions } from "../../lib/guards/guard-store.js";
import { LIMITER_OPTIONS, withFallback } from "../../ratelimit/fallback.js";
import { memoryLimiter } from "../../ratelimit/memory/limiter.js";
import { limiterOfStore } from "../../ratelimit/memory/limiter-of-store.js";
import { type Audited, type AuditOptions, PROGRAM_OPTIONS, programAudit } from "../audit.js";
import { type Audit, createContext, type OfCall } from "../context.js";
import type { KeyringOptions } from "../keyring.js";
import { type Operation, runRequest, withContext } from "../operation.js";
import { parse, type Schema } from "../schemas/parse.js";
import type { SearchRequestBody } from "../schemas/requests.js";
import type * as A from "../schemas/responses.js";
import type * as R from "../schemas/service-requests.js";
import { limit, type LimitShared, multiLimit } from "./limit.js";
import * as namespaces from "./namespaces.js";
import * as overrides from "./overrides.js";

/** What the rate-limit operations accept besides the body. */
export interface RatelimitContext {
  /** Who calls, if the program serves others. Absent: the program itself, which may do everything. */
  readonly caller?: Caller;
}

/** Options of {@link createRatelimits}. */
export interface RatelimitsOptions
  extends StoreGuardOptions, AuditOptions, Pick<KeyringOptions, "actor" | "workspaceId" | "clock" | "newId"> {
  /**
   * Default: a `memoryLimiter()` of its own: limits hold for these operations alone and end with their process.
   * `sqliteLimiter(store)` shares them between the processes of a host. May be shared with a verifier and with other
   * workspaces; the program closes it.
   */
  readonly limiter?: Limiter;
  /**
   * Milliseconds within which a limiter given here must settle each promise, 1…600_000, default 1_000; after that it
   * counts as failed.
   */
  readonly limiterTimeout?: number | undefined;
  /** While the limiter fails: `local`: this node enforces its share (default); `deny`; `allow`. */
  readonly onLimiterFailure?: "local" | "deny" | "allow";
  /**
   * Nodes that share the limiter, 1…100_000, default 1: the share of `local` is `limit / nodes` tokens, at least one.
   */
  readonly nodes?: number;
}

/**
 * The rate-limit operations. Each accepts the request body of the operation of its name and resolves to its `data`.
 * With `context.caller` each requires the permission of contract 5.4 (`ratelimit.*.limit`,
 * `ratelimit.<namespace_id>.limit`, …), once the body is validated. All reject with a `KeystileError`: BAD_REQUEST with
 * every problem · CALLER_FORBIDDEN · NOT_FOUND · LIMITER_UNAVAILABLE · STORE_….
 */
export interface Ratelimits {
  /**
   * Takes tokens; a missing namespace is created, if the caller may create one (`ratelimit.*.create_namespace`), else
   * CALLER_FORBIDDEN. An id is never made into a name: one that no namespace has is NOT_FOUND.
   * @remarks two reads of the store and a take
   */
  limit(body: R.V2RatelimitLimitRequestBody, context?: RatelimitContext): Promise<A.V2RatelimitLimitResponseData>;
  /** As `limit` for several at once, all or nothing. */
  multiLimit(
    body: R.V2RatelimitMultiLimitRequestBody,
    context?: RatelimitContext,
  ): Promise<A.V2RatelimitMultiLimitResponseData>;
  /**
   * A namespace of rate limits; `limit` and `setOverride` create one too.
   * @throws KeystileError CONFLICT: the name exists, or is the id of a namespace
   */
  createNamespace(
    body: R.CreateNamespaceRequestBody,
    context?: RatelimitContext,
  ): Promise<A.CreateNamespaceResponseData>;
  /** A namespace by its id or name. @throws KeystileError NOT_FOUND */
  getNamespace(body: R.GetNamespaceRequestBody, context?: RatelimitContext): Promise<A.NamespaceData>;
  /** Namespaces with their ids, by id. With a caller it takes `ratelimit.*.read_namespace`. */
  listNamespaces(body?: SearchRequestBody, context?: RatelimitContext): Promise<A.Page<A.NamespaceData>>;
  /**
   * Another limit for one identifier, from the next check on; creates the namespace as `limit` does. A `*` stands for
   * any run of characters: `premium_*`. An override of the identifier itself goes before one with `*`, of these the one
   * with most other characters, then the smaller id. A namespace may have 100 with `*`, of 8,192 characters together.
   * @throws KeystileError BAD_REQUEST at `body.identifier`: it would have more
   */
  setOverride(
    body: R.V2RatelimitSetOverrideRequestBody,
    context?: RatelimitContext,
  ): Promise<A.V2RatelimitSetOverrideResponseData>;
  /**
   * The override of one identifier.
   * @throws KeystileError NOT_FOUND: no such namespace, or it has no override for the identifier
   */
  getOverride(body: R.V2RatelimitGetOverrideRequestBody, context?: RatelimitContext): Promise<A.RatelimitOverride>;
  /** By id, 10 per page unless `limit` says otherwise. @throws KeystileError NOT_FOUND: no such namespace */
  listOverrides(
    body: R.V2RatelimitListOverridesRequestBody,
    context?: RatelimitContext,
  ): Promise<A.Page<A.RatelimitOverride>>;
  /**
   * From the next check on the request's own limit applies; tokens already used stay used.
   * @throws KeystileError NOT_FOUND: no such namespace, or it has no override for the identifier
   */
  deleteOverride(body: R.V2RatelimitDeleteOverrideRequestBody, context?: RatelimitContext): Promise<A.EmptyResponse>;
}

const OPTIONS = {
  ...PROGRAM_OPTIONS,
  ...LIMITER_OPTIONS,
} as const satisfies Record<keyof RatelimitsOptions, Check>;

/** A misspelt `caller` must not act as the program; the caller itself is checked when it is used. */
const CONTEXT = { caller: narrowing(() => {}) } as const satisfies Record<keyof RatelimitContext, Check>;

/**
 * Creates the rate-limit operations on a store, which keeps namespaces and overrides; the limiter keeps the tokens.
 * @throws TypeError or RangeError naming the option or the store's missing method
 * @example
 * const ratelimits = createRatelimits(store); const { success } = await ratelimits.limit({ namespace: "email",
 * identifier: "user_1", limit: 10, duration: 60_000 });
 */
export function createRatelimits(store: Store, options: RatelimitsOptions = {}): Ratelimits & Audited {
  checkStore(store);
  const own = checkOptions(options, OPTIONS);
  const local = own.limiter === undefined ? limiterOfStore(store, own.clock ?? Date.now) : memoryLimiter();
  const context = ratelimitsContext(store, own, programAudit(own), local);
  return Object.freeze(withContext(methodsOf(context), CONTEXT_OF, context));
}

/**
 * What the operations work with, of options that were checked, and an audit trail that others share.
 * @param local enforces limits where no limiter is given, and while the one given fails
 */
export function ratelimitsContext(
  given: Store,
  options: Omit<RatelimitsOptions, "onAudit" | "audit" | "actor">,
  audit: Audit,
  local: Limiter = memoryLimiter(),
): LimitShared {
  const { limiter = local, onLimiterFailure = "local", nodes = 1, limiterTimeout } = options;
  return {
    ...createContext(given, options, audit),
    limiter: withFallback(limiter, { onFailure: onLimiterFailure, nodes, local, timeout: limiterTimeout }),
  };
}

function methodsOf(context: LimitShared): Ratelimits {
  const method =
    <B, T>({ name, schema, act }: Operation<LimitShared & OfCall, B, T, Schema<B>>) =>
    async (body = {} as B, asking: RatelimitContext = {}): Promise<T> => {
      if (!isPlainObject(asking)) throw contextError();
      const { caller: given } = checkOptions(asking, CONTEXT, "context");
      const caller = given === undefined ? undefined : strictCaller(given, "context.caller");
      return runRequest({ context, operation: name, caller }, () => parse(schema, body), act);
    };
  return {
    limit: method(limit),
    multiLimit: method(multiLimit),
    createNamespace: method(namespaces.createNamespace),
    getNamespace: method(namespaces.getNamespace),
    listNamespaces: method(namespaces.listNamespaces),
    setOverride: method(overrides.setOverride),
    getOverride: method(overrides.getOverride),
    listOverrides: method(overrides.listOverrides),
    deleteOverride: method(overrides.deleteOverride),
  };
}

const CONTEXT_OF = Symbol.for("keystile.ratelimits.context");

/** What rate limits work with; `undefined` for what {@link createRatelimits} did not create. */
export function contextOfRatelimits(ratelimits: Ratelimits): LimitShared | undefined {
  return (ratelimits as { readonly [CONTEXT_OF]?: LimitShared } | undefined)?.[CONTEXT_OF];
}
