import { describe, expect, it } from "vitest";
import { failure, fault, problems, world } from "../support.js";

describe("permissions of a key: add, remove, set", () => {
  it("each answers all that the key has afterwards, sorted, with what is known of them", async () => {
    const { keyring, create } = await world();
    const { permissionId } = await keyring.createPermission({
      name: "Read",
      slug: "documents.read",
      description: "may read",
    });
    const { keyId } = await create({ permissions: ["documents.write"] });
    const slugs = (list: readonly { slug: string }[]) => list.map(({ slug }) => slug);

    const added = await keyring.addPermissions({ keyId, permissions: ["documents.read", "new.*", "new.*"] });
    expect(slugs(added)).toEqual(["documents.read", "documents.write", "new.*"]);
    expect(added[0]).toEqual({ id: permissionId, name: "Read", slug: "documents.read", description: "may read" });
    expect(added[2]).toEqual({ id: expect.stringMatching(/^perm_/), name: "new.*", slug: "new.*" });
    expect(slugs(await keyring.addPermissions({ keyId, permissions: ["documents.read"] }))).toEqual(slugs(added));

    await keyring.createPermission({ name: "Known", slug: "known" });
    expect(slugs(await keyring.removePermissions({ keyId, permissions: ["new.*", "known"] }))).toEqual([
      "documents.read",
      "documents.write",
    ]);
    expect(slugs(await keyring.setPermissions({ keyId, permissions: ["x", "a"] }))).toEqual(["a", "x"]);
    expect((await keyring.getKey({ keyId })).permissions).toEqual(["a", "x"]);
    expect(await keyring.setPermissions({ keyId, permissions: [] })).toEqual([]);
  });

  it("an unknown key is 404, and nothing is made for it", async () => {
    const { keyring } = await world();
    const body = { keyId: "key_unknown", permissions: ["new"] };
    for (const verb of [keyring.addPermissions, keyring.removePermissions, keyring.setPermissions]) {
      expect(await fault(verb(body))).toBe("NOT_FOUND 404");
    }
    expect((await keyring.listPermissions()).data).toEqual([]);
  });

  it("a key has more permissions than one request may name, up to 1 MiB of them, and at most 100 roles", async () => {
    const { keyring, create } = await world();
    const names = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
    const { keyId } = await create({ permissions: names(1_000, "p") });
    expect(await keyring.addPermissions({ keyId, permissions: names(1_000, "p") })).toHaveLength(1_000);
    expect(await keyring.addPermissions({ keyId, permissions: names(1_000, "q") })).toHaveLength(2_000);
    expect(await keyring.removePermissions({ keyId, permissions: names(999, "q") })).toHaveLength(1_001);
    const long = (start: string) => names(1_000, start).map((name) => name.padEnd(128, "x"));
    for (const start of ["a", "b", "c"]) await keyring.addPermissions({ keyId, permissions: long(start) });
    const { errors } = await failure(keyring.addPermissions({ keyId, permissions: long("d") }));
    expect(errors).toMatchObject([
      { location: "body.permissions", message: "would make a list of permissions of more than 1 MiB" },
    ]);
    expect((await keyring.getKey({ keyId })).permissions).toHaveLength(4_001);
    for (const name of names(101, "r")) await keyring.createRole({ name });
    await keyring.setRoles({ keyId, roles: names(100, "r") });
    expect(await problems(keyring.addRoles({ keyId, roles: ["r100"] }))).toEqual(["body.roles"]);
  });
});

describe("roles of a key: add, remove, set", () => {
  it("each answers all that the key has afterwards, sorted, with their permissions", async () => {
    const { keyring, create } = await world();
    await keyring.createRole({ name: "writer", description: "may write", permissions: ["b", "a"] });
    await keyring.createRole({ name: "reader" });
    await keyring.createRole({ name: "admin" });
    const { keyId } = await create({ roles: ["writer"] });
    const added = await keyring.addRoles({ keyId, roles: ["reader", "writer"] });
    expect(added).toEqual([
      { id: expect.stringMatching(/^role_/), name: "reader" },
      {
        id: expect.stringMatching(/^role_/),
        name: "writer",
        description: "may write",
        permissions: [expect.objectContaining({ slug: "a" }), expect.objectContaining({ slug: "b" })],
      },
    ]);
    const names = (list: readonly { name: string }[]) => list.map(({ name }) => name);
    expect(names(await keyring.removeRoles({ keyId, roles: ["writer", "admin"] }))).toEqual(["reader"]);
    expect(names(await keyring.setRoles({ keyId, roles: ["writer", "admin"] }))).toEqual(["admin", "writer"]);
    expect((await keyring.getKey({ keyId })).roles).toEqual(["admin", "writer"]);
    expect(await keyring.setRoles({ keyId, roles: [] })).toEqual([]);
  });

  it("an unknown role is 404 where it would be given, and an unknown key always", async () => {
    const { keyring, create } = await world();
    const { keyId } = await create();
    for (const verb of [keyring.addRoles, keyring.setRoles, keyring.removeRoles]) {
      expect((await failure(verb({ keyId, roles: ["nobody"] }))).message).toBe(
        "The role at body.roles[0] was not found",
      );
    }
    for (const verb of [keyring.addRoles, keyring.setRoles, keyring.removeRoles]) {
      expect((await failure(verb({ keyId: "key_unknown", roles: ["nobody"] }))).message).toBe("The key was not found");
    }
  });

  it("a role or permission that was deleted is gone from the key, and from what a find answers", async () => {
    const { keyring, store, create } = await world();
    await keyring.createRole({ name: "reader", permissions: ["documents.read"] });
    await keyring.createRole({ name: "writer", permissions: ["documents.write", "documents.read"] });
    const { keyId } = await create({ roles: ["reader", "writer"], permissions: ["direct"] });
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    await keyring.deleteRole({ role: "reader" });
    await keyring.deletePermission({ permission: "documents.read" });
    await keyring.deletePermission({ permission: "direct" });
    expect(await store.findKey(digest!)).toMatchObject({ roles: ["writer"], permissions: ["documents.write"] });
    const record = await keyring.getKey({ keyId });
    expect(record.roles).toEqual(["writer"]);
    expect(record.permissions).toBeUndefined();
    expect(await keyring.addRoles({ keyId, roles: ["writer"] })).toMatchObject([
      { name: "writer", permissions: [{ slug: "documents.write" }] },
    ]);
    expect(await keyring.addPermissions({ keyId, permissions: ["direct"] })).toMatchObject([{ slug: "direct" }]);
  });
});

