/** createVerifier: wires cache, limiter, spender and clock to the ordered checks. */
import { createQueryCompiler } from "../access/permission-query.js";
import { createKeyCache } from "../cache/key-cache.js";
import type { StandardSchema } from "../contracts/standard-schema.js";
import type { Store } from "../contracts/store.js";
import type {
  JsonObject,
  V2KeysVerifyKeyRequestBody,
  VerificationCode,
  VerificationResult,
} from "../contracts/types.js";
import { exactSpender } from "../credits/exact-spender.js";
import { leasedSpender, type LeaseOptions } from "../credits/leased-spender.js";
import type { Spender } from "../credits/spender.js";
import { checkOptions, guardClock, ownOnly } from "../lib/check-options.js";
import { createEventQueue } from "../lib/event-queue.js";
import { checkStore, guardStore } from "../lib/guards/guard-store.js";
import { requirePower } from "../lib/guards/powers.js";
import { createAlgorithms } from "../lib/migration-hashes.js";
import { clearTimeout, setTimeout } from "../lib/timers.js";
import { withFallback, withoutFallback } from "../ratelimit/fallback.js";
import { placedLimiter } from "../ratelimit/memory/limiter.js";
import { limiterOfStore } from "../ratelimit/memory/limiter-of-store.js";
import { CallsInFlight, type VerifyDeps } from "./call.js";
import type { VerifyContext } from "./context.js";
import { createIdempotency } from "./idempotency.js";
import { createKeyUsage } from "./key-usage.js";
import { type AnalyticsOptions, OutcomeCounter } from "./outcome-flush.js";
import { metaReader } from "./read-meta.js";
import {
  type ReservationResult,
  type ReservationSettlement,
  type ReserveContext,
  reserveWith,
  type Settle,
  settleReservation,
} from "./reserve.js";
import { planRequest } from "./request.js";
import { VERIFIER_OPTIONS, type VerifierOptions } from "./verifier-options.js";
import { type SpendOptions, type SpendOwner, type SpendRequest, type SpendResult, spendWith } from "./spend-by-id.js";
import { verifyWith } from "./verify-key.js";

/** Counts since the verifier was created. */
export interface VerifierCounters {
  /** Calls in which the limiter failed, including denied ones. */
  readonly degraded: number;
  /** Outcome events that were dropped. */
  readonly outcomesDropped: number;
  /**
   * Verifications that were counted without their key or tags: memory for counts was used up, or the workspace has
   * reached `tagSets`.
   */
  readonly outcomesFolded: number;
  /** Verifications that were not counted: the store was closed, or accepted no counts until `close` gave up. */
  readonly outcomesUncounted: number;
  /** With `analytics`, verifications by outcome; else absent. */
  readonly verifications?: Readonly<Record<VerificationCode, number>>;
  /** With `analytics`, the credits that verifications spent and that settled reservations kept; else absent. */
  readonly creditsSpent?: number;
  /**
   * Leased credits given up because the store was closed before they were returned. Once their lease expires they are
   * forfeited.
   */
  readonly creditsForfeited: number;
  /** Settlements that came too late: the reservation had expired or was voided. */
  readonly settlementsLate: number;
  /**
   * Checks of new rate-limit buckets that were refused because the limiter had no space. This counter and
   * `bucketsDisplaced` come from the limiter, and include calls of others that share it. A limiter of your own may
   * leave them out.
   */
  readonly newcomersRefused: number;
  /** Refusing buckets that were removed for buckets of a workspace below its share of the limiter's space. */
  readonly bucketsDisplaced: number;
}

/** Verifies a key with a prepared request; made by {@link Verifier.prepare}. */
export type PreparedVerification<Meta = JsonObject> = (
  key: string,
  context?: VerifyContext,
) => Promise<VerificationResult<Meta>>;

