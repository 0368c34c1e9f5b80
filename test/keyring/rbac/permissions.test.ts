import { describe, expect, it } from "vitest";
import { memoryStore } from "../../../src/stores/memory.js";
import { changed, failure, fault, world } from "../support.js";

describe("permissions: create, get, list, delete", () => {
  it("a permission is found by slug or by id", async () => {
    const { keyring } = await world();
    const { permissionId } = await keyring.createPermission({
      name: "Read it",
      slug: "documents.read",
      description: "",
    });
    const shown = { id: permissionId, name: "Read it", slug: "documents.read", description: "" };
    expect(permissionId).toMatch(/^perm_[a-zA-Z0-9_]+$/);
    expect(await keyring.getPermission({ permission: "documents.read" })).toEqual(shown);
    expect(await keyring.getPermission({ permission: permissionId })).toEqual(shown);
    const bare = await keyring.createPermission({ name: "b", slug: "b" });
    expect(await keyring.getPermission({ permission: "b" })).toEqual({ id: bare.permissionId, name: "b", slug: "b" });
  });

  it("a slug that exists is a 409; names match exactly (ruling B5)", async () => {
    const { keyring } = await world();
    await keyring.createPermission({ name: "a", slug: "a.b" });
    const error = await failure(keyring.createPermission({ name: "other", slug: "a.b" }));
    expect([error.code, error.status, error.message]).toEqual([
      "CONFLICT",
      409,
      "A permission with this slug exists already",
    ]);
    await keyring.createPermission({ name: "a", slug: "A.b" });
  });

  it("deletePermission: once, by slug or id; then the slug is free", async () => {
    const { keyring } = await world();
    await keyring.createPermission({ name: "a", slug: "a" });
    expect(await keyring.deletePermission({ permission: "a" })).toEqual({});
    expect(await fault(keyring.deletePermission({ permission: "a" }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.getPermission({ permission: "a" }))).toBe("NOT_FOUND 404");
    const { permissionId } = await keyring.createPermission({ name: "a", slug: "a" });
    await keyring.deletePermission({ permission: permissionId });
    expect((await keyring.listPermissions({})).data).toEqual([]);
  });

  it("listPermissions: pages by id, and by part of the slug", async () => {
    const { keyring, time } = await world();
    for (const slug of ["b.read", "a.read", "a.write"]) {
      time.now += 1;
      await keyring.createPermission({ name: slug, slug });
    }
    const first = await keyring.listPermissions({ limit: 2 });
    expect(first.data.map(({ slug }) => slug)).toEqual(["b.read", "a.read"]);
    const second = await keyring.listPermissions({ limit: 2, cursor: first.pagination.cursor! });
    expect(second).toMatchObject({ data: [{ slug: "a.write" }], pagination: { hasMore: false } });
    expect((await keyring.listPermissions({ search: "read" })).data).toHaveLength(2);
    expect((await keyring.listPermissions({ search: "READ" })).data).toHaveLength(2);
    expect((await keyring.listPermissions({ search: "" })).data).toHaveLength(3);
  });
});

describe("roles: create, get, list, delete, setRolePermissions", () => {
  it("a role is found by name or by id; its permissions are made when they do not exist", async () => {
    const { keyring } = await world();
    const { roleId } = await keyring.createRole({
      name: "reader '; --",
      description: "reads",
      permissions: ["b", "a", "b"],
    });
    expect(roleId).toMatch(/^role_[a-zA-Z0-9_]+$/);
    const role = await keyring.getRole({ role: "reader '; --" });
    expect(role).toMatchObject({
      id: roleId,
      name: "reader '; --",
      description: "reads",
      permissions: [{ slug: "a" }, { slug: "b" }],
    });
    expect(await keyring.getRole({ role: roleId })).toEqual(role);
    const bare = await keyring.createRole({ name: "bare" });
    expect(await keyring.getRole({ role: "bare" })).toEqual({ id: bare.roleId, name: "bare" });
  });

  it("a name that exists is a 409", async () => {
    const { keyring } = await world();
    await keyring.createRole({ name: "reader" });
    expect(await fault(keyring.createRole({ name: "reader" }))).toBe("CONFLICT 409");
    expect(await fault(keyring.createRole({ name: "reader", permissions: ["ghost"] }))).toBe("CONFLICT 409");
    expect(await fault(keyring.getPermission({ permission: "ghost" }))).toBe("NOT_FOUND 404");
  });

  it("setRolePermissions replaces, by id or name; keys that have the role see it at once", async () => {
    const { keyring, store, create } = await world();
    const { roleId } = await keyring.createRole({ name: "reader", permissions: ["a"] });
    const { keyId } = await create({ roles: ["reader"] });
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    expect(await keyring.setRolePermissions({ roleId, permissions: ["c", "b"] })).toMatchObject([
      { slug: "b" },
      { slug: "c" },
    ]);
    expect((await store.findKey(digest!))?.permissions).toEqual(["b", "c"]);
    expect(await keyring.setRolePermissions({ roleId: "reader", permissions: [] })).toEqual([]);
    expect((await store.findKey(digest!))?.permissions).toEqual([]);
    expect(await fault(keyring.setRolePermissions({ roleId: "nobody", permissions: ["made"] }))).toBe("NOT_FOUND 404");
    expect((await keyring.listPermissions({ search: "made" })).data).toEqual([]);
  });

  it("deleteRole: once; listRoles: pages by id and by part of the name", async () => {
    const { keyring, time } = await world();
    for (const name of ["reader", "writer", "auditor"]) {
      time.now += 1;
      await keyring.createRole({ name, permissions: ["p"] });
    }
    expect((await keyring.listRoles({ search: "writer" })).data).toMatchObject([
      { name: "writer", permissions: [{ slug: "p" }] },
    ]);
    const { data, pagination } = await keyring.listRoles({ limit: 1 });
    expect(data).toMatchObject([{ name: "reader" }]);
    expect((await keyring.listRoles({ limit: 1, cursor: pagination.cursor! })).data).toMatchObject([
      { name: "writer" },
    ]);
    expect(await keyring.deleteRole({ role: "reader" })).toEqual({});
    expect(await fault(keyring.deleteRole({ role: "reader" }))).toBe("NOT_FOUND 404");
    expect((await keyring.listRoles()).data).toHaveLength(2);
  });

  it("a permission that many roles have is read once a call", async () => {
    const inner = memoryStore();
    let reads = 0;
    const store = changed(inner, {
      readMany: (table, ids) => (table === "permissions" && (reads += ids.length), inner.readMany(table, ids)),
    });
    const { keyring, create, time } = await world({ store });
    const names = ["a", "b", "c", "d"];
    for (const name of names) {
      time.now += 1;
      await keyring.createRole({ name, permissions: ["p", "q", name] });
    }
    const { keyId } = await create();
    const readsOf = async (answer: Promise<unknown>): Promise<number> => {
      reads = 0;
      await answer;
      return reads;
    };
    expect(await readsOf(keyring.setRoles({ keyId, roles: names }))).toBe(6);
    expect(await readsOf(keyring.listRoles())).toBe(6);
    const permissions = (role: string) => [{ slug: role }, { slug: "p" }, { slug: "q" }];
    expect(await keyring.setRoles({ keyId, roles: names })).toMatchObject(
      names.map((name) => ({ name, permissions: permissions(name) })),
    );
    expect((await keyring.listRoles()).data).toMatchObject(
      names.map((name) => ({ name, permissions: permissions(name) })),
    );
  });

  it.each(["setRoles", "listRoles", "listKeys"] as const)(
    "%s: others have their turn while thousands of permissions are read",
    async (verb) => {
      const { keyring, create, apiId } = await world();
      const roles = ["a", "b", "c", "d", "e"];
      for (const name of roles)
        await keyring.createRole({ name, permissions: Array.from({ length: 1_000 }, (_, i) => `${name}.${i}`) });
      const { keyId } = await create();
      if (verb === "listKeys")
        for (const name of roles)
          await create({ permissions: Array.from({ length: 1_000 }, (_, i) => `${name}.${i}`) });
      let turns = 0;
      const count = (): void => void (turns++, (next = setImmediate(count)));
      let next = setImmediate(count);
      await {
        setRoles: () => keyring.setRoles({ keyId, roles }),
        listRoles: () => keyring.listRoles(),
        listKeys: () => keyring.listKeys({ apiId }),
      }[verb]();
      clearImmediate(next);
      expect(turns).toBeGreaterThanOrEqual(roles.length);
    },
  );
});
