import { describe, expect, it } from "vitest";
import type { Permission } from "../../src/keyring/schemas/responses.js";
import { memoryStore } from "../../src/stores/memory.js";
import { failure, world } from "./support.js";

const MIB = 1_048_576;
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));
const at = (name: string, i: number) => name + "𝔘".repeat(512 - name.length - String(i).length) + String(i);

/** Permissions as long as they may be: 4.3 kB each. */
async function long(count: number) {
  const { keyring, apiId, create } = await world({ store: memoryStore() });
  const slugs = Array.from({ length: count }, (_, i) => String(i).padStart(128, "s"));
  for (const [i, slug] of slugs.entries())
    await keyring.createPermission({ name: at("name", i), slug, description: at("text", i) });
  return { keyring, apiId, create, slugs };
}

describe("pages", () => {
  it("end before 4 MiB, and go on at the cursor; each role is on one of them", async () => {
    const { keyring, slugs } = await long(240);
    for (let i = 0; i < 10; i++) await keyring.createRole({ name: `role ${i}`, permissions: slugs });
    const names: string[] = [];
    const sizes: number[] = [];
    let cursor: string | undefined;
    do {
      const { data, pagination } = await keyring.listRoles({ limit: 100, cursor });
      names.push(...data.map(({ name }) => name));
      sizes.push(bytesOf(data));
      expect(data[0]?.permissions).toHaveLength(240);
      cursor = pagination.cursor;
      expect(pagination.hasMore).toBe(cursor !== undefined);
    } while (cursor !== undefined);
    expect(names.sort()).toEqual(Array.from({ length: 10 }, (_, i) => `role ${i}`));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4 * MIB);
    expect(sizes[0]).toBeGreaterThan(3 * MIB);
  });

  it("of identities with much metadata likewise; a row by itself is always shown", async () => {
    const { keyring } = await world();
    const meta = { m: "m".repeat(65_000) };
    for (let i = 0; i < 70; i++) await keyring.createIdentity({ externalId: `user_${i}`, meta });
    const { data, pagination } = await keyring.listIdentities({ limit: 100 });
    expect([data.length, pagination.hasMore]).toEqual([64, true]);
    expect(bytesOf(data)).toBeLessThanOrEqual(4 * MIB);
    const rest = await keyring.listIdentities({ limit: 100, cursor: pagination.cursor });
    expect([rest.data.length, rest.pagination]).toEqual([6, { hasMore: false }]);
  });
});

describe("what no answer could show", () => {
  it("a role or key with more than 1 MiB of permissions is refused when it is written", async () => {
    const { keyring, apiId, create, slugs } = await long(300);
    const refused = async (act: Promise<unknown>) => (await failure(act)).errors.map(({ location }) => location);
    expect(await refused(keyring.createRole({ name: "long", permissions: slugs }))).toEqual(["body.permissions"]);
    const { roleId } = await keyring.createRole({ name: "long", permissions: slugs.slice(0, 200) });
    expect(await refused(keyring.setRolePermissions({ roleId, permissions: slugs }))).toEqual(["body.permissions"]);
    expect(await refused(keyring.createKey({ apiId, permissions: slugs }))).toEqual(["body.permissions"]);
    const { keyId } = await create({ permissions: slugs.slice(0, 200) });
    for (const act of [keyring.addPermissions, keyring.setPermissions, keyring.updateKey])
      expect(await refused(act({ keyId, permissions: slugs }))).toEqual(["body.permissions"]);
    expect((await keyring.getKey({ keyId })).permissions).toHaveLength(200);
  });

  it("roles with many short slugs are not", async () => {
    const { keyring, create } = await world();
    const roles = Array.from({ length: 9 }, (_, i) => `role_${i}`);
    for (const name of roles)
      await keyring.createRole({ name, permissions: Array.from({ length: 1_000 }, (_, i) => `${name}.${i}`) });
    const { keyId } = await create({ roles });
    expect((await keyring.getKey({ keyId })).roles).toEqual(roles);
  });

  it("roles that give a key more than 1 MiB of slugs are refused; of what they grew to, an answer shows what fits", async () => {
    const { keyring, apiId, create } = await world();
    const roles = Array.from({ length: 9 }, (_, i) => `role_${i}`);
    const slugsOf = (role: string) => Array.from({ length: 1_000 }, (_, i) => `${role}.${i}`.padEnd(128, "s"));
    for (const name of roles) await keyring.createRole({ name, permissions: slugsOf(name) });
    const locations = async (act: Promise<unknown>) => (await failure(act)).errors.map(({ location }) => location);
    expect(await locations(keyring.createKey({ apiId, roles }))).toEqual(["body.roles"]);
    const { keyId } = await create({ roles: roles.slice(0, 7) });
    for (const act of [keyring.addRoles, keyring.setRoles, keyring.updateKey])
      expect(await locations(act({ keyId, roles }))).toEqual(["body.roles"]);
    const small = Array.from({ length: 20 }, (_, i) => `small_${i}`);
    for (const name of small) await keyring.createRole({ name });
    const other = await create({ roles: small });
    for (const roleId of small) await keyring.setRolePermissions({ roleId, permissions: slugsOf(roleId) });
    const shown = await keyring.removeRoles({ keyId: other.keyId, roles: ["small_0"] });
    expect(bytesOf(shown)).toBeLessThan(4 * MIB);
    expect(shown.map(({ name }) => name)).toEqual(small.slice(1).sort());
    const listed = shown.map(({ permissions = [] as readonly Permission[] }) => permissions.length);
    expect(new Set(listed)).toEqual(new Set([1_000, 0]));
  });
});
