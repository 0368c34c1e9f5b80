/**
 * A verification: the ordered checks, and the one loop that runs them. Spec §2.2, §3.
 *
 * To add a check, add it to {@link CHECKS}, and nothing elsewhere. The only way to VALID is to reach the end of the
 * list, so no check can be skipped. A check passes only if it returns exactly `false`.
 *
 * Why no `async`: most results are in memory, and an async function costs 60 ns more per call.
 */
import { strictCaller } from "../access/check-caller.js";
import { namesInQuery, type Query, type QueryCompiler } from "../access/permission-query.js";
import type { CachedKey } from "../cache/cached-key.js";
import type { Caller } from "../contracts/caller.js";
import { KeystileError } from "../contracts/errors.js";
import type { Spend } from "../contracts/store.js";
import type {
  JsonObject,
  MaybePromise,
  VerificationCode,
  VerificationResult,
  VerifyKeyRatelimitData,
} from "../contracts/types.js";
import type { Spender } from "../credits/spender.js";
import { contextError, isPlainObject, unknownOption } from "../lib/check-options.js";
import { isThenable } from "../lib/thenable.js";
import { applyLimits } from "../ratelimit/applied-limits.js";
import type { LimitTaker } from "../ratelimit/fallback.js";
import { findKey, findKeyAgain, type KeySources } from "./find-key.js";
import type { Idempotency, IdempotentCall } from "./idempotency.js";
import type { KeyUsage } from "./key-usage.js";
import { type LimitsTaken, takeLimits } from "./check-limits.js";
import type { Viewer } from "./find-key.js";
import { type OutcomeEvent, redact } from "./outcome-events.js";
import type { MetaRead } from "./read-meta.js";
import { readRequest, type VerificationRequest } from "./request.js";
import { answerFor, answerNotFound, eventFor } from "./response.js";
import { keepRetryAfter } from "./result-retry-after.js";

