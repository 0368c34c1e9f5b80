import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
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

describe("apis: ids of the program's own, and lists", () => {
  const apiId = "api_documents";

  it("createApi takes an id, once in a store; a deleted one stays taken", async () => {
    const { keyring, elsewhere } = await world();
    expect(await keyring.createApi({ name: "documents", apiId })).toEqual({ apiId });
    expect(await fault(keyring.createApi({ name: "documents", apiId }))).toBe("CONFLICT 409");
    expect(await fault(elsewhere.createApi({ name: "documents", apiId }))).toBe("CONFLICT 409");
    await keyring.deleteApi({ apiId });
    expect(await fault(keyring.createApi({ name: "documents", apiId }))).toBe("CONFLICT 409");
    expect(await fault(keyring.getOrCreateApi({ name: "documents", apiId }))).toBe("CONFLICT 409");
  });

  it("getOrCreateApi creates it once, however many start at the same time, and changes nothing of it", async () => {
    const { keyring, store, elsewhere } = await world();
    const others = [keyring, createKeyring(store), createKeyring(store)];
    const made = await Promise.all(others.map((one) => one.getOrCreateApi({ name: "documents", apiId })));
    expect(made.filter(({ created }) => created)).toHaveLength(1);
    await keyring.updateApi({ apiId, enabled: false });
    expect(await keyring.getOrCreateApi({ name: "renamed", apiId })).toEqual({ apiId, created: false });
    expect(await keyring.getApi({ apiId })).toMatchObject({ name: "documents", enabled: false });
    expect(await fault(elsewhere.getOrCreateApi({ name: "documents", apiId }))).toBe("CONFLICT 409");
  });

  it("listApis lists those of the workspace by id, page by page, without deleted ones", async () => {
    const { keyring, elsewhere, apiId: first } = await world();
    for (const name of ["b", "a", "c"]) await keyring.createApi({ name: `${name}pis`, apiId: `api_list_${name}` });
    await elsewhere.createApi({ name: "theirs" });
    await keyring.deleteApi({ apiId: "api_list_b" });
    const page = await keyring.listApis({ limit: 2 });
    const rest = await keyring.listApis({ limit: 2, cursor: page.pagination.cursor });
    expect([...page.data, ...rest.data].map(({ id }) => id)).toEqual([first, "api_list_a", "api_list_c"].sort());
    expect(rest.pagination).toEqual({ hasMore: false });
    expect((await keyring.listApis()).data[0]).toEqual({
      id: expect.any(String),
      name: expect.any(String),
      enabled: true,
      ipAllowlist: [],
    });
  });

  it("getKey, listKeys and whoami say to which API a key belongs", async () => {
    const { keyring, create, apiId } = await world();
    const { keyId, key } = await create();
    const shown = [await keyring.getKey({ keyId }), await keyring.whoami({ key })];
    shown.push(...(await keyring.listKeys({ apiId })).data);
    expect(shown.map((one) => one.apiId)).toEqual([apiId, apiId, apiId]);
  });
});
