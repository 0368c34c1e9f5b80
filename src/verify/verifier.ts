/** createVerifier: wires cache, limiter, spender and clock around the ordered checks. */
import { createQueryCompiler } from "../access/permission-query.js";
import { CACHE_OPTIONS, type CacheOptions, createKeyCache } from "../cache/key-cache.js";
import { KeystileError } from "../contracts/errors.js";
import type { Limiter } from "../contracts/limiter.js";
import type { Store } from "../contracts/store.js";
import type { V2KeysVerifyKeyRequestBody, V2KeysVerifyKeyResponseData } from "../contracts/types.js";
import { exactSpender, leasedSpender, type LeaseOptions } from "../credits/spender.js";
import {
  callable,
  type Check,
  checkOptions,
  checkStore,
  contextError,
  group,
  guardClock,
  integer,
  isPlainObject,
  oneOf,
  ownOnly,
  word,
} from "../lib/check-options.js";
import { guardStore, STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { createAlgorithms, type MigrationAlgorithms } from "../lib/migration-hashes.js";
import { hintedTaker, LIMITER_OPTIONS, withFallback } from "../ratelimit/fallback.js";
import { hintedLimiter } from "../ratelimit/memory/limiter.js";
import { findKey, findKeyAgain } from "./find-key.js";
import { createOutcomes, type OutcomeEvent } from "./outcome-events.js";
import { type VerifyContext, type VerifyDeps, verifyKey } from "./verify-key.js";

/** How credits are taken: one durable step a call, or from leases in memory. */
export type CreditsOptions = { readonly mode: "exact" } | ({ readonly mode: "leased" } & LeaseOptions);

/** How a verifier works; every part has a default. */
export interface VerifierOptions extends StoreGuardOptions {
  /** Judge only keys of this workspace, 1–255 characters of `[a-zA-Z0-9_-]`; others are NOT_FOUND. Default: every workspace of the store. */
  readonly workspaceId?: string | undefined;
  /** How many records are remembered, and for how long. */
  readonly cache?: CacheOptions | undefined;
  /** Default: `memoryLimiter()`. A limiter given here is closed by the program, not by the verifier. */
  readonly limiter?: Limiter | undefined;
  /**
   * Milliseconds within which a limiter given here must settle each promise, 1…600_000, default 1_000; after that it counts as one that
   * cannot answer.
   */
  readonly limiterTimeout?: number | undefined;
  /** While the limiter cannot answer (ruling C7): `local`: this node enforces its share (default); `deny`; `allow`. */
  readonly onLimiterFailure?: "local" | "deny" | "allow" | undefined;
  /** Nodes that share the limiter, 1…100_000, default 1: the share of `local` is `limit / nodes`. */
  readonly nodes?: number | undefined;
  /** Unix milliseconds; read once a call (ruling A7). Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
  /** Default `{ mode: "exact" }`. */
  readonly credits?: CreditsOptions | undefined;
  /** Hashes of your own for migrated keys, by the name given to `createMigration` (ruling E3). */
  readonly migrationAlgorithms?: MigrationAlgorithms | undefined;
  /** Told of every outcome after it was answered (ruling A8). What it throws, or rejects with, is dropped and counted. */
  readonly onOutcome?: ((event: OutcomeEvent) => unknown) | undefined;
}

/** Counts since the verifier was made. */
export interface VerifierCounters {
  /** Calls answered by the fallback of a limiter that could not answer (ruling C7). */
  readonly degraded: number;
  /** Outcome events that were dropped. */
  readonly outcomesDropped: number;
  /**
   * Leased credits that were given up: the store failed without saying whether it had taken them back, or was closed before the verifier.
   * They count as spent.
   */
  readonly creditsForfeited: number;
}

/** Verifies keys; what `createVerifier` returns. Its methods need no `this`. */
export interface Verifier {
  /**
   * Verifies a key: spec §2.1 in, spec §2.2 out. Every outcome, good or bad, is a resolved answer; a failure is never a VALID.
   *
   * From memory 0.4 to 2.1 µs, rising with the number of keys in use; plus one durable step of the store if a credit is taken in
   * `exact` mode.
   * @throws (rejects) KeystileError, each with `errors` where a request is at fault: BAD_REQUEST (400) and PERMISSIONS_QUERY_SYNTAX
   * (400) for its form, before any store call · BAD_REQUEST (400) for a limit that does not exist, once the key has passed what comes
   * before limits (ruling C5) · CALLER_FORBIDDEN (403) for a caller without any right to verify · LIMITER_UNAVAILABLE (503) with
   * `onLimiterFailure: "deny"` · a store that failed (STORE_…), or that is your own and broke its
   * types (STORE_INVALID) or did not answer in time (STORE_TIMEOUT) · VERIFIER_CLOSED
   * @throws (rejects) TypeError for a context that is no object, or a migration whose algorithm is not among `migrationAlgorithms`
   */
  verify(request: V2KeysVerifyKeyRequestBody, context?: VerifyContext): Promise<V2KeysVerifyKeyResponseData>;
  /** What went wrong without failing a call, counted in this verifier; never throws, after `close` neither. */
  counters(): VerifierCounters;
  /**
   * Later calls are refused, those in flight settle; returns leases, and tries again while the store is busy, full or read-only. The store
   * stays open: close it after this. A second call returns the same promise.
   * @throws (rejects) KeystileError CREDITS_NOT_RETURNED: after `credits.closeTimeout` milliseconds leased credits were not back in the
   * store, or it failed to take them; everything else is closed all the same
   */
  close(): Promise<void>;
}

/** What each of {@link VerifierOptions} must be. */
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
      ttl: integer(100, 3_600_000),
      keys: integer(1, 10_000_000),
      closeTimeout: integer(0, 3_600_000),
    };
    checkOptions(value, { mode: oneOf("exact", "leased"), ...(leased && sizes) }, path);
    const { mode, size = 1_000, step = 1 } = value as { mode?: string; size?: number; step?: number };
    if (mode === undefined) throw new TypeError(`${path}.mode must be one of: exact, leased`);
    if (step > size) throw new RangeError(`${path}.step must be at most ${path}.size`);
  },
  migrationAlgorithms: (value: unknown, path: string) => void createAlgorithms(value as MigrationAlgorithms, path),
  onOutcome: callable,
} as const satisfies Record<keyof VerifierOptions, Check>;

