/** Wires a store, or parts that the program created, into the service. */
import { type Authenticator, createAuthenticator } from "../access/authenticate.js";
import { KeystileError } from "../contracts/errors.js";
import type { LimiterCounters } from "../contracts/limiter.js";
import type { Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { createAuditQueue, programActor } from "../keyring/audit.js";
import { contextOfKeyring, type Keyring, keyringContext } from "../keyring/keyring.js";
import { contextOfRatelimits, type Ratelimits, ratelimitsContext } from "../keyring/ratelimits/create-ratelimits.js";
import { fireAndForget } from "../lib/callbacks.js";
import { guardClock, methods } from "../lib/check-options.js";
import { checkStore, guardStore } from "../lib/guards/guard-store.js";
import { memoryLimiter } from "../ratelimit/memory/limiter.js";
import type { VerifierOptions } from "../verify/verifier-options.js";
import { createVerifier, type Verifier } from "../verify/verifier.js";
import { type Admission, type AdmissionBounds, createAdmission, type Hold } from "./admission/admission.js";
import { toLine } from "./access-log.js";
import { createPages } from "./docs/static-routes.js";
import type { Incoming, Outgoing } from "./messages.js";
import { createMetrics } from "./metrics.js";
import type { Services } from "./operations/operation.js";
import { admissionBounds, bodyBound, type ServiceOptions } from "./options.js";
import { respond, type ServiceContext } from "./respond.js";
import { createReadiness } from "./readiness.js";
import { createRoutes } from "./routes.js";
import { createRequestLimit } from "./workspace-limit.js";

/** Parts that the program created, and must close itself. */
export interface ServiceParts {
  /** Verifies keys. */
  readonly verifier: Verifier<unknown>;
  /** Made by `createKeyring`. Its workspace is the one that is served; callers of another are refused. */
  readonly keyring: Keyring;
  /** The store of verifier and keyring; default: the keyring's. */
  readonly store?: Store;
  /** Made by `createRatelimits`. Default: created on the store, for the keyring's workspace. */
  readonly ratelimits?: Ratelimits;
  /** Default: created on the store. */
  readonly authenticator?: Authenticator;
}

/** The service, for any host. */
export interface Service extends Pick<Admission, "arrive" | "hurry" | "makeSpace"> {
  /**
   * Handles a request; never rejects.
   * @param hold from `arrive`; the caller releases it once the client has the answer, or never will
   */
  answer(incoming: Incoming, hold: Hold): Promise<Outgoing>;
  /** Closes what the service created: a verifier returns its leases. Wait for requests in flight first. */
  close(): Promise<void>;
}

/** Workspaces whose services are cached; each is a few closures. */
const MAX_WORKSPACES = 1_000;

/** What a host decides. */
export interface HostOptions {
  /** Path below which it is mounted, without a slash at its end; default: none. */
  readonly basePath?: string;
  /** How keys are found unless the options say so; default: as verifiers do. */
  readonly findKeysBy?: "digest";
  /** In place of the bounds that options and defaults say, for tests of what each prevents. */
  readonly bounds?: Partial<AdmissionBounds>;
}

/** @throws TypeError or RangeError naming an option, or what the store lacks */
export function createService(
  source: Store | ServiceParts,
  options: ServiceOptions,
  { basePath = "", findKeysBy, bounds }: HostOptions = {},
): Service {
  const wired = isParts(source) ? wireParts(source, options) : wireStore(source, options, findKeysBy);
  const { store, verifier, authenticator, servicesOf } = wired;
  const clock = guardClock(options.clock ?? Date.now);
  const { requestLimit, docsBase, log, onError } = options;
  const metrics = options.metrics === true ? createMetrics() : undefined;
  const requests = requestLimit === undefined ? undefined : createRequestLimit(requestLimit);
  const admission = createAdmission({ ...admissionBounds(options), ...bounds });
  const readiness = createReadiness(store, (error) => onError && fireAndForget(() => onError(error, {})));
  const pages = createPages({
    store,
    readiness,
    docs: options.docs ?? true,
    basePath,
    metrics:
      metrics &&
      (async () =>
        metrics.read(
          { ...verifier.counters(), auditsDropped: wired.auditsDropped?.() },
          wired.limiterCounters?.(),
          await readiness.health(),
          admission.held(),
        )),
  });
  const context: ServiceContext = {
    routes: createRoutes(pages),
    authenticator,
    servicesOf,
    limitRequests: requests && ((workspaceId) => requests.take(workspaceId, clock())),
    bodyBound: bodyBound(options),
    // Never of the `Host` header, which the client chose.
    docsBase: docsBase ?? `${basePath}/docs`,
    observe(trace) {
      if (metrics === undefined && log === undefined) return;
      const ms = performance.now() - trace.began;
      metrics?.end(trace.operation, trace.status, trace.code, ms);
      if (log !== undefined) fireAndForget(() => log(toLine(trace, clock(), ms)));
    },
    onFault: (error, requestId) => onError && fireAndForget(() => onError(error, { requestId })),
  };
  return {
    arrive: admission.arrive,
    hurry: admission.hurry,
    makeSpace: admission.makeSpace,
    answer(incoming, hold) {
      metrics?.begin();
      return respond(context, incoming, hold);
    },
    close: wired.close,
  };
}

/** Anything else is checked as a store. */
function isParts(source: Store | ServiceParts): source is ServiceParts {
  return typeof source === "object" && source !== null && "verifier" in source;
}

interface Wired {
  readonly store: Store;
  readonly verifier: Verifier<unknown>;
  readonly authenticator: Authenticator;
  readonly servicesOf: (workspaceId: string) => MaybePromise<Services>;
  /** Entries of the audit trail that the listener did not get; absent or `undefined`: the service has no listener. */
  readonly auditsDropped?: () => number | undefined;
  /** Of the limiter of namespaces, if the service created it. */
  readonly limiterCounters?: () => LimiterCounters | undefined;
  close(): Promise<void>;
}

function wireStore(given: Store, settings: ServiceOptions, by: HostOptions["findKeysBy"]): Wired {
  checkStore(given);
  const { clock = Date.now, authentication } = settings;
  const wired = wireServices(given, settings, by);
  const authenticator = createAuthenticator(wired.store, { ...authentication, clock });
  return {
    ...wired,
    authenticator,
    close() {
      authenticator.close();
      return wired.close();
    },
  };
}

/** What serves each workspace of a store. @param program the verifier of the program; absent: one is created */
export function wireServices(
  given: Store,
  settings: ServiceOptions,
  by?: HostOptions["findKeysBy"],
  program?: Verifier<unknown>,
): Omit<Wired, "authenticator"> {
  const { workspaceId, clock = Date.now, verifier: options } = settings;
  const { strictDelegation = false, externalIds = "specified" } = settings;
  const verifying = by === undefined ? options : { ...options, cache: { by, ...options?.cache } };
  // Guarded once here: everything below uses a guarded store unchanged.
  const store = guardStore(given, verifying?.storeTimeout);
  const verifies = { ...verifying, clock, ...(workspaceId !== undefined && { workspaceId }) };
  // What a schema makes of metadata goes into JSON, whatever its type.
  const verifier: Verifier<unknown> = program ?? createVerifier(store, verifies as VerifierOptions);
  const defaultLimiter = memoryLimiter();
  const limiter = verifying?.limiter ?? defaultLimiter;
  const { migrationAlgorithms, meta, onLimiterFailure = "local", nodes = 1, limiterTimeout } = verifying ?? {};
  // A listener hears of all workspaces.
  const audits = createAuditQueue(settings);
  const audit = { actor: programActor(undefined), queue: audits };
  const workspaces = new Map<string, Services>();
  const wire = (id: string): Services => ({
    store,
    strictDelegation,
    verifier,
    externalIds,
    keyring: keyringContext(
      store,
      { workspaceId: id, clock, meta, ...(migrationAlgorithms && { migrationAlgorithms }) },
      audit,
    ),
    ratelimits: ratelimitsContext(
      store,
      { workspaceId: id, clock, limiter, limiterTimeout, onLimiterFailure, nodes },
      audit,
      // Not one for each workspace: those that are asked for seldom are wired anew, and would forget what was taken.
      defaultLimiter,
    ),
  });
  return {
    store,
    verifier,
    servicesOf(id) {
      if (workspaceId !== undefined && id !== workspaceId) throw unknownWorkspace();
      let services = workspaces.get(id);
      if (services === undefined) {
        if (workspaces.size >= MAX_WORKSPACES) workspaces.clear();
        workspaces.set(id, (services = wire(id)));
      }
      return services;
    },
    auditsDropped: () => audits?.dropped(),
    limiterCounters: () => (limiter === defaultLimiter ? defaultLimiter.counters() : undefined),
    async close() {
      try {
        await Promise.all([verifier === program ? undefined : verifier.close(), audits?.flush()]);
      } finally {
        defaultLimiter.close();
      }
    },
  };
}

function wireParts(parts: ServiceParts, options: ServiceOptions): Wired {
  checkParts(parts, options);
  const { workspaceId, clock = Date.now, authentication } = options;
  const { strictDelegation = false, externalIds = "specified" } = options;
  const { verifier } = parts;
  const keyring = contextOfKeyring(parts.keyring);
  if (keyring === undefined) throw new TypeError("keyring must be one that createKeyring made");
  const id = keyring.workspaceId;
  const store = guardStore(parts.store ?? keyring.unaudited);
  const authenticator = parts.authenticator ?? createAuthenticator(store, { ...authentication, clock });
  const ratelimits =
    parts.ratelimits === undefined
      ? ratelimitsContext(store, { workspaceId: id, clock }, keyring.audit)
      : contextOfRatelimits(parts.ratelimits);
  if (ratelimits === undefined) throw new TypeError("ratelimits must be those that createRatelimits made");
  const services: Services = { store, strictDelegation, verifier, keyring, ratelimits, externalIds };
  return {
    store,
    verifier,
    authenticator,
    servicesOf(asked) {
      if (asked !== id || (workspaceId !== undefined && id !== workspaceId)) throw unknownWorkspace();
      return services;
    },
    async close() {
      if (authenticator !== parts.authenticator) authenticator.close();
    },
  };
}

/** @throws TypeError naming what a part lacks, or options for a part that was passed in */
function checkParts({ verifier, store, authenticator }: ServiceParts, options: ServiceOptions): void {
  methods("verify", "counters", "close")(verifier, "verifier");
  if (store !== undefined) checkStore(store);
  if (authenticator !== undefined) methods("authenticate", "close")(authenticator, "authenticator");
  if (options.verifier !== undefined) throw new TypeError("options.verifier must not be given beside a verifier");
  for (const name of ["onAudit", "audit"] as const)
    if (options[name] !== undefined) throw new TypeError(`options.${name} must be given to the keyring, not beside it`);
  if (options.authentication !== undefined && authenticator !== undefined)
    throw new TypeError("options.authentication must not be given beside an authenticator");
}

/** A root key of another workspace gets the same error as one that does not exist (contract 7). */
const unknownWorkspace = (): KeystileError => new KeystileError("AUTH_KEY_NOT_FOUND", "the root key was not found");
