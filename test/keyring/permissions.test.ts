import { describe, expect, it } from "vitest";
import { failure, fault, world } from "./support.js";

describe("permissions: create, get, list, delete", () => {
  it("a permission is found by slug or by id", async () => {
    const { keyring } = await world();
    const { permissionId } = await keyring.createPermission({ name: "Read it", slug: "documents.read", description: "" });
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
    expect([error.code, error.status, error.message]).toEqual(["CONFLICT", 409, "A permission with this slug exists already"]);
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
    expect((await keyring.listPermissions({ search: "READ" })).data).toHaveLength(0);
    expect((await keyring.listPermissions({ search: "" })).data).toHaveLength(3);
  });
});

describe("roles: create, get, list, delete, setRolePermissions", () => {
  it("a role is found by name or by id; its permissions are made when they do not exist", async () => {
    const { keyring } = await world();
    const { roleId } = await keyring.createRole({ name: "reader '; --", description: "reads", permissions: ["b", "a", "b"] });
    expect(roleId).toMatch(/^role_[a-zA-Z0-9_]+$/);
    const role = await keyring.getRole({ role: "reader '; --" });
    expect(role).toMatchObject({ id: roleId, name: "reader '; --", description: "reads", permissions: [{ slug: "a" }, { slug: "b" }] });
    expect(await keyring.getRole({ role: roleId })).toEqual(role);
    const bare = await keyring.createRole({ name: "bare" });
    expect(await keyring.getRole({ role: "bare" })).toEqual({ id: bare.roleId, name: "bare" });
  });

  it("a name that exists is a 409", async () => {
    const { keyring } = await world();
    await keyring.createRole({ name: "reader" });
    expect(await fault(keyring.createRole({ name: "reader" }))).toBe("CONFLICT 409");
  });

  it("setRolePermissions replaces, by id or name; keys that have the role see it at once", async () => {
    const { keyring, store, create } = await world();
    const { roleId } = await keyring.createRole({ name: "reader", permissions: ["a"] });
    const { keyId } = await create({ roles: ["reader"] });
    const { digest } = (await store.read("keys", keyId))!;
    expect(await keyring.setRolePermissions({ roleId, permissions: ["c", "b"] })).toMatchObject([{ slug: "b" }, { slug: "c" }]);
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
    expect((await keyring.listRoles({ search: "te" })).data).toMatchObject([{ name: "writer", permissions: [{ slug: "p" }] }]);
    const { data, pagination } = await keyring.listRoles({ limit: 1 });
    expect(data).toMatchObject([{ name: "reader" }]);
    expect((await keyring.listRoles({ limit: 1, cursor: pagination.cursor! })).data).toMatchObject([{ name: "writer" }]);
    expect(await keyring.deleteRole({ role: "reader" })).toEqual({});
    expect(await fault(keyring.deleteRole({ role: "reader" }))).toBe("NOT_FOUND 404");
    expect((await keyring.listRoles()).data).toHaveLength(2);
  });
});
