import { describe, expect, it } from "vitest";
import { createVerifier, forOwner, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { failure, fault, limit, problems, world } from "./support.js";

it("what is longer than any name or id is found nowhere, and is no fault of the form", async () => {
  const { keyring } = await world();
  const long = "x".repeat(2_000);
  for (const call of [
    () => keyring.getIdentity({ identity: long }),
    () => keyring.updateIdentity({ identity: long }),
    () => keyring.deleteIdentity({ identity: long }),
    () => keyring.listKeys({ apiId: long }),
    () => keyring.updateCredits({ keyId: long, operation: "set", value: 1 }),
  ])
    expect(await fault(call()), String(call)).toBe("NOT_FOUND 404");
});

describe("identities: create, get, list, update, delete", () => {
  it("an identity is found by externalId or by id", async () => {
    const { keyring } = await world();
    const { identityId } = await keyring.createIdentity({
      externalId: "user_1",
      meta: { plan: "pro" },
      ratelimits: [limit("requests")],
    });
    const shown = {
      id: identityId,
      externalId: "user_1",
      meta: { plan: "pro" },
      ratelimits: [{ id: expect.stringMatching(/^rl_/), ...limit("requests"), autoApply: false }],
    };
    expect(await keyring.getIdentity({ identity: "user_1" })).toEqual(shown);
    expect(await keyring.getIdentity({ identity: identityId })).toEqual(shown);
    const bare = await keyring.createIdentity({ externalId: "user.2-x" });
    expect(await keyring.getIdentity({ identity: "user.2-x" })).toEqual({
      id: bare.identityId,
      externalId: "user.2-x",
    });
  });

  it("an externalId that exists is a 409", async () => {
    const { keyring, create } = await world();
    await create({ externalId: "user_1" });
    expect(await fault(keyring.createIdentity({ externalId: "user_1" }))).toBe("CONFLICT 409");
  });

  it("an id goes before an externalId that reads the same", async () => {
    const { keyring, store, apiId, create } = await world();
    const { identityId } = await keyring.createIdentity({ externalId: "victim" });
    const row = { id: "id_other", workspaceId: "ws_default", version: 0, externalId: identityId, ratelimits: [] };
    await store.write([{ table: "identities", row }]);
    expect((await keyring.getIdentity({ identity: identityId })).externalId).toBe("victim");
    const { keyId } = await create({ externalId: identityId });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = [{ hash: "ab".repeat(32), externalId: identityId }];
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys });
    for (const id of [keyId, migrated[0]!.keyId])
      expect((await keyring.getKey({ keyId: id })).identity?.id, "a name is a name").toBe("id_other");
  });

  it.each([
    ["memory", () => memoryStore()],
    ["SQLite", () => sqliteStore(":memory:")],
  ])("no externalId is made of the id of an identity; on %s", async (_, open: () => Store) => {
    const store = open();
    const { keyring, elsewhere, apiId, create } = await world({ store });
    const { identityId } = await keyring.createIdentity({ externalId: "victim" });
    expect(await fault(keyring.createIdentity({ externalId: identityId }))).toBe("CONFLICT 409");
    const { keyId } = await create({ externalId: "user" });
    expect(await problems(create({ externalId: identityId }))).toEqual(["body.externalId"]);
    expect(await problems(keyring.updateKey({ keyId, externalId: identityId }))).toEqual(["body.externalId"]);
    expect((await failure(forOwner(keyring, identityId, { apiId }).create())).code).toBe("BAD_REQUEST");
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = [identityId, "user", identityId, "new"].map((externalId, i) => ({
      hash: String(i).repeat(64),
      externalId,
    }));
    const { migrated, failed } = await keyring.migrateKeys({ migrationId, apiId, keys });
    expect(migrated.map(({ hash }) => hash[0])).toEqual(["1", "3"]);
    expect(failed.map(({ hash, reason }) => [hash[0], reason])).toEqual([
      ["0", "INVALID_EXTERNAL_ID"],
      ["2", "INVALID_EXTERNAL_ID"],
    ]);
    const { data } = await keyring.listIdentities();
    expect(data.map(({ externalId }) => externalId).sort()).toEqual(["new", "user", "victim"]);
    // An id of another workspace is a text as any other, and so is an id that nobody has.
    await elsewhere.createIdentity({ externalId: identityId });
    await create({ externalId: `${identityId.slice(0, -1)}${identityId.endsWith("1") ? 2 : 1}` });
    await store.close();
  });

  it("updateIdentity: an absent field keeps, null clears, a list replaces; a limit keeps its id while its name stays", async () => {
    const { keyring, store, create } = await world();
    await keyring.createIdentity({
      externalId: "user_1",
      meta: { plan: "pro" },
      ratelimits: [limit("requests"), limit("tokens")],
    });
    const { keyId } = await create({ externalId: "user_1" });
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    const before = await keyring.getIdentity({ identity: "user_1" });
    expect(await keyring.updateIdentity({ identity: "user_1" })).toEqual(before);
    expect(await keyring.updateIdentity({ identity: before.id, meta: { plan: "free" } })).toEqual({
      ...before,
      meta: { plan: "free" },
    });
    const changed = await keyring.updateIdentity({
      identity: "user_1",
      meta: null,
      ratelimits: [limit("tokens", { limit: 1 })],
    });
    expect(changed).toEqual({
      id: before.id,
      externalId: "user_1",
      ratelimits: [{ ...before.ratelimits![1], limit: 1 }],
    });
    expect((await store.findKey(digest!))?.identity).toEqual(changed);
    expect(await keyring.updateIdentity({ identity: "user_1", ratelimits: [] })).toEqual({
      id: before.id,
      externalId: "user_1",
    });
    expect(await fault(keyring.updateIdentity({ identity: "nobody", meta: {} }))).toBe("NOT_FOUND 404");
  });

  it("deleteIdentity: its keys stay, without it; the externalId is free again", async () => {
    const { keyring, store, apiId, create } = await world();
    const { keyId } = await create({ externalId: "user_1" });
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    const { id } = await keyring.getIdentity({ identity: "user_1" });
    expect(await keyring.deleteIdentity({ identity: "user_1" })).toEqual({});
    expect(await fault(keyring.deleteIdentity({ identity: "user_1" }))).toBe("NOT_FOUND 404");
    expect(Object.hasOwn((await store.findKey(digest!))!, "identity")).toBe(false);
    expect(Object.hasOwn(await keyring.getKey({ keyId }), "identity")).toBe(false);
    await keyring.updateKey({ keyId, name: "still mine" });
    expect((await keyring.rerollKey({ keyId, expiration: 1_000 })).keyId).not.toBe(keyId);
    const { identityId } = await keyring.createIdentity({ externalId: "user_1" });
    expect(identityId).not.toBe(id);
    expect((await keyring.listKeys({ apiId, externalId: "user_1" })).data).toEqual([]);
    await keyring.updateKey({ keyId, externalId: "user_1" });
    expect((await keyring.getKey({ keyId })).identity?.id).toBe(identityId);
  });

  it("listIdentities: pages by id, and by part of the externalId", async () => {
    const { keyring, time } = await world();
    for (let i = 0; i < 5; i++) {
      time.now += 1;
      await keyring.createIdentity({ externalId: `user_${i}` });
    }
    await keyring.createIdentity({ externalId: "team_1" });
    const { data, pagination } = await keyring.listIdentities({ limit: 2, search: "user" });
    expect(data.map(({ externalId }) => externalId)).toEqual(["user_0", "user_1"]);
    const rest = await keyring.listIdentities({ limit: 3, search: "user", cursor: pagination.cursor! });
    expect(rest).toMatchObject({ data: [{}, {}, {}], pagination: { hasMore: false } });
    expect((await keyring.listIdentities()).data).toHaveLength(6);
  });
});