describe("permissions and roles by name or id", () => {
  const slugs = (list: readonly { slug: string }[]) => list.map(({ slug }) => slug);
  const names = (list: readonly { name: string }[]) => list.map(({ name }) => name);

  it("every operation takes both, also mixed, and the same one twice is one", async () => {
    const { keyring, create, apiId } = await world();
    const { permissionId } = await keyring.createPermission({ name: "Read", slug: "documents.read" });
    const { roleId } = await keyring.createRole({ name: "reader", permissions: [permissionId, "documents.read"] });
    await keyring.createRole({ name: "writer" });
    expect(slugs((await keyring.getRole({ role: roleId })).permissions!)).toEqual(["documents.read"]);
    const { keyId } = await create({ permissions: [permissionId], roles: [roleId, "reader"] });
    expect(await keyring.getKey({ keyId })).toMatchObject({ permissions: ["documents.read"], roles: ["reader"] });
    const mixed = [permissionId, "documents.write", "documents.read"];
    for (const verb of [keyring.addPermissions, keyring.setPermissions])
      expect(slugs(await verb({ keyId, permissions: mixed }))).toEqual(["documents.read", "documents.write"]);
    expect(slugs(await keyring.removePermissions({ keyId, permissions: [permissionId] }))).toEqual(["documents.write"]);
    for (const verb of [keyring.addRoles, keyring.setRoles])
      expect(names(await verb({ keyId, roles: [roleId, "writer"] }))).toEqual(["reader", "writer"]);
    expect(names(await keyring.removeRoles({ keyId, roles: [roleId] }))).toEqual(["writer"]);
    await keyring.updateKey({ keyId, permissions: [permissionId], roles: [roleId] });
    expect(await keyring.getKey({ keyId })).toMatchObject({ permissions: ["documents.read"], roles: ["reader"] });
    expect(slugs(await keyring.setRolePermissions({ roleId, permissions: [permissionId] }))).toEqual([
      "documents.read",
    ]);
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = [{ hash: "0".repeat(64), permissions: [permissionId], roles: [roleId] }];
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys });
    expect(await keyring.getKey({ keyId: migrated[0]!.keyId })).toMatchObject({
      permissions: ["documents.read"],
      roles: ["reader"],
    });
    expect((await keyring.listPermissions()).data).toHaveLength(2);
  });

  it("an id never becomes a slug: one that no permission of the workspace has is 404 at its location", async () => {
    const { keyring, elsewhere, create, apiId } = await world();
    const { keyId } = await create();
    const { permissionId: foreign } = await elsewhere.createPermission({ name: "Foreign", slug: "foreign" });
    const { permissionId: gone } = await keyring.createPermission({ name: "Gone", slug: "gone" });
    await keyring.deletePermission({ permission: gone });
    const { roleId } = await keyring.createRole({ name: "reader" });
    const before = (await keyring.listPermissions()).data;
    for (const id of [foreign, gone]) {
      const permissions = ["new.one", id];
      const calls = [
        () => keyring.addPermissions({ keyId, permissions }),
        () => keyring.setPermissions({ keyId, permissions }),
        () => keyring.removePermissions({ keyId, permissions: [id] }),
        () => keyring.updateKey({ keyId, permissions }),
        () => create({ permissions }),
        () => keyring.createRole({ name: "other", permissions }),
        () => keyring.setRolePermissions({ roleId, permissions }),
      ];
      for (const call of calls) {
        const { code, message } = await failure(call());
        expect([code, message], String(call)).toEqual([
          "NOT_FOUND",
          expect.stringMatching(/^The permission at body\.permissions\[[01]\] was not found$/),
        ]);
      }
      const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
      const keys = [{ hash: "a".repeat(64), permissions }];
      expect((await keyring.migrateKeys({ migrationId, apiId, keys })).failed).toMatchObject([
        { reason: "UNKNOWN_PERMISSION" },
      ]);
    }
    expect((await keyring.listPermissions()).data).toEqual(before);
    const { permissionId } = await keyring.createPermission({ name: "Read", slug: "read" });
    expect(await fault(keyring.createPermission({ name: "Twin", slug: permissionId }))).toBe("CONFLICT 409");
    expect(await fault(keyring.createRole({ name: roleId }))).toBe("CONFLICT 409");
  });

  it("removing what the workspace does not know is 404 at its location, and removes nothing", async () => {
    const { keyring, create } = await world();
    await keyring.createRole({ name: "reader" });
    const { keyId } = await create({ permissions: ["a"], roles: ["reader"] });
    expect((await failure(keyring.removePermissions({ keyId, permissions: ["a", "unknown"] }))).message).toBe(
      "The permission at body.permissions[1] was not found",
    );
    expect((await failure(keyring.removeRoles({ keyId, roles: ["reader", "unknown"] }))).message).toBe(
      "The role at body.roles[1] was not found",
    );
    expect(await keyring.getKey({ keyId })).toMatchObject({ permissions: ["a"], roles: ["reader"] });
  });
});
