/** createVerifier: wires cache, limiter, spender and clock to the ordered checks. */
import { createQueryCompiler } from "../access/permission-query.js";
import { CACHE_OPTIONS, type CacheOptions, createKeyCache } from "../cache/key-cache.js";
import { KeystileError } from "../contracts/errors.js";
import type { Limiter } from "../contracts/limiter.js";
import type { StandardSchema } from "../contracts/standard-schema.js";
import type { Store } from "../contracts/store.js";
import type { JsonObject, V2KeysVerifyKeyRequestBody, VerificationResult } from "../contracts/types.js";
import { exactSpender } from "../credits/exact-spender.js";
import { defaultStep, leasedSpender, type LeaseOptions } from "../credits/leased-spender.js";
import type { Spender } from "../credits/spender.js";
import {
  callable,
  type Check,
  checkOptions,
  checkStore,
  flag,
  group,
  guardClock,
  integer,
  oneOf,
  ownOnly,
  word,
} from "../lib/check-options.js";
import { createEventQueue, QUEUE_OPTIONS } from "../lib/event-queue.js";
import { guardStore, STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { requirePower } from "../lib/guards/powers.js";
import { standardSchema } from "../lib/meta-schema.js";
import { createAlgorithms, type MigrationAlgorithms } from "../lib/migration-hashes.js";
import { hintedTaker, LIMITER_OPTIONS, withFallback } from "../ratelimit/fallback.js";
import { hintedLimiter } from "../ratelimit/memory/limiter.js";
import { createIdempotency, IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from "./idempotency.js";
import { createKeyUsage } from "./key-usage.js";
import type { OutcomeEvent, OutcomeOptions } from "./outcome-events.js";
import { metaReader } from "./read-meta.js";
import { type VerifyContext, type VerifyDeps, verifyKey } from "./verify-key.js";

/** How credits are taken: in one durable step per call, or from leases in memory. */
export type CreditsOptions = { readonly mode: "exact" } | ({ readonly mode: "leased" } & LeaseOptions);

/** Options of {@link createVerifier}; all have defaults. `Meta` is what the schema in `meta` makes of metadata. */
export interface VerifierOptions<Meta = JsonObject> extends StoreGuardOptions {
  /**
   * Verify only keys of this workspace, 1–255 characters of `[a-zA-Z0-9_-]`; others are NOT_FOUND. Default: every
   * workspace of the store.
   */
  readonly workspaceId?: string | undefined;
  /** How many records are cached, and for how long. */
  readonly cache?: CacheOptions | undefined;
  /**
   * Default: a memory limiter of its own, as `memoryLimiter()` makes it: limits hold for this verifier alone and end
   * with its process. `sqliteLimiter(store)` shares them between the processes of a host. The verifier does not close a
   * limiter given here.
   */
  readonly limiter?: Limiter | undefined;
  /**
   * Milliseconds within which a limiter given here must settle each promise, 1…600_000, default 1_000; after that it
   * counts as failed.
   */
  readonly limiterTimeout?: number | undefined;
  /**
   * While the limiter fails: `local` (default): this node enforces its share; `deny`: calls reject with
   * LIMITER_UNAVAILABLE; `allow`: limits are not enforced, except for costs above the limit.
   */
  readonly onLimiterFailure?: "local" | "deny" | "allow" | undefined;
  /** Nodes that share the limiter, 1…100_000, default 1: the share of `local` is `limit / nodes`. */
  readonly nodes?: number | undefined;
  /** Returns Unix milliseconds; called once per verification. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
  /** Default `{ mode: "exact" }`. */
  readonly credits?: CreditsOptions | undefined;
  /** How long repeats of a call with an idempotency key are recognised, and how many of them. */
  readonly idempotency?: IdempotencyOptions | undefined;
  /**
   * Whether the store keeps when each key was last used, to the minute: `lastUsedAt` of `getKey`. Default: it does, if
   * it has the power `usage`. Written in the background, some seconds after the first use of a key in each minute.
   */
  readonly usage?: boolean | undefined;
  /** Your own hash functions for migrated keys, by the algorithm name given to `createMigration`. */
  readonly migrationAlgorithms?: MigrationAlgorithms | undefined;
  /**
   * A Standard Schema (zod, valibot, arktype, …) that types `meta` of results: each shows what the schema makes of the
   * key's stored metadata, and a key without any shows none. Metadata that does not fit rejects the call with
   * META_INVALID before anything is taken. Give `createKeyring` the same, which then refuses to write such metadata.
   * Default: metadata is returned as stored.
   */
  readonly meta?: StandardSchema<Meta> | undefined;
  /**
   * Called for every outcome after the verification has returned. What it throws, or rejects with, is dropped and
   * counted.
   */
  readonly onOutcome?: ((event: OutcomeEvent) => unknown) | undefined;
  /** How many outcome events may wait, and how long `close` waits for a listener that is asynchronous. */
  readonly outcomes?: OutcomeOptions | undefined;
}

/** Counts since the verifier was created. */
export interface VerifierCounters {
  /** Calls in which the limiter failed, including denied ones. */
  readonly degraded: number;
  /** Outcome events that were dropped. */
  readonly outcomesDropped: number;
  /**
   * Leased credits given up because the store was closed before it took them back. Once their lease expires they count
   * as forfeited.
   */
  readonly creditsForfeited: number;
  /**
   * New buckets of rate limits that the limiter had no space for: their checks were refused. Here and below of the
   * verifier's own limiter, or of the one that was given, if it counts, with all that others took from that one.
   */
  readonly newcomersRefused: number;
  /** Buckets that refused and gave way there to those of a workspace below its share of the space. */
  readonly bucketsDisplaced: number;
}

/** Verifies keys; made by {@link createVerifier}. Its methods need no `this`. */
export interface Verifier<Meta = JsonObject> {
  /**
   * Verifies a key: spec §2.1 in, spec §2.2 out. Every outcome, good or bad, resolves; a failure never resolves as
   * VALID.
   *
   * From memory less than a microsecond with some thousand keys in use, and a few where any of a million may come next
   * (`bench/README.md`); plus one durable step of the store if credits are taken in `exact` mode.
   * @throws (rejects) KeystileError, with `errors` for a 400: BAD_REQUEST (400) and PERMISSIONS_QUERY_SYNTAX (400) for
   *   an invalid request or query, before any store call · BAD_REQUEST (400) for a limit that does not exist, once the
   *   key has passed the checks before limits · CALLER_FORBIDDEN (403) for a caller without any permission to verify ·
   *   with an idempotency key IDEMPOTENCY_IN_FLIGHT (409), IDEMPOTENCY_MISMATCH (422), IDEMPOTENCY_FULL (503), and
   *   STORE_POWER_MISSING (500) where the store cannot record it, before any store call ·
   *   META_INVALID (500) for stored metadata that does not fit `options.meta`, before anything is taken ·
   *   LIMITER_UNAVAILABLE (503) with `onLimiterFailure: "deny"` · STORE_… for a failed store; for a store of your own
   *   also STORE_INVALID if a result violates its types, and STORE_TIMEOUT · VERIFIER_CLOSED
   * @throws (rejects) TypeError for a context that is not an object or has an unknown name, an `apiId` that is not
   *   text, an idempotency key that is not a string or whose caller has no `id`, or a migration whose algorithm is not
   *   in `migrationAlgorithms`
   */
  verify(request: V2KeysVerifyKeyRequestBody, context?: VerifyContext): Promise<VerificationResult<Meta>>;
  /** Failures that failed no call, counted in this verifier. Never throws, not even after `close`. */
  counters(): VerifierCounters;
  /**
   * Closes the verifier: later calls are rejected. Waits for the calls in flight, each as long as its own timeouts let
   * it take, and for their events. Returns leases, and retries after any failure but STORE_CLOSED. The store stays
   * open: close it after this. A second call returns the same promise.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED: the store took back nothing for `credits.closeTimeout`
   *   milliseconds, or failed to take leased credits; everything else is closed all the same
   */
  close(): Promise<void>;
}

/** The checks of {@link VerifierOptions}. */
export const VERIFIER_OPTIONS = {
  workspaceId: word,
  cache: group(CACHE_OPTIONS),
  ...STORE_GUARD_OPTIONS,
  ...LIMITER_OPTIONS,
  clock: callable,
  credits: (value: unknown, path: string) => {
    const leased = (value as { mode?: unknown } | null)?.mode === "leased";
    const sizes = {
      size: integer(1, 1_000_000_000),
      step: integer(1, 1_000_000_000),
      firstStep: integer(1, 1_000_000_000),
      ttl: integer(100, 3_600_000),
      keys: integer(1, 10_000_000),
      closeTimeout: integer(0, 3_600_000),
    } satisfies Record<keyof LeaseOptions, Check>;
    checkOptions(value, { mode: oneOf("exact", "leased"), ...(leased && sizes) }, path);
    const { mode, size = 1_000, step, firstStep = 1 } = value as { mode?: string } & LeaseOptions;
    if (mode === undefined) throw new TypeError(`${path}.mode must be one of: exact, leased`);
    if (step !== undefined && step > size) throw new RangeError(`${path}.step must be at most ${path}.size`);
    if (firstStep > (step ?? defaultStep(size)))
      throw new RangeError(`${path}.firstStep must be at most ${path}.step, a quarter of the size by default`);
  },
  idempotency: IDEMPOTENCY_OPTIONS,
  usage: flag,
  migrationAlgorithms: (value: unknown, path: string) => void createAlgorithms(value as MigrationAlgorithms, path),
  meta: standardSchema,
  onOutcome: callable,
  outcomes: group(QUEUE_OPTIONS),
} as const satisfies Record<keyof VerifierOptions, Check>;

/**
 * Makes a verifier on a store.
 * @param given where the keys are: `sqliteStore(…)`, `memoryStore()` or your own; several verifiers may share one
 * @throws TypeError or RangeError naming the option or the store's missing method · KeystileError STORE_POWER_MISSING
 *   for leased credits on a store that has no leases, for a `size` above `step` on one that reserves nothing, or for
 *   `usage: true` on one without that power
 * @example
 * const verifier = createVerifier(store);
 * const { valid, code } = await verifier.verify({ key, permissions: "documents.read" });
 */
export function createVerifier<Meta>(
  given: Store,
  options: VerifierOptions<Meta> & { readonly meta: StandardSchema<Meta> },
): Verifier<Meta>;
/** With metadata as it is stored. */
export function createVerifier(given: Store, options?: VerifierOptions): Verifier;
export function createVerifier(given: Store, options: VerifierOptions<unknown> = {}): Verifier<unknown> {
  checkStore(given);
  const settings = checkOptions(options, VERIFIER_OPTIONS);
  const { workspaceId, nodes = 1, onLimiterFailure = "local", limiterTimeout } = settings;
  const credits = settings.credits && ownOnly(settings.credits);
  const store = guardStore(given, settings.storeTimeout);
  // Before the cache subscribes to the store.
  if (settings.usage === true) requirePower(store, "usage", "options.usage");
  const { clock = Date.now } = settings;
  const isSystemTime = clock === Date.now;
  const local = hintedLimiter();
  const limiter =
    settings.limiter === undefined
      ? hintedTaker(local)
      : withFallback(settings.limiter, { onFailure: onLimiterFailure, nodes, local, timeout: limiterTimeout });
  const spender = credits?.mode === "leased" ? leasedSpenderOf(store, credits) : exactSpender(store);
  const cache = createKeyCache(store, ownOnly(settings.cache ?? {}));
  const outcomes = settings.onOutcome && createEventQueue(settings.onOutcome, ownOnly(settings.outcomes ?? {}));
  const usage = createKeyUsage(store, settings.usage ?? store.powers.usage);
  const sources = {
    store,
    cache,
    algorithms: createAlgorithms(settings.migrationAlgorithms),
    isSystemTime,
    workspaceId,
    adopts: true,
  };
  const calls = countCalls();
  const deps: VerifyDeps = {
    track: calls.track,
    // The system's own returns whole milliseconds.
    clock: isSystemTime ? clock : guardClock(clock),
    compileQuery: createQueryCompiler(),
    sources,
    readMeta: settings.meta && metaReader(settings.meta),
    limiter,
    spender,
    idempotency: createIdempotency(store, spender, ownOnly(settings.idempotency ?? {})),
    usage,
    onOutcome: outcomes?.emit,
  };

  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await calls.settled();
    try {
      await spender.close();
    } finally {
      await usage.close();
      cache.close();
      await outcomes?.close();
    }
  };
  const verifier: Verifier<unknown> = {
    verify(request: V2KeysVerifyKeyRequestBody, context?: VerifyContext) {
      // Not async: a promise around a promise costs a third of a hot call.
      return closing === undefined ? verifyKey(deps, request, context) : Promise.reject(closedError());
    },
    counters: () => ({
      degraded: limiter.degradedCalls(),
      outcomesDropped: outcomes?.dropped() ?? 0,
      creditsForfeited: spender.creditsForfeited(),
      ...limiter.counters(),
    }),
    close: () => (closing ??= close()),
  };
  // Not enumerable: printing or copying a verifier does not reach the store.
  const parts: VerifierParts = { deps, isClosed: () => closing !== undefined };
  return Object.freeze(Object.defineProperty(verifier, PARTS, { value: parts }));
}

/** The calls that wait for something, of which only their number is kept. */
function countCalls() {
  let inFlight = 0;
  let onSettled: (() => void) | undefined;
  const end = (): void => {
    if (--inFlight === 0) onSettled?.();
  };
  return {
    track<T>(call: Promise<T>): Promise<T> {
      inFlight++;
      call.then(end, end);
      return call;
    },
    /** To be called once no call can begin any more. */
    settled: async () => {
      if (inFlight > 0) await new Promise<void>((resolve) => (onSettled = resolve));
    },
  };
}

const PARTS = Symbol.for("keystile.verifier.parts");

/** What a verifier is made of. */
export interface VerifierParts {
  readonly deps: VerifyDeps;
  readonly isClosed: () => boolean;
}

/** The parts of a verifier, for dry runs; `undefined` for what {@link createVerifier} did not create. */
export function partsOf(verifier: object): VerifierParts | undefined {
  return (verifier as { readonly [PARTS]?: VerifierParts })[PARTS];
}

/** @throws KeystileError STORE_POWER_MISSING */
function leasedSpenderOf(store: Store, options: LeaseOptions): Spender {
  requirePower(store, "leases", 'options.credits.mode "leased"');
  const { size, step } = options;
  // Without reserves a node has what it drew and no more, so a larger size would promise what no store keeps.
  if (size !== undefined && size !== step) requirePower(store, "reserves", "options.credits.size above step");
  return leasedSpender(store, options);
}

export const closedError = () => new KeystileError("VERIFIER_CLOSED", "the verifier was closed; make another to go on");
