/** Options of the service: defaults and validation. */
import { AUTHENTICATOR_OPTIONS, type AuthenticatorOptions } from "../access/authenticate.js";
import {
  callable,
  type Check,
  checkOptions,
  flag,
  group,
  integer,
  narrowing,
  oneOf,
  type OptionChecks,
  text,
  workspace,
} from "../lib/check-options.js";
import { AUDIT_OPTIONS, type AuditOptions } from "../keyring/audit.js";
import { ADMISSION_BOUNDS, type AdmissionBounds, MIB } from "./admission/admission.js";
import { MAX_BYTES_PER_BYTE } from "./long-json.js";
import { VERIFIER_OPTIONS, type VerifierOptions } from "../verify/verifier-options.js";
import type { Operation } from "./operations/operation.js";
import type { RequestLimitOptions } from "./workspace-limit.js";

/**
 * Options of the service on every host. `onAudit` and `audit` only if the service creates the keyring; its `close`
 * waits for the listener.
 */
export interface ServiceOptions extends AuditOptions {
  /** Serves only this workspace; default: every workspace of the store, each through its own root keys. */
  readonly workspaceId?: string;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
  /**
   * Options of the verifier, only if the service creates it: cache, limiter, credits, outcome events, algorithms of
   * migrations. `storeTimeout` applies to all of the service, and so does `limiter`, except for `requestLimit`. Without
   * one, rate limits hold for this process and end with it.
   */
  readonly verifier?: Omit<VerifierOptions<unknown>, "workspaceId" | "clock">;
  /** Options of authentication, only if the service creates the authenticator: proxy tokens, the scheme word. */
  readonly authentication?: Omit<AuthenticatorOptions, "clock" | "storeTimeout">;
  /**
   * True: a caller who gives a key an identity needs `identity.*.read_identity` besides, for each role
   * `rbac.*.add_role_to_key` and for each permission `rbac.*.add_permission_to_key`, or these for the single identity,
   * role or permission; imports included. A list that replaces another counts as a whole, and a reroll gives all that
   * the key has. Default false: `create_key` or `update_key` suffices, and whoever has it can make a key with every
   * permission.
   */
  readonly strictDelegation?: boolean;
  /**
   * Calls per workspace: `limit` per `duration` milliseconds, as a token bucket (contract 4.1-6), counted in this
   * process unless a limiter is given in it. Default: no limit.
   */
  readonly requestLimit?: RequestLimitOptions;
  /**
   * Absolute URL below which the pages of error types are: `https://docs.example.com`. Default: the path of the
   * service's own pages, `/docs`, which a client resolves against the address that it called.
   */
  readonly docsBase?: string;
  /**
   * External ids that requests may give new identities: `specified`, 1–255 characters of `[a-zA-Z0-9_.-]` (default); or
   * `any` text that imports and the library take, such as `auth0|123`.
   */
  readonly externalIds?: "specified" | "any";
  /** Whether `/docs` and `/openapi.json` are served; default true. */
  readonly docs?: boolean;
  /**
   * Maximum bytes of a body, 1_024…67_108_864. Default: 128 KiB, and 1 MiB for operations whose longest legal body is
   * longer. A body takes up to 44 times its bytes while it is handled, which must be half of `memoryBudget` at most.
   */
  readonly maxBodyBytes?: number;
  /** The same for `keys.migrateKeys`; default: `maxBodyBytes`. */
  readonly maxImportBytes?: number;
  /**
   * Bytes that all requests of this process may hold together, 100_663_296…17_179_869_184, default 256 MiB: bodies that
   * have arrived, their values, pages that are made, and answers that are not read yet. A workspace may hold as much as
   * it leaves free, callers without a valid credential together a sixteenth of all. A request that does not fit waits,
   * and then gets a 503. For each 64 KiB one request may be under way, which takes 8 KiB besides; beyond that the
   * oldest request of the workspace with the most ends.
   */
  readonly memoryBudget?: number;
  /** Milliseconds that a request waits for space in the budget, 1…60_000, default 2_000. */
  readonly admissionTimeout?: number;
  /**
   * Called with one line of JSON per request, without secrets. What it throws or rejects with is dropped. Default: no
   * log.
   */
  readonly log?: (line: string) => unknown;
  /** Serves Prometheus metrics at `/metrics` without authentication: do not expose it publicly. Default false. */
  readonly metrics?: boolean;
  /**
   * Called with every server error, which clients see as a generic 5xx. `requestId` is absent if there was no request.
   * What it throws or rejects with is dropped. Default: errors are dropped.
   */
  readonly onError?: (error: unknown, context: { readonly requestId?: string }) => unknown;
}

const bytes = integer(1_024, 64 * MIB);

/** The check of each option. */
export const SERVICE_OPTIONS: OptionChecks = {
  workspaceId: workspace,
  clock: callable,
  // Without the options that the service itself sets.
  verifier: group(without(VERIFIER_OPTIONS, "workspaceId", "clock")),
  authentication: group(without(AUTHENTICATOR_OPTIONS, "clock", "storeTimeout")),
  strictDelegation: narrowing(flag),
  ...AUDIT_OPTIONS,
  // Checked by createRequestLimit.
  requestLimit: narrowing(() => undefined),
  docsBase: absolute,
  docs: flag,
  externalIds: oneOf("specified", "any"),
  maxBodyBytes: bytes,
  maxImportBytes: bytes,
  memoryBudget: integer(96 * MIB, 16_384 * MIB),
  admissionTimeout: integer(1, 60_000),
  log: callable,
  metrics: flag,
  onError: callable,
} satisfies Record<keyof ServiceOptions, Check>;

/** The operation whose bodies list keys. */
export const IMPORT = "keys.migrateKeys";

/** The maximum bytes of an operation's body. */
export type BodyBound = (operation: Pick<Operation, "name" | "bodyBytes">) => number;

/** The configured bounds with defaults. */
export function bodyBound({ maxBodyBytes, maxImportBytes }: ServiceOptions): BodyBound {
  return ({ name, bodyBytes }) => (name === IMPORT ? maxImportBytes : undefined) ?? maxBodyBytes ?? bodyBytes;
}

/** The bounds of admission, with defaults. */
export function admissionBounds({ memoryBudget, admissionTimeout }: ServiceOptions): AdmissionBounds {
  const { budget, wait } = ADMISSION_BOUNDS;
  return { ...ADMISSION_BOUNDS, budget: memoryBudget ?? budget, wait: admissionTimeout ?? wait };
}

/**
 * @throws TypeError or RangeError naming the option, also where one body could not fit the budget beside a workspace
 *   that holds all it may
 */
export function checkServiceOptions(options: ServiceOptions, more: OptionChecks = {}): void {
  checkOptions(options, { ...SERVICE_OPTIONS, ...more });
  const { budget } = admissionBounds(options);
  const most = Math.floor(budget / 2 / MAX_BYTES_PER_BYTE);
  for (const name of ["maxBodyBytes", "maxImportBytes"] as const)
    if ((options[name] ?? 0) > most)
      throw new RangeError(`options.${name} must be at most ${most} with a memoryBudget of ${budget}`);
}

function without(checks: OptionChecks, ...names: readonly string[]): OptionChecks {
  return Object.fromEntries(Object.entries(checks).filter(([name]) => !names.includes(name)));
}

/** The check of `docsBase`. */
export function absolute(value: unknown, path: string): void {
  text(value, path);
  if (!/^https?:\/\/[^\s?#]+[^\s?#/]$/.test(value as string))
    throw new TypeError(`${path} must be absolute, without a slash at its end, such as https://docs.example.com`);
}
