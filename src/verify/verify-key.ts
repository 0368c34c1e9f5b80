/**
 * A verification: the ordered checks, and the one loop that runs them. Contract 2.2, 3.
 *
 * To add a check, add it to {@link CHECKS}; the compiler names who tells what it found. The only way to VALID is to
 * reach the end of the list, so no check can be skipped. A check passes only if it returns exactly `false`.
 *
 * Why no `async`: most results are in memory, and an async function costs 60 ns more per call.
 */
import { strictCaller } from "../access/check-caller.js";
import { namesInQuery, parseQuery, type Query, type QueryCompiler } from "../access/permission-query.js";
import type { CachedKey } from "../cache/cached-key.js";
import type { Caller } from "../contracts/caller.js";
import { KeystileError } from "../contracts/errors.js";
import type { KeyRef, ReservationRequest, Spend } from "../contracts/store.js";
import type {
  JsonObject,
  MaybePromise,
  VerificationCode,
  VerificationResult,
  VerifyKeyRatelimitData,
} from "../contracts/types.js";
import { untilRefilled } from "../credits/refill-calendar.js";
import type { Spender } from "../credits/spender.js";
import { contextError, DEFAULT_WORKSPACE, isPlainObject, unknownOption } from "../lib/check-options.js";
import type { CreditsSource } from "../lib/credits-source.js";
import { isThenable } from "../lib/thenable.js";
import { applyLimits } from "../ratelimit/applied-limits.js";
import { newId } from "../lib/hash.js";
import type { LimitTaker } from "../ratelimit/fallback.js";
import { findKey, findKeyAgain, type KeySources } from "./find-key.js";
import type { Idempotency, IdempotentCall } from "./idempotency.js";
import type { KeyUsage } from "./key-usage.js";
import { type LimitsTaken, takeLimits } from "./check-limits.js";
import type { Viewer } from "./find-key.js";
import { type OutcomeEvent, redact } from "./outcome-events.js";
import type { OutcomeCounter } from "./outcome-flush.js";
import type { MetaRead } from "./read-meta.js";
import { readRequest, readRequestWithoutKey, type VerificationRequest, withKey } from "./request.js";
import { answerFor, answerNotFound, eventFor } from "./response.js";
import { keepRetryAfter } from "./result-retry-after.js";

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
export const CONTEXT = {
  clientAddress: true,
  caller: true,
  apiId: true,
  idempotencyKey: true,
} as const satisfies Record<keyof VerifyContext, true>;

/** What a call is that reserves its cost. */
export interface Reserving {
  /** Milliseconds until the reservation returns unless it was settled. */
  readonly timeout: number;
  /** Its id in the store, chosen before anything is taken. */
  id: string | undefined;
  /** The account that it is of; `undefined`: nothing is to be taken. */
  ref: KeyRef | undefined;
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

/** A verification in progress: its inputs, and what the checks found. */
export interface Verification extends Viewer {
  readonly deps: VerifyDeps;
  readonly request: VerificationRequest;
  readonly query: Query | undefined;
  readonly clientAddress: string | undefined;
  /** As it was given; undefined: the call is not to be repeated. */
  readonly idempotencyKey: unknown;
  readonly now: number;
  /** When it began, on a clock that only measures; 0 where nobody listens. */
  readonly began: number;
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
  /** `undefined`: the cost is spent. */
  readonly reserving: Reserving | undefined;
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
      /** Permissions that the query names and the key has, in the query's order. */
      readonly has: readonly string[];
      /** Those that it does not have; an `OR` may pass with some. */
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
      /** Whose credits it takes: its own, those of its identity, or nobody's, so that they are unlimited. */
      readonly creditsFrom: CreditsSource;
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
    finding: ({ request: { permissions } }, { policy: { grants } }) => {
      const names = permissions === undefined ? [] : namesInQuery(parseQuery(permissions));
      return {
        has: names.filter((name) => grants.covers(name)),
        missing: names.filter((name) => !grants.covers(name)),
      };
    },
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
    finding: ({ request: { cost }, spend }, { policy }) => ({
      cost,
      creditsFrom: policy.hasCredits && spend?.remaining !== null ? (policy.creditsFrom ?? "key") : "none",
      ...(typeof spend?.remaining === "number" && { remaining: spend.remaining }),
    }),
  },
];

