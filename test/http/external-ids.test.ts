/** External ids over HTTP: the specification's pattern by default, and what the library takes by option. */
import { describe, expect, it } from "vitest";
import { createHandler, type HandlerOptions } from "../../src/http/index.js";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";

async function stage(options: HandlerOptions, parts = false) {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const permissions = ["api.*.create_key", "api.*.update_key", "api.*.read_key", "identity.*.create_identity"];
  const { key } = await keyring.createRootKey({ permissions });
  const handler = createHandler(parts ? { verifier: createVerifier(store), keyring } : store, options);
  const call = async (operation: string, body: object) => {
    const response = await handler(
      new Request(`http://localhost/v2/${operation}`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
    const { data, error } = (await response.json()) as { data?: object; error?: { errors: { location: string }[] } };
    return error === undefined ? { status: response.status, data } : [response.status, error.errors[0]?.location];
  };
  const { keyId } = await keyring.createKey({ apiId });
  return { call, apiId, keyId };
}

describe("external ids over HTTP", () => {
  it.each(["auth0|123", "someone@example.com", "a b"])(
    "%s is refused by default, and taken by option",
    async (externalId) => {
      for (const parts of [false, true]) {
        for (const [options, expected] of [
          [{}, [400, "body.externalId"]],
          [{ externalIds: "specified" }, [400, "body.externalId"]],
          [{ externalIds: "any" }, { status: 200 }],
        ] as const) {
          const { call, apiId, keyId } = await stage(options, parts);
          expect(await call("keys.createKey", { apiId, externalId })).toMatchObject(expected);
          expect(await call("keys.updateKey", { keyId, externalId: `${externalId}+` })).toMatchObject(expected);
          expect(await call("identities.createIdentity", { externalId: `${externalId}++` })).toMatchObject(expected);
        }
      }
    },
  );

  it("control characters are refused in any case, and a past `expires` is taken, as the specification has it", async () => {
    const { call, apiId } = await stage({ externalIds: "any" });
    expect(await call("keys.createKey", { apiId, externalId: "a\nb" })).toEqual([400, "body.externalId"]);
    expect(await call("keys.createKey", { apiId, expires: 1_700_000_000 })).toMatchObject({ status: 200 });
    expect(await call("keys.createKey", { apiId, expiresIn: 1_000 })).toEqual([400, "body.expiresIn"]);
    expect(() => createHandler(memoryStore(), { externalIds: "all" as never })).toThrow(/^options\.externalIds must/);
  });

  it("a key is shown without the library's own fields", async () => {
    const { call, keyId } = await stage({});
    expect(await call("keys.getKey", { keyId })).toEqual({
      status: 200,
      data: { keyId, start: expect.any(String), enabled: true, createdAt: expect.any(Number) },
    });
  });
});

describe("strictDelegation: what a request names is what is judged", () => {
  interface Set {
    readonly identityId: string;
    readonly roleId: string;
    readonly permissionId: string;
  }
  async function strict(permissionsOf: (set: Set) => string[]) {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { identityId } = await keyring.createIdentity({ externalId: "alice" });
    await keyring.createIdentity({ externalId: "carol" });
    const { roleId } = await keyring.createRole({ name: "reader" });
    await keyring.createRole({ name: "admin" });
    const { permissionId } = await keyring.createPermission({ name: "Read", slug: "documents.read" });
    await keyring.createPermission({ name: "Admin", slug: "admin.all" });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const { keyId } = await keyring.createKey({ apiId });
    const set = { identityId, roleId, permissionId };
    const { key } = await keyring.createRootKey({ permissions: permissionsOf(set) });
    const handler = createHandler(store, { strictDelegation: true });
    const statusOf = async (operation: string, body: object) => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const request = { method: "POST", headers, body: JSON.stringify(body) };
      return (await handler(new Request(`http://localhost/v2/${operation}`, request))).status;
    };
    /** The statuses of all that give a key this. */
    const giving = async (given: object) => [
      await statusOf("keys.createKey", { apiId, ...given }),
      await statusOf("keys.updateKey", { keyId, ...given }),
      await statusOf("keys.migrateKeys", { migrationId, apiId, keys: [{ hash: "ab".repeat(32), ...given }] }),
    ];
    return { keyring, store, statusOf, giving, keyId, set };
  }
  const KEYS = ["api.*.create_key", "api.*.update_key"];

  it("an externalId is a name: the right on an identity allows no other by its id", async () => {
    const one = await strict(({ identityId }) => [...KEYS, `identity.${identityId}.read_identity`]);
    const { keyring, giving, set } = one;
    const { identityId } = set;
    expect(await giving({ externalId: "alice" })).toEqual([200, 200, 200]);
    for (const externalId of ["carol", "bob", identityId])
      expect(await giving({ externalId }), externalId).toEqual([403, 403, 403]);
    expect((await keyring.listIdentities()).data.map(({ externalId }) => externalId).sort()).toEqual([
      "alice",
      "carol",
    ]);
  });

  it("with the right on all, the id of an identity still names none", async () => {
    const { keyring, giving, set } = await strict(() => [...KEYS, "identity.*.read_identity"]);
    // Over HTTP an import answers the hashes that failed.
    expect(await giving({ externalId: set.identityId })).toEqual([400, 400, 200]);
    expect((await keyring.listIdentities()).data).toHaveLength(2);
  });

  it("a key is replaced only by who may give all that it has, as it is when the new one is written", async () => {
    const { keyring, store, statusOf, keyId } = await strict(({ identityId, roleId, permissionId }) => [
      ...KEYS,
      `identity.${identityId}.read_identity`,
      `rbac.${roleId}.add_role_to_key`,
      `rbac.${permissionId}.add_permission_to_key`,
    ]);
    const { apiId } = await keyring.getKey({ keyId });
    const create = async (more: object) =>
      (await keyring.createKey({ apiId, permissions: ["documents.read"], roles: ["reader"], ...more })).keyId;
    const reroll = (id: string) => statusOf("keys.rerollKey", { keyId: id, expiration: 0 });
    expect(await reroll(await create({ externalId: "alice" }))).toBe(200);
    for (const more of [
      { permissions: ["documents.read", "admin.all"] },
      { roles: ["reader", "admin"] },
      { externalId: "carol" },
    ]) {
      const id = await create(more);
      expect(await reroll(id), JSON.stringify(more)).toBe(403);
      expect((await keyring.getKey({ keyId: id })).rerolledTo).toBeUndefined();
    }

    const overtaken = await create({});
    const write = store.write.bind(store);
    store.write = async (writes, entries) => {
      store.write = write;
      await keyring.addPermissions({ keyId: overtaken, permissions: ["admin.all"] });
      return write(writes, entries);
    };
    expect(await reroll(overtaken)).toBe(403);
    expect((await keyring.getKey({ keyId: overtaken })).rerolledTo).toBeUndefined();
    // What was deleted is not given.
    await keyring.deletePermission({ permission: "admin.all" });
    expect(await reroll(overtaken)).toBe(200);
  });

  it("a permission is given by slug or id, and one that does not exist takes the right on all", async () => {
    const { keyring, statusOf, giving, keyId, set } = await strict(({ permissionId }) => [
      ...KEYS,
      `rbac.${permissionId}.add_permission_to_key`,
      "rbac.*.create_permission",
    ]);
    const operations = ["keys.addPermissions", "keys.setPermissions"];
    for (const permission of ["documents.read", set.permissionId]) {
      expect((await giving({ permissions: [permission] })).slice(0, 2), permission).toEqual([200, 200]);
      for (const name of operations) expect(await statusOf(name, { keyId, permissions: [permission] }), name).toBe(200);
    }
    for (const permission of ["admin.all", "new.one"]) {
      const permissions = ["documents.read", permission];
      expect(await giving({ permissions }), permission).toEqual([403, 403, 403]);
      for (const name of operations) expect(await statusOf(name, { keyId, permissions }), name).toBe(403);
    }
    expect((await keyring.getKey({ keyId })).permissions).toEqual(["documents.read"]);
    expect((await keyring.listPermissions()).data.map(({ slug }) => slug).sort()).toEqual([
      "admin.all",
      "documents.read",
    ]);
  });

  it("a role is given by name or id, and a row whose id is of another form by its name alone", async () => {
    const one = await strict(({ roleId }) => [
      ...KEYS,
      `rbac.${roleId}.add_role_to_key`,
      "rbac.role_plain.add_role_to_key",
    ]);
    const { store, giving, set } = one;
    const { roleId } = set;
    const row = { workspaceId: "ws_default", version: 0, permissions: [] };
    await store.write([
      { table: "roles", row: { ...row, id: "role_plain", name: "harmless" } },
      { table: "roles", row: { ...row, id: "role_owner", name: "role_plain" } },
    ]);
    for (const role of ["reader", roleId, "harmless"])
      expect((await giving({ roles: [role] })).slice(0, 2), role).toEqual([200, 200]);
    for (const role of ["admin", "role_plain"]) expect(await giving({ roles: [role] }), role).toEqual([403, 403, 403]);
  });
});