/** Verifies keys; made by {@link createVerifier}. Its methods need no `this`. */
export interface Verifier<Meta = JsonObject> {
  /**
   * Verifies a key. Resolves with every outcome, good or bad. A failure never resolves as VALID.
   *
   * Takes less than a microsecond from memory with some thousand keys in use, and a few microseconds if any of a
   * million may come next (`bench/README.md`); plus one durable step of the store if it takes credits in `exact` mode.
   * @throws (rejects) KeystileError, with `errors` for a 400: BAD_REQUEST (400) and PERMISSIONS_QUERY_SYNTAX (400) for
   *   an invalid request or query, before any store call · BAD_REQUEST (400) for a limit that does not exist, once the
   *   key has passed the checks before limits · CALLER_FORBIDDEN (403) for a caller without any permission to verify ·
   *   with an idempotency key IDEMPOTENCY_IN_FLIGHT (409), IDEMPOTENCY_MISMATCH (422), IDEMPOTENCY_FULL (503), and
   *   STORE_POWER_MISSING (500) where the store cannot record it, before any store call · META_INVALID (500) for stored
   *   metadata that does not fit `options.meta`, before anything is taken · LIMITER_UNAVAILABLE (503) with
   *   `onLimiterFailure: "deny"` · STORE_… for a failed store; for a store of your own also STORE_INVALID if a result
   *   violates its types, and STORE_TIMEOUT · VERIFIER_CLOSED
   * @throws (rejects) TypeError for a context that is not an object or has an unknown name, an `apiId` that is not
   *   text, an idempotency key that is not a string or whose caller has no `id`, or a migration whose algorithm is not
   *   in `migrationAlgorithms`
   */
  verify(request: V2KeysVerifyKeyRequestBody, context?: VerifyContext): Promise<VerificationResult<Meta>>;
  /**
   * Validates a request without its key, once, for calls that differ only in their key, such as those of a route. Such
   * a call takes about a fifth less than {@link Verifier.verify}.
   * @param request as for `verify`, without `key`
   * @returns a function that verifies a key; it rejects as `verify` does, at `body.key` for an invalid key
   * @throws KeystileError BAD_REQUEST (400) and PERMISSIONS_QUERY_SYNTAX (400), here and not in each call
   * @example
   * const mayRead = verifier.prepare({ permissions: "documents.read" });
   * const { valid } = await mayRead(key);
   */
  prepare(request: Omit<V2KeysVerifyKeyRequestBody, "key">): PreparedVerification<Meta>;
  /**
   * Verifies a key as {@link Verifier.verify} does, for a call whose price is known only afterwards. If the key is
   * VALID, the cost is reserved until it is settled, once, with the actual cost. Unsettled credits return after
   * `timeout`, even if this process has crashed. With an idempotency key, a repeat gets the same reservation. A balance
   * has at most 1,000 open reservations. Each reservation and each settlement is one durable step of the store, in both
   * modes of credits.
   * @throws (rejects) as `verify` · KeystileError RESERVATIONS_FULL (503) · STORE_POWER_MISSING, before any store call,
   *   if the store has no reservations or no idempotency · RangeError for a `timeout` out of its bounds
   * @example
   * const call = await verifier.reserve({ key, credits: { cost: 4_000 } });
   * if (call.valid) await call.commit(1_234);
   */
  reserve(request: V2KeysVerifyKeyRequestBody, context?: ReserveContext): Promise<ReservationResult<Meta>>;
  /**
   * Settles a reservation by its id, in this process or another on the same store.
   * @param id of a result of {@link Verifier.reserve}
   * @param spent credits to spend, an integer from 0 to the number reserved; the others return
   * @throws (rejects) as {@link Reservation.commit} · TypeError for an id that is no string
   */
  settle(id: string, spent: number): Promise<ReservationSettlement>;
  /**
   * Spends credits of a key or an identity by its id, without the text of a key, and without any other check than that
   * it exists: a key that is disabled or has expired pays too. Counted and told like a verification; an event has
   * `kind: "spend"`. Each is one durable step of the store, after two or three reads.
   * @throws (rejects) KeystileError BAD_REQUEST · with an idempotency key as `verify` · STORE_POWER_MISSING: an
   *   identity, and the store has no `wallets` · STORE_… · VERIFIER_CLOSED · TypeError naming an option
   * @example
   * const { code, remaining } = await verifier.spend({ keyId }, { cost: 3 }, { idempotencyKey: job.id });
   */
  spend(owner: SpendOwner, request?: SpendRequest, options?: SpendOptions): Promise<SpendResult>;
  /** Counts since the verifier was created. Never throws, not even after `close`. */
  counters(): VerifierCounters;
  /**
   * Writes what calls so far have left in memory: the counts of `analytics`, when keys were last used, and the first
   * characters of imported keys. Delivers waiting events to `onOutcome`, and waits for what it returns. For hosts that
   * freeze or end a process once it has responded: `waitUntil(verifier.flush())`. Leased credits stay leased; spends
   * and rate limits leave nothing to write.
   *
   * Resolves after at most 5 s. Counts that the store has not taken by then stay in memory and are sent again; if it is
   * unknown whether it has taken some, they count once. Other notes that it does not take are dropped, as in the
   * background. Never rejects; after `close` it has nothing to do.
   */
  flush(): Promise<void>;
  /**
   * Closes the verifier: later calls are rejected. Waits for calls in flight, as long as their own timeouts allow, and
   * for their events. Returns leases, and retries after any failure but STORE_CLOSED. Does not close the store: close
   * it afterwards. A second call returns the same promise.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED: for `credits.closeTimeout` milliseconds the store took back
   *   no leased credits, or it was closed before it took all of them; everything else is closed all the same
   */
  close(): Promise<void>;
}

