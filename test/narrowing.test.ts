/**
 * Options and fields that narrow what passes: present and undefined, or null, each is refused where it is given. The
 * tables name every option of every entry point, and the compiler misses one that a table lacks.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AnalyticsReaderOptions } from "../src/analytics/analytics.js";
import type { AnalyticsQuery } from "../src/analytics/query.js";
import type { ProxyTokenOptions } from "../src/access/proxy-token.js";
import type { AlertsOptions } from "../src/alerts/alerts.js";
import type { ConsoleHandlerOptions } from "../src/console/console.js";
import { createConsole } from "../src/console/index.js";
import { createPortal, type PortalOptions } from "../src/portal/index.js";
import {
  createAuthenticator,
  createHandler,
  createNodeListener,
  createServer,
  type RequestLimitOptions,
} from "../src/http/index.js";
import type { HandlerOptions } from "../src/http/fetch.js";
import type { NodeListenerOptions } from "../src/http/node/listener.js";
import type { ServerOptions } from "../src/http/node/server.js";
import {
  createAlerts,
  createAnalytics,
  createKeyring,
  createRatelimits,
  createVerifier,
  explain,
  forOwner,
  isKeystileError,
  type Keyring,
  type KeyringOptions,
  memoryStore,
  type RatelimitsOptions,
  type Store,
  type Verifier,
  type VerifierOptions,
  verifyHeaders,
} from "../src/index.js";
import type { OwnerCeiling } from "../src/keyring/owner/ceiling.js";
import type { OwnerKeyRequestBody } from "../src/keyring/schemas/owner.js";
import type { OwnerOptions } from "../src/keyring/owner/owner-keys.js";
import type { RatelimitContext } from "../src/keyring/ratelimits/create-ratelimits.js";
import type * as R from "../src/keyring/schemas/requests.js";
import type { CreateRootKeyRequestBody, UpdateRootKeyRequestBody } from "../src/keyring/schemas/service-requests.js";
import { NARROWING_FIELDS } from "../src/lib/copy-json.js";
import type {
  KeysVerifyKeyRatelimit,
  Refill,
  V2KeysMigrateKeyData,
  V2KeysVerifyKeyRequestBody,
} from "../src/contracts/types.js";
import { apiKey as express } from "../src/middleware/express.js";
import { apiKey as fastify } from "../src/middleware/fastify.js";
import type { ApiKeyOptions } from "../src/middleware/guard.js";
import { apiKey as hono } from "../src/middleware/hono.js";
import { createApiKeyGuard, RequireApiKey } from "../src/middleware/nest.js";
import type { KeyRequirement } from "../src/middleware/requirement.js";
import { apiKey as trpc } from "../src/middleware/trpc.js";
import { apiKey as web } from "../src/middleware/web.js";
import type { VerifyHeadersOptions } from "../src/verify/verify-headers.js";
import type { VerifyContext } from "../src/verify/context.js";
import type { ReserveContext } from "../src/verify/reserve.js";

/**
 * Of each name that may be left out, whether it narrows: then undefined is refused, and otherwise as if it were absent.
 */
type Narrows<T> = Readonly<Record<{ [K in keyof T]-?: object extends Pick<T, K> ? K : never }[keyof T], boolean>>;

