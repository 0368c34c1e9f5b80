/**
 * Every operation of the table over HTTP: done once, and refused once to who lacks the permission. Operations of the
 * wider interface.
 */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { HOSTS, type World, world, OF_ANYBODY } from "./support.js";

const hash = (text: string) => createHash("sha256").update(text).digest("hex");
const limit = { name: "requests", limit: 10, duration: 60_000, autoApply: true };

/** A body that each operation can do something with, in an order in which they can be done, and what it answers. */
const steps: readonly [name: string, body: (w: Made) => unknown, data: unknown][] = [
  ["apis.createApi", () => ({ name: "second" }), { apiId: expect.stringMatching(/^api_/) }],
  ["apis.getApi", ({ apiId }) => ({ apiId }), { name: "documents", enabled: true, ipAllowlist: [] }],
  ["apis.updateApi", ({ apiId }) => ({ apiId, name: "papers" }), {}],
  [
    "permissions.createPermission",
    () => ({ name: "Read", slug: "documents.read" }),
    { permissionId: expect.stringMatching(/^perm_/) },
  ],
  ["permissions.getPermission", () => ({ permission: "documents.read" }), { slug: "documents.read" }],
  ["permissions.listPermissions", () => ({}), [{ slug: "documents.read" }]],
  [
    "permissions.createRole",
    () => ({ name: "editor", permissions: ["documents.write"] }),
    { roleId: expect.stringMatching(/^role_/) },
  ],
  ["permissions.getRole", () => ({ role: "editor" }), { name: "editor", permissions: [{ slug: "documents.write" }] }],
  ["permissions.listRoles", () => ({}), [{ name: "editor" }]],
  ["permissions.setRolePermissions", () => ({ roleId: "editor", permissions: ["a.b"] }), [{ slug: "a.b" }]],
  [
    "identities.createIdentity",
    () => ({ externalId: "user_1", ratelimits: [limit] }),
    { identityId: expect.any(String) },
  ],
  [
    "identities.getIdentity",
    () => ({ identity: "user_1" }),
    { externalId: "user_1", ratelimits: [{ name: "requests" }] },
  ],
  ["identities.listIdentities", () => ({}), [{ externalId: "user_1" }]],
  [
    "identities.updateIdentity",
    () => ({ identity: "user_1", meta: { plan: "pro" } }),
    { externalId: "user_1", meta: { plan: "pro" } },
  ],
  ["identities.updateCredits", () => ({ identity: "user_1", operation: "set", value: 5 }), { remaining: 5 }],
  [
    "identities.grantCredits",
    () => ({ identity: "user_1", grantId: "order 1", amount: 7, reason: "bonus" }),
    { grantId: "order 1", amount: 7, remaining: 7, created: true },
  ],
  [
    "identities.changePlan",
    () => ({ identity: "user_1", refill: { interval: "daily", amount: 9 }, now: "difference" }),
    { remaining: 14, refill: { interval: "daily", amount: 9 } },
  ],
  [
    "identities.getBalance",
    () => ({ identity: "user_1" }),
    {
      accounts: expect.arrayContaining([
        expect.objectContaining({ kind: "grant", grantId: "order 1", owner: "identity" }),
      ]),
    },
  ],
  ["identities.listGrants", () => ({ identity: "user_1" }), { grants: [{ grantId: "order 1", reason: "bonus" }] }],
  [
    "identities.endGrant",
    () => ({ identity: "user_1", grantId: "order 1", reason: "refund" }),
    { grantId: "order 1", amount: 7, withdrawn: 7 },
  ],
  [
    "keys.createKey",
    ({ apiId }) => ({
      apiId,
      prefix: "sk",
      externalId: "user_1",
      meta: { a: 1 },
      roles: ["editor"],
      credits: { remaining: 3 },
    }),
    { keyId: expect.stringMatching(/^key_/), key: expect.stringMatching(/^sk_/) },
  ],
  ["keys.verifyKey", ({ key }) => ({ key }), { valid: true, code: "VALID", credits: 9 }],
  ["keys.getKey", ({ keyId }) => ({ keyId }), { enabled: true, credits: { remaining: 9 } }],
  ["keys.whoami", ({ key }) => ({ key }), { enabled: true }],
  ["keys.listKeys", ({ apiId }) => ({ apiId, limit: 1 }), [{ enabled: true }]],
  ["apis.listKeys", ({ apiId }) => ({ apiId }), [{ enabled: true }, { enabled: true }]],
  ["keys.addPermissions", ({ keyId }) => ({ keyId, permissions: ["x.y"] }), [{ slug: "x.y" }]],
  ["keys.setPermissions", ({ keyId }) => ({ keyId, permissions: ["x.z"] }), [{ slug: "x.z" }]],
  ["keys.removePermissions", ({ keyId }) => ({ keyId, permissions: ["x.z"] }), []],
  ["keys.addRoles", ({ keyId }) => ({ keyId, roles: ["editor"] }), [{ name: "editor" }]],
  ["keys.setRoles", ({ keyId }) => ({ keyId, roles: ["editor"] }), [{ name: "editor" }]],
  ["keys.removeRoles", ({ keyId }) => ({ keyId, roles: ["editor"] }), []],
  ["keys.updateKey", ({ keyId }) => ({ keyId, name: "renamed", ratelimits: [limit] }), {}],
  ["keys.updateCredits", ({ keyId }) => ({ keyId, operation: "set", value: 5 }), { remaining: 5 }],
  [
    "keys.grantCredits",
    ({ keyId }) => ({ keyId, grantId: "two", amount: 6 }),
    { amount: 6, remaining: 6, created: true },
  ],
  [
    "keys.changePlan",
    ({ keyId }) => ({ keyId, refill: { interval: "daily", amount: 9 } }),
    { remaining: 5, refill: { interval: "daily", amount: 9 } },
  ],
  ["keys.getBalance", ({ keyId }) => ({ keyId }), { accounts: [{ owner: "key" }, { owner: "key" }] }],
  ["keys.listGrants", ({ keyId }) => ({ keyId, ended: true }), { grants: [{ amount: 6, priority: 100 }] }],
  ["keys.endGrant", ({ keyId }) => ({ keyId, grantId: "two" }), { amount: 6, withdrawn: 6 }],
  [
    "keys.rerollKey",
    ({ keyId }) => ({ keyId, expiration: 1_000 }),
    { keyId: expect.any(String), key: expect.any(String) },
  ],
  [
    "keys.migrateKeys",
    ({ apiId, migrationId }) => ({ apiId, migrationId, keys: [{ hash: hash("old") }, { hash: hash("old") }] }),
    { migrated: [{ hash: hash("old"), keyId: expect.any(String) }], failed: [hash("old")] },
  ],
  [
    "keys.explainKey",
    ({ keyId }) => ({ keyId, permissions: "x.y" }),
    { passes: false, refusal: "INSUFFICIENT_PERMISSIONS" },
  ],
  [
    "keys.getKeys",
    ({ keyId }) => ({ keyIds: [keyId, "key_gone"] }),
    { keys: [{ apiId: expect.any(String) }], rest: [] },
  ],
  ["keys.searchKeys", () => ({ search: "renamed", state: "active" }), [{ name: "renamed" }, { name: "renamed" }]],
  ["keys.countKeys", () => ({}), { total: expect.any(Number), disabled: 0, expired: 0, asOf: expect.any(Number) }],
  ["apis.listApis", () => ({}), [{ enabled: true }, { enabled: true }]],
  ["rootKeys.listRootKeys", () => ({ limit: 1 }), [{ enabled: true, permissions: expect.any(Array) }]],
  ["rootKeys.deleteRootKey", ({ rootKeyId }) => ({ rootKeyId }), {}],
  ["audit.listAudit", ({ rootKeyId }) => ({ id: rootKeyId, limit: 1 }), [{ operation: expect.any(String) }]],
  ["callers.whoami", () => ({}), { kind: "rootKey", permissions: expect.any(Array) }],
  ["keys.changeKeys", ({ keyId }) => ({ keyIds: [keyId], action: "enable" }), [{ outcome: "unchanged" }]],
  ["keys.deleteKey", ({ keyId }) => ({ keyId }), {}],
  [
    "ratelimit.limit",
    () => ({ namespace: "mail", identifier: "u", limit: 2, duration: 60_000 }),
    { success: true, remaining: 1 },
  ],
  [
    "ratelimit.multiLimit",
    () => [{ namespace: "mail", identifier: "u", limit: 2, duration: 60_000, cost: 2 }],
    { passed: false, limits: [{ namespace: "mail", identifier: "u", passed: false, remaining: 1 }] },
  ],
  [
    "ratelimit.setOverride",
    () => ({ namespace: "mail", identifier: "u", limit: 9, duration: 60_000 }),
    { overrideId: expect.any(String) },
  ],
  ["ratelimit.getOverride", () => ({ namespace: "mail", identifier: "u" }), { limit: 9, identifier: "u" }],
  ["ratelimit.listNamespaces", () => ({ search: "MAIL" }), [{ name: "mail" }]],
  ["ratelimit.listOverrides", () => ({ namespace: "mail" }), [{ limit: 9 }]],
  ["ratelimit.deleteOverride", () => ({ namespace: "mail", identifier: "u" }), {}],
  ["identities.deleteIdentity", () => ({ identity: "user_1", keys: "disable" }), {}],
  ["permissions.deleteRole", () => ({ role: "editor" }), {}],
  ["permissions.deletePermission", () => ({ permission: "documents.read" }), {}],
  ["analytics.getVerifications", () => ({ query: '{"by":["outcome"],"from":0,"to":1793491200000}' }), []],
  ["analytics.getRefusals", ({ keyId }) => ({ keyId }), { hours: [], last: [] }],
  ["analytics.getStatement", ({ keyId }) => ({ keyId, month: "2026-11" }), { month: "2026-11", spent: 0 }],
  ["apis.deleteApi", ({ apiId }) => ({ apiId }), {}],
];