/**
 * Makes a verifier on a store.
 * @param given where the keys are: `sqliteStore(…)`, `memoryStore()` or your own; several verifiers may share one
 * @throws TypeError or RangeError naming the option or the store's missing method
 * @example
 * const verifier = createVerifier(store);
 * const { valid, code } = await verifier.verify({ key, permissions: "documents.read" });
 */
export function createVerifier(given: Store, options: VerifierOptions = {}): Verifier {
  checkStore(given);
  const own = checkOptions(options, VERIFIER_OPTIONS);
  const { workspaceId, nodes = 1, onLimiterFailure = "local", limiterTimeout } = own;
  const credits = own.credits && ownOnly(own.credits);
  const store = guardStore(given, own.storeTimeout);
  const time = own.clock ?? Date.now;
  const clock = guardClock(time);
  const local = hintedLimiter();
  const limiter =
    own.limiter === undefined
      ? hintedTaker(local)
      : withFallback(own.limiter, { onFailure: onLimiterFailure, nodes, local, timeout: limiterTimeout });
  const spender = credits?.mode === "leased" ? leasedSpender(store, credits) : exactSpender(store);
  const cache = createKeyCache(store, { buckets: local, leases: spender }, ownOnly(own.cache ?? {}));
  const outcomes = own.onOutcome && createOutcomes(own.onOutcome);
  const isSystemTime = time === Date.now;
  const sources = {
    store,
    cache,
    algorithms: createAlgorithms(own.migrationAlgorithms),
    isSystemTime,
    workspaceId,
  };
  const deps: VerifyDeps = {
    clock,
    compileQuery: createQueryCompiler(),
    findKey: (request, caller, now) => findKey(sources, request, caller, now),
    findKeyAgain: (request, caller) => findKeyAgain(sources, request, caller),
    limiter,
    spender,
    onOutcome: outcomes?.emit,
  };

  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    try {
      await spender.close();
    } finally {
      outcomes?.close();
      cache.close();
    }
  };
  return Object.freeze({
    verify(request: V2KeysVerifyKeyRequestBody, context?: VerifyContext) {
      if (context !== undefined && !isPlainObject(context)) return Promise.reject(contextError());
      // Not async itself: a promise around a promise costs a third of a hot call.
      return closing === undefined ? verifyKey(deps, request, context) : Promise.reject(closedError());
    },
    counters: () => ({
      degraded: limiter.degradedCalls(),
      outcomesDropped: outcomes?.dropped() ?? 0,
      creditsForfeited: spender.creditsForfeited(),
    }),
    close: () => (closing ??= close()),
  });
}

const closedError = () => new KeystileError("VERIFIER_CLOSED", "the verifier was closed; make another to go on");