/**
 * Makes a verifier on a store.
 * @param given the store of the keys: `sqliteStore(…)`, `memoryStore()` or your own; several verifiers may share one
 * @throws TypeError or RangeError naming the option or the store's missing method · KeystileError STORE_POWER_MISSING
 *   if the store lacks the power for an option: `leases` for leased credits, `reserves` for a `size` above `step`,
 *   `usage` for `usage: true`, `analytics` for `analytics`
 * @example
 * const verifier = createVerifier(store);
 * const { valid, code } = await verifier.verify({ key, permissions: "documents.read" }, { apiId });
 */
export function createVerifier<Meta>(
  given: Store,
  options: VerifierOptions<Meta> & { readonly meta: StandardSchema<Meta> },
): Verifier<Meta>;
/** Makes a verifier whose results show metadata as it is stored; otherwise as the overload with `options.meta`. */
export function createVerifier(given: Store, options?: VerifierOptions): Verifier;
export function createVerifier(given: Store, options: VerifierOptions<unknown> = {}): Verifier<unknown> {
  checkStore(given);
  const settings = checkOptions(options, VERIFIER_OPTIONS);
  const { workspaceId, nodes = 1, onLimiterFailure = "local", limiterTimeout } = settings;
  const credits = settings.credits && ownOnly(settings.credits);
  const store = guardStore(given, settings.storeTimeout);
  // Checked before the cache subscribes to the store.
  if (settings.usage === true) requirePower(store, "usage", "options.usage");
  const isSystemTime = settings.clock === undefined || settings.clock === Date.now;
  // `Date.now` needs no guard: it returns whole milliseconds.
  const clock = isSystemTime ? Date.now : guardClock(settings.clock);
  const fallback = { onFailure: onLimiterFailure, nodes, timeout: limiterTimeout };
  const limiter =
    settings.limiter === undefined
      ? withoutFallback(limiterOfStore(given, settings.clock ?? Date.now))
      : withFallback(settings.limiter, { ...fallback, local: placedLimiter() });
  const spender = credits?.mode === "leased" ? leasedSpenderOf(store, credits) : exactSpender(store);
  const cache = createKeyCache(store, ownOnly(settings.cache ?? {}));
  const outcomes = settings.onOutcome && createEventQueue(settings.onOutcome, ownOnly(settings.outcomes ?? {}));
  const counter = counterOf(store, settings.analytics ?? false, given);
  const usage = createKeyUsage(store, settings.usage ?? store.powers.usage);
  const sources = {
    store,
    cache,
    algorithms: createAlgorithms(settings.migrationAlgorithms),
    isSystemTime,
    workspaceId,
    adopts: true,
  };
  const calls = new CallsInFlight();
  const deps: VerifyDeps = {
    calls,
    clock,
    compileQuery: createQueryCompiler(),
    plan: undefined,
    sources,
    readMeta: settings.meta && metaReader(settings.meta),
    limiter,
    spender,
    idempotency: createIdempotency(store, spender, ownOnly(settings.idempotency ?? {})),
    usage,
    onOutcome: outcomes?.emit,
    counter,
  };

  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await calls.close();
    try {
      await spender.close();
    } finally {
      await usage.close();
      await counter?.close();
      cache.close();
      await outcomes?.flush();
    }
  };
  const flush = async (): Promise<void> => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, FLUSH_TIMEOUT)));
    await Promise.race([Promise.all([usage.flush(), counter?.flush(), outcomes?.flush()]), late]);
    clearTimeout(timer);
  };
  let settlementsLate = 0;
  const settle: Settle = async (id, spent) => {
    calls.assertOpen();
    const settlement = await calls.track(settleReservation(deps, id, spent));
    if (!settlement.settled && LATE.has(settlement.reason)) settlementsLate++;
    return settlement;
  };
  const reserve = reserveWith(deps, settle);
  const spend = spendWith(deps);
  const verifier: Verifier<unknown> = {
    verify: verifyWith(deps),
    prepare: (request) => verifyWith({ ...deps, plan: planRequest(deps.compileQuery, request) }),
    async reserve(request, context) {
      calls.assertOpen();
      return calls.track(reserve(request, context));
    },
    settle,
    async spend(owner, request = {}, options = {}) {
      calls.assertOpen();
      return calls.track(spend(owner, request, options));
    },
    counters: () => ({
      degraded: limiter.degradedCalls(),
      outcomesDropped: outcomes?.dropped() ?? 0,
      ...(counter?.counters() ?? { outcomesFolded: 0, outcomesUncounted: 0 }),
      creditsForfeited: spender.creditsForfeited(),
      settlementsLate,
      ...limiter.counters(),
    }),
    flush,
    close: () => (closing ??= close()),
  };
  // Not enumerable: printing or copying a verifier does not reach the store.
  return Object.freeze(Object.defineProperty(verifier, DEPS, { value: deps }));
}