const REQUIREMENT: Narrows<KeyRequirement<never>> = {
  ...{ permissions: true, ratelimits: true, cost: false, reserve: false, tags: false },
};
const GUARD: Narrows<ApiKeyOptions<never>> = {
  ...REQUIREMENT,
  ...{ apiId: true, keyFrom: false, skipJwt: false, clientAddress: false, migrationId: false },
  ...{ reveal: false, scope: false, usageExceeded: false, legacyHeaders: false, render: false, onError: false },
  ...{ unsettled: false, reserveTimeout: false },
};
const VERIFIER: Narrows<VerifierOptions> = {
  ...{ workspaceId: true, storeTimeout: false, cache: false, limiter: false, limiterTimeout: false },
  ...{ onLimiterFailure: false, nodes: false, clock: false, credits: false, idempotency: false, usage: false },
  ...{ migrationAlgorithms: false, meta: false, onOutcome: false, outcomes: false, analytics: false },
};
const REQUEST: Narrows<V2KeysVerifyKeyRequestBody> = {
  ...{ permissions: true, ratelimits: true, tags: false, credits: false, migrationId: false },
};
const CHECKED_LIMIT: Narrows<KeysVerifyKeyRatelimit> = { limit: true, duration: true, cost: false };
const CONTEXT: Narrows<VerifyContext> = { apiId: true, caller: true, clientAddress: false, idempotencyKey: false };
const RESERVE: Narrows<ReserveContext> = { ...CONTEXT, timeout: false };
const HEADERS: Narrows<VerifyHeadersOptions> = { ...REQUEST, ...CONTEXT, headers: false };
const KEYRING: Narrows<KeyringOptions> = {
  ...{ workspaceId: true, storeTimeout: false, clock: false, newId: false, migrationAlgorithms: false, meta: false },
  ...{ scheme: false, actor: false, audit: false, onAudit: false },
};
const RATELIMITS: Narrows<RatelimitsOptions> = {
  ...{ workspaceId: true, storeTimeout: false, clock: false, newId: false, limiter: false, limiterTimeout: false },
  ...{ onLimiterFailure: false, nodes: false, actor: false, audit: false, onAudit: false },
};
const RATELIMIT_CONTEXT: Narrows<RatelimitContext> = { caller: true };
const ANALYTICS: Narrows<AnalyticsReaderOptions> = {
  ...{ workspaceId: true, maxRows: false, clock: false, storeTimeout: false },
};
const QUERY: Narrows<AnalyticsQuery> = { where: true, by: false, order: false, limit: false, cursor: false };
const WHERE: Narrows<NonNullable<AnalyticsQuery["where"]>> = {
  ...{ keyId: true, externalId: true, apiId: true, outcome: true, tag: true },
};
const ALERTS: Narrows<AlertsOptions> = {
  ...{ workspaceId: true, creditsBelow: false, expiresWithin: false, refusedShare: false, timeout: false },
  ...{ interval: false, onError: false, clock: false, storeTimeout: false, rules: false },
};
const OWNER: Narrows<OwnerOptions> = { ceiling: true, prefix: false, meta: false };
const CEILING: Narrows<OwnerCeiling> = {
  ...{ keys: true, permissions: true, credits: true, identity: true, ratelimits: true, expiresIn: true },
};
const TOKENS: Narrows<ProxyTokenOptions> = { typ: true, workspaceClaim: false };
const SERVICE: Narrows<HandlerOptions> = {
  ...{ workspaceId: true, requestLimit: true, strictDelegation: true, clock: false, verifier: false },
  ...{ authentication: false, docsBase: false, externalIds: false, docs: false, maxBodyBytes: false },
  ...{ maxImportBytes: false, memoryBudget: false, admissionTimeout: false, log: false, metrics: false },
  ...{ onError: false, onAudit: false, audit: false, clientAddress: false, basePath: false },
};
const { clientAddress: _, basePath: __, ...onNode } = SERVICE;
const LISTENER: Narrows<NodeListenerOptions> = { ...onNode, trustedProxies: false };
const SERVER: Narrows<ServerOptions> = {
  ...LISTENER,
  ...{ maxHeaderBytes: false, headersTimeout: false, requestTimeout: false, keepAliveTimeout: false },
  ...{ unreadTimeout: false, maxConnections: false, maxConnectionsPerAddress: false, graceTimeout: false },
};
const REQUEST_LIMIT: Narrows<RequestLimitOptions> = { limiter: false, nodes: false };
const CONSOLE: Narrows<ConsoleHandlerOptions> = {
  ...{ workspaceId: true, strictDelegation: true, hosts: true, readOnly: true, clock: false, externalIds: false },
  ...{ onAudit: false, audit: false, onError: false, basePath: false, verifier: false, limiter: false },
  ...{ analytics: false, authenticate: false, clientAddress: false },
};

const PORTAL: Narrows<PortalOptions> = {
  ...OWNER,
  ...{ analytics: false, basePath: false, signIn: false, home: false, frameAncestors: false, theme: false },
  ...{ lang: false, texts: false, onError: false },
};