/** What the schema makes of metadata is known to who gave it. */
type ResponseData = VerificationResult<unknown>;

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

/**
 * Verifies one request.
 * @param body the request; with a plan, its key
 * @throws (rejects) KeystileError 400 for an invalid request or query, or a limit that does not exist; 403 for a caller
 *   without any permission to verify (contract 4.1-4); IDEMPOTENCY_… for a call with an idempotency key
 * @see contract 4.1-1, 4.1-2 · waits only for what is not in memory
 */
export function verifyKey(
  deps: VerifyDeps,
  body: unknown,
  context: VerifyContext | undefined,
  plan?: RequestPlan,
  reserving?: Reserving,
): Promise<ResponseData> {
  try {
    const result = findAndCheck(deps, body, context, plan, reserving);
    return result instanceof Promise ? deps.track(result) : Promise.resolve(result);
  } catch (error) {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what was thrown, as it is
    return Promise.reject(error);
  }
}

function findAndCheck(
  deps: VerifyDeps,
  body: unknown,
  context: VerifyContext | undefined,
  plan: RequestPlan | undefined,
  reserving: Reserving | undefined,
): MaybePromise<ResponseData> {
  const call = beginCall(deps, body, context, plan, reserving);
  const { idempotencyKey } = call;
  const scope = idempotencyKey === undefined ? undefined : deps.idempotency.scopeOf(idempotencyKey, call.caller);
  const found = findKey(deps.sources, call.request, call, call.now);
  if (scope !== undefined) return checkOnce(call, scope, found);
  return found instanceof Promise ? after(found, checkKey, call, undefined) : checkKey(found, call);
}

/**
 * Validates a request and its context, of which it reads own properties only, each once: a polluted prototype must not
 * set the caller or the address. A misspelt name must not open every API, or let a caller act as the program.
 * @throws KeystileError as {@link verifyKey} · TypeError for a context that is not an object, an unknown name, or an
 *   `apiId` that is not text
 */
export function beginCall(
  deps: VerifyDeps,
  body: unknown,
  context: VerifyContext | undefined,
  plan?: RequestPlan,
  reserving?: Reserving,
): Verification {
  let clientAddress: string | undefined, given: Caller | undefined, apiId: string | undefined, idempotencyKey: unknown;
  if (context !== undefined) {
    if (!isPlainObject(context)) throw contextError();
    const names = reserving === undefined ? CONTEXT : RESERVE_CONTEXT;
    for (const name in context)
      if (!hasOwnProperty.call(names, name) && hasOwnProperty.call(context, name))
        throw unknownOption("context", name, names);
    // Not in the loop, which passes over what is not enumerable.
    if (hasOwnProperty.call(context, "clientAddress")) clientAddress = context.clientAddress;
    if (hasOwnProperty.call(context, "caller")) given = context.caller;
    if (hasOwnProperty.call(context, "apiId")) apiId = apiIdOf(context.apiId);
    if (hasOwnProperty.call(context, "idempotencyKey")) idempotencyKey = context.idempotencyKey;
  }
  const caller = given === undefined ? undefined : strictCaller(given, "context.caller");
  if (caller?.mayAny("verify_key", "api") === false) throw mayNotVerify();
  const request = plan === undefined ? readRequest(body) : withKey(plan.request, body);
  const query = plan === undefined ? queryOf(deps, request) : plan.query;
  return {
    deps,
    request,
    query,
    caller,
    apiId,
    clientAddress,
    idempotencyKey,
    now: deps.clock(),
    began: deps.onOutcome === undefined ? 0 : performance.now(),
    meta: undefined,
    queried: false,
    limits: undefined,
    taken: undefined,
    spend: undefined,
    restarts: 0,
    once: undefined,
    reserving,
  };
}

/** An `apiId` that is given but not text is a mistake of the program, which must not open every API. */
function apiIdOf(apiId: unknown): string {
  if (typeof apiId !== "string" || apiId === "")
    throw new TypeError("context.apiId must be the id of an API; leave it out to verify the keys of every API");
  return apiId;
}

/**
 * Goes on once a step of a call has waited. Apart from what calls it: a function that holds a closure allocates for it
 * at every call, waiting or not; together they took 550 bytes per call.
 */
