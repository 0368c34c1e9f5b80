/** A verification in progress: what it was given, and what its checks have found so far. */
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
import type { LimitsTaken } from "./check-limits.js";
import type { KeySources, Lookup, Viewer } from "./find-key.js";
import type { Idempotency, IdempotentCall } from "./idempotency.js";
import type { KeyUsage } from "./key-usage.js";
import type { OutcomeEvent } from "./outcome-events.js";
import type { OutcomeCounter } from "./outcome-flush.js";
import { type PermissionCheck, TELL_PERMISSIONS, type TellingContext } from "./permission-check.js";
import type { MetaRead } from "./read-meta.js";
import { fillRequest, fillWithKey, NO_REQUEST, readRequestWithoutKey, type VerificationRequest } from "./request.js";

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
   * Only keys of this API: those of others are NOT_FOUND, and nothing is taken from them. Absent: keys of every API.
   */
  readonly apiId?: string;
  /**
   * Lets the request be repeated, 1–255 characters of printable ASCII: a repeat with the same key and body takes no
   * credits or tokens again, in any process, for `idempotency.ttl` milliseconds, and every other check runs anew. Each
   * workspace and caller has keys of its own; without a caller put your user's id in front of a key that the user
   * chose. Needs a store with the power `idempotency`.
   */
  readonly idempotencyKey?: string | undefined;
}

/** The names of {@link VerifyContext}; {@link beginCall} reads each. */
export const CONTEXT: Readonly<Record<keyof VerifyContext, true>> = {
  clientAddress: true,
  caller: true,
  apiId: true,
  idempotencyKey: true,
};

/** What a call has reserved. */
export interface Reserved {
  /** Its id in the store, chosen before anything is taken. */
  readonly id: string;
  /** That of the key. */
  readonly workspaceId: string;
  /** The account that it is of; `undefined`: nothing is to be taken. */
  readonly ref: KeyRef | undefined;
}

/** A context that was read: what few calls have, so that most share one object. */
export interface CallContext extends Viewer {
  readonly clientAddress: string | undefined;
  /** As it was given; undefined: the call is not to be repeated. */
  readonly idempotencyKey: unknown;
  /** Is told how to ask for more permissions of the key; `undefined`: nobody wants to. */
  readonly tellPermissions: ((check: PermissionCheck) => void) | undefined;
  /** Milliseconds for which the cost is reserved; `undefined`: it is spent. */
  readonly timeout: number | undefined;
}

const NO_CONTEXT: CallContext = Object.freeze({
  clientAddress: undefined,
  caller: undefined,
  apiId: undefined,
  idempotencyKey: undefined,
  tellPermissions: undefined,
  timeout: undefined,
});

/** Of a call whose key changed while it was verified, so that its checks run again. */
export interface Earlier {
  /** How often they ran before. */
  readonly runs: number;
  /** What was taken from limits, which is not taken twice; undefined: nothing was asked yet. */
  readonly limits: LimitsTaken | undefined;
}

/** The names of the context of a call that reserves. */
const RESERVE_CONTEXT = { ...CONTEXT, timeout: true } as const;

/** As a method of `Object.prototype`: `Object.hasOwn` takes 10 ns inside `for … in`. */
const { hasOwnProperty } = Object.prototype;

/** Dependencies of a verification; wired by `createVerifier`. */
export interface VerifyDeps {
  /** Is told of each call that waits for something, and returns it. */
  readonly track: <T>(call: Promise<T>) => Promise<T>;
  readonly clock: () => number;
  readonly compileQuery: QueryCompiler;
  readonly sources: KeySources;
  /** Reads stored metadata through the program's schema; undefined: it is returned as stored. */
  readonly readMeta: ((meta: JsonObject, keyId: string) => MaybePromise<MetaRead>) | undefined;
  readonly limiter: LimitTaker;
  readonly spender: Spender;
  readonly idempotency: Idempotency;
  readonly usage: KeyUsage;
  readonly onOutcome: ((event: OutcomeEvent) => void) | undefined;
  /** Counts verifications; undefined: nothing does. */
  readonly counter: OutcomeCounter | undefined;
}

/**
 * A verification in progress: its inputs, with the request, and what the checks found. One flat object, since each call
 * allocates it.
 */
export interface Verification extends Lookup {
  readonly deps: VerifyDeps;
  readonly query: Query | undefined;
  readonly context: CallContext;
  /** When it began, on a clock that only measures; 0 where nobody listens. */
  readonly began: number;
  /** The key's metadata as the result shows it. */
  meta: unknown;
  /** What `touch` of the key returned, which means nothing. */
  touched: number;
  /** Whether the query was evaluated: then the response lists the key's permissions and roles. */
  queried: boolean;
  /** The limits that were checked since the checks began; undefined: not yet. */
  limits: LimitsTaken | undefined;
  /** Result of spending or reading credits; {@link GONE}: the key is no longer in the store; undefined: none yet. */
  spend: Spend | undefined;
  /** Set once the checks have begun again. */
  earlier: Earlier | undefined;
  /** Set once a call with an idempotency key has begun. */
  once: IdempotentCall | undefined;
  /** Set once a call has begun to reserve. */
  reservation: Reserved | undefined;
}