describe("a list of identities with details", () => {
  it("has what is left of their credits, and their keys, up to a hundred, that the caller may read", async () => {
    const { keyring, apiId } = await world();
    const refill = { interval: "daily", amount: 50 } as const;
    await keyring.createIdentity({ externalId: "plan", credits: { remaining: 20, refill } });
    await keyring.grantCredits({ identity: "plan", grantId: "order 1", amount: 7 });
    const { apiId: other } = await keyring.createApi({ name: "other" });
    const { apiId: gone } = await keyring.createApi({ name: "gone" });
    for (const [externalId, of] of [
      ["plan", apiId],
      ["plan", other],
      ["plan", gone],
    ] as const)
      await keyring.createKey({ apiId: of, externalId });
    const { keyId } = await keyring.createKey({ apiId, externalId: "plan" });
    await keyring.deleteKey({ keyId });
    // More keys that are not shown than are looked at together.
    for (let i = 0; i < 102; i++) await keyring.createKey({ apiId: i < 101 ? gone : apiId, externalId: "hidden" });
    await keyring.deleteApi({ apiId: gone });
    for (let i = 0; i < 100; i++) await keyring.createKey({ apiId, externalId: "full" });
    for (let i = 0; i < 101; i++) await keyring.createKey({ apiId, externalId: "more" });
    await keyring.createIdentity({ externalId: "none" });
    const { data } = await keyring.listIdentities({ details: true });
    const shown = Object.fromEntries(data.map(({ id: _, externalId, ...rest }) => [externalId, rest]));
    expect(shown).toEqual({
      plan: { credits: { remaining: 20, refill, granted: 7 }, keyCount: 2 },
      full: { keyCount: 100 },
      more: { keyCount: 100, hasMoreKeys: true },
      hidden: { keyCount: 1 },
      none: { keyCount: 0 },
    });
    const found = await keyring.listIdentities({ details: true, search: "LAN", limit: 1 });
    expect(found.data).toMatchObject([{ externalId: "plan", keyCount: 2 }]);
    expect((await keyring.listIdentities()).data.every((one) => !("keyCount" in one) && !("credits" in one))).toBe(
      true,
    );
  });
});

