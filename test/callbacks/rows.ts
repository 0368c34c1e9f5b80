/** Each callback that a program may give to the package, and something that calls it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Caller } from "../../src/contracts/caller.js";
import type { StandardSchema } from "../../src/contracts/standard-schema.js";
import {
  type Authenticator,
  createAuthenticator,
  createHandler,
  type HandlerOptions,
  signProxyToken,
} from "../../src/http/index.js";
import { type ConsoleHandlerOptions, createConsole } from "../../src/console/index.js";
import { createPortal, type PortalOptions } from "../../src/portal/index.js";
import {
  type AlertsOptions,
  createAlerts,
  createAnalytics,
  createKeyring,
  createRatelimits,
  createVerifier,
  type KeyringOptions,
  type Limiter,
  memoryLimiter,
  memoryStore,
  type RatelimitsOptions,
  type Store,
  type V2KeysVerifyKeyRequestBody,
  type VerifierOptions,
  type VerifyContext,
} from "../../src/index.js";
import type { ApiKeyOptions } from "../../src/middleware/guard.js";
import { type AlarmStorage, createEngine, type Engine, type ObjectOptions } from "../../src/edge/engine.js";
import { apiKey } from "../../src/middleware/web.js";
import { type RedisClient, redisLimiter } from "../../src/ratelimit/redis/index.js";
import { type PostgresClient, postgresStore } from "../../src/stores/postgres/index.js";
import { nodeStorage } from "../edge/node-storage.js";
import { SCHEMA_VERSION } from "../../src/stores/postgres/schema.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

/** What a program may hand over: it takes anything, and returns anything. */
export type Callback = (...given: unknown[]) => never;

/** One callback. */
export interface Row {
  /** Does something that calls it. @returns what became of it: `in` if somebody was let in */
  readonly run: (callback: Callback) => Promise<string>;
  /**
   * What becomes of it whatever the callback does; `in`: it only listens. Default: anything but `in`, an error
   * included.
   */
  readonly always?: RegExp;
  /** The package never calls it. */
  readonly isUncalled?: boolean;
}

const WS = "ws_default";
const HASH = "ab".repeat(32);
const schema = (validate: Callback): StandardSchema<never> => ({
  "~standard": { version: 1, vendor: "test", validate },
});

async function world(options: KeyringOptions = {}) {
  const store = memoryStore();
  const keyring = createKeyring(store, options);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key } = await keyring.createKey({ apiId, meta: { plan: "pro" }, permissions: ["documents.read"] });
  return { store, keyring, apiId, key };
}

/** Verifies a key that is valid. */
async function verified(
  options: VerifierOptions,
  request: Partial<V2KeysVerifyKeyRequestBody> = {},
  context?: VerifyContext,
): Promise<string> {
  const { store, key } = await world();
  const verifier = createVerifier(store, options);
  const { valid, code } = await verifier.verify({ key, ...request }, context);
  await verifier.close();
  return valid ? "in" : code;
}

/** What an object is told, and something that is done with it. */
async function object(
  options: ObjectOptions,
  act: (engine: Engine, storage: AlarmStorage) => Promise<string>,
): Promise<string> {
  const storage = nodeStorage();
  return act(createEngine(storage, options, undefined), storage);
}

/** A request with a valid key, or without any, behind a guard. */
async function guarded(options: ApiKeyOptions<Request>, hasKey = true): Promise<string> {
  const { store, key } = await world();
  const handler = apiKey(createVerifier(store), { onError: () => undefined, ...options }, () => new Response());
  const headers = hasKey ? { authorization: `Bearer ${key}` } : {};
  const { status } = await handler(new Request("http://localhost/", { headers }));
  return status === 200 ? "in" : `${status}`;
}

/** `keys.verifyKey` of the service, for a key with an allow-list or without. */
async function served(
  options: HandlerOptions,
  { isListed = false, fails = false, authenticator }: ServedOptions = {},
): Promise<string> {
  const { store, keyring, apiId, key } = await world();
  const { key: rootKey } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
  if (isListed) await keyring.updateApi({ apiId, ipAllowlist: ["10.0.0.1"] });
  const failing = Object.assign(Object.create(store) as Store, { findKey: () => Promise.reject(new Error("store")) });
  const source = fails ? failing : store;
  const handler = createHandler(
    authenticator === undefined ? source : { verifier: createVerifier(source), keyring, authenticator },
    options,
  );
  const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
  const body = JSON.stringify({ key });
  const response = await handler(new Request("http://localhost/v2/keys.verifyKey", { method: "POST", headers, body }));
  const { data } = (await response.json()) as { data?: { code: string } };
  await handler.close();
  return data?.code === "VALID" ? "in" : (data?.code ?? `${response.status}`);
}
interface ServedOptions {
  readonly isListed?: boolean;
  readonly fails?: boolean;
  readonly authenticator?: Authenticator;
}