/** What the program knows about a request besides its body. */
export interface VerifyContext {
  /** The client's IPv4 or IPv6 address. Without it, a key or API with an allow-list is FORBIDDEN. */
  readonly clientAddress?: string | undefined;
  /**
   * The authenticated caller, if the program serves others: spec §4.1-3 and §4.1-4 apply. Absent: the program itself,
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
export const CONTEXT = {
  clientAddress: true,
  caller: true,
  apiId: true,
  idempotencyKey: true,
} as const satisfies Record<keyof VerifyContext, true>;

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
}

/** A verification in progress: its inputs, and what the checks found. */
export interface Verification extends Viewer {
  readonly deps: VerifyDeps;
  readonly request: VerificationRequest;
  readonly query: Query | undefined;
  readonly clientAddress: string | undefined;
  /** As it was given; undefined: the call is not to be repeated. */
  readonly idempotencyKey: unknown;
  readonly now: number;
  /** The key's metadata as the result shows it. */
  meta: unknown;
  /** Whether the query was evaluated: then the response lists the key's permissions and roles. */
  queried: boolean;
  /** The limits that were checked; undefined: none. */
  limits: LimitsTaken | undefined;
  /**
   * What was taken from limits, kept when the checks restart so that it is not taken twice; null: no limit applies;
   * undefined: not asked yet.
   */
  taken: LimitsTaken | null | undefined;
  /** Result of spending or reading credits; undefined: none yet; null: the key no longer exists in the store. */
  spend: Spend | null | undefined;
  /** How often the checks restarted. */
  restarts: number;
  /** Set once a call with an idempotency key has begun. */
  once: IdempotentCall | undefined;
}

/** What one check finds, as `explain` returns it. Several checks may have one code. */
export type ExplainedCheck =
  | { readonly code: "DISABLED"; readonly passes: boolean }
  | {
      readonly code: "EXPIRED";
      readonly passes: boolean;
      /** Last instant at which the key is valid, Unix time in milliseconds; absent: never expires. */
      readonly expires?: number;
    }
  | {
      readonly code: "FORBIDDEN";
      readonly passes: boolean;
      /** Whether the key's API or workspace is disabled. */
      readonly parentDisabled: boolean;
      /** Whether the allow-lists of key and API let the client's address pass. */
      readonly addressAllowed: boolean;
    }
  | {
      readonly code: "INSUFFICIENT_PERMISSIONS";
      readonly passes: boolean;
      /**
       * Permissions that the query names and the key does not have, in the query's order; an `OR` may pass with some.
       */
      readonly missing: readonly string[];
    }
  | {
      readonly code: "RATE_LIMITED";
      readonly passes: boolean;
      /** The limits that apply, as they stand: `remaining` and `reset` are those before the call. */
      readonly limits: readonly ExplainedLimit[];
      /** Milliseconds until the call could pass; absent if it passes, or if waiting does not help. */
      readonly retryAfter?: number;
      /** Whether the fallback of a failed limiter was asked. */
      readonly degraded: boolean;
    }
  | {
      readonly code: "USAGE_EXCEEDED";
      readonly passes: boolean;
      /** Credits that the call would take. */
      readonly cost: number;
      /** The balance now, due refills included; absent: unlimited. In `leased` mode as this process knows it. */
      readonly remaining?: number;
    };

/** One limit of a dry run. */
export interface ExplainedLimit extends VerifyKeyRatelimitData {
  /** Tokens that the call would take. */
  readonly cost: number;
}

/** Of each kind of {@link ExplainedCheck}: the check, and beside its condition what it tells of it. */
type CheckOf<Explained> = Explained extends ExplainedCheck
  ? {
      /** The code of the response if the key fails. */
      readonly code: Explained["code"];
      /** Whether the key fails. A promise only if a limiter or a store returns one. */
      readonly fails: (call: Verification, key: CachedKey) => MaybePromise<boolean>;
      /** What it found, read from the call after it ran. */
      readonly finding: (call: Verification, key: CachedKey) => Omit<Explained, "code" | "passes">;
    }
  : never;
/** One check of a key that was found. */
type Check = CheckOf<ExplainedCheck>;

/** In order: the first one that fails gives the code, and later ones do not run. Only the last two take anything. */
export const CHECKS: readonly Check[] = [
  { code: "DISABLED", fails: (_, { policy }) => !policy.enabled, finding: () => ({}) },
  {
    code: "EXPIRED",
    fails: ({ now }, { expires }) => expires !== undefined && now > expires,
    finding: (_, { expires }) => (expires === undefined ? {} : { expires }),
  },
  {
    code: "FORBIDDEN",
    fails: ({ clientAddress }, key) => key.policy.parentDisabled || !key.allows(clientAddress),
    finding: ({ clientAddress }, key) => ({
      parentDisabled: key.policy.parentDisabled,
      addressAllowed: key.allows(clientAddress),
    }),
  },
  {
    code: "INSUFFICIENT_PERMISSIONS",
    fails: lacksPermissions,
    finding: ({ request: { permissions } }, { policy: { grants } }) => ({
      missing: permissions === undefined ? [] : namesInQuery(permissions).filter((name) => !grants.covers(name)),
    }),
  },
  {
    code: "RATE_LIMITED",
    fails: exceedsLimits,
    finding: ({ limits, request: { ratelimits } }, key) => ({
      limits: applyLimits(key, ratelimits).map(({ cost }, i) => ({
        ...(limits?.results[i] as VerifyKeyRatelimitData),
        cost,
      })),
      ...(limits?.retryAfter !== undefined && { retryAfter: limits.retryAfter }),
      degraded: limits?.degraded === true,
    }),
  },
  {
    code: "USAGE_EXCEEDED",
    fails: exceedsCredits,
    finding: ({ request: { cost }, spend }) => ({
      cost,
      ...(typeof spend?.remaining === "number" && { remaining: spend.remaining }),
    }),
  },
];

/** What the schema makes of metadata is known to who gave it. */
type ResponseData = VerificationResult<unknown>;

/**
 * Verifies one request.
 * @throws (rejects) KeystileError 400 for an invalid request or query, or a limit that does not exist; 403 for a caller
 *   without any permission to verify (spec §4.1-4); IDEMPOTENCY_… for a call with an idempotency key
 * @see spec §4.1-1, §4.1-2 · waits only for what is not in memory
 */
export function verifyKey(deps: VerifyDeps, body: unknown, context: VerifyContext | undefined): Promise<ResponseData> {
  try {
    const result = findAndCheck(deps, body, context);
    return result instanceof Promise ? deps.track(result) : Promise.resolve(result);
  } catch (error) {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what was thrown, as it is
    return Promise.reject(error);
  }
}

function findAndCheck(deps: VerifyDeps, body: unknown, context: VerifyContext | undefined): MaybePromise<ResponseData> {
  const call = beginCall(deps, body, context);
  const { idempotencyKey } = call;
  const scope = idempotencyKey === undefined ? undefined : deps.idempotency.scopeOf(idempotencyKey, call.caller);
  const found = findKey(deps.sources, call.request, call, call.now);
  if (scope !== undefined) return checkOnce(call, scope, found);
  return found instanceof Promise ? checkFound(call, found) : checkKey(call, found);
}

/**
 * Validates a request and its context, of which it reads own properties only, each once: a polluted prototype must not
 * set the caller or the address. A misspelt name must not open every API, or let a caller act as the program.
 * @throws KeystileError as {@link verifyKey} · TypeError for a context that is not an object, an unknown name, or an
 *   `apiId` that is not text
 */
export function beginCall(deps: VerifyDeps, body: unknown, context: VerifyContext | undefined): Verification {
  let clientAddress: string | undefined, given: Caller | undefined, apiId: string | undefined, idempotencyKey: unknown;
  if (context !== undefined) {
    if (!isPlainObject(context)) throw contextError();
    for (const name in context)
      if (!hasOwnProperty.call(CONTEXT, name) && hasOwnProperty.call(context, name))
        throw unknownOption("context", name, CONTEXT);
    // Not in the loop, which passes over what is not enumerable.
    if (hasOwnProperty.call(context, "clientAddress")) clientAddress = context.clientAddress;
    if (hasOwnProperty.call(context, "caller")) given = context.caller;
    if (hasOwnProperty.call(context, "apiId")) apiId = apiIdOf(context.apiId);
    if (hasOwnProperty.call(context, "idempotencyKey")) idempotencyKey = context.idempotencyKey;
  }
  const caller = given === undefined ? undefined : strictCaller(given, "context.caller");
  if (caller?.mayAny("verify_key", "api") === false) throw mayNotVerify();
  const request = readRequest(body);
  const query = request.permissions === undefined ? undefined : deps.compileQuery(request.permissions);
  return {
    deps,
    request,
    query,
    caller,
    apiId,
    clientAddress,
    idempotencyKey,
    now: deps.clock(),
    meta: undefined,
    queried: false,
    limits: undefined,
    taken: undefined,
    spend: undefined,
    restarts: 0,
    once: undefined,
  };
}

/** An `apiId` that is given but not text is a mistake of the program, which must not open every API. */
function apiIdOf(apiId: unknown): string {
  if (typeof apiId !== "string" || apiId === "")
    throw new TypeError("context.apiId must be the id of an API; leave it out to verify the keys of every API");
  return apiId;
}

/*
 * Why the functions that wait stand apart: a function that holds a closure allocates for it at every call, waiting or
 * not. Together they took 550 bytes per call.
 */
function checkFound(call: Verification, finding: Promise<CachedKey | undefined>): Promise<ResponseData> {
  return finding.then((key) => checkKey(call, key));
}

const mayNotVerify = () => new KeystileError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");

/** Metadata that does not fit the program's schema ends the call before anything is taken. */
function checkKey(call: Verification, key: CachedKey | undefined): MaybePromise<ResponseData> {
  if (key === undefined) return notFound(call);
  const reading = readMeta(call, key);
  return reading === undefined ? runChecks(call, key, 0) : whenMetaRead(reading, call, key);
}

function whenMetaRead(reading: Promise<void>, call: Verification, key: CachedKey): Promise<ResponseData> {
  return reading.then(() => runChecks(call, key, 0));
}

/** Sets `call.meta`: what the program's schema makes of the key's metadata. @throws KeystileError META_INVALID */
export function readMeta(call: Verification, key: CachedKey): Promise<void> | undefined {
  const stored = key.rare.meta;
  call.meta = stored;
  if (stored === undefined || call.deps.readMeta === undefined) return undefined;
  const reading = call.deps.readMeta(stored, key.keyId);
  if (isThenable(reading)) return setMeta(call, reading);
  call.meta = reading.value;
  return undefined;
}

async function setMeta(call: Verification, reading: Promise<MetaRead>): Promise<void> {
  call.meta = (await reading).value;
}

/** The same for a call with an idempotency key, which is in flight until it has ended. */
async function checkOnce(
  call: Verification,
  scope: string,
  finding: MaybePromise<CachedKey | undefined>,
): Promise<ResponseData> {
  const { deps, request, now } = call;
  const key = await finding;
  if (key === undefined) return notFound(call);
  const once = await deps.idempotency.begin(scope, key.policy.workspaceId, request, now);
  call.once = once;
  try {
    return await checkKey(call, key);
  } finally {
    deps.idempotency.end(once);
  }
}

/** Runs the checks from index `from` on. */
function runChecks(call: Verification, key: CachedKey, from: number): MaybePromise<ResponseData> {
  for (let i = from; i < CHECKS.length; i++) {
    const { code, fails } = CHECKS[i] as Check;
    const failed = fails(call, key);
    if (failed === false) continue;
    if (failed === true) return refuse(call, key, code);
    return finishCheck(failed, call, key, i);
  }
  return conclude(call, key, "VALID");
}

/** Whatever a check resolves with but `false` is a failure. */
function finishCheck(failing: Promise<unknown>, call: Verification, key: CachedKey, i: number): Promise<ResponseData> {
  const { code } = CHECKS[i] as Check;
  return failing.then((failed) => (failed === false ? runChecks(call, key, i + 1) : refuse(call, key, code)));
}

function lacksPermissions(call: Verification, key: CachedKey): boolean {
  if (call.query === undefined) return false;
  call.queried = true;
  return !key.policy.grants.satisfies(call.query);
}

function exceedsLimits(call: Verification, key: CachedKey): MaybePromise<boolean> {
  if (call.taken !== undefined) return noteLimits(call, call.taken ?? undefined);
  const isRepeat = call.once?.isRepeat === true;
  const taking = takeLimits(call.deps.limiter, key, call.request.ratelimits, call.now, isRepeat);
  return taking instanceof Promise ? whenTaken(call, taking) : noteLimits(call, taking);
}

function whenTaken(call: Verification, taking: Promise<LimitsTaken | undefined>): Promise<boolean> {
  return taking.then((limits) => noteLimits(call, limits));
}

function noteLimits(call: Verification, limits: LimitsTaken | undefined): boolean {
  call.limits = limits;
  call.taken = limits ?? null;
  return limits?.exceeded === true;
}

function exceedsCredits(call: Verification, key: CachedKey): MaybePromise<boolean> {
  const { once, request } = call;
  if (once !== undefined) return exceedsOnce(call, key, once);
  return key.policy.hasCredits ? spendCredits(call, key, request.cost) : false;
}

/** What was recorded before takes nothing again; anything else is recorded with its spend, or without credits. */
function exceedsOnce(call: Verification, key: CachedKey, once: IdempotentCall): MaybePromise<boolean> {
  const target = key.policy.hasCredits ? key : undefined;
  if (!once.isRepeat) return whenSpent(call, call.deps.idempotency.spend(once, target, call.request.cost, call.now));
  return target === undefined ? false : spendCredits(call, target, 0);
}

/** @returns true: the credits were not taken */
function spendCredits(call: Verification, key: CachedKey, cost: number): MaybePromise<boolean> {
  const spending = call.deps.spender.spend(key, cost, call.now);
  return spending instanceof Promise ? whenSpent(call, spending) : noteSpend(call, spending);
}

function whenSpent(call: Verification, spending: Promise<Spend | undefined>): Promise<boolean> {
  return spending.then((spend) => noteSpend(call, spend));
}

function noteSpend(call: Verification, spend: Spend | undefined): boolean {
  call.spend = spend ?? null;
  return spend?.ok !== true;
}

/** A refusal takes no credits, and reports the current balance. */
function refuse(call: Verification, key: CachedKey, code: VerificationCode): MaybePromise<ResponseData> {
  if (call.spend !== undefined || !key.policy.hasCredits) return conclude(call, key, code);
  const reading = spendCredits(call, key, 0);
  return typeof reading === "boolean" ? conclude(call, key, code) : whenRead(reading, call, key, code);
}

function whenRead(
  reading: Promise<boolean>,
  call: Verification,
  key: CachedKey,
  code: VerificationCode,
): Promise<ResponseData> {
  return reading.then(() => conclude(call, key, code));
}

/** The end of every call whose key was found. */
function conclude(call: Verification, key: CachedKey, code: VerificationCode): MaybePromise<ResponseData> {
  const { deps, request, now, queried, limits, spend, once } = call;
  if (spend === null) return notFound(call);
  if (spend?.stale === true) return restart(call);
  deps.usage.note(key, request.key, now);
  const response = answerFor(key, code, call.meta, queried, spend?.remaining ?? undefined, limits?.results);
  if (limits?.exceeded === true) keepRetryAfter(response, limits.retryAfter);
  if (deps.onOutcome !== undefined) {
    const { tags } = request;
    const cost = once?.isRepeat === true ? 0 : request.cost;
    const degraded = limits?.degraded === true;
    deps.onOutcome(
      eventFor(key, code, {
        time: now,
        tags: redact(tags, request.key),
        cost,
        degraded,
        displacedBuckets: limits?.displaced,
        forfeitedRefills: spend?.forfeited,
      }),
    );
  }
  return response;
}

function notFound({ deps, request: { tags, key }, now }: Verification): ResponseData {
  return answerNotFound(deps.onOutcome, now, redact(tags, key));
}

/** Each restart means that an administrator changed the key's refill between two steps of one call. */
export const MAX_RESTARTS = 8;

/** The key's refill follows another calendar than when it was found: all checks run again on the current key. */
async function restart(call: Verification): Promise<ResponseData> {
  const { deps, request } = call;
  if (++call.restarts > MAX_RESTARTS)
    throw new KeystileError("STORE_BUSY", "the refill of this key kept changing while it was verified; try again");
  call.queried = false;
  call.limits = undefined;
  call.spend = undefined;
  return checkKey(call, await findKeyAgain(deps.sources, request, call));
}