describe.each([
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore(":memory:")],
] as const)("the state of an identity on %s", (_, open) => {
  it("disabled makes its keys FORBIDDEN, those that are made then too, until it is enabled: one write each", async () => {
    const store: Store = open();
    const { keyring, create, time } = await world({ store });
    const verifier = createVerifier(store, { clock: () => time.now });
    const codes = async (...keys: readonly string[]) =>
      Promise.all(keys.map(async (key) => (await verifier.verify({ key })).code));
    const { key } = await create({ externalId: "acme" });
    const { key: other } = await create({ externalId: "other" });
    expect(await codes(key, other)).toEqual(["VALID", "VALID"]);
    expect(await keyring.updateIdentity({ identity: "acme", enabled: false })).toMatchObject({ enabled: false });
    const { key: later } = await create({ externalId: "acme" });
    expect(await codes(key, later, other)).toEqual(["FORBIDDEN", "FORBIDDEN", "VALID"]);
    expect(await keyring.updateIdentity({ identity: "acme", enabled: true })).not.toHaveProperty("enabled");
    expect(await codes(key, later)).toEqual(["VALID", "VALID"]);
    await verifier.close();
  });

  it("past its end its keys are EXPIRED; the earlier end decides, and a response has the key's own", async () => {
    const store: Store = open();
    const { keyring, create, time } = await world({ store });
    const verifier = createVerifier(store, { clock: () => time.now });
    const end = time.now + 1_000;
    await keyring.createIdentity({ externalId: "trial", expires: end });
    const own = { ...(await create({ externalId: "trial", expires: end + 5_000 })) };
    const sooner = await create({ externalId: "trial", expires: end - 500 });
    const verify = async ({ key }: { readonly key: string }) => verifier.verify({ key });
    time.now = end;
    expect(await verify(own)).toMatchObject({ code: "VALID", expires: end + 5_000 });
    expect(await verify(sooner)).toMatchObject({ code: "EXPIRED", expires: end - 500 });
    time.now = end + 1;
    await keyring.updateIdentity({ identity: "trial", enabled: false });
    expect(await verify(own), "before it is FORBIDDEN").toMatchObject({ code: "EXPIRED", expires: end + 5_000 });
    await keyring.updateKey({ keyId: own.keyId, enabled: false });
    expect((await verify(own)).code).toBe("DISABLED");
    await keyring.updateKey({ keyId: own.keyId, enabled: true });
    await keyring.updateIdentity({ identity: "trial", enabled: true, expires: null });
    expect((await verify(own)).code).toBe("VALID");
    expect((await keyring.listIdentities()).data).toEqual([{ id: expect.any(String), externalId: "trial" }]);
    await verifier.close();
  });

  it("an end that is past when it is made, or in seconds, is a 400 at its place", async () => {
    const { keyring, time } = await world({ store: open() });
    for (const expires of [time.now - 1, 1_700_000_000])
      expect(await problems(keyring.createIdentity({ externalId: "a", expires }))).toEqual(["body.expires"]);
    await keyring.createIdentity({ externalId: "a", enabled: false });
    expect(await problems(keyring.updateIdentity({ identity: "a", expires: 1_700_000_000 }))).toEqual(["body.expires"]);
    expect(await keyring.getIdentity({ identity: "a" })).toMatchObject({ enabled: false });
  });
});
