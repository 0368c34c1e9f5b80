/** The table of operations: what it names, and who may do what by it. Operations of the wider interface; spec §4, §5.4, §9-3, rulings B6, B7. */
import { describe, expect, it } from "vitest";
import { createCallerGrants } from "../../../src/access/grants.js";
import { KeystileError } from "../../../src/contracts/errors.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import type { Services } from "../../../src/http/operations/operation.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
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
const ofNamespace = (action: string) => [`ratelimit.*.${action}`, `ratelimit.<namespace_id>.${action}`];

type Body = (ids: Ids) => unknown;
const named: Body = ({ apiId }) => ({ apiId });
const keyed =
  (more: object = {}): Body =>
  ({ keyId }) => ({ keyId, ...more });
const limited: Body = ({ namespaceId }) => ({ namespace: namespaceId, identifier: "u", limit: 1, duration: 1_000 });
const override: Body = ({ namespaceId }) => ({ namespace: namespaceId, identifier: "u" });

/** As the operations of the wider interface name them; of listKeys, `read_key`, since keys are what is read. */
const TABLE: Readonly<Record<string, readonly [permissions: readonly string[], body: Body]>> = {
  "apis.createApi": [["api.*.create_api"], () => ({ name: "abc" })],
  "apis.deleteApi": [ofApi("delete_api"), named],
  "apis.getApi": [ofApi("read_api"), named],
  "apis.updateApi": [ofApi("update_api"), named],
  "apis.listKeys": [ofApi("read_key"), named],
  "keys.listKeys": [ofApi("read_key"), named],
  "identities.createIdentity": [["identity.*.create_identity"], () => ({ externalId: "new" })],
  "identities.deleteIdentity": [["identity.*.delete_identity"], () => ({ identity: "user_1" })],
  "identities.getIdentity": [["identity.*.read_identity"], () => ({ identity: "user_1" })],
  "identities.listIdentities": [["identity.*.read_identity"], () => ({})],
  "identities.updateIdentity": [["identity.*.update_identity"], () => ({ identity: "user_1" })],
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
  "permissions.deletePermission": [["rbac.*.delete_permission"], () => ({ permission: "a.b" })],
  "permissions.deleteRole": [["rbac.*.delete_role"], () => ({ role: "editor" })],
  "permissions.getPermission": [["rbac.*.read_permission"], () => ({ permission: "a.b" })],
  "permissions.getRole": [["rbac.*.read_role"], () => ({ role: "editor" })],
  "permissions.listPermissions": [["rbac.*.read_permission"], () => ({})],
  "permissions.listRoles": [["rbac.*.read_role"], () => ({})],
  "permissions.setRolePermissions": [
    ["rbac.*.add_permission_to_role"],
    () => ({ roleId: "editor", permissions: ["a.b"] }),
  ],
  "ratelimit.limit": [ofNamespace("limit"), limited],
  "ratelimit.multiLimit": [ofNamespace("limit"), (ids) => [limited(ids)]],
  "ratelimit.setOverride": [ofNamespace("set_override"), limited],
  "ratelimit.getOverride": [ofNamespace("read_override"), override],
  "ratelimit.listOverrides": [ofNamespace("read_override"), ({ namespaceId }) => ({ namespace: namespaceId })],
  "ratelimit.deleteOverride": [ofNamespace("delete_override"), override],
};

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
  ["ratelimit.limit", "ratelimit.*.create_namespace", () => fresh, "NOT_FOUND"],
  ["ratelimit.multiLimit", "ratelimit.*.create_namespace", () => [fresh], "NOT_FOUND"],
  ["ratelimit.setOverride", "ratelimit.*.create_namespace", () => fresh, "NOT_FOUND"],
];
const fresh = { namespace: "fresh", identifier: "u", limit: 1, duration: 1_000 };
const besides = (name: string) => ALSO.filter(([operation]) => operation === name).map(([, permission]) => permission);

/** Named by the document, and not asked for: a key's text is never kept, so none is encrypted; `read_api` alone shows no key. */
const isWaived = (name: string, permission: string): boolean =>
  /crypt_key$/.test(permission) || (name === "apis.listKeys" && permission.endsWith(".read_api"));
