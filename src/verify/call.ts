/** A verification in progress: what it was given, and what its checks have found so far. */
import type { CachedKey } from "../cache/cached-key.js";
import { strictCaller } from "../access/check-caller.js";
import type { Query, QueryCompiler } from "../access/permission-query.js";
import type { Caller } from "../contracts/caller.js";
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, Spend } from "../contracts/store.js";
import type { JsonObject, MaybePromise } from "../contracts/types.js";
import type { Spender } from "../credits/spender.js";
import { contextError, isPlainObject, unknownOption } from "../lib/check-options.js";
import type { LimitTaker } from "../ratelimit/fallback.js";
import type { Mutable } from "../lib/mutable.js";
import type { LimitedCall, LimitsNote } from "../ratelimit/take-limits.js";
import type { KeySources, Lookup, Viewer } from "./find-key.js";
import type { Idempotency, IdempotentCall } from "./idempotency.js";
import type { KeyUsage } from "./key-usage.js";
import type { OutcomeEvent } from "./outcome-events.js";
import type { OutcomeCounter } from "./outcome-flush.js";
import { TELL_PERMISSIONS, type TellingContext } from "./parse-permission-query.js";
import type { MetaRead } from "./read-meta.js";
import { NO_REQUEST, readRequestWithoutKey, type VerificationRequest } from "./request.js";

/** What the program knows about a request besides its body. */
export interface VerifyContext {
  /** The client's IPv4 or IPv6 address. Without it, a key or API with an allow-list is FORBIDDEN. */
  readonly clientAddress?: string | undefined;
  /**
   * The authenticated caller, if the program serves others: contract 4.1-3 and 4.1-4 apply. Absent: the program itself,
   * which may verify every key.
   */
  readonly caller?: Caller;
  /**
   * Only keys of this API are found: a key of another API is NOT_FOUND and nothing is taken. Absent: keys of every API.
   */
  readonly apiId?: string;
  /**
   * Makes the call safe to repeat, 1–255 characters of printable ASCII. For `idempotency.ttl` milliseconds, a repeat
   * with the same idempotency key and body takes no credits or tokens again, in any process; every other check runs
   * anew. Idempotency keys are separate per workspace and caller. Without a caller, prefix one that a user chose with
   * the user's id. Needs a store with `powers.idempotency`.
   */
  readonly idempotencyKey?: string | undefined;
}

/** The names of {@link VerifyContext}; {@link readContext} reads each. */
export const CONTEXT: Readonly<Record<keyof VerifyContext, true>> = {
  clientAddress: true,
  caller: true,
  apiId: true,
  idempotencyKey: true,
};

/** The reservation of a call. */
export interface Reserved {
  /** Its id in the store, chosen before anything is taken. */
  readonly id: string;
  /** The reserving key: credits kept when the reservation is settled are counted as spent by this key. */
  readonly of: Pick<CachedKey, "workspaceId" | "apiId" | "keyId" | "identity" | "ownerAccount">;
  /** The account that pays; `undefined`: nothing is to be taken. */
  readonly ref: KeyRef | undefined;
  /** If several accounts pay: those of each wallet, in the order in which they are drawn. */
  readonly wallets?: readonly (readonly KeyRef[])[];
}

/** A context after reading. Few calls have any of these values: most share one object. */
export interface CallContext extends Viewer {
  readonly clientAddress: string | undefined;
  /** As given, not yet validated; undefined: the call has no idempotency key. */
  readonly idempotencyKey: unknown;
  /** Receives a function that checks further permissions of the key; `undefined`: none is wanted. */
  readonly tellPermissions: TellingContext[typeof TELL_PERMISSIONS];
  /** Milliseconds for which the cost is reserved; `undefined`: the cost is spent at once. */
  readonly timeout: number | undefined;
}

