import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { hasKeyChecksum } from "../../key-checksum.js";
import { changed, failure, fault, limit, problems, world } from "../support.js";
import { createPastKey } from "../../as-service.js";

describe("createKey: a new key", () => {
  it("ruling E5: the key is found by the SHA-256 of its text; only that and its first characters are stored", async () => {
    const { store, create } = await world();
    const { keyId, key } = await create({ prefix: "docs" });
    expect(keyId).toMatch(/^key_[a-zA-Z0-9_]{4,}$/);
    expect(key).toMatch(/^docs_[1-9A-HJ-NP-Za-km-z]{20,}$/);
    expect(hasKeyChecksum(key)).toBe(true);
    const record = await store.findKey(createHash("sha256").update(key).digest("base64"));
    expect(record).toMatchObject({
      keyId,
      enabled: true,
      hasCredits: false,
      permissions: [],
      roles: [],
      parentDisabled: false,
    });
    const row = (await store.readMany("keys", [keyId]))[0]!;
    expect(row.start).toBe(key.slice(0, 9));
    expect(JSON.stringify(row)).not.toContain(key.slice(0, 10));
  });

  it("ruling B1: grants any name that a query can ask for, also by an import", async () => {
    const { keyring, store, create, apiId } = await world();
    const name = "files/2026.read:own_-x";
    const { key } = await create({ permissions: [name] });
    await keyring.createMigration({ id: "old", algorithm: "sha256" });
    const hash = createHash("sha256").update("imported").digest("hex");
    await keyring.migrateKeys({ migrationId: "old", apiId, keys: [{ hash, permissions: [name] }] });
    const verifier = createVerifier(store);
    for (const presented of [key, "imported"])
      expect((await verifier.verify({ key: presented, permissions: name })).code).toBe("VALID");
  });

  it("makes the permissions and the identity that do not exist, and shares those that do", async () => {
    const { keyring, create } = await world();
    await keyring.createPermission({ name: "Read", slug: "documents.read", description: "may read" });
    const first = await create({
      externalId: "user_1",
      permissions: ["documents.read", "documents.write", "documents.read"],
    });
    const second = await create({ externalId: "user_1" });
    expect(await keyring.getPermission({ permission: "documents.read" })).toMatchObject({
      name: "Read",
      description: "may read",
    });
    expect(await keyring.getPermission({ permission: "documents.write" })).toMatchObject({
      name: "documents.write",
      slug: "documents.write",
    });
    const record = await keyring.getKey({ keyId: first.keyId });
    expect(record.permissions).toEqual(["documents.read", "documents.write"]);
    expect(record.identity).toEqual((await keyring.getKey({ keyId: second.keyId })).identity);
    expect(record.identity).toMatchObject({ externalId: "user_1" });
  });

  it("refuses a role that does not exist with 404, names its place, and makes nothing", async () => {
    const { keyring, create, apiId } = await world();
    await keyring.createRole({ name: "reader" });
    const error = await failure(create({ roles: ["reader", "writer"], permissions: ["new"], externalId: "new" }));
    expect([error.code, error.status, error.message]).toEqual([
      "NOT_FOUND",
      404,
      "The role at body.roles[1] was not found",
    ]);
    expect((await keyring.listPermissions()).data).toEqual([]);
    expect((await keyring.listIdentities()).data).toEqual([]);
    expect((await keyring.listKeys({ apiId })).data).toEqual([]);
  });

  it("refuses an externalId that is an identity's id, and makes nothing; a change of a key likewise", async () => {
    const { keyring, create, apiId } = await world();
    const { keyId } = await create({ externalId: "user_1" });
    const externalId = (await keyring.getKey({ keyId })).identity!.id;
    expect(await problems(create({ externalId, permissions: ["new"] }))).toEqual(["body.externalId"]);
    expect(await problems(keyring.updateKey({ keyId, externalId, permissions: ["new"] }))).toEqual(["body.externalId"]);
    const another = { keyId, externalId: "user_2", permissions: ["perm_1111111111111111111111"] };
    expect(await fault(keyring.updateKey(another))).toBe("NOT_FOUND 404");
    expect((await keyring.listPermissions()).data).toEqual([]);
    expect((await keyring.listIdentities()).data).toHaveLength(1);
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(1);
  });

  it("refuses an unknown API with 404", async () => {
    const { keyring } = await world();
    expect(await fault(keyring.createKey({ apiId: "api_unknown" }))).toBe("NOT_FOUND 404");
  });

  it("every field comes back from getKey as it was given, and nothing that was not given", async () => {
    const { keyring, create, time, apiId } = await world();
    await keyring.createRole({ name: "reader", permissions: ["documents.list"] });
    const meta = JSON.parse('{"plan":"pro","__proto__":{"admin":true},"nested":{"list":[1,null,"x"]}}') as Record<
      string,
      never
    >;
    const { keyId } = await create({
      name: "Ünïcode 🔑",
      externalId: "user_1",
      meta,
      roles: ["reader"],
      permissions: ["b", "a.*"],
      expires: time.now + 1_000,
      credits: { remaining: 7, refill: { interval: "daily", amount: 3, refillDay: 9 } },
      ratelimits: [limit("requests", { autoApply: true }), limit("tokens")],
      enabled: false,
      ipAllowlist: ["10.0.0.0/8"],
    });
    const record = await keyring.getKey({ keyId });
    expect(record).toEqual({
      keyId,
      apiId,
      start: expect.any(String),
      state: "disabled",
      enabled: false,
      name: "Ünïcode 🔑",
      meta,
      createdAt: time.now,
      expires: time.now + 1_000,
      permissions: ["a.*", "b"],
      roles: ["reader"],
      creditsFrom: "key",
      credits: { remaining: 7, refill: { interval: "daily", amount: 3, refillDay: 9 } },
      identity: { id: expect.stringMatching(/^id_/), externalId: "user_1" },
      ratelimits: [
        { id: expect.stringMatching(/^rl_[a-zA-Z0-9_]{5,}$/), ...limit("requests"), autoApply: true },
        { id: expect.stringMatching(/^rl_/), ...limit("tokens"), autoApply: false },
      ],
      ipAllowlist: ["10.0.0.0/8"],
    });
    expect(Object.keys(record.meta!)).toContain("__proto__");
    const bare = await create();
    expect(Object.keys(await keyring.getKey({ keyId: bare.keyId })).sort()).toEqual([
      "apiId",
      "createdAt",
      "creditsFrom",
      "enabled",
      "keyId",
      "start",
      "state",
    ]);
  });

  it("ruling D3: a balance counts refills from now on; an unlimited key keeps its refill without effect", async () => {
    const { keyring, create, time } = await world();
    const refill = { interval: "monthly", amount: 5, refillDay: 31 } as const;
    const limited = await create({ credits: { remaining: 1, refill } });
    const unlimited = await create({ credits: { remaining: null, refill } });
    const plain = await create({ credits: { remaining: null } });
    time.now = Date.UTC(2026, 3, 30);
    expect((await keyring.getKey({ keyId: limited.keyId })).credits).toEqual({ remaining: 11, refill });
    expect((await keyring.getKey({ keyId: unlimited.keyId })).credits).toEqual({ remaining: null, refill });
    expect((await keyring.getKey({ keyId: plain.keyId })).credits).toBeUndefined();
  });

  it("hostile A165: a refill next to 2^53 − 1 stops there", async () => {
    const { keyring, create, time } = await world();
    const most = Number.MAX_SAFE_INTEGER;
    const { keyId } = await create({ credits: { remaining: most - 1, refill: { interval: "daily", amount: most } } });
    time.now += 5 * 86_400_000;
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(most);
  });

  it("hostile A039: a time in seconds is accepted as it stands where HTTP asks for it, and refused in words otherwise", async () => {
    const { keyring, create, apiId } = await world();
    const { keyId } = await createPastKey(keyring, { apiId, expires: 1_700_000_000 });
    expect((await keyring.getKey({ keyId })).expires).toBe(1_700_000_000);
    expect((await failure(create({ expires: 1_700_000_000 }))).errors).toEqual([
      {
        location: "body.expires",
        message: "must be in milliseconds, not seconds",
        fix: "did you mean 1700000000000?",
      },
    ]);
  });

  it("`expires` may be now and not before; `expiresIn` counts from now, and one of the two is enough", async () => {
    const { keyring, create, time } = await world();
    const expiryOf = async (body: object) => (await keyring.getKey({ keyId: (await create(body)).keyId })).expires;
    expect(await expiryOf({ expires: time.now })).toBe(time.now);
    expect(await expiryOf({ expiresIn: 60_000 })).toBe(time.now + 60_000);
    expect(await expiryOf({ expiresIn: 4_102_444_800_000 })).toBe(4_102_444_800_000);
    expect((await failure(create({ expires: time.now - 1 }))).errors).toEqual([
      { location: "body.expires", message: "is past", fix: "give a later time, or expiresIn" },
    ]);
    expect(await problems(create({ expires: time.now, expiresIn: 1 }))).toEqual(["body.expiresIn"]);
    for (const expiresIn of [0, -1, 1.5, null, "1", 4_102_444_800_001])
      expect(await problems(create({ expiresIn } as never))).toEqual(["body.expiresIn"]);
  });

  it.each(["auth0|123", "someone@example.com", "a b", "Ünï/…", "🔑".repeat(255)])(
    "belongs to any owner, in the library as in an import: %s",
    async (externalId) => {
      const { keyring, create, apiId } = await world();
      const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
      const keys = [{ hash: "a".repeat(64), externalId }];
      await keyring.migrateKeys({ migrationId, apiId, keys });
      const { keyId } = await create();
      await create({ externalId });
      await keyring.updateKey({ keyId, externalId });
      expect((await keyring.listKeys({ apiId, externalId })).data).toHaveLength(3);
      expect(await fault(keyring.createIdentity({ externalId }))).toBe("CONFLICT 409");
    },
  );

  it.each(["a\nb", "a\u2028", "\ud800", ""])("does not belong to %o, in an import neither", async (externalId) => {
    const { keyring, create, apiId } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    expect(await problems(create({ externalId }))).toEqual(["body.externalId"]);
    expect(await problems(keyring.createIdentity({ externalId }))).toEqual(["body.externalId"]);
    const keys = [{ hash: "a".repeat(64), externalId }];
    expect(await problems(keyring.migrateKeys({ migrationId, apiId, keys }))).toEqual(["body.keys[0].externalId"]);
  });

  it("a store that does not take the key is a STORE_FAILED, never a key that does not verify", async () => {
    const store = memoryStore();
    const { apiId } = await world({ store });
    const keyring = createKeyring(changed(store, { insertKeys: () => [false] }));
    expect(await fault(keyring.createKey({ apiId }))).toBe("STORE_FAILED 500");
  });

  it("the object that was handed in can change afterwards without any effect", async () => {
    const { keyring, create } = await world();
    const meta = { note: "before" };
    const permissions = ["a"];
    const { keyId } = await create({ meta, permissions });
    meta.note = "after";
    permissions.push("b");
    expect(await keyring.getKey({ keyId })).toMatchObject({ meta: { note: "before" }, permissions: ["a"] });
  });
});