/** A key that is made by a keyring with these options. */
async function created(options: KeyringOptions): Promise<string> {
  const { store, apiId } = await world();
  const keyring = createKeyring(store, options);
  const { keyId } = await keyring.createKey({ apiId, meta: { plan: "pro" } });
  return keyId === "" ? "none" : "in";
}

async function limited(options: RatelimitsOptions, caller?: Caller): Promise<string> {
  const ratelimits = createRatelimits(memoryStore(), options);
  const asked = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
  const { success } = await ratelimits.limit(asked, caller === undefined ? {} : { caller });
  return success ? "in" : "out";
}

const RATELIMITS = [{ name: "calls", limit: 10, duration: 60_000 }];

/** A verification with a limit, by a limiter that has no stand-in. */
const withLimiter = (limiter: Limiter, options: VerifierOptions = {}): Promise<string> =>
  verified({ limiter, limiterTimeout: 50, onLimiterFailure: "deny", ...options }, { ratelimits: RATELIMITS });

const withRedis = (client: unknown): Promise<string> => withLimiter(redisLimiter(client as RedisClient));

async function withPostgres(client: PostgresClient): Promise<string> {
  const store = postgresStore(client, { timeout: 50 });
  try {
    const { valid, code } = await createVerifier(store).verify({ key: "key" });
    return valid ? "in" : code;
  } finally {
    await store.close();
  }
}

/** What an import makes of a key that is presented under its migration. */
async function migrated(hash: Callback): Promise<string> {
  const { store, keyring, apiId } = await world({ migrationAlgorithms: { mine: () => HASH } });
  const { migrationId } = await keyring.createMigration({ algorithm: "mine" });
  await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: HASH }] });
  const verifier = createVerifier(store, { migrationAlgorithms: { mine: hash } });
  const { valid, code } = await verifier.verify({ key: "old-key", migrationId });
  return valid ? "in" : code;
}

async function imported(option: "onProgress" | "onBatch", callback: Callback): Promise<string> {
  const { keyring, apiId } = await world();
  const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
  const keys = Array.from({ length: 4 }, (_, i) => ({ hash: `${i}`.repeat(64) }));
  await keyring.migrateKeys({ migrationId, apiId, keys }, { batchSize: 1, [option]: callback });
  return "imported";
}

/** A backup whose thread takes longer than the time between two reports. */
async function backedUp(onProgress: Callback): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "keystile-callbacks-"));
  const made = { bytes: 1, accounts: 0, broken: 0, leases: 0, forfeited: 0 };
  const thread = `import { parentPort } from "node:worker_threads";
    setTimeout(() => parentPort.postMessage(${JSON.stringify({ made })}), 700);`;
  const store = await sqliteStore(join(folder, "keys.db"));
  try {
    const writer = new URL(`data:text/javascript,${encodeURIComponent(thread)}`);
    await store.backup(join(folder, "backup.db"), { onProgress, writer });
    return "in";
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
}

/** A listener of the audit trail. */
async function audited(onAudit: Callback): Promise<string> {
  const keyring = createKeyring(memoryStore(), { onAudit, audit: { closeTimeout: 20 } });
  await keyring.createApi({ name: "documents" });
  await keyring.close();
  return "in";
}

/** A key with few credits, of which is told. */
async function alerted(options: AlertsOptions): Promise<string> {
  const { store, keyring, apiId } = await world();
  await keyring.createKey({ apiId, credits: { remaining: 1 } });
  const alerts = createAlerts(store, { creditsBelow: 10, interval: 0, timeout: 100, ...options });
  const { raised } = await alerts.run();
  await alerts.close();
  return raised === 1 ? "in" : "none";
}

const allows = (): boolean => true;
const callerOf = (asked: "may" | "mayAny", callback: Callback): Caller => ({
  workspaceId: WS,
  may: allows,
  mayAny: allows,
  [asked]: callback,
});

const TOKENS = { issuer: "issuer", audience: "audience", keys: [{ secret: "0123456789abcdef".repeat(2) }] };
/** What the first statement of a PostgreSQL store returns. */
const STATE = { snapshot: "1:1:", replica: "false", started: "1", lifetime: "1", store_id: "store", standbys: "" };
const ANSWER = { ...STATE, version: `${SCHEMA_VERSION}`, pruned: "false", changes: "[]" };