function after<T, Key, Next>(
  waiting: Promise<T>,
  next: (value: T, call: Verification, key: Key, at: number) => MaybePromise<Next>,
  call: Verification,
  key: Key,
  at = 0,
): Promise<Next> {
  return waiting.then((value) => next(value, call, key, at));
}

const mayNotVerify = () => new KeystileError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");

/** Metadata that does not fit the program's schema ends the call before anything is taken. */
function checkKey(key: CachedKey | undefined, call: Verification): MaybePromise<ResponseData> {
  if (key === undefined) return notFound(call);
  const reading = readMeta(call, key);
  return reading === undefined ? runChecks(call, key, 0) : after(reading, goOnFrom, call, key);
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
  const { deps, request, now, reserving } = call;
  const key = await finding;
  if (key === undefined) return notFound(call);
  const once = await deps.idempotency.begin(scope, key.policy.workspaceId, request, now, reserving?.timeout);
  call.once = once;
  try {
    return await checkKey(key, call);
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
    return after(failed, finishCheck, call, key, i);
  }
  return conclude(call, key, "VALID");
}

const goOnFrom = (_: unknown, call: Verification, key: CachedKey, from: number): MaybePromise<ResponseData> =>
  runChecks(call, key, from);

/** Whatever a check resolves with but `false` is a failure. */
function finishCheck(failed: unknown, call: Verification, key: CachedKey, i: number): MaybePromise<ResponseData> {
  return failed === false ? runChecks(call, key, i + 1) : refuse(call, key, (CHECKS[i] as Check).code);
}

function lacksPermissions(call: Verification, key: CachedKey): boolean {
  if (call.query === undefined) return false;
  call.queried = true;
  return !key.policy.grants.satisfies(call.query);
}

function exceedsLimits(call: Verification, key: CachedKey): MaybePromise<boolean> {
  if (call.taken !== undefined) return noteLimits(call.taken ?? undefined, call);
  const isRepeat = call.once?.isRepeat === true;
  const taking = takeLimits(call.deps.limiter, key, call.request.ratelimits, call.now, isRepeat);
  return taking instanceof Promise ? after(taking, noteLimits, call, key) : noteLimits(taking, call);
}

function noteLimits(limits: LimitsTaken | undefined, call: Verification): boolean {
  call.limits = limits;
  call.taken = limits ?? null;
  return limits?.exceeded === true;
}

function exceedsCredits(call: Verification, key: CachedKey): MaybePromise<boolean> {
  const { once, request, reserving } = call;
  if (once !== undefined) return exceedsOnce(call, key, once);
  if (!key.policy.hasCredits) return false;
  return reserving === undefined ? spendCredits(call, key, request.cost) : reserveCredits(call, key, reserving);
}

function reserveCredits(call: Verification, key: CachedKey, reserving: Reserving): MaybePromise<boolean> {
  const { deps, request, now } = call;
  reserving.ref = request.cost > 0 ? key.ref : undefined;
  reserving.id ??= newId("res");
  const reservation = { id: reserving.id, until: now + reserving.timeout };
  return after(Promise.resolve(deps.spender.reserve(key, request.cost, now, reservation)), noteSpend, call, key);
}

/** What was recorded before takes nothing again; anything else is recorded with its spend, or without credits. */
function exceedsOnce(call: Verification, key: CachedKey, once: IdempotentCall): MaybePromise<boolean> {
  const target = key.policy.hasCredits ? key : undefined;
  const { reserving, request } = call;
  if (reserving !== undefined) {
    reserving.ref = request.cost > 0 ? target?.ref : undefined;
    reserving.id = (once.record.reservation as ReservationRequest).id;
  }
  if (!once.isRepeat)
    return after(call.deps.idempotency.spend(once, target, call.request.cost, call.now), noteSpend, call, key);
  return target === undefined ? false : spendCredits(call, target, 0);
}

/** @returns true: the credits were not taken */
function spendCredits(call: Verification, key: CachedKey, cost: number): MaybePromise<boolean> {
  const spending = call.deps.spender.spend(key, cost, call.now);
  return spending instanceof Promise ? after(spending, noteSpend, call, key) : noteSpend(spending, call);
}

