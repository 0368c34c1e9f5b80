import { describe, expect, it } from "vitest";
import { world } from "../spec/support.js";

const MIB = 1_048_576;
const longSlugs = (role: string) => Array.from({ length: 1_000 }, (_, i) => `${role}.${i}.`.padEnd(128, "s"));

describe("a result of a key whose roles grew after it had them", () => {
  it("is bounded: permissions over 1 MiB are left out as a whole, and decide as before", async () => {
    const { keyring, verify, create } = await world();
    const roles = Array.from({ length: 40 }, (_, i) => `role_${String(i).padStart(2, "0")}`);
    for (const name of roles) await keyring.createRole({ name });
    const { key } = await create({ roles });
    for (const roleId of roles.slice(0, 8))
      await keyring.setRolePermissions({ roleId, permissions: longSlugs(roleId) });
    const query = { key, permissions: longSlugs("role_00")[999]! };
    const shown = await verify(query);
    expect([shown.code, shown.permissions?.length]).toEqual(["VALID", 8_000]);
    expect(JSON.stringify(shown.permissions).length).toBeGreaterThan(0.99 * MIB);

    for (const roleId of roles.slice(8)) await keyring.setRolePermissions({ roleId, permissions: longSlugs(roleId) });
    const grown = await verify(query);
    expect(grown).toMatchObject({ valid: true, code: "VALID", roles });
    expect("permissions" in grown).toBe(false);
    const refused = await verify({ key, permissions: "role_00.nothing" });
    expect(refused.code).toBe("INSUFFICIENT_PERMISSIONS");
    expect(JSON.stringify([grown, refused]).length).toBeLessThan(10_000);

    for (const roleId of roles.slice(1)) await keyring.setRolePermissions({ roleId, permissions: [] });
    expect((await verify(query)).permissions).toEqual(longSlugs("role_00").sort());
  });
});
