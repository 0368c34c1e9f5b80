/** The options of `createVerifier`, and their checks. */
import { CACHE_OPTIONS, type CacheOptions } from "../cache/key-cache.js";
import type { Limiter } from "../contracts/limiter.js";
import type { StandardSchema } from "../contracts/standard-schema.js";
import type { JsonObject } from "../contracts/types.js";
import { defaultStep, type LeaseOptions } from "../credits/leased-spender.js";
import { callable, type Check, checkOptions, flag, group, integer, oneOf, workspace } from "../lib/check-options.js";
import { QUEUE_OPTIONS } from "../lib/event-queue.js";
import { STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { standardSchema } from "../lib/meta-schema.js";
import { createAlgorithms, type MigrationAlgorithms } from "../lib/migration-hashes.js";
import { LIMITER_OPTIONS } from "../ratelimit/fallback.js";
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from "./idempotency.js";
import type { OutcomeEvent, OutcomeOptions } from "./outcome-events.js";
import { type AnalyticsOptions, analyticsOption } from "./outcome-flush.js";

/** How credits are taken: in one durable step per call, or from leases in memory. */
export type CreditsOptions = { readonly mode: "exact" } | ({ readonly mode: "leased" } & LeaseOptions);

/** Options of `createVerifier`; all have defaults. `Meta` is what the schema in `meta` makes of metadata. */
export interface VerifierOptions<Meta = JsonObject> extends StoreGuardOptions {
  /**
   * Verify only keys of this workspace, 1–255 characters of `[a-zA-Z0-9_-]`; others are NOT_FOUND. Default: every
   * workspace of the store.
   */
  readonly workspaceId?: string;
  /** How many records are cached, and for how long. */
  readonly cache?: CacheOptions | undefined;
  /**
   * Default: a memory limiter, as `memoryLimiter()` makes it, shared by all verifiers of this process with the same
   * store object and `clock` function. Its limits hold for this process and end with it. `sqliteLimiter(store)` shares
   * limits between the processes of a host. The verifier does not close a limiter given here.
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
  /**
   * Nodes that share the limiter, 1…100_000, default 1: the share of `local` is `limit / nodes` tokens, at least one.
   */
  readonly nodes?: number | undefined;
  /** Returns Unix milliseconds; called once per verification. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
  /** Default `{ mode: "exact" }`. */
  readonly credits?: CreditsOptions | undefined;
  /** How long repeats of a call with an idempotency key are recognised, and how many calls the store records. */
  readonly idempotency?: IdempotencyOptions | undefined;
  /**
   * Whether the store records when each key was last used, to the minute: `lastUsedAt` of `getKey`. Default:
   * `store.powers.usage`. Written in the background, some seconds after the first use of a key in each minute.
   */
  readonly usage?: boolean | undefined;
  /** Your own hash functions for migrated keys, by the algorithm name given to `createMigration`. */
  readonly migrationAlgorithms?: MigrationAlgorithms | undefined;
  /**
   * A Standard Schema (zod, valibot, arktype, …) that types `meta` of results: `meta` is the schema's output for the
   * key's stored metadata, absent if the key has none. Metadata that does not fit rejects the call with META_INVALID
   * before anything is taken. Give `createKeyring` the same schema, so that it refuses to write such metadata. Default:
   * metadata is returned as stored.
   */
  readonly meta?: StandardSchema<Meta> | undefined;
  /**
   * Called for every outcome after the verification has returned. If it throws or rejects, the error is dropped and
   * counted.
   */
  readonly onOutcome?: ((event: OutcomeEvent) => unknown) | undefined;
  /** How many outcome events may wait, and how long `close` waits for an asynchronous listener. */
  readonly outcomes?: OutcomeOptions | undefined;
  /**
   * Whether verifications are counted by key, owner, outcome and tags, for `createAnalytics`. Default false. Counts are
   * written in the background; a crash loses those of one interval. Needs `store.powers.analytics`.
   */
  readonly analytics?: boolean | AnalyticsOptions | undefined;
}

/** The checks of {@link VerifierOptions}. */
export const VERIFIER_OPTIONS = {
  workspaceId: workspace,
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
  analytics: analyticsOption,
} as const satisfies Record<keyof VerifierOptions, Check>;