const ALL: Omit<Caller, "workspaceId"> = { may: () => true, mayAny: () => true };
/** The first page of a console. */
async function consoled(options: ConsoleHandlerOptions): Promise<string> {
  const store = memoryStore();
  const keyring = createKeyring(store);
  // The first page of an empty store is another.
  const { apiId } = await keyring.createApi({ name: "documents" });
  await keyring.createKey({ apiId });
  const { status } = await createConsole(store, options)(new Request("http://localhost/"));
  return status === 200 ? "in" : String(status);
}

/** A page of a customer. */
async function looked(options: Partial<PortalOptions>): Promise<string> {
  const keyring = createKeyring(memoryStore());
  const { apiId } = await keyring.createApi({ name: "documents" });
  const portal = createPortal(keyring, { owner: () => undefined, apiId, ...options });
  const { status } = await portal(new Request("http://localhost/"));
  return status === 200 ? "in" : String(status);
}

const fails = (): never => {
  throw new Error("fault");
};
const mistake = /^500$/;
const listens = /^in$/;

/** By type and member. */
export const ROWS: Readonly<Record<string, Row>> = {
  "ApiKeyOptions.keyFrom": { run: (keyFrom) => guarded({ keyFrom }) },
  "ApiKeyOptions.clientAddress": { run: (clientAddress) => guarded({ clientAddress }), always: mistake },
  "ApiKeyOptions.render": { run: (render) => guarded({ render }, false), always: mistake },
  "ApiKeyOptions.onError": {
    run: (onError) => guarded({ onError, cost: () => Promise.reject(new Error("cost")) }),
    always: mistake,
  },
  "KeyRequirement.permissions": { run: (permissions) => guarded({ permissions }) },
  "KeyRequirement.cost": { run: (cost) => guarded({ cost }) },
  "KeyRequirement.reserve": { run: (reserve) => guarded({ reserve }) },
  "KeyRequirement.tags": { run: (tags) => guarded({ tags }) },
  "KeyRequirement.ratelimits": { run: (ratelimits) => guarded({ ratelimits }) },

  "ServiceOptions.clock": { run: (clock) => served({ clock }), always: mistake },
  "ServiceOptions.log": { run: (log) => served({ log }), always: listens },
  "ServiceOptions.onError": { run: (onError) => served({ onError }, { fails: true }), always: /^50\d$/ },
  "HandlerOptions.clientAddress": {
    run: (clientAddress) => served({ clientAddress }, { isListed: true }),
    always: /^FORBIDDEN$/,
  },
  "ConsoleOptions.authenticate": { run: (authenticate) => consoled({ authenticate }) },
  "ConsoleOptions.clock": { run: (clock) => consoled({ clock, authenticate: () => ({ ...ALL, workspaceId: WS }) }) },
  "ConsoleOptions.onError": { run: (onError) => consoled({ onError, authenticate: fails }), always: mistake },
  // Whom `authenticate` names has no list of addresses.
  "ConsoleHandlerOptions.clientAddress": {
    run: (clientAddress) => consoled({ clientAddress, authenticate: () => ({ ...ALL, workspaceId: WS }) }),
    always: listens,
  },
  "ConsoleOptions.analytics": {
    run: (query) =>
      consoled({
        authenticate: () => ({ ...ALL, workspaceId: WS }),
        analytics: { query, statement: query, forecast: query },
      }),
  },
  // It must be one that createVerifier made.
  "ConsoleOptions.verifier": {
    run: (verify) => consoled({ verifier: { verify, counters: verify, close: verify } as never }),
    isUncalled: true,
  },
  "PortalOptions.owner": { run: (owner) => looked({ owner }) },
  "PortalOptions.onError": { run: (onError) => looked({ onError, owner: fails }), always: mistake },
  // It must be one that createAnalytics made.
  "PortalOptions.analytics": { run: (statement) => looked({ analytics: { statement } }), isUncalled: true },
  "Authenticator.authenticate": {
    run: (authenticate) => served({}, { authenticator: { authenticate, close: () => undefined } }),
  },
  "Authenticator.close": {
    async run(close) {
      const { store } = await world();
      return served({}, { authenticator: { ...createAuthenticator(store), close } });
    },
    isUncalled: true,
  },
  "AuthenticatorOptions.clock": {
    async run(clock) {
      const { store, keyring } = await world();
      const { key } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
      await createAuthenticator(store, { clock }).authenticate(`Bearer ${key}`);
      return "in";
    },
  },
  "SignProxyTokenOptions.clock": {
    async run(clock) {
      await signProxyToken({ subject: "user", workspaceId: WS, permissions: [] }, { ...TOKENS, clock });
      return "in";
    },
  },
  "ProxyTokenOptions.keys": {
    async run(exports) {
      const publicKey = { type: "public", asymmetricKeyType: "ed25519", export: exports };
      const keys = [{ algorithm: "EdDSA", publicKey }] as const;
      const token = await signProxyToken({ subject: "user", workspaceId: WS, permissions: [] }, TOKENS);
      const authenticator = createAuthenticator(memoryStore(), { proxyTokens: { ...TOKENS, keys } });
      await authenticator.authenticate(`Bearer ${token}`);
      return "in";
    },
  },

  "VerifierOptions.clock": { run: (clock) => verified({ clock }) },
  "VerifierOptions.migrationAlgorithms": { run: migrated },
  "VerifierOptions.meta": { run: (validate) => verified({ meta: schema(validate) }) },
  "VerifierOptions.onOutcome": {
    run: (onOutcome) => verified({ onOutcome, outcomes: { closeTimeout: 20 } }),
    always: listens,
  },
  "AnalyticsOptions.onFlush": {
    run: (onFlush) => verified({ analytics: { onFlush } }),
    always: listens,
  },
  "ObjectOptions.mount": {
    run: (mount) =>
      object({ mount }, async ({ fetch }) =>
        (await fetch(new Request("http://x/console"))).status === 200 ? "in" : "refused",
      ),
  },
  "ObjectOptions.onError": {
    run: (onError) => {
      const deliver = () => undefined;
      return object({ onError, alerts: { creditsBelow: 1, deliver } }, async ({ alarm }, storage) => {
        storage.sql.exec("DROP TABLE keystile_alerts");
        await alarm();
        return "in";
      });
    },
    always: listens,
  },
  "AlertsOptions.deliver": { run: (deliver) => alerted({ deliver }), always: listens },
  "AlertsOptions.onError": {
    run: (onError) => alerted({ deliver: () => Promise.reject(new Error("of the mail")), onError }),
    always: listens,
  },
  "AlertsOptions.clock": { run: (clock) => alerted({ deliver: () => undefined, clock }) },
  "AnalyticsReaderOptions.clock": {
    run: async (clock) => String((await createAnalytics(memoryStore(), { clock }).query({ from: 0, to: 1 })).until),
  },
  "Caller.may": {
    async run(may) {
      const caller = callerOf("may", may);
      const outcomes = await Promise.allSettled([verified({}, {}, { caller }), limited({}, caller)]);
      return outcomes.some((one) => one.status === "fulfilled" && one.value === "in") ? "in" : "out";
    },
  },
  "Caller.mayAny": { run: (mayAny) => verified({}, {}, { caller: callerOf("mayAny", mayAny) }) },
  "Limiter.take": { run: (take) => withLimiter({ take }) },
  "Limiter.counters": {
    async run(counters) {
      const { store } = await world();
      const limiter = { take: () => [], counters };
      const { newcomersRefused } = createVerifier(store, { limiter }).counters();
      return newcomersRefused === 0 ? "in" : "counted";
    },
    always: listens,
  },
  "Limiter.close": {
    run: (close) => withLimiter({ take: memoryLimiter().take, close }),
    always: listens,
    isUncalled: true,
  },

  "KeyringOptions.clock": { run: (clock) => created({ clock }) },
  "KeyringOptions.newId": { run: (newId) => created({ newId }) },
  "KeyringOptions.meta": { run: (validate) => created({ meta: schema(validate) }) },
  "KeyringOptions.migrationAlgorithms": {
    run: (mine) => created({ migrationAlgorithms: { mine } }),
    always: listens,
    isUncalled: true,
  },
  "AuditOptions.onAudit": { run: audited, always: listens },
  "MigrateKeysOptions.onProgress": { run: (callback) => imported("onProgress", callback) },
  "MigrateKeysOptions.onBatch": { run: (callback) => imported("onBatch", callback) },
  "RatelimitsOptions.clock": { run: (clock) => limited({ clock }) },
  "RatelimitsOptions.newId": { run: (newId) => limited({ newId }) },

  "BackupOptions.onProgress": { run: backedUp, always: listens },
  "PostgresClient.query": { run: (query) => withPostgres({ query }) },
  "PostgresClient.listen": { run: (listen) => withPostgres({ query: () => Promise.resolve([ANSWER]), listen }) },
  "IoredisClient.call": { run: (call) => withRedis({ call }) },
  "NodeRedisClient.sendCommand": { run: (sendCommand) => withRedis({ sendCommand }) },
  "NodeRedisCluster.sendCommand": { run: (sendCommand) => withRedis({ sendCommand, getSlotRandomNode: allows }) },
  "NodeRedisCluster.getSlotRandomNode": {
    run: (getSlotRandomNode) => withRedis({ sendCommand: () => Promise.reject(new Error("redis")), getSlotRandomNode }),
    isUncalled: true,
  },
};
