/**
 * A verification in progress: what it was given, what its checks have found, and its end: response, outcome event and
 * count. Contract 2.2.
 */
import type { CachedKey } from "../cache/cached-key.js";
import type { Query, QueryCompiler } from "../access/permission-query.js";
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, Spend } from "../contracts/store.js";
import type {
  JsonObject,
  MaybePromise,
  UnknownKey,
  V2KeysVerifyKeyResponseData,
  VerificationCode,
  VerificationResult,
} from "../contracts/types.js";
import { untilRefilled } from "../credits/refill-calendar.js";
import type { Spender } from "../credits/spender.js";
import { untilCovered } from "../credits/wait.js";
import { inDrawOrder } from "../credits/wallet.js";
import { DEFAULT_WORKSPACE } from "../lib/check-options.js";
import type { LimitTaker } from "../ratelimit/fallback.js";
import type { LimitedCall, LimitsNote } from "../ratelimit/take-limits.js";
import type { CallContext } from "./context.js";
import type { KeySources, Lookup } from "./find-key.js";
import type { Idempotency, IdempotentCall } from "./idempotency.js";
import type { KeyUsage } from "./key-usage.js";
import { type OutcomeEvent, redact } from "./outcome-events.js";
import type { OutcomeCounter } from "./outcome-flush.js";
import { createPermissionCheck } from "./parse-permission-query.js";
import type { MetaRead } from "./read-meta.js";
import { refusalOf } from "./refusals.js";
import { NO_REQUEST, type RequestPlan } from "./request.js";
import { keepRetryAfter } from "./result-retry-after.js";

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

/** Earlier runs of a call's checks: they run again if the key changes meanwhile, and take no tokens twice. */
export interface Earlier extends Pick<LimitedCall, "limits" | "limitsNote"> {
  /** Number of earlier runs. */
  readonly runs: number;
}

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

/** Ends a call whose key was found. */
export function conclude(call: Verification, key: CachedKey, code: VerificationCode): VerificationResult<unknown> {
  const { deps, now } = call;
  deps.usage.note(key, call.key, now);
  const response = new Result(call, key, code);
  if (code === "RATE_LIMITED") keepRetryAfter(response, whileValid(key, now, call.limitsNote?.retryAfter));
  else if (code === "USAGE_EXCEEDED") keepRetryAfter(response, whileValid(key, now, untilRefill(call, key)));
  call.context.tellPermissions?.(createPermissionCheck(deps.compileQuery, key.policy.grants), key.policy.grants);
  const { onOutcome, counter } = deps;
  if (onOutcome === undefined && counter === undefined) return response;
  const taken = code === "VALID" && key.policy.hasCredits && call.once?.isRepeat !== true ? call.cost : 0;
  const spent = call.context.timeout === undefined ? taken : 0;
  counter?.count(key, { code, spent }, call);
  if (code !== "VALID") counter?.noteRefusal?.(key, refusalOf(call, key, code));
  onOutcome?.(eventOf(call, key, { code, spent, ...(taken > spent && { reserved: taken }) }));
  return response;
}

/** Ends a call whose key does not exist or is not visible to the caller. */
export function notFound(call: Verification): UnknownKey {
  const { deps, tags, key, context, now, began } = call;
  const { onOutcome, counter, sources } = deps;
  counter?.countUnknown(context.caller?.workspaceId ?? sources.workspaceId ?? DEFAULT_WORKSPACE, call);
  if (onOutcome !== undefined) {
    const duration = performance.now() - began;
    onOutcome({ time: now, code: "NOT_FOUND", tags: redact(tags, key), spent: 0, duration, degraded: false });
  }
  // Only `valid` and `code`: a hidden key looks like one that does not exist (contract 4.1-3).
  return { valid: false, code: "NOT_FOUND" };
}

/** Milliseconds until the refill that would cover the call; undefined: there is none. */
function untilRefill({ cost, now, spend }: Verification, { refill, wallets }: CachedKey): number | undefined {
  const { remaining, balances } = spend ?? {};
  if (wallets === undefined)
    return typeof remaining === "number" ? untilRefilled(refill, { remaining, cost }, now) : undefined;
  const limited = balances?.flatMap((left, i) => {
    const accounts = inDrawOrder(wallets[i]?.accounts ?? [], now);
    return left.includes(null) ? [] : [accounts.map((one, j) => ({ ...one, remaining: left[j] as number }))];
  });
  return limited && untilCovered(limited, cost, now);
}

/** A wait that ends while the key is valid; undefined: it will have expired. */
function whileValid({ expires, rare }: CachedKey, now: number, wait: number | undefined): number | undefined {
  const end = Math.min(expires ?? Infinity, rare.ownerExpires ?? Infinity);
  return wait !== undefined && now + wait <= end ? wait : undefined;
}

type Result = V2KeysVerifyKeyResponseData<unknown>;

/**
 * Builds every response for a key that was found. A property that does not apply is absent. After a query it lists the
 * key's roles; after a query and with FORBIDDEN also its permissions, unless they are too long.
 *
 * Why a constructor: the object has space for all of these properties. What is added to a literal goes to another
 * object: 50 to 80 bytes a call. The prototype is that of a literal.
 */
const Result = function (this: Result, call: Verification, key: CachedKey, code: VerificationCode) {
  const { meta, queried, limits, spend } = call;
  const { name, expires, rare, policy } = key;
  const credits = spend?.remaining ?? undefined;
  this.valid = code === "VALID";
  this.code = code;
  this.keyId = key.keyId;
  this.enabled = policy.enabled;
  if (name !== undefined) this.name = name;
  if (meta !== undefined) this.meta = meta;
  if (expires !== undefined) this.expires = expires;
  if (credits !== undefined) this.credits = credits;
  if (queried || code === "FORBIDDEN") {
    const { permissions } = policy.grants;
    if (permissions !== undefined) this.permissions = permissions.slice();
  }
  if (queried) this.roles = policy.grants.roles.slice();
  if (rare.identity !== undefined) this.identity = rare.identity;
  if (limits !== undefined) this.ratelimits = limits;
} as unknown as new (call: Verification, key: CachedKey, code: VerificationCode) => VerificationResult<unknown>;
Result.prototype = Object.prototype as VerificationResult<unknown>;

/** The event of a verification whose key was found. */
function eventOf(
  { key, tags, now, began, limitsNote, spend }: Verification,
  { keyId, policy, rare, wallets }: CachedKey,
  outcome: Pick<OutcomeEvent, "code" | "spent" | "reserved">,
): OutcomeEvent {
  const remaining = spend?.remaining ?? undefined;
  return {
    time: now,
    tags: redact(tags, key),
    keyId,
    apiId: policy.apiId,
    workspaceId: policy.workspaceId,
    ...(rare.identity !== undefined && { identityId: rare.identity.id, externalId: rare.identity.externalId }),
    ...outcome,
    ...(remaining !== undefined && { remaining }),
    ...(spend?.least !== undefined && { decidedBy: wallets?.[spend.least]?.owner }),
    duration: performance.now() - began,
    degraded: limitsNote?.degraded === true,
    ...(limitsNote?.displaced !== undefined && { displacedBuckets: limitsNote.displaced }),
    ...(spend?.forfeited !== undefined && { forfeitedRefills: spend.forfeited }),
  };
}