/** Asked for or taken, and not named by the document: the forms of spec §4.1 for all that changes a key, what retires a key, and what makes a namespace. */
const isAdded = (name: string, permission: string): boolean =>
  (/^keys\.\w+(Permissions|Roles)$/.test(name) && permission.startsWith("<scheme>")) ||
  (name === "keys.rerollKey" && permission === "api.*.update_key") ||
  permission === "ratelimit.*.create_namespace";

interface Ids {
  readonly apiId: string;
  readonly keyId: string;
  readonly key: string;
  readonly namespaceId: string;
  readonly migrationId: string;
}

async function world(): Promise<{ services: Services; ids: Ids }> {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const ratelimits = createRatelimits(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId });
  await keyring.createIdentity({ externalId: "user_1" });
  await keyring.createRole({ name: "editor", permissions: ["a.b"] });
  const { namespaceId } = await ratelimits.createNamespace({ name: "mail" });
  await ratelimits.setOverride({ namespace: "mail", identifier: "u", limit: 5, duration: 1_000 });
  const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
  return {
    services: { store, verifier: createVerifier(store), keyring, ratelimits, externalIds: "specified" as const },
    ids: { apiId, keyId, key, namespaceId, migrationId },
  };
}

async function statusOf(name: string, permissions: readonly string[], body = TABLE[name]![1]): Promise<string> {
  const { services, ids } = await world();
  const filled = permissions.map((permission) =>
    permission.replace("<api_id>", ids.apiId).replace("<key_id>", ids.keyId).replace("<namespace_id>", ids.namespaceId),
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

describe("operations: the table", () => {
  it("names what the wider interface names, apis.updateApi besides; no prototype answers for a name", () => {
    expect(Object.keys(OPERATIONS).sort()).toEqual(Object.keys(TABLE).sort());
    for (const name of ["constructor", "toString", "__proto__", "analytics.getVerifications"])
      expect(OPERATIONS[name]).toBeUndefined();
    expect(Object.isFrozen(OPERATIONS)).toBe(true);
  });

  it("says of each what it does, what it takes and what it answers", () => {
    for (const { name, summary, request, answer, permissions, isList } of Object.values(OPERATIONS)) {
      expect(summary, name).toMatch(/^[A-Z].*\.$/s);
      expect(["object", "array"], name).toContain(request.type);
      expect(["object", "array"], name).toContain(answer.type);
      expect(permissions.length, name).toBeGreaterThan(0);
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
        .filter((name) => name !== "apis.updateApi" && name !== "keys.listKeys")
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

describe.each(Object.entries(TABLE))("operations: who may do %s", (name, [permissions]) => {
  it.each(permissions)("%s suffices", async (permission) => {
    expect(["done", "VALID"]).toContain(await statusOf(name, [permission, ...alwaysBesides(name)]));
  });

  it("nothing, another action, another id or another workspace do not", async () => {
    expect(await statusOf(name, [])).toBe("CALLER_FORBIDDEN");
    const other = permissions.map((permission) => permission.replace(/[a-z_]+$/, "other_action"));
    expect(await statusOf(name, other)).toBe("CALLER_FORBIDDEN");
    const elsewhere = permissions
      .filter((permission) => permission.includes("<"))
      .map((permission) => permission.replace(/<api_id>|<namespace_id>/, "api_elsewhere"));
    const keyOfAnother =
      name === "keys.verifyKey"
        ? "NOT_FOUND"
        : "keyId" in (TABLE[name]![1]({} as Ids) as object) || name === "keys.whoami"
          ? "NOT_FOUND"
          : "CALLER_FORBIDDEN";
    if (elsewhere.length > 0) expect(await statusOf(name, elsewhere)).toBe(keyOfAnother);
    const foreign = permissions
      .filter((permission) => permission.startsWith("svc"))
      .map((permission) => permission.replace("ws_default", "ws_other"));
    expect(await statusOf(name, foreign)).toBe("CALLER_FORBIDDEN");
  });
});

describe.each(ALSO)("operations: %s asks for %s besides", (name, permission, body, lacking) => {
  const others = () => [TABLE[name]![0][0]!, ...besides(name).filter((other) => other !== permission)];

  it("where a request comes to it, it is needed and suffices", async () => {
    expect(await statusOf(name, others(), body)).toBe(lacking);
    expect(await statusOf(name, [...others(), permission], body)).toBe("done");
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
