import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../src/access/authenticate.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { hasKeyChecksum } from "../key-checksum.js";
import { failure, fault, NOON, problems, world } from "./support.js";

const ALL = ["api.*.verify_key", "svc:v1:ws_default:keyspaces/*#create_key"];

describe("root keys: create, list, update, delete", () => {
  it("createRootKey shows the text once and keeps the digest and the first characters", async () => {
    const { keyring, store } = await world();
    const { rootKeyId, key } = await keyring.createRootKey({ name: "server", permissions: ALL, expires: NOON + 5 });
    expect(rootKeyId).toMatch(/^rk_[a-zA-Z0-9]{22}$/);
    expect(key).toMatch(/^root_[a-zA-Z0-9]{39}$/);
    expect(hasKeyChecksum(key)).toBe(true);
    const row = (await store.readMany("rootKeys", [rootKeyId]))[0];
    const shown = {
      rootKeyId,
      start: key.slice(0, 9),
      name: "server",
      permissions: ALL,
      expires: NOON + 5,
      enabled: true,
      createdAt: NOON,
    };
    expect(JSON.stringify(row)).not.toContain(key.slice(9, 20));
    expect(await keyring.listRootKeys()).toEqual({ data: [shown], pagination: { hasMore: false } });
  });

  it("what is absent is not there: no name, no expiry; none at all is a root key that may do nothing", async () => {
    const { keyring } = await world();
    await keyring.createRootKey({ permissions: [] });
    const [shown] = (await keyring.listRootKeys({})).data;
    expect(Object.keys(shown!).sort()).toEqual(["createdAt", "enabled", "permissions", "rootKeyId", "start"]);
  });

  it("rulings B6, B7: a permission that could never grant anything is a 400 at its place, with a fix, and nothing is made", async () => {
    const { keyring } = await world();
    const permissions = ["api.*.verify_key", "documents.read", "svc:v1:ws_other:**#*", "x", ""];
    const error = await failure(keyring.createRootKey({ permissions }));
    expect(error.errors.map(({ location }) => location)).toEqual([1, 2, 3, 4].map((i) => `body.permissions[${i}]`));
    expect(error.errors[0]).toMatchObject({
      message: "is not a valid root key permission",
      fix: expect.stringContaining("api.*.verify_key"),
    });
    expect(error.errors[1]!.fix).toContain("svc:v1:ws_default:");
    expect((await keyring.listRootKeys()).data).toEqual([]);
  });

  it("ruling B6: an action on keys whose path covers no key is a 400 with the path that does, when created and when updated", async () => {
    const { keyring } = await world();
    const permissions = ["svc:v1:ws_default:keyspaces/*#verify_key"];
    const error = await failure(keyring.createRootKey({ permissions }));
    expect(error.errors).toMatchObject([
      {
        location: "body.permissions[0]",
        fix: expect.stringContaining("svc:v1:ws_default:keyspaces/*/keys/*#verify_key"),
      },
    ]);
    expect((await keyring.listRootKeys()).data).toEqual([]);
    const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
    expect(await problems(keyring.updateRootKey({ rootKeyId, permissions }))).toEqual(["body.permissions[0]"]);
  });

  it("every fault of the request at once", async () => {
    const { keyring } = await world();
    const body = { name: "", expires: 1.5, enabled: "yes", key: "root_x" };
    expect((await problems(keyring.createRootKey(body as never))).sort()).toEqual([
      "body.enabled",
      "body.expires",
      "body.key",
      "body.name",
      "body.permissions",
    ]);
    const many = Array.from({ length: 1_001 }, () => "api.*.verify_key");
    expect(await problems(keyring.createRootKey({ permissions: many }))).toEqual(["body.permissions"]);
    expect(await problems(keyring.createRootKey({ permissions: "api.*.verify_key" } as never))).toEqual([
      "body.permissions",
    ]);
    expect(await problems(keyring.updateRootKey({ rootKeyId: "rk_1", permissions: ["x"] }))).toEqual([
      "body.permissions[0]",
    ]);
    expect(await problems(keyring.deleteRootKey({} as never))).toEqual(["body.rootKeyId"]);
  });

  it("updateRootKey: an absent field keeps, null clears, a given list replaces", async () => {
    const { keyring } = await world();
    const { rootKeyId } = await keyring.createRootKey({ name: "a", permissions: ALL, expires: NOON });
    expect(await keyring.updateRootKey({ rootKeyId, enabled: false, permissions: ["rbac.*.create_role"] })).toEqual({});
    const [first] = (await keyring.listRootKeys()).data;
    expect(first).toMatchObject({ name: "a", expires: NOON, enabled: false, permissions: ["rbac.*.create_role"] });
    await keyring.updateRootKey({ rootKeyId, name: null, expires: null });
    const [second] = (await keyring.listRootKeys()).data;
    expect(second).not.toHaveProperty("name");
    expect(second).not.toHaveProperty("expires");
    expect(second).toMatchObject({ enabled: false, permissions: ["rbac.*.create_role"] });
  });

  it("unknown, deleted and of another workspace are one 404", async () => {
    const { keyring, elsewhere } = await world();
    const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
    expect(await fault(elsewhere.updateRootKey({ rootKeyId }))).toBe("NOT_FOUND 404");
    expect(await fault(elsewhere.deleteRootKey({ rootKeyId }))).toBe("NOT_FOUND 404");
    expect((await elsewhere.listRootKeys()).data).toEqual([]);
    expect(await keyring.deleteRootKey({ rootKeyId })).toEqual({});
    expect(await fault(keyring.deleteRootKey({ rootKeyId }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.updateRootKey({ rootKeyId, enabled: true }))).toBe("NOT_FOUND 404");
  });

  it("listRootKeys: pages by id", async () => {
    const { keyring, time } = await world();
    const made: string[] = [];
    for (let i = 0; i < 5; i++) {
      time.now += 1;
      made.push((await keyring.createRootKey({ permissions: [] })).rootKeyId);
    }
    const seen: string[] = [];
    for (let cursor: string | undefined; ;) {
      const { data, pagination } = await keyring.listRootKeys({ limit: 2, ...(cursor !== undefined && { cursor }) });
      seen.push(...data.map(({ rootKeyId }) => rootKeyId));
      cursor = pagination.cursor;
      if (!pagination.hasMore) break;
    }
    expect(seen).toEqual(made);
    expect(await problems(keyring.listRootKeys({ cursor: "a2V5czprZXlfMQ" }))).toEqual(["body.cursor"]);
    expect(await problems(keyring.listRootKeys({ limit: 101 }))).toEqual(["body.limit"]);
  });

  it("changes of one root key started at once all go in", async () => {
    const { keyring } = await world();
    const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
    const changes = Array.from({ length: 30 }, (_, i) =>
      keyring.updateRootKey(i % 2 ? { rootKeyId, name: "b" } : { rootKeyId, expires: NOON }),
    );
    await Promise.all(changes);
    expect((await keyring.listRootKeys()).data[0]).toMatchObject({ name: "b", expires: NOON });
  });

  it("ruling F2: a root key given to verify is NOT_FOUND, and to whoami a 404", async () => {
    const { keyring, store } = await world();
    const { key } = await keyring.createRootKey({ permissions: ALL });
    const verifier = createVerifier(store);
    expect(await verifier.verify({ key })).toEqual({ valid: false, code: "NOT_FOUND" });
    expect(await fault(keyring.whoami({ key }))).toBe("NOT_FOUND 404");
    await verifier.close();
  });

  it("ruling B7: the scheme word is an option, judged when the keyring is made", async () => {
    const { store } = await world();
    const keyring = createKeyring(store, { scheme: "acme" });
    await keyring.createRootKey({ permissions: ["acme:v1:ws_default:**#*"] });
    expect(await problems(keyring.createRootKey({ permissions: ["svc:v1:ws_default:**#*"] }))).toEqual([
      "body.permissions[0]",
    ]);
    expect(() => createKeyring(store, { scheme: "a:b" })).toThrow(/options\.scheme/);
  });
});

describe("S8: the digest of a root key is no key's", () => {
  const stores = [
    ["memory", memoryStore],
    ["SQLite", () => sqliteStore(":memory:")],
  ] as const;

  it.each(stores)("%s: imports refuse it, while it lives and once it is deleted", async (_, open) => {
    const { keyring, apiId, store } = await world({ store: open() });
    const [living, deleted] = [
      await keyring.createRootKey({ permissions: ALL }),
      await keyring.createRootKey({ permissions: ALL, name: "gone", expires: NOON + 5 }),
    ];
    await keyring.deleteRootKey({ rootKeyId: deleted.rootKeyId });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const texts = [living.key, "a_key_of_somebody_else", deleted.key];
    const hashes = texts.map((text) => createHash("sha256").update(text).digest("base64"));
    const { migrated, failed } = await keyring.migrateKeys({
      migrationId,
      apiId,
      keys: hashes.map((hash) => ({ hash })),
    });
    expect(migrated.map(({ hash }) => hash)).toEqual([hashes[1]]);
    expect(failed.map(({ hash, reason }) => [hash, reason])).toEqual([
      [hashes[0], "ALREADY_EXISTS"],
      [hashes[2], "ALREADY_EXISTS"],
    ]);
    const verifier = createVerifier(store, { clock: () => NOON });
    const codes = await Promise.all(texts.map(async (key) => (await verifier.verify({ key })).code));
    expect(codes).toEqual(["NOT_FOUND", "VALID", "NOT_FOUND"]);
  });

  it.each(stores)(
    "%s: a deleted one is listed nowhere, and cannot be changed, deleted again or used",
    async (_, open) => {
      const { keyring, store } = await world({ store: open() });
      const { rootKeyId, key } = await keyring.createRootKey({ permissions: ALL, name: "gone", expires: NOON + 5 });
      await keyring.deleteRootKey({ rootKeyId });
      expect((await keyring.listRootKeys()).data).toEqual([]);
      expect(await fault(keyring.updateRootKey({ rootKeyId, enabled: true }))).toBe("NOT_FOUND 404");
      expect(await fault(keyring.deleteRootKey({ rootKeyId }))).toBe("NOT_FOUND 404");
      const [row] = await store.readMany("rootKeys", [rootKeyId]);
      expect(row).toMatchObject({ enabled: false, deleted: true, permissions: [] });
      expect("name" in row! || "expires" in row!).toBe(false);
      const authenticator = createAuthenticator(store, { clock: () => NOON });
      expect(await fault(authenticator.authenticate(`Bearer ${key}`))).toBe("AUTH_KEY_NOT_FOUND 401");
    },
  );
});
