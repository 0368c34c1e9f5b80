import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { fault, world } from "./support.js";

describe("apis: create, get, update, delete", () => {
  it("createApi answers an id that getApi knows, enabled and open to any address", async () => {
    const { keyring } = await world();
    const { apiId } = await keyring.createApi({ name: "billing '; DROP TABLE keys;--" });
    expect(apiId).toMatch(/^api_[a-zA-Z0-9_]{4,}$/);
    expect(await keyring.getApi({ apiId })).toEqual({
      id: apiId,
      name: "billing '; DROP TABLE keys;--",
      enabled: true,
      ipAllowlist: [],
    });
  });

  it("updateApi: an absent field keeps, a list replaces, null opens to any address", async () => {
    const { keyring, apiId } = await world();
    expect(await keyring.updateApi({ apiId, ipAllowlist: ["10.0.0.0/8", "::1"] })).toEqual({});
    await keyring.updateApi({ apiId, enabled: false });
    await keyring.updateApi({ apiId, name: "papers" });
    expect(await keyring.getApi({ apiId })).toEqual({
      id: apiId,
      name: "papers",
      enabled: false,
      ipAllowlist: ["10.0.0.0/8", "::1"],
    });
    await keyring.updateApi({ apiId, ipAllowlist: null });
    expect((await keyring.getApi({ apiId })).ipAllowlist).toEqual([]);
  });

  it("ruling A4: a find says that a key of a disabled API is suspended, and shows its allow-list", async () => {
    const { keyring, store, apiId, create } = await world();
    const { keyId } = await create({ ipAllowlist: ["10.1.0.0/16"] });
    await keyring.updateApi({ apiId, enabled: false, ipAllowlist: ["10.0.0.0/8"] });
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    expect(await store.findKey(digest!)).toMatchObject({
      parentDisabled: true,
      ipAllowlists: [["10.1.0.0/16"], ["10.0.0.0/8"]],
    });
  });

  it("ruling E2: hashes and digests of keys of a deleted API stay taken; a key that was removed before frees its own", async () => {
    const { keyring, apiId, create } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const { key } = await create();
    const digest = createHash("sha256").update(key).digest("hex");
    const [kept, freed] = ["ab".repeat(32), "cd".repeat(32)];
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: kept }, { hash: freed }] });
    await keyring.deleteKey({ keyId: migrated[1]!.keyId, permanent: true });
    await keyring.deleteApi({ apiId });
    const { apiId: other } = await keyring.createApi({ name: "others" });
    const keys = [kept, freed, digest].map((hash) => ({ hash }));
    const again = await keyring.migrateKeys({ migrationId, apiId: other, keys });
    expect(again.migrated.map(({ hash }) => hash)).toEqual([freed]);
    expect(again.failed.map(({ hash, reason }) => [hash, reason])).toEqual([
      [kept, "ALREADY_EXISTS"],
      [digest, "ALREADY_EXISTS"],
    ]);
  });

  it("a deleted API is NOT_FOUND, and so are its keys, in every verb", async () => {
    const { keyring, store, apiId, create } = await world();
    const { keyId, key } = await create();
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    expect(await keyring.deleteApi({ apiId })).toEqual({});
    expect(await store.findKey(digest!)).toBeUndefined();
    const attempts = [
      keyring.getApi({ apiId }),
      keyring.updateApi({ apiId, enabled: true }),
      keyring.deleteApi({ apiId }),
      keyring.createKey({ apiId }),
      keyring.listKeys({ apiId }),
      keyring.getKey({ keyId }),
      keyring.updateKey({ keyId, enabled: true }),
      keyring.rerollKey({ keyId, expiration: 0 }),
      keyring.deleteKey({ keyId, permanent: true }),
      keyring.whoami({ key }),
    ];
    for (const result of await Promise.all(attempts.map(fault))) expect(result).toBe("NOT_FOUND 404");
  });
});