/** A request that was validated before, but for its key. */
export interface RequestPlan {
  /** Its key is any valid one. */
  readonly request: VerificationRequest;
  readonly query: Query | undefined;
}

/**
 * Validates what a request says besides its key, for any number of calls.
 * @throws KeystileError BAD_REQUEST as {@link readRequest}; at `body.key` if there is one
 */
export function planRequest(deps: Pick<VerifyDeps, "compileQuery">, body: unknown): RequestPlan {
  const request = readRequestWithoutKey(body);
  return Object.freeze({ request, query: queryOf(deps, request) });
}

const queryOf = ({ compileQuery }: Pick<VerifyDeps, "compileQuery">, { permissions }: VerificationRequest) =>
  permissions === undefined ? undefined : compileQuery(permissions);

/** How a call differs from `verify`. */
export interface CallKind {
  /** Of a prepared call: its request, but for the key. */
  readonly plan?: RequestPlan;
  /** Of a call that reserves its cost: milliseconds until the credits return unless it was settled. */
  readonly timeout?: number;
}

const VERIFYING: CallKind = Object.freeze({});

/**
 * Validates a request and its context, of which it reads own properties only, each once: a polluted prototype must not
 * set the caller or the address. A misspelt name must not open every API, or let a caller act as the program.
 * @throws KeystileError as `verifyKey` · TypeError for a context that is not an object, an unknown name, or an
 *   `apiId` that is not text
 */
export function beginCall(
  deps: VerifyDeps,
  body: unknown,
  context: (VerifyContext & TellingContext) | undefined,
  { plan, timeout }: CallKind = VERIFYING,
): Verification {
  const given = context === undefined && timeout === undefined ? NO_CONTEXT : readContext(context, timeout);
  if (given.caller?.mayAny("verify_key", "api") === false) throw mayNotVerify();
  const { key, tags, permissions, cost, ratelimits, migrationId } = NO_REQUEST;
  const call: Mutable<Verification> = {
    key,
    tags,
    permissions,
    cost,
    ratelimits,
    migrationId,
    deps,
    query: undefined,
    context: given,
    now: deps.clock(),
    began: deps.onOutcome === undefined ? 0 : performance.now(),
    meta: undefined,
    touched: 0,
    queried: false,
    limits: undefined,
    spend: undefined,
    earlier: undefined,
    once: undefined,
    reservation: undefined,
  };
  if (plan === undefined) fillRequest(call, body);
  else fillWithKey(call, plan.request, body);
  call.query = plan === undefined ? queryOf(deps, call) : plan.query;
  return call;
}

function readContext(context: (VerifyContext & TellingContext) | undefined, timeout: number | undefined): CallContext {
  const read: Mutable<CallContext> = { ...NO_CONTEXT, timeout };
  if (context === undefined) return read;
  if (!isPlainObject(context)) throw contextError();
  const names = timeout === undefined ? CONTEXT : RESERVE_CONTEXT;
  for (const name in context)
    if (!hasOwnProperty.call(names, name) && hasOwnProperty.call(context, name))
      throw unknownOption("context", name, names);
  // Not in the loop, which passes over what is not enumerable.
  if (hasOwnProperty.call(context, "clientAddress")) read.clientAddress = context.clientAddress;
  if (hasOwnProperty.call(context, "caller")) read.caller = strictCaller(context.caller, "context.caller");
  if (hasOwnProperty.call(context, "apiId")) read.apiId = apiIdOf(context.apiId);
  if (hasOwnProperty.call(context, "idempotencyKey")) read.idempotencyKey = context.idempotencyKey;
  if (hasOwnProperty.call(context, TELL_PERMISSIONS)) read.tellPermissions = context[TELL_PERMISSIONS];
  return read;
}

/** An `apiId` that is given but not text is a mistake of the program, which must not open every API. */
function apiIdOf(apiId: unknown): string {
  if (typeof apiId !== "string" || apiId === "")
    throw new TypeError("context.apiId must be the id of an API; leave it out to verify the keys of every API");
  return apiId;
}

const mayNotVerify = () => new KeystileError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");

/** Forgets what the checks found, before they run again. What was taken from limits stays taken. */
export function forgetFindings(call: Verification): void {
  const { earlier, limits } = call;
  call.earlier = { runs: (earlier?.runs ?? 0) + 1, limits: limits ?? earlier?.limits };
  call.queried = false;
  call.limits = undefined;
  call.spend = undefined;
}

/** In place of the spend of a key that is no longer in the store. */
export const GONE: Spend = Object.freeze({ ok: false, remaining: 0 });