const { name, meta, prefix, cursor, limit, decrypt } = {
  ...{ name: false, meta: false, prefix: false, cursor: false, limit: false, decrypt: false },
};
const NEW_KEY: Narrows<R.CreateKeyRequestBody> = {
  ...{ name, meta, prefix, byteLength: false, recoverable: false, creditsFrom: false, externalId: true, roles: true },
  ...{ permissions: true, credits: true, ratelimits: true, expires: true, expiresIn: true, enabled: true },
  ipAllowlist: true,
};
const CHANGED_KEY: Narrows<R.V2KeysUpdateKeyRequestBody> = {
  ...{ name, meta, creditsFrom: false, externalId: true, credits: true, ratelimits: true, roles: true },
  ...{ permissions: true, expires: true, enabled: true, ipAllowlist: true, reason: false },
};
const OWNERS_KEY: Narrows<OwnerKeyRequestBody> = {
  ...{ name, permissions: true, credits: true, ratelimits: true, expires: true, expiresIn: true, ipAllowlist: true },
};
const MIGRATED: Narrows<V2KeysMigrateKeyData> = {
  ...{ name, meta, externalId: true, roles: true, permissions: true, expires: true, enabled: true, credits: true },
  ratelimits: true,
};
const LISTED: Narrows<R.V2KeysListKeysRequestBody> = {
  ...{ externalId: true, cursor, limit, decrypt, revalidateKeysCache: false },
};
const SEARCHED: Narrows<R.SearchKeysRequestBody> = {
  ...{
    apiId: true,
    externalId: true,
    state: true,
    expiresBefore: true,
    expiresFrom: true,
    maxAge: false,
    within: false,
    creditsBelow: true,
    search: true,
  },
  ...{ order: false, cursor, limit },
};
const NAMES_LISTED: Narrows<R.SearchRequestBody> = { search: true, cursor, limit };
const KEYS_CHANGED: Narrows<Omit<R.ChangeKeysRequestBody, "action">> = {
  ...{ keyIds: true, dryRun: true, apiId: true, externalId: true, state: true, expiresBefore: true },
  ...{ creditsBelow: true, search: true, cursor, limit, reason: false },
};
const SET_CREDITS: Narrows<Extract<R.V2KeysUpdateCreditsRequestBody, { operation: "set" }>> = {
  ...{ value: true, reason: false },
};
const GRANTED: Omit<Narrows<R.GrantCreditsRequestBody>, "identity" | "keyId"> = {
  // The same id again adds nothing: without one each call adds credits.
  ...{ grantId: true, expires: true, expiresIn: true, priority: false, refill: false, reason: false },
};
const REFILL: Narrows<Extract<Refill, { interval: "daily" }>> = { rollover: true, timeZone: false, refillDay: false };
const AUDITED: Narrows<R.ListAuditRequestBody> = {
  ...{ id: true, actor: true, actorSearch: true, operation: true, from: true, to: true },
  cursor,
  limit,
};
const ROOT_KEY: Narrows<CreateRootKeyRequestBody> = { name, expires: true, enabled: true };
const CHANGED_ROOT_KEY: Narrows<UpdateRootKeyRequestBody> = {
  ...{ name, permissions: true, expires: true, enabled: true, reason: false },
};

const store: Store = memoryStore();
const verifier: Verifier = createVerifier(store);
const keyring: Keyring = createKeyring(store);
const ratelimits = createRatelimits(store);
let [apiId, key, keyId, rootKeyId] = ["", "", "", ""];
beforeAll(async () => {
  ({ apiId } = await keyring.createApi({ name: "documents" }));
  ({ key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } }));
  await keyring.createIdentity({ externalId: "payer", credits: { remaining: 0 } });
  ({ rootKeyId } = await keyring.createRootKey({ permissions: [] }));
});
afterAll(async () => {
  await verifier.close();
  await store.close();
});