interface Made {
  readonly apiId: string;
  readonly key: string;
  readonly keyId: string;
  readonly migrationId: string;
  readonly rootKeyId: string;
}

describe.each(HOSTS)("operations on the %s host", (host) => {
  let w: World;
  let made: Made;

  beforeAll(async () => {
    w = await world({ host, store: sqliteStore(":memory:") });
    const { key, keyId } = await w.create({ credits: { remaining: 10 } });
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    const { rootKeyId } = await w.keyring.createRootKey({ permissions: [] });
    made = { apiId: w.apiId, key, keyId, migrationId, rootKeyId };
  });
  afterAll(() => w.close());

  it("every operation of the table is tried here", () => {
    expect(steps.map(([name]) => name).sort()).toEqual(Object.keys(OPERATIONS).sort());
  });

  it.each(steps)("%s does what it says, and lists have pagination (contract 1)", async (name, body, data) => {
    const answer = await w.call(name, body(made));
    expect(answer.body.data, answer.text).toMatchObject(data as object);
    expect(answer.status).toBe(200);
    expect(answer.body.pagination !== undefined).toBe(OPERATIONS[name]!.isList);
    expect(answer.headers.get("content-type")).toBe("application/json");
  });

  const asking = steps.filter(([name]) => !OF_ANYBODY.includes(name));

  it.each(asking)("%s is a 403 for who may do something else only, and does nothing", async (name, body) => {
    const call = await w.rootKeyOf("api.*.nothing", "rbac.*.nothing", "identity.*.nothing", "ratelimit.*.nothing");
    const before = JSON.stringify(await w.keyring.listPermissions());
    const answer = await call(name, body(made));
    expect([answer.status, answer.body.error.type], answer.text).toEqual([
      403,
      expect.stringMatching(/\/errors\/forbidden$/),
    ]);
    expect(answer.body.data).toBeUndefined();
    expect(JSON.stringify(await w.keyring.listPermissions())).toBe(before);
  });

  it.each(steps)("%s is a 400 at the property that it does not have (contract 2.4)", async (name, body) => {
    const asked = body(made);
    const bad = Array.isArray(asked) ? [{ ...asked[0], wrong: 1 }] : { ...(asked as object), wrong: 1 };
    const { status, body: answer } = await w.call(name, bad);
    expect(status).toBe(400);
    expect(answer.error.errors).toEqual([
      {
        location: Array.isArray(asked) ? "body[0].wrong" : "body.wrong",
        message: expect.any(String),
        fix: "remove it",
      },
    ]);
  });

  it("liveness takes no caller", async () => {
    const { status, body } = await w.send("/v2/liveness");
    expect([status, body.data]).toEqual([200, { message: "OK" }]);
  });
});