/** Milliseconds that `flush` waits for the store and for listeners. */
const FLUSH_TIMEOUT = 5_000;
/** Reasons that mean a settlement came too late. */
const LATE: ReadonlySet<string> = new Set(["expired", "voided"]);
/** @throws KeystileError STORE_POWER_MISSING */
function counterOf(store: Store, options: boolean | AnalyticsOptions, of: Store): OutcomeCounter | undefined {
  if (options === false) return undefined;
  requirePower(store, "analytics", "options.analytics");
  return new OutcomeCounter(store, options === true ? {} : ownOnly(options), of);
}

const DEPS = Symbol.for("keystile.verifier.deps");

/** What a verifier is made of, for dry runs; `undefined` for what {@link createVerifier} did not create. */
export function depsOf(verifier: object): VerifyDeps | undefined {
  return (verifier as { readonly [DEPS]?: VerifyDeps })[DEPS];
}

/** @throws KeystileError STORE_POWER_MISSING */
function leasedSpenderOf(store: Store, options: LeaseOptions): Spender {
  requirePower(store, "leases", 'options.credits.mode "leased"');
  const { size, step } = options;
  // Without reserves a node has only the credits that it drew, so a size above the step would have no effect.
  if (size !== undefined && size !== step) requirePower(store, "reserves", "options.credits.size above step");
  return leasedSpender(store, options);
}