const secret = { secret: new TextEncoder().encode("0123456789abcdef0123456789abcdef") };
const RANGE = { from: 0, to: 86_400_000 };
const passed = () => new Response();
/** Each entry point: its table, and what it does with an option, whose errors name it so. */
type Give = (given: never) => unknown;
const OPTIONS: readonly (readonly [string, Readonly<Record<string, boolean>>, Give, string])[] = [
  ["createVerifier", VERIFIER, (given) => createVerifier(store, given), "options."],
  ["express", GUARD, (given) => express(verifier, given), "options."],
  ["fastify", GUARD, (given) => fastify(verifier, given), "options."],
  ["hono", GUARD, (given) => hono(verifier, given), "options."],
  ["web", GUARD, (given) => web(verifier, given, passed), "options."],
  ["trpc", GUARD, (given) => trpc(verifier, given), "options."],
  ["nest", GUARD, (given) => createApiKeyGuard(verifier, given), "options."],
  ["RequireApiKey", REQUIREMENT, (given) => RequireApiKey(given), "requirement."],
  ["verify's context", CONTEXT, (given) => verifier.verify({ key }, given), "context."],
  ["reserve's context", RESERVE, (given) => verifier.reserve({ key }, given), "context."],
  ["explain's context", { apiId: true }, (given) => explain(verifier, { key }, given), "context."],
  ["createKeyring", KEYRING, (given) => createKeyring(store, given), "options."],
  ["createRatelimits", RATELIMITS, (given) => createRatelimits(store, given), "options."],
  ["limit's context", RATELIMIT_CONTEXT, (given) => ratelimits.listNamespaces({}, given), "context."],
  ["createAnalytics", ANALYTICS, (given) => createAnalytics(store, given), "options."],
  [
    "createAlerts",
    ALERTS,
    // With two bounds: of the one that is given as undefined there is another.
    (given) =>
      createAlerts(store, {
        ...{ deliver: () => undefined, interval: 0, creditsBelow: 1, expiresWithin: 60_000 },
        ...(given as object),
      }),
    "options.",
  ],
  ["createConsole", CONSOLE, (given) => createConsole(store, given), "options."],
  [
    "createPortal",
    // Those two must be there, and a program may lose either.
    { ...PORTAL, owner: true, apiId: true },
    (given) => createPortal(keyring, { owner: () => "user", apiId, ...(given as object) }),
    "options.",
  ],
  ["createHandler", SERVICE, (given) => createHandler(store, given), "options."],
  ["createNodeListener", LISTENER, (given) => createNodeListener(store, given), "options."],
  ["createServer", SERVER, (given) => createServer(store, given), "options."],
  [
    "requestLimit",
    REQUEST_LIMIT,
    (given) => createHandler(store, { requestLimit: { limit: 1, duration: 1_000, ...(given as object) } }),
    "options.requestLimit.",
  ],
  [
    "proxy tokens",
    TOKENS,
    (given) =>
      createAuthenticator(store, {
        proxyTokens: { issuer: "i", audience: "a", keys: [secret], ...(given as object) },
      }),
    "options.proxyTokens.",
  ],
  ["forOwner", OWNER, (given) => forOwner(keyring, "user", { apiId, ...(given as object) }), "options."],
  ["a ceiling", CEILING, (given) => forOwner(keyring, "user", { apiId, ceiling: given }), "options.ceiling."],
];

describe.each(OPTIONS)("%s", (_name, table, give, path) => {
  it.each(Object.entries(table))("%s: undefined is refused if it narrows: %s", async (option, narrows) => {
    const giving = async () => give({ [option]: undefined } as never);
    if (!narrows) return void (await expect(giving()).resolves.toBeDefined());
    await expect(giving()).rejects.toBeInstanceOf(TypeError);
    await expect(giving()).rejects.toThrow(`${path}${option}`);
    await expect((async () => give({ [option]: null } as never))()).rejects.toThrow(`${path}${option}`);
  });
});

/** Bodies are a KeystileError at the field. */
const BODIES: readonly (readonly [string, Readonly<Record<string, boolean>>, Give, string])[] = [
  ["verify", REQUEST, (given) => verifier.verify({ key, ...(given as object) }), "body."],
  ["reserve", REQUEST, (given) => verifier.reserve({ key, ...(given as object) }), "body."],
  ["prepare", REQUEST, (given) => verifier.prepare(given), "body."],
  ["explain", REQUEST, (given) => explain(verifier, { key, ...(given as object) }), "body."],
  [
    "a limit of a request",
    CHECKED_LIMIT,
    (given) => {
      const full = { name: "exports", limit: 9, duration: 60_000, ...(given as object) };
      return verifier.verify({ key, ratelimits: [full] });
    },
    "body.ratelimits[0].",
  ],
  [
    "createAnalytics' query",
    QUERY,
    (given) => createAnalytics(store).query({ ...RANGE, ...(given as object) }),
    "query.",
  ],
  [
    "createAnalytics' where",
    WHERE,
    (given) => createAnalytics(store).query({ ...RANGE, where: given }),
    "query.where.",
  ],
  ["createKey", NEW_KEY, (given) => keyring.createKey({ apiId, ...(given as object) }), "body."],
  ["updateKey", CHANGED_KEY, (given) => keyring.updateKey({ keyId, ...(given as object) }), "body."],
  ["owner.create", OWNERS_KEY, (given) => forOwner(keyring, "user", { apiId }).create(given), "body."],
  ["listKeys", LISTED, (given) => keyring.listKeys({ apiId, ...(given as object) }), "body."],
  ["searchKeys", SEARCHED, (given) => keyring.searchKeys(given), "body."],
  ["listIdentities", NAMES_LISTED, (given) => keyring.listIdentities(given), "body."],
  [
    "changeKeys",
    KEYS_CHANGED,
    (given) => keyring.changeKeys({ externalId: "nobody", action: "disable", ...(given as object) }),
    "body.",
  ],
  ["countKeys", { apiId: true }, (given) => keyring.countKeys(given), "body."],
  [
    "updateCredits",
    SET_CREDITS,
    (given) => keyring.updateCredits({ keyId, operation: "set", ...(given as object) }),
    "body.",
  ],
  [
    "grantCredits",
    GRANTED,
    (given) => keyring.grantCredits({ identity: "payer", amount: 1, ...(given as object) }),
    "body.",
  ],
  [
    "a refill",
    REFILL,
    (given) => {
      const refill: Refill = { interval: "daily", amount: 1, ...(given as object) };
      return keyring.createKey({ apiId, credits: { remaining: 1, refill } });
    },
    "body.credits.refill.",
  ],
  ["listAudit", AUDITED, (given) => keyring.listAudit(given), "body."],
  ["createRootKey", ROOT_KEY, (given) => keyring.createRootKey({ permissions: [], ...(given as object) }), "body."],
  ["updateRootKey", CHANGED_ROOT_KEY, (given) => keyring.updateRootKey({ rootKeyId, ...(given as object) }), "body."],
  [
    "updateApi",
    { ipAllowlist: true, enabled: true, name },
    (given) => keyring.updateApi({ apiId, ...(given as object) }),
    "body.",
  ],
  [
    "migrateKeys",
    MIGRATED,
    (given) =>
      keyring
        .migrateKeys({ migrationId: "none", apiId, keys: [{ hash: "hash", ...(given as object) }] })
        .catch((error: unknown) => {
          if (isKeystileError(error) && error.code === "NOT_FOUND") return "validated";
          throw error;
        }),
    "body.keys[0].",
  ],
];