/** The context of a call without one. */
export const NO_CONTEXT: CallContext = Object.freeze({
  clientAddress: undefined,
  caller: undefined,
  apiId: undefined,
  idempotencyKey: undefined,
  tellPermissions: undefined,
  timeout: undefined,
});

/** Earlier runs of a call's checks: they run again if the key changes meanwhile. */
export interface Earlier {
  /** Number of earlier runs. */
  readonly runs: number;
  /** What the limits gave: tokens are not taken twice. undefined: no limit was asked yet. */
  readonly limits: LimitedCall["limits"];
  readonly limitsNote: LimitsNote | undefined;
}

/** The names of `ReserveContext`. */
const RESERVE_CONTEXT = { ...CONTEXT, timeout: true } as const;

/** The method of `Object.prototype`: `Object.hasOwn` takes 10 ns inside `for … in`. */
const { hasOwnProperty } = Object.prototype;

/** The calls of a verifier that wait for something. */
export class CallsInFlight {
  #isClosed = false;
  #count = 0;
  #onSettled: (() => void) | undefined;
  readonly #end = (): void => {
    if (--this.#count === 0) this.#onSettled?.();
  };

  /** Makes {@link CallsInFlight.close} wait for a call; returns the call. */
  track<T>(call: Promise<T>): Promise<T> {
    this.#count++;
    call.then(this.#end, this.#end);
    return call;
  }

  /** @throws KeystileError VERIFIER_CLOSED */
  assertOpen(): void {
    if (this.#isClosed) throw new KeystileError("VERIFIER_CLOSED", "the verifier was closed; make another to go on");
  }

  /** From now on no call may begin. Resolves once all have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#count > 0) await new Promise<void>((resolve) => (this.#onSettled = resolve));
  }
}

/** Dependencies of a verification; wired by `createVerifier`. */
export interface VerifyDeps {
  readonly calls: CallsInFlight;
  readonly clock: () => number;
  readonly compileQuery: QueryCompiler;
  /** The request of `verifier.prepare`, validated once; the body of each call is then the key alone. */
  readonly plan: RequestPlan | undefined;
  readonly sources: KeySources;
  /** Reads stored metadata through the program's schema; undefined: it is returned as stored. */
  readonly readMeta: ((meta: JsonObject, keyId: string) => MaybePromise<MetaRead>) | undefined;
  readonly limiter: LimitTaker;
  readonly spender: Spender;
  readonly idempotency: Idempotency;
  readonly usage: KeyUsage;
  readonly onOutcome: ((event: OutcomeEvent) => void) | undefined;
  /** Counts verifications; undefined: they are not counted. */
  readonly counter: OutcomeCounter | undefined;
}

/**
 * A verification in progress: its request, its other inputs, and what the checks found. One flat object, since each
 * call allocates it.
 */
export class Verification implements Lookup, LimitedCall {
  key = NO_REQUEST.key;
  tags = NO_REQUEST.tags;
  permissions = NO_REQUEST.permissions;
  cost = NO_REQUEST.cost;
  ratelimits = NO_REQUEST.ratelimits;
  migrationId = NO_REQUEST.migrationId;
  /** {@link Verification.permissions}, compiled. */
  query: Query | undefined = undefined;
  readonly deps: VerifyDeps;
  readonly context: CallContext;
  readonly now: number;
  /** Start time from `performance.now()`, for the duration in the event; 0 without `onOutcome`. */
  readonly began: number;
  /** The key's metadata as the result shows it. */
  meta: unknown = undefined;
  /** The result of the key's `prefetch`, kept only so that the engine does not optimise the read away. */
  prefetched = 0;
  /** Whether the query was evaluated: then the response lists the key's permissions and roles. */
  queried = false;
  /** Results of the limits in this run of the checks; undefined: not checked yet, or none applies. */
  limits: LimitedCall["limits"] = undefined;
  limitsNote: LimitsNote | undefined = undefined;
  /** Result of spending or reading credits; {@link GONE}: the key is no longer in the store; undefined: none yet. */
  spend: Spend | undefined = undefined;
  /** The runs before this one; undefined: the checks run for the first time. */
  earlier: Earlier | undefined = undefined;
  /** The call under its idempotency key, in flight; undefined: it has none. */
  once: IdempotentCall | undefined = undefined;
  /** What the call reserves; undefined: it reserves nothing, or has not begun to. */
  reservation: Reserved | undefined = undefined;

  constructor(deps: VerifyDeps, context: CallContext) {
    this.deps = deps;
    this.context = context;
    this.now = deps.clock();
    this.began = deps.onOutcome === undefined ? 0 : performance.now();
  }
}

/** A validated request without its key, for many calls. */
export interface RequestPlan {
  /** Its `key` is a placeholder. */
  readonly request: VerificationRequest;
  readonly query: Query | undefined;
}

/**
 * Validates a request without its key, for any number of calls.
 * @throws KeystileError BAD_REQUEST as {@link readRequest}; at `body.key` if there is one
 */
export function planRequest(deps: Pick<VerifyDeps, "compileQuery">, body: unknown): RequestPlan {
  const request = readRequestWithoutKey(body);
  const { permissions } = request;
  return Object.freeze({ request, query: permissions === undefined ? undefined : deps.compileQuery(permissions) });
}

/**
 * Reads own properties only, each once: a polluted prototype must not set the caller or the address. Refuses unknown
 * names: a misspelt `apiId` would allow every API, a misspelt `caller` would let that caller act as the program.
 * @param timeout of a call that reserves its cost: milliseconds until an unsettled reservation returns its credits
 * @throws TypeError for a context that is not an object, an unknown name, or an `apiId` that is not text
 */
export function readContext(context: (VerifyContext & TellingContext) | undefined, timeout?: number): CallContext {
  const read: Mutable<CallContext> = {
    clientAddress: undefined,
    caller: undefined,
    apiId: undefined,
    idempotencyKey: undefined,
    tellPermissions: undefined,
    timeout,
  };
  if (context === undefined) return read;
  if (!isPlainObject(context)) throw contextError();
  const names = timeout === undefined ? CONTEXT : RESERVE_CONTEXT;
  for (const name in context)
    if (!hasOwnProperty.call(names, name) && hasOwnProperty.call(context, name))
      throw unknownOption("context", name, names);
  // Not in the loop: it skips properties that are not enumerable.
  if (hasOwnProperty.call(context, "clientAddress")) read.clientAddress = context.clientAddress;
  if (hasOwnProperty.call(context, "caller")) read.caller = strictCaller(context.caller, "context.caller");
  if (hasOwnProperty.call(context, "apiId")) read.apiId = apiIdOf(context.apiId);
  if (hasOwnProperty.call(context, "idempotencyKey")) read.idempotencyKey = context.idempotencyKey;
  if (hasOwnProperty.call(context, TELL_PERMISSIONS)) read.tellPermissions = context[TELL_PERMISSIONS];
  return read;
}

/** An `apiId` that is present but not text, such as undefined, throws: it must not allow every API. */
function apiIdOf(apiId: unknown): string {
  if (typeof apiId !== "string" || apiId === "")
    throw new TypeError("context.apiId must be the id of an API; leave it out to verify the keys of every API");
  return apiId;
}

/** Forgets what the checks found, before they run again. Tokens taken from limits stay taken. */
export function forgetFindings(call: Verification): void {
  const { limits, limitsNote } = call.limits === undefined ? (call.earlier ?? call) : call;
  call.earlier = { runs: (call.earlier?.runs ?? 0) + 1, limits, limitsNote };
  call.queried = false;
  call.limits = undefined;
  call.limitsNote = undefined;
  call.spend = undefined;
}

/** The spend of a key that is no longer in the store. */
export const GONE: Spend = Object.freeze({ ok: false, remaining: 0 });
