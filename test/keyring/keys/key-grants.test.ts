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

    expect(slugs(await keyring.removePermissions({ keyId, permissions: ["new.*", "unknown"] }))).toEqual([
      "documents.read",
      "documents.write",
    ]);
    expect((await keyring.listPermissions({ search: "unknown" })).data).toEqual([]);
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

  it("a key never has more than 1,000 permissions or 100 roles", async () => {
    const { keyring, create } = await world();
    const names = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
    const { keyId } = await create({ permissions: names(1_000, "p") });
    expect(await keyring.addPermissions({ keyId, permissions: names(1_000, "p") })).toHaveLength(1_000);
    const { errors } = await failure(keyring.addPermissions({ keyId, permissions: ["one.more"] }));
    expect(errors).toEqual([
      { location: "body.permissions", message: "would give the key more than 1000 permissions" },
    ]);
    expect(await fault(keyring.getPermission({ permission: "one.more" }))).toBe("NOT_FOUND 404");
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
    expect(names(await keyring.removeRoles({ keyId, roles: ["writer", "unknown"] }))).toEqual(["reader"]);
    expect(names(await keyring.setRoles({ keyId, roles: ["writer", "admin"] }))).toEqual(["admin", "writer"]);
    expect((await keyring.getKey({ keyId })).roles).toEqual(["admin", "writer"]);
    expect(await keyring.setRoles({ keyId, roles: [] })).toEqual([]);
  });

  it("an unknown role is 404 where it would be given, and an unknown key always", async () => {
    const { keyring, create } = await world();
    const { keyId } = await create();
    for (const verb of [keyring.addRoles, keyring.setRoles]) {
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