function noteSpend(spend: Spend | undefined, call: Verification): boolean {
  call.spend = spend ?? null;
  if (spend?.ok === true) return false;
  if (spend?.refused !== undefined) throw refusedReservation(spend.refused);
  return true;
}

function refusedReservation(refused: NonNullable<Spend["refused"]>): KeystileError {
  return refused === "open"
    ? new KeystileError(
        "IDEMPOTENCY_IN_FLIGHT",
        "the reservation under this idempotency key is still open; settle it first",
      )
    : new KeystileError("RESERVATIONS_FULL", "the balance has as many open reservations as it may; settle some first");
}

/** A refusal takes no credits, and reports the current balance. */
function refuse(call: Verification, key: CachedKey, code: VerificationCode): MaybePromise<ResponseData> {
  if (call.spend !== undefined || !key.policy.hasCredits) return conclude(call, key, code);
  const reading = spendCredits(call, key, 0);
  return typeof reading === "boolean" ? conclude(call, key, code) : reading.then(() => conclude(call, key, code));
}

/** The end of every call whose key was found. */
function conclude(call: Verification, key: CachedKey, code: VerificationCode): MaybePromise<ResponseData> {
  const { deps, request, now, queried, limits, spend, once, reserving } = call;
  if (isOutdated(call, key)) return restart(call);
  if (spend === null) return notFound(call);
  deps.usage.note(key, request.key, now);
  const response = answerFor(key, code, call.meta, queried, spend?.remaining ?? undefined, limits?.results);
  if (limits?.exceeded === true) keepRetryAfter(response, limits.retryAfter);
  else if (code === "USAGE_EXCEEDED") keepRetryAfter(response, untilRefill(call, key));
  const { onOutcome, counter } = deps;
  if (onOutcome === undefined && counter === undefined) return response;
  const taken = code === "VALID" && key.policy.hasCredits && once?.isRepeat !== true ? request.cost : 0;
  const spent = reserving === undefined ? taken : 0;
  counter?.count(key, code, spent, now, request.tags, request.key);
  onOutcome?.(
    eventFor(key, code, {
      time: now,
      tags: redact(request.tags, request.key),
      spent,
      reserved: taken > spent ? taken : undefined,
      remaining: spend?.remaining ?? undefined,
      duration: performance.now() - call.began,
      degraded: limits?.degraded === true,
      displacedBuckets: limits?.displaced,
      forfeitedRefills: spend?.forfeited,
    }),
  );
  return response;
}

/** Milliseconds until the refill that would cover the call; undefined: there is none. */
function untilRefill({ request, now, spend }: Verification, { refill }: CachedKey): number | undefined {
  const remaining = spend?.remaining;
  return typeof remaining === "number" ? untilRefilled(refill, request.cost - remaining, now) : undefined;
}

/** The end of every call whose key was not. */
function notFound({ deps, request: { tags, key }, caller, now, began }: Verification): ResponseData {
  const { onOutcome, counter, sources } = deps;
  counter?.countUnknown(caller?.workspaceId ?? sources.workspaceId ?? DEFAULT_WORKSPACE, now, tags, key);
  if (onOutcome !== undefined) {
    const duration = performance.now() - began;
    onOutcome({ time: now, code: "NOT_FOUND", tags: redact(tags, key), spent: 0, duration, degraded: false });
  }
  return answerNotFound();
}

/** Each restart means that an administrator changed the key's refill between two steps of one call. */
export const MAX_RESTARTS = 8;

/**
 * Whether the key has changed since it was found: the credits that it draws on follow another calendar, or the identity
 * whose they were is gone.
 */
export function isOutdated({ spend }: Pick<Verification, "spend">, { policy }: CachedKey): boolean {
  return spend === null ? policy.creditsFrom === "identity" : spend?.stale === true;
}

/** All checks run again on the current key. */
async function restart(call: Verification): Promise<ResponseData> {
  const { deps, request } = call;
  if (++call.restarts > MAX_RESTARTS)
    throw new KeystileError("STORE_BUSY", "the credits of this key kept changing while it was verified; try again");
  call.queried = false;
  call.limits = undefined;
  call.spend = undefined;
  return checkKey(await findKeyAgain(deps.sources, request, call), call);
}