describe.each(BODIES)("the body of %s", (_name, table, give, path) => {
  it.each(Object.entries(table))("%s: undefined is refused if it narrows: %s", async (field, narrows) => {
    const giving = async () => give({ [field]: undefined } as never);
    if (!narrows) return void (await expect(giving()).resolves.toBeDefined());
    await expect(giving()).rejects.toMatchObject({ status: 400, errors: [{ location: `${path}${field}` }] });
  });
});

describe("verifyHeaders", () => {
  it.each(Object.entries(HEADERS))("%s: undefined is refused if it narrows: %s", async (option, narrows) => {
    const giving = verifyHeaders(verifier, { "x-api-key": key }, { [option]: undefined });
    if (narrows) await expect(giving).rejects.toThrow(new RegExp(`(body|context)\\.${option}|${option}`));
    else await expect(giving).resolves.toMatchObject({ code: "VALID" });
  });
});

describe("fields that narrow", () => {
  it("are no others than the tables say", () => {
    const tables = [
      NEW_KEY,
      CHANGED_KEY,
      OWNERS_KEY,
      MIGRATED,
      LISTED,
      SEARCHED,
      NAMES_LISTED,
      KEYS_CHANGED,
      SET_CREDITS,
      GRANTED,
      REFILL,
      AUDITED,
      ROOT_KEY,
    ];
    const narrowing = tables.flatMap((table) => Object.entries(table).filter(([, narrows]) => narrows));
    const known = new Set(narrowing.map(([field]) => field));
    // Of credits and of a limit, in a key.
    expect(new Set([...known, "remaining", "autoApply"])).toEqual(new Set(NARROWING_FIELDS));
  });

  it("are refused where a new key has credits or a limit", async () => {
    const lost = { name: "requests", limit: 3, duration: 60_000, autoApply: undefined } as never;
    await expect(keyring.createKey({ apiId, ratelimits: [lost] })).rejects.toMatchObject({
      errors: [{ location: "body.ratelimits[0].autoApply" }],
    });
    await expect(keyring.updateKey({ keyId, credits: { remaining: undefined } as never })).rejects.toMatchObject({
      errors: [{ location: "body.credits.remaining" }],
    });
  });
});

describe("types", () => {
  it("refuse undefined for what narrows, and take it for what does not", () => {
    const lost = undefined as string | undefined;
    const calls = () => {
      // @ts-expect-error it narrows
      express(verifier, { apiId: lost });
      // @ts-expect-error it narrows
      web(verifier, { permissions: lost }, passed);
      // @ts-expect-error a function must return a value
      hono(verifier, { permissions: () => lost });
      // @ts-expect-error it narrows
      createVerifier(store, { workspaceId: lost });
      // @ts-expect-error it narrows
      void verifier.verify({ key, permissions: lost }, { apiId: lost });
      express(verifier, { migrationId: lost, cost: () => undefined });
    };
    expect(calls).toThrow(TypeError);
  });
});
