/** What a program may say of the service, and the mistakes it can make in it. Rulings A4, F5, G1, G3. Knows no request. */
import { AUTHENTICATOR_OPTIONS, type AuthenticatorOptions } from "../access/authenticate.js";
import {
  callable,
  type Check,
  checkOptions,
  flag,
  group,
  integer,
  type OptionChecks,
  text,
  word,
} from "../lib/check-options.js";
import { VERIFIER_OPTIONS, type VerifierOptions } from "../verify/verifier.js";
import type { RequestLimitOptions } from "./workspace-limit.js";

/** Options of every form of the service. */
export interface ServiceOptions {
  /** Only root keys and keys of this workspace; default: every workspace of the store, each seen by its own root keys. */
  readonly workspaceId?: string;
  /** Unix time, milliseconds; default `Date.now`. */
  readonly clock?: () => number;
  /** Of the verifier, only when the service makes it: cache, limiter, credits, outcome events, algorithms of migrations; `storeTimeout` holds for all of the service. */
  readonly verifier?: Omit<VerifierOptions, "workspaceId" | "clock">;
  /** Of authentication, only when the service makes it: proxy tokens, the scheme word. */
  readonly authentication?: Omit<AuthenticatorOptions, "clock" | "storeTimeout">;
  /** Calls that a workspace may make (spec §4.1-6, ruling F5): `limit` in `duration` ms, as a token bucket. Default: no limit. */
  readonly requestLimit?: RequestLimitOptions;
  /** Where the pages of error types are, absolute: `https://docs.example.com`. Default: the service's own `/docs` (ruling G3). */
  readonly docsBase?: string;
  /** Whether `/docs` and `/openapi.json` are served; default true. */
  readonly docs?: boolean;
  /** Bytes of a body, 1_024…67_108_864, default 1 MiB (ruling G1). */
  readonly maxBodyBytes?: number;
  /** The same for `keys.migrateKeys`; default as `maxBodyBytes`. */
  readonly maxImportBytes?: number;
  /** Told one line of JSON a request, without any secret (ruling G4). */
  readonly log?: (line: string) => void;
  /** Serves counts at `/metrics`, for whoever asks: keep it from the public. Default false. */
  readonly metrics?: boolean;
  /** Told of every fault of the server, which clients see as a bare 5xx; without a requestId where there was no request. */
  readonly onError?: (error: unknown, context: { readonly requestId?: string }) => void;
}

const MIB = 1_048_576;
const bytes = integer(1_024, 64 * MIB);

/** What each option must be. */
export const SERVICE_OPTIONS: OptionChecks = {
  workspaceId: word,
  clock: callable,
  // Without what the service sets for all.
  verifier: group(without(VERIFIER_OPTIONS, "workspaceId", "clock")),
  authentication: group(without(AUTHENTICATOR_OPTIONS, "clock", "storeTimeout")),
  // Judged where the limit is made.
  requestLimit: () => undefined,
  docsBase: absolute,
  docs: flag,
  maxBodyBytes: bytes,
  maxImportBytes: bytes,
  log: callable,
  metrics: flag,
  onError: callable,
} satisfies Record<keyof ServiceOptions, Check>;

/** The bounds of a body, by operation. */
export interface BodyBounds {
  readonly maxBytes: number;
  readonly maxImportBytes: number;
}

/** The bounds as configured, defaults filled in. */
export function bodyBounds({ maxBodyBytes = MIB, maxImportBytes = maxBodyBytes }: ServiceOptions): BodyBounds {
  return { maxBytes: maxBodyBytes, maxImportBytes };
}

/** @throws TypeError or RangeError naming the option */
export function checkServiceOptions(options: unknown, more: OptionChecks = {}): void {
  checkOptions(options, { ...SERVICE_OPTIONS, ...more });
}

function without(checks: OptionChecks, ...names: readonly string[]): OptionChecks {
  return Object.fromEntries(Object.entries(checks).filter(([name]) => !names.includes(name)));
}

function absolute(value: unknown, path: string): void {
  text(value, path);
  if (!/^https?:\/\/[^\s?#]+[^\s?#/]$/.test(value as string))
    throw new TypeError(`${path} must be absolute, without a slash at its end, such as https://docs.example.com`);
}
