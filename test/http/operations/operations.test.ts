/**
 * The table of operations: what it names, and who may do what by it. Operations of the wider interface; contract 4,
 * 5.4, 9-3, rulings B6, B7.
 */
import { describe, expect, it } from "vitest";
import { createCallerGrants } from "../../../src/access/grants.js";
import { KeystileError } from "../../../src/contracts/errors.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import type { Services } from "../../../src/http/operations/operation.js";
import { contextOfKeyring, createKeyring } from "../../../src/keyring/keyring.js";
import { contextOfRatelimits, createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { toJsonSchema } from "../../../src/keyring/schemas/json-schema.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { DOCUMENT } from "../../wider-interface.js";

const SVC = "svc:v1:ws_default:keyspaces";
const ofApi = (action: string) => [`api.*.${action}`, `api.<api_id>.${action}`];
const ofKeyspace = (action: string) => [...ofApi(action), `${SVC}/*#${action}`, `${SVC}/<api_id>#${action}`];
const ofKey = (action: string) => [
  ...ofApi(action),
  ...["*/keys/*", "<api_id>/keys/*", "<api_id>/keys/<key_id>"].map((path) => `${SVC}/${path}#${action}`),
];
const ofOne = (type: string, id: string, action: string) => [`${type}.*.${action}`, `${type}.<${id}>.${action}`];
const ofNamespace = (action: string) => [`ratelimit.*.${action}`, `ratelimit.<namespace_id>.${action}`];

type Body = (ids: Ids) => unknown;
const named: Body = ({ apiId }) => ({ apiId });
const keyed =
  (more: object = {}): Body =>
  ({ keyId }) => ({ keyId, ...more });
const limited: Body = ({ namespaceId }) => ({ namespace: namespaceId, identifier: "u", limit: 1, duration: 1_000 });
const override: Body = ({ namespaceId }) => ({ namespace: namespaceId, identifier: "u" });

const stopped: Body = ({ apiId }) => ({ apiId, action: "disable" });

/** As the operations of the wider interface name them; for one row also by its id. */
const TABLE: Readonly<Record<string, readonly [permissions: readonly string[], body: Body]>> = {
  "analytics.getVerifications": [
    ofApi("read_analytics"),
    ({ apiId }) => ({ query: { from: 0, to: 1_793_491_200_000, where: { apiId: [apiId] } } }),
  ],
  "analytics.getRefusals": [ofApi("read_analytics"), ({ apiId }) => ({ apiId })],
  "analytics.getStatement": [ofApi("read_analytics"), ({ keyId }) => ({ keyId, month: "2026-11" })],
  "apis.createApi": [["api.*.create_api"], () => ({ name: "abc" })],
  "apis.deleteApi": [ofApi("delete_api"), named],
  "apis.getApi": [ofApi("read_api"), named],
  "apis.updateApi": [ofApi("update_api"), named],
  "apis.listKeys": [ofApi("read_key"), named],
  "keys.listKeys": [ofApi("read_key"), named],
  "identities.createIdentity": [["identity.*.create_identity"], () => ({ externalId: "new" })],
  "identities.deleteIdentity": [ofOne("identity", "identity_id", "delete_identity"), () => ({ identity: "user_1" })],
  "identities.getIdentity": [ofOne("identity", "identity_id", "read_identity"), () => ({ identity: "user_1" })],
  "identities.listIdentities": [["identity.*.read_identity"], () => ({})],
  "identities.grantCredits": [
    ofOne("identity", "identity_id", "update_identity"),
    () => ({ identity: "user_1", amount: 5 }),
  ],
  "identities.endGrant": [
    ofOne("identity", "identity_id", "update_identity"),
    () => ({ identity: "user_1", grantId: "bonus" }),
  ],
  "keys.endGrant": [ofKey("update_key"), keyed({ grantId: "bonus" })],
  "identities.getBalance": [ofOne("identity", "identity_id", "read_identity"), () => ({ identity: "user_1" })],
  "identities.listGrants": [ofOne("identity", "identity_id", "read_identity"), () => ({ identity: "user_1" })],
  "identities.changePlan": [
    ofOne("identity", "identity_id", "update_identity"),
    () => ({ identity: "user_1", refill: { interval: "daily", amount: 5 } }),
  ],
  "keys.changePlan": [ofKey("update_key"), keyed({ refill: { interval: "daily", amount: 5 } })],
  "keys.grantCredits": [ofKey("update_key"), keyed({ amount: 5 })],
  "keys.getBalance": [ofKey("read_key"), keyed()],
  "keys.listGrants": [ofKey("read_key"), keyed()],
  "identities.updateCredits": [
    ofOne("identity", "identity_id", "update_identity"),
    () => ({ identity: "user_1", operation: "set", value: 5 }),
  ],
  "identities.updateIdentity": [ofOne("identity", "identity_id", "update_identity"), () => ({ identity: "user_1" })],
  "keys.addPermissions": [ofKey("update_key"), keyed({ permissions: ["a.b"] })],
  "keys.removePermissions": [ofKey("update_key"), keyed({ permissions: ["a.b"] })],
  "keys.setPermissions": [ofKey("update_key"), keyed({ permissions: [] })],
  "keys.addRoles": [ofKey("update_key"), keyed({ roles: ["editor"] })],
  "keys.removeRoles": [ofKey("update_key"), keyed({ roles: ["editor"] })],
  "keys.setRoles": [ofKey("update_key"), keyed({ roles: [] })],
  "keys.updateKey": [ofKey("update_key"), keyed()],
  "keys.updateCredits": [ofKey("update_key"), keyed({ operation: "set", value: 1 })],
  "keys.createKey": [ofKeyspace("create_key"), named],
  "keys.rerollKey": [ofKeyspace("create_key"), keyed({ expiration: 0 })],
  "keys.migrateKeys": [
    ofApi("create_key"),
    ({ apiId, migrationId }) => ({ apiId, migrationId, keys: [{ hash: "0".repeat(64) }] }),
  ],
  "keys.deleteKey": [ofKey("delete_key"), keyed()],
  "keys.getKey": [ofKey("read_key"), keyed()],
  "keys.whoami": [ofKey("read_key"), ({ key }) => ({ key })],
  "keys.verifyKey": [ofKey("verify_key"), ({ key }) => ({ key })],
  "permissions.createPermission": [["rbac.*.create_permission"], () => ({ name: "new", slug: "new" })],
  "permissions.createRole": [["rbac.*.create_role"], () => ({ name: "new" })],
  "permissions.deletePermission": [ofOne("rbac", "permission_id", "delete_permission"), () => ({ permission: "a.b" })],
  "permissions.deleteRole": [ofOne("rbac", "role_id", "delete_role"), () => ({ role: "editor" })],
  "permissions.getPermission": [ofOne("rbac", "permission_id", "read_permission"), () => ({ permission: "a.b" })],
  "permissions.getRole": [ofOne("rbac", "role_id", "read_role"), () => ({ role: "editor" })],
  "permissions.listPermissions": [["rbac.*.read_permission"], () => ({})],
  "permissions.listRoles": [["rbac.*.read_role"], () => ({})],
  "permissions.setRolePermissions": [
    ofOne("rbac", "role_id", "add_permission_to_role"),
    () => ({ roleId: "editor", permissions: ["a.b"] }),
  ],
  "ratelimit.limit": [ofNamespace("limit"), limited],
  "ratelimit.multiLimit": [ofNamespace("limit"), (ids) => [limited(ids)]],
  "ratelimit.setOverride": [ofNamespace("set_override"), limited],
  "ratelimit.getOverride": [ofNamespace("read_override"), override],
  "ratelimit.listOverrides": [ofNamespace("read_override"), ({ namespaceId }) => ({ namespace: namespaceId })],
  "ratelimit.deleteOverride": [ofNamespace("delete_override"), override],
  "ratelimit.listNamespaces": [["ratelimit.*.read_namespace"], () => ({})],
  "apis.listApis": [ofApi("read_api"), () => ({})],
  "keys.getKeys": [ofKey("read_key"), ({ keyId }) => ({ keyIds: [keyId] })],
  "keys.explainKey": [ofKey("read_key"), keyed()],
  "keys.searchKeys": [ofApi("read_key"), named],
  "keys.changeKeys": [ofKey("update_key"), ({ keyId }) => ({ keyIds: [keyId], action: "disable" })],
  "keys.countKeys": [ofApi("read_key"), named],
  "rootKeys.listRootKeys": [["workspace.*.read_root_key"], () => ({})],
  "rootKeys.deleteRootKey": [["workspace.*.delete_root_key"], ({ rootKeyId }) => ({ rootKeyId })],
  "audit.listAudit": [["workspace.*.read_audit"], () => ({})],
  "callers.whoami": [[], () => ({})],
};
/** They leave out what the caller may not see. */
const LEAVES_OUT = ["apis.listApis", "keys.getKeys", "keys.changeKeys"];

const imported =
  (more: object): Body =>
  ({ apiId, migrationId }) => ({ apiId, migrationId, keys: [{ hash: "1".repeat(64), ...more }] });

/** Of the key that has a permission, a role and an identity. */
const full: Body = ({ fullKeyId }) => ({ keyId: fullKeyId, expiration: 0 });

/** What is asked besides: by which request, and what its lack answers. */
const ALSO: readonly (readonly [name: string, permission: string, body: Body, lacking: string])[] = [
  [
    "permissions.createRole",
    "rbac.*.add_permission_to_role",
    () => ({ name: "new", permissions: ["a.b"] }),
    "CALLER_FORBIDDEN",
  ],
  [
    "permissions.createRole",
    "rbac.*.create_permission",
    () => ({ name: "new", permissions: ["a.b", "a.c"] }),
    "CALLER_FORBIDDEN",
  ],
  [
    "permissions.setRolePermissions",
    "rbac.*.remove_permission_from_role",
    () => ({ roleId: "editor", permissions: ["a.b"] }),
    "CALLER_FORBIDDEN",
  ],
  [
    "permissions.setRolePermissions",
    "rbac.*.create_permission",
    () => ({ roleId: "editor", permissions: ["a.c"] }),
    "CALLER_FORBIDDEN",
  ],
  ["keys.rerollKey", "api.*.update_key", keyed({ expiration: 0 }), "CALLER_FORBIDDEN"],
  ["keys.rerollKey", "rbac.*.add_permission_to_key", full, "CALLER_FORBIDDEN"],
  ["keys.rerollKey", "identity.*.read_identity", full, "CALLER_FORBIDDEN"],
  ["keys.rerollKey", "rbac.*.add_role_to_key", full, "CALLER_FORBIDDEN"],
  ["apis.listKeys", "api.*.read_api", named, "CALLER_FORBIDDEN"],
  ["keys.listKeys", "api.*.read_api", named, "CALLER_FORBIDDEN"],
  ["keys.searchKeys", "api.*.read_api", named, "CALLER_FORBIDDEN"],
  ["keys.countKeys", "api.*.read_api", named, "CALLER_FORBIDDEN"],
  ["keys.changeKeys", "api.*.delete_key", ({ keyId }) => ({ keyIds: [keyId], action: "delete" }), "CALLER_FORBIDDEN"],
  ["keys.changeKeys", "api.*.read_key", stopped, "CALLER_FORBIDDEN"],
  ["keys.changeKeys", "api.*.read_api", stopped, "CALLER_FORBIDDEN"],
  ...[named, keyed()].flatMap((body, i) => {
    const name = i === 0 ? "keys.createKey" : "keys.updateKey";
    const naming =
      (more: object): Body =>
      (ids) => ({ ...(body(ids) as object), ...more });
    return [
      [name, "rbac.*.create_permission", naming({ permissions: ["a.b", "a.c"] }), "CALLER_FORBIDDEN"],
      [name, "rbac.*.add_permission_to_key", naming({ permissions: ["a.b"] }), "CALLER_FORBIDDEN"],
      [name, "identity.*.read_identity", naming({ externalId: "user_1" }), "CALLER_FORBIDDEN"],
      [name, "rbac.*.add_role_to_key", naming({ roles: ["editor"] }), "CALLER_FORBIDDEN"],
    ] as const;
  }),
  ...["keys.addPermissions", "keys.setPermissions"].flatMap(
    (name) =>
      [
        [name, "rbac.*.create_permission", keyed({ permissions: ["a.c"] }), "CALLER_FORBIDDEN"],
        [name, "rbac.*.add_permission_to_key", keyed({ permissions: ["a.b"] }), "CALLER_FORBIDDEN"],
      ] as const,
  ),
  ["keys.addRoles", "rbac.*.add_role_to_key", keyed({ roles: ["editor"] }), "CALLER_FORBIDDEN"],
  ["keys.setRoles", "rbac.*.add_role_to_key", keyed({ roles: ["editor"] }), "CALLER_FORBIDDEN"],
  ["keys.migrateKeys", "rbac.*.add_permission_to_key", imported({ permissions: ["a.b"] }), "CALLER_FORBIDDEN"],
  ["keys.migrateKeys", "identity.*.read_identity", imported({ externalId: "user_1" }), "CALLER_FORBIDDEN"],
  ["keys.migrateKeys", "rbac.*.add_role_to_key", imported({ roles: ["editor"] }), "CALLER_FORBIDDEN"],
  ["ratelimit.limit", "ratelimit.*.create_namespace", () => fresh, "CALLER_FORBIDDEN"],
  ["ratelimit.multiLimit", "ratelimit.*.create_namespace", () => [fresh], "CALLER_FORBIDDEN"],
  ["ratelimit.setOverride", "ratelimit.*.create_namespace", () => fresh, "CALLER_FORBIDDEN"],
];
/** What only `strictDelegation` asks for. */
const isStrict = (permission: string): boolean => /read_identity$|add_(permission|role)_to_key$/.test(permission);
const fresh = { namespace: "fresh", identifier: "u", limit: 1, duration: 1_000 };
const besides = (name: string) => ALSO.filter(([operation]) => operation === name).map(([, permission]) => permission);

/**
 * Named by the document, and not asked for: a key's text is never kept, so none is encrypted. `read_api` is named in
 * one form.
 */
const isWaived = (name: string, permission: string): boolean =>
  /crypt_key$/.test(permission) || (name === "apis.listKeys" && permission === "api.<api_id>.read_api");
/**
 * Asked for or taken, and not named by the document: the forms of contract 4.1 for all that changes a key, what
 * retires a key, what makes a namespace or a permission, what `strictDelegation` asks for, and single identities,
 * permissions and roles.
 */
const isAdded = (name: string, permission: string): boolean =>
  (/^keys\.\w+(Permissions|Roles)$/.test(name) && permission.startsWith("<scheme>")) ||
  (name === "keys.rerollKey" && permission === "api.*.update_key") ||
  permission === "ratelimit.*.create_namespace" ||
  (name.startsWith("keys.") && (permission === "rbac.*.create_permission" || isStrict(permission))) ||
  /<(identity|permission|role)_id>/.test(permission);

interface Ids {
  readonly apiId: string;
  readonly keyId: string;
  readonly fullKeyId: string;
  readonly key: string;
  readonly namespaceId: string;
  readonly migrationId: string;
  readonly identityId: string;
  readonly permissionId: string;
  readonly roleId: string;
  readonly rootKeyId: string;
}

async function world(): Promise<{ services: Services; ids: Ids }> {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const ratelimits = createRatelimits(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
  const { identityId } = await keyring.createIdentity({ externalId: "user_1", credits: { remaining: 100 } });
  for (const owner of [{ keyId }, { identity: "user_1" }])
    await keyring.grantCredits({ ...owner, grantId: "bonus", amount: 5 });
  const { roleId } = await keyring.createRole({ name: "editor", permissions: ["a.b"] });
  const { id: permissionId } = await keyring.getPermission({ permission: "a.b" });
  const given = { permissions: ["a.b"], roles: ["editor"], externalId: "user_1", creditsFrom: "none" } as const;
  const { keyId: fullKeyId } = await keyring.createKey({ apiId, ...given });
  const { namespaceId } = await ratelimits.createNamespace({ name: "mail" });
  await ratelimits.setOverride({ namespace: "mail", identifier: "u", limit: 5, duration: 1_000 });
  const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
  const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
  return {
    services: {
      store,
      strictDelegation: false,
      verifier: createVerifier(store),
      keyring: contextOfKeyring(keyring)!,
      ratelimits: contextOfRatelimits(ratelimits)!,
      externalIds: "specified" as const,
    },
    ids: { apiId, keyId, fullKeyId, key, namespaceId, migrationId, identityId, permissionId, roleId, rootKeyId },
  };
}

async function statusOf(
  name: string,
  permissions: readonly string[],
  body = TABLE[name]![1],
  strictDelegation = false,
): Promise<string> {
  const made = await world();
  const { ids } = made;
  const services = { ...made.services, strictDelegation };
  const filled = permissions.map((permission) =>
    permission.replace(/<(\w+)_id>/g, (_, noun: string) => ids[`${noun}Id` as keyof Ids]),
  );
  const caller = { workspaceId: "ws_default", ...createCallerGrants(filled, "ws_default") };
  try {
    const data = await OPERATIONS[name]!.perform(services, { caller, body: body(ids), header: () => undefined });
    return (data as { code?: string }).code ?? "done";
  } catch (error) {
    if (error instanceof KeystileError) return error.code;
    throw error;
  }
}

/** What an operation asks besides whatever the request. */
const alwaysBesides = (name: string) =>
  OPERATIONS[name]!.also.filter(({ where }) => where === undefined).map(({ permission }) => permission);

/** What the document does not have. */
const OURS = [
  "analytics.getRefusals",
  "analytics.getStatement",
  "apis.listApis",
  "apis.updateApi",
  "audit.listAudit",
  "callers.whoami",
  "identities.changePlan",
  "identities.endGrant",
  "identities.grantCredits",
  "identities.getBalance",
  "identities.listGrants",
  "identities.updateCredits",
  "keys.changeKeys",
  "keys.changePlan",
  "keys.countKeys",
  "keys.endGrant",
  "keys.explainKey",
  "keys.getKeys",
  "keys.grantCredits",
  "keys.getBalance",
  "keys.listGrants",
  "keys.listKeys",
  "keys.searchKeys",
  "ratelimit.listNamespaces",
  "rootKeys.deleteRootKey",
  "rootKeys.listRootKeys",
];

describe("operations: the table", () => {
  it("names what the wider interface names, and a few besides; no prototype answers for a name", () => {
    expect(Object.keys(OPERATIONS).sort()).toEqual(Object.keys(TABLE).sort());
    for (const name of ["constructor", "toString", "__proto__", "analytics.getVerification"])
      expect(OPERATIONS[name]).toBeUndefined();
    expect(Object.isFrozen(OPERATIONS)).toBe(true);
  });

  it("says of each what it does, what it takes and what it answers", () => {
    for (const { name, summary, request, answer, permissions, isList } of Object.values(OPERATIONS)) {
      expect(summary, name).toMatch(/^[A-Z].*\.$/s);
      expect(["object", "array"], name).toContain(request.type);
      expect(["object", "array"], name).toContain(answer.type);
      // Who calls may be asked with any credential.
      expect(permissions.length > 0, name).toBe(name !== "callers.whoami");
      if (isList)
        expect(Object.keys(request.properties ?? {}), name).toEqual(expect.arrayContaining(["limit", "cursor"]));
    }
  });

  it("lists the permissions by name", () => {
    for (const [name, [permissions]] of Object.entries(TABLE)) {
      const plain = permissions.map((permission) =>
        permission
          .replace("svc:v1:ws_default", "<scheme>:v1:<workspace_id>")
          .replace("keyspaces/<api_id>", "keyspaces/<keyspace_id>"),
      );
      expect(OPERATIONS[name]!.permissions, name).toEqual(plain);
    }
  });

  it("says what it asks besides, by the requests that come to it", () => {
    for (const { name, also } of Object.values(OPERATIONS))
      expect(
        also.map(({ permission }) => permission),
        name,
      ).toEqual(besides(name));
  });

  it("asks for what the document names, but for what is listed here", () => {
    expect(Object.keys(DOCUMENT).sort()).toEqual(
      Object.keys(TABLE)
        .filter((name) => !OURS.includes(name))
        .sort(),
    );
    for (const [name, { permissions }] of Object.entries(DOCUMENT)) {
      const { permissions: ours, also } = OPERATIONS[name]!;
      const said = [...ours, ...also.map(({ permission }) => permission)].filter(
        (permission) => !isAdded(name, permission),
      );
      expect(said.sort(), name).toEqual(permissions.filter((permission) => !isWaived(name, permission)).sort());
    }
  });

  it("validates a body without doing anything, faults at their places", () => {
    expect(() => OPERATIONS["keys.createKey"]!.validate({ apiId: "api_1" })).not.toThrow();
    expect(() => OPERATIONS["keys.createKey"]!.validate({ apiId: 1 })).toThrow(/^body\.apiId: /);
    const keys = [{ hash: "abc" }, { hash: "ab", wrong: 1 }];
    expect(() => OPERATIONS["keys.migrateKeys"]!.validate({ migrationId: "mig", apiId: "api", keys })).toThrow(
      /^body\.keys\[1\]\.hash: .*1 more/,
    );
    expect(() => OPERATIONS["keys.migrateKeys"]!.validate(null)).toThrow(/^body: /);
  });
});

const ASKING = Object.entries(TABLE).filter(([name]) => name !== "callers.whoami");

describe.each(ASKING)("operations: who may do %s", (name, [permissions]) => {
  it.each(permissions)("%s suffices", async (permission) => {
    expect(["done", "VALID"]).toContain(await statusOf(name, [permission, ...alwaysBesides(name)]));
  });

  it("nothing, another action, another id or another workspace do not", async () => {
    expect(await statusOf(name, [])).toBe("CALLER_FORBIDDEN");
    const other = permissions.map((permission) => permission.replace(/[a-z_]+$/, "other_action"));
    expect(await statusOf(name, other)).toBe("CALLER_FORBIDDEN");
    const elsewhere = permissions
      .filter((permission) => permission.includes("<"))
      .map((permission) => permission.replace(/<(?!key_)\w+_id>/, "api_elsewhere"));
    const keyOfAnother =
      name === "keys.verifyKey"
        ? "NOT_FOUND"
        : "keyId" in (TABLE[name]![1]({} as Ids) as object) || name === "keys.whoami"
          ? "NOT_FOUND"
          : "CALLER_FORBIDDEN";
    if (elsewhere.length > 0)
      expect(await statusOf(name, elsewhere)).toBe(LEAVES_OUT.includes(name) ? "done" : keyOfAnother);
    const foreign = permissions
      .filter((permission) => permission.startsWith("svc"))
      .map((permission) => permission.replace("ws_default", "ws_other"));
    expect(await statusOf(name, foreign)).toBe("CALLER_FORBIDDEN");
  });
});

describe.each(ALSO)("operations: %s asks for %s besides", (name, permission, body, lacking) => {
  const others = () => [TABLE[name]![0][0]!, ...besides(name).filter((other) => other !== permission)];

  it("where a request comes to it, it is needed and suffices", async () => {
    expect(await statusOf(name, others(), body, isStrict(permission))).toBe(lacking);
    expect(await statusOf(name, [...others(), permission], body, isStrict(permission))).toBe("done");
    if (!isStrict(permission)) return;
    expect(await statusOf(name, others(), body), "without strictDelegation").toBe("done");
    const [, noun = "role"] = /(identity|permission|role)/.exec(permission)!;
    const single = permission.replace("*", `<${noun}_id>`);
    expect(await statusOf(name, [...others(), single], body, true)).toBe("done");
    expect(await statusOf(name, [...others(), single.replace("<", "other_<")], body, true)).toBe(lacking);
  });

  it("is asked of every request, or only where it says", async () => {
    const isAlways = OPERATIONS[name]!.also.find((one) => one.permission === permission)?.where === undefined;
    expect(await statusOf(name, others())).toBe(isAlways ? lacking : "done");
  });
});

describe("json schema", () => {
  it("a part that says nothing of itself is named, so that none is left out", () => {
    expect(() => toJsonSchema({ kind: "schema", type: "custom" } as never)).toThrow(
      "a part of type custom has no JSON Schema",
    );
  });
});
