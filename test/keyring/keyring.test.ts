import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { changed, failure, NOON, world, unaudited } from "./support.js";

describe("createKeyring: what it takes", () => {
  it("a store that lacks a method is a TypeError that names it", () => {
    const { insertKeys: _, ...rest } = memoryStore();
    expect(() => createKeyring(rest as never)).toThrow(/insertKeys/);
    for (const store of [undefined, null, 1, "keys.db"]) expect(() => createKeyring(store as never)).toThrow(TypeError);
  });

  it("an unknown option and one of the wrong type are TypeErrors that name it", () => {
    const store = memoryStore();
    expect(() => createKeyring(store, { workspace: "x" } as never)).toThrow(/options\.workspace is not an option/);
    for (const workspaceId of ["", "a b", "x".repeat(256), 1]) {
      expect(() => createKeyring(store, { workspaceId } as never)).toThrow(/options\.workspaceId/);
    }
    expect(() => createKeyring(store, { clock: 1 } as never)).toThrow(/options\.clock/);
    expect(() => createKeyring(store, { newId: "key_1" } as never)).toThrow(/options\.newId/);
    expect(() => createKeyring(store, { migrationAlgorithms: { md5: 1 } } as never)).toThrow(
      /migrationAlgorithms\.md5/,
    );
    expect(() => createKeyring(store, null as never)).toThrow(TypeError);
  });

  it("an idempotency key is refused by every operation that would ignore it, and nothing is done", async () => {
    const keyring = createKeyring(memoryStore());
    const taking = new Set(["updateCredits", "updateIdentityCredits", "grantCredits", "endGrant", "changePlan"]);
    const methods = Object.entries(keyring) as [string, (...given: unknown[]) => Promise<unknown>][];
    for (const [name, method] of methods.filter(([name]) => !taking.has(name)))
      for (const idempotencyKey of ["evt_1", undefined]) {
        const body = name === "createApi" ? { name: "docs" } : {};
        await expect(method(body, { idempotencyKey }), name).rejects.toThrow(TypeError);
        await expect(method(body, { idempotencyKey }), name).rejects.toThrow("idempotencyKey");
      }
    expect((await keyring.listApis()).data).toEqual([]);
    // As `map` calls it.
    expect((await Promise.all([{ name: "one" }].map(keyring.createApi))).length).toBe(1);
  });

  it("serves with defaults: workspace ws_default and the machine's clock", async () => {
    const keyring = createKeyring(memoryStore());
    expect(await keyring.getWorkspace()).toEqual({ id: "ws_default", enabled: true });
    const before = Date.now();
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { keyId } = await keyring.createKey({ apiId });
    const { createdAt } = await keyring.getKey({ keyId });
    expect(createdAt).toBeGreaterThanOrEqual(before);
    expect(createdAt).toBeLessThanOrEqual(Date.now());
  });

  it("ruling A7: a verb reads the clock once", async () => {
    let reads = 0;
    const keyring = createKeyring(unaudited(), { clock: () => ++reads * 1_000 });
    const asked = async (verb: () => Promise<unknown>) => {
      reads = 0;
      await verb();
      return reads;
    };
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { keyId } = await keyring.createKey({
      apiId,
      permissions: ["a"],
      externalId: "u",
      credits: { remaining: 1 },
    });
    expect(await asked(() => keyring.createKey({ apiId, permissions: ["b"], externalId: "v" }))).toBe(1);
    expect(await asked(() => keyring.addPermissions({ keyId, permissions: ["c"] }))).toBe(1);
    expect(
      await asked(() => keyring.updateKey({ keyId, externalId: "w", permissions: ["d"], credits: { remaining: 2 } })),
    ).toBe(1);
    expect(await asked(() => keyring.updateCredits({ keyId, operation: "increment", value: 1 }))).toBe(1);
    expect(await asked(() => keyring.rerollKey({ keyId, expiration: 0 }))).toBe(1);
  });
});

describe("createKeyring: its clock", () => {
  it("ruling A7: one that answers nonsense fails the verb, which would otherwise count refills from 1970 on", async () => {
    for (const nonsense of [NaN, Infinity, undefined, "1773144000000", null, 5n, -8.64e15 - 1, 8.64e15 + 1, 1.79e18]) {
      const store = memoryStore();
      const { apiId } = await createKeyring(store).createApi({ name: "docs" });
      const keyring = createKeyring(store, { clock: () => nonsense as number });
      const credits = { remaining: 1, refill: { interval: "daily", amount: 1 } } as const;
      await expect(keyring.createKey({ apiId, credits }), String(nonsense)).rejects.toThrow(
        /options\.clock must return/,
      );
      expect((await createKeyring(store).listKeys({ apiId })).data).toEqual([]);
    }
  });

  it("ruling G5: a clock with fractions of a millisecond still makes whole times", async () => {
    const keyring = createKeyring(memoryStore(), { clock: () => 1_773_144_000_000.75 });
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { keyId } = await keyring.createKey({ apiId });
    await keyring.rerollKey({ keyId, expiration: 1_000 });
    expect(await keyring.getKey({ keyId })).toMatchObject({
      createdAt: 1_773_144_000_000,
      updatedAt: 1_773_144_000_000,
      expires: 1_773_144_001_000,
    });
  });
});

describe("workspace: its own rows and a switch", () => {
  it("ruling A4: is enabled until it is disabled, and can be enabled again", async () => {
    const { keyring, elsewhere } = await world();
    expect(await keyring.updateWorkspace({ enabled: false })).toEqual({});
    expect(await keyring.getWorkspace()).toEqual({ id: "ws_default", enabled: false });
    expect(await elsewhere.getWorkspace({})).toEqual({ id: "ws_other", enabled: true });
    await keyring.updateWorkspace({ enabled: true });
    expect((await keyring.getWorkspace()).enabled).toBe(true);
  });

  it("ruling A4: a find says that a key of a disabled workspace is suspended", async () => {
    const { keyring, store, create } = await world();
    const { keyId, key } = await create();
    await keyring.updateWorkspace({ enabled: false });
    expect((await keyring.whoami({ key })).keyId).toBe(keyId);
    const [row] = await store.list("keys", { workspaceId: "ws_default", limit: 1 });
    expect(await store.findKey(row!.digest!)).toMatchObject({ keyId, parentDisabled: true });
  });

  it("ids and names of one workspace are never seen from another, with the text of what is unknown", async () => {
    const { keyring, elsewhere, apiId, create } = await world();
    const { keyId, key } = await create({ externalId: "user", permissions: ["documents.read"] });
    const { roleId } = await keyring.createRole({ name: "reader" });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const { id: permissionId } = await keyring.getPermission({ permission: "documents.read" });
    const { id: identityId } = await keyring.getIdentity({ identity: "user" });
    const { apiId: theirs } = await elsewhere.createApi({ name: "theirs" });
    const hash = "0".repeat(64);

    const attempts: ((ids: Record<string, string>) => Promise<unknown>)[] = [
      (own) => elsewhere.getApi({ apiId: own["apiId"]! }),
      (own) => elsewhere.updateApi({ apiId: own["apiId"]!, enabled: false }),
      (own) => elsewhere.deleteApi({ apiId: own["apiId"]! }),
      (own) => elsewhere.createKey({ apiId: own["apiId"]! }),
      (own) => elsewhere.listKeys({ apiId: own["apiId"]! }),
      (own) => elsewhere.getKey({ keyId: own["keyId"]! }),
      (own) => elsewhere.updateKey({ keyId: own["keyId"]!, enabled: false }),
      (own) => elsewhere.deleteKey({ keyId: own["keyId"]!, permanent: true }),
      (own) => elsewhere.deleteKey({ keyId: own["keyId"]! }),
      (own) => elsewhere.rerollKey({ keyId: own["keyId"]!, expiration: 0 }),
      (own) => elsewhere.updateCredits({ keyId: own["keyId"]!, operation: "set", value: 9 }),
      (own) => elsewhere.addPermissions({ keyId: own["keyId"]!, permissions: ["x"] }),
      (own) => elsewhere.removePermissions({ keyId: own["keyId"]!, permissions: ["documents.read"] }),
      (own) => elsewhere.setPermissions({ keyId: own["keyId"]!, permissions: [] }),
      (own) => elsewhere.setRoles({ keyId: own["keyId"]!, roles: [] }),
      (own) => elsewhere.removeRoles({ keyId: own["keyId"]!, roles: ["reader"] }),
      (own) => elsewhere.whoami({ key: own["key"]! }),
      (own) => elsewhere.getRole({ role: own["roleName"]! }),
      (own) => elsewhere.getRole({ role: own["roleId"]! }),
      (own) => elsewhere.deleteRole({ role: own["roleName"]! }),
      (own) => elsewhere.setRolePermissions({ roleId: own["roleId"]!, permissions: [] }),
      (own) => elsewhere.getPermission({ permission: own["slug"]! }),
      (own) => elsewhere.deletePermission({ permission: own["permissionId"]! }),
      (own) => elsewhere.getIdentity({ identity: own["externalId"]! }),
      (own) => elsewhere.updateIdentity({ identity: own["identityId"]!, meta: {} }),
      (own) => elsewhere.deleteIdentity({ identity: own["identityId"]! }),
      (own) => elsewhere.migrateKeys({ migrationId: own["migrationId"]!, apiId: theirs, keys: [{ hash }] }),
    ];
    const theirOwn = {
      apiId,
      keyId,
      key,
      roleName: "reader",
      roleId,
      slug: "documents.read",
      permissionId,
      externalId: "user",
      identityId,
      migrationId,
    };
    const unknown = Object.fromEntries(Object.keys(theirOwn).map((name) => [name, "unknown_0"]));
    for (const attempt of attempts) {
      const masked = await failure(attempt(theirOwn));
      const absent = await failure(attempt(unknown));
      expect(masked.code, attempt.toString()).toBe("NOT_FOUND");
      expect(masked.status).toBe(404);
      expect(masked.message).toBe(absent.message);
    }

    expect((await keyring.getKey({ keyId })).enabled).toBe(true);
    expect((await keyring.getApi({ apiId })).enabled).toBe(true);
    for (const list of [elsewhere.listRoles(), elsewhere.listPermissions(), elsewhere.listIdentities()]) {
      // The refused calls above made nothing either.
      expect((await list).data).toEqual([]);
    }
    await elsewhere.createRole({ name: "reader" });
    await elsewhere.createIdentity({ externalId: "user" });
    expect((await keyring.getIdentity({ identity: "user" })).id).toBe(identityId);
  });
});

describe("writing: two writers of one row", () => {
  it("a hundred changes of one key at once all count, also where each write takes its time", async () => {
    const store = memoryStore();
    const slow = changed(store, {
      write: async (writes) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        return store.write(writes);
      },
    });
    const { keyring, create } = await world({ store: slow });
    const { keyId } = await create({ credits: { remaining: 0 } });
    await Promise.all(
      Array.from({ length: 100 }, () => keyring.updateCredits({ keyId, operation: "increment", value: 1 })),
    );
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 100 });
  });

  it("a write that another writer overtook is done again on what stands now", async () => {
    const store = memoryStore();
    const { keyring, create } = await world({ store });
    const { keyId } = await create();
    let overtaken = 0;
    const slow = createKeyring(
      changed(store, {
        write: async (writes) => {
          if (++overtaken <= 4) await keyring.updateKey({ keyId, name: `name ${overtaken}` });
          return store.write(writes);
        },
      }),
    );
    await slow.updateKey({ keyId, enabled: false });
    expect(overtaken).toBe(5);
    expect(await keyring.getKey({ keyId })).toMatchObject({ name: "name 4", enabled: false });
  });

  it("gives up with STORE_BUSY when it is always overtaken, for every kind of row", async () => {
    const store = memoryStore();
    const { keyring, create, apiId } = await world({ store });
    const { keyId } = await create({ externalId: "user" });
    await keyring.createRole({ name: "reader", permissions: ["a"] });
    const busy = createKeyring(changed(store, { write: () => "conflict" }));
    const attempts = [
      busy.updateKey({ keyId, enabled: false }),
      busy.deleteKey({ keyId, permanent: true }),
      busy.rerollKey({ keyId, expiration: 0 }),
      busy.updateApi({ apiId, enabled: false }),
      busy.updateWorkspace({ enabled: false }),
      busy.updateIdentity({ identity: "user", meta: {} }),
      busy.deleteIdentity({ identity: "user" }),
      busy.deleteRole({ role: "reader" }),
      busy.setRolePermissions({ roleId: "reader", permissions: [] }),
      busy.deletePermission({ permission: "a" }),
      busy.createRole({ name: "writer", permissions: ["new"] }),
    ];
    const errors = await Promise.all(attempts.map(failure));
    expect(errors.map(({ code }) => code)).toEqual(attempts.map(() => "STORE_BUSY"));
  });

  it("a change that failed does not hold up the next of its row", async () => {
    const store = memoryStore();
    const { create } = await world({ store });
    const { keyId } = await create();
    let writes = 0;
    const keyring = createKeyring(
      changed(store, {
        write: (rows) => {
          if (++writes === 1) throw new Error("disk on fire");
          return store.write(rows);
        },
      }),
    );
    const first = keyring.updateKey({ keyId, name: "a" });
    const second = keyring.updateKey({ keyId, name: "b" });
    await expect(first).rejects.toThrow("disk on fire");
    expect(await second).toEqual({});
    expect((await keyring.getKey({ keyId })).name).toBe("b");
  });

  it("two that make the same permission and identity at once make one", async () => {
    const { keyring, create } = await world();
    const keys = await Promise.all(
      Array.from({ length: 10 }, () => create({ permissions: ["a", "b", "a"], externalId: "user" })),
    );
    expect((await keyring.listPermissions()).data).toHaveLength(2);
    expect((await keyring.listIdentities()).data).toHaveLength(1);
    for (const { keyId } of keys)
      expect(await keyring.getKey({ keyId })).toMatchObject({
        permissions: ["a", "b"],
        identity: { externalId: "user" },
      });
  });

  it("a name that another process made in between is found by the next attempt", async () => {
    const store = memoryStore();
    const other = createKeyring(store);
    const { apiId } = await other.createApi({ name: "docs" });
    let raced = false;
    const keyring = createKeyring(
      changed(store, {
        write: async (writes) => {
          if (!raced) {
            raced = true;
            await other.createPermission({ name: "First", slug: "a" });
          }
          return store.write(writes);
        },
      }),
    );
    const { keyId } = await keyring.createKey({ apiId, permissions: ["a", "b"] });
    expect((await keyring.getKey({ keyId })).permissions).toEqual(["a", "b"]);
    expect((await keyring.getPermission({ permission: "a" })).name).toBe("First");
  });
});

describe("createKeyring: newId", () => {
  const text = (n: number) => "ABCDEFGHJKLMNPQRSTUVWXYZ".charAt(n).repeat(22);

  it("makes the id of every row and every limit, told their prefix and the time", async () => {
    const asked: string[] = [];
    const { keyring, apiId, create } = await world({
      newId: (prefix, now) => {
        expect(now).toBe(NOON);
        return `${prefix}_${text(asked.push(prefix) - 1)}`;
      },
    });
    expect(apiId).toBe(`api_${text(0)}`);
    const ratelimits = [{ name: "calls", limit: 1, duration: 1_000 }];
    const { keyId } = await create({ permissions: ["read"], externalId: "user_1", ratelimits });
    expect((await keyring.getPermission({ permission: "read" })).id).toBe(`perm_${text(1)}`);
    expect((await keyring.getIdentity({ identity: "user_1" })).id).toBe(`id_${text(2)}`);
    expect(keyId).toBe(`key_${text(3)}`);
    expect((await keyring.getKey({ keyId })).ratelimits?.[0]?.id).toBe(`rl_${text(4)}`);
    const { keyId: newer } = await keyring.rerollKey({ keyId, expiration: 0 });
    await keyring.updateKey({ keyId: newer, ratelimits: [...ratelimits, { ...ratelimits[0]!, name: "more" }] });
    const limits = (await keyring.getKey({ keyId: newer })).ratelimits;
    expect([newer, ...(limits ?? []).map(({ id }) => id)]).toEqual([
      `key_${text(5)}`,
      `rl_${text(6)}`,
      `rl_${text(7)}`,
    ]);
    const { roleId } = await keyring.createRole({ name: "editor" });
    const { permissionId } = await keyring.createPermission({ name: "write", slug: "write" });
    const { identityId } = await keyring.createIdentity({ externalId: "user_2", ratelimits });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const { rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const made = [roleId, permissionId, identityId, migrationId, rootKeyId];
    expect(made).toEqual(
      ["role", "perm", "id", "mig", "rk"].map((prefix, i) => `${prefix}_${text([8, 9, 10, 12, 13][i]!)}`),
    );
    const keys = [{ hash: "ab".repeat(32), permissions: ["import"] }];
    expect((await keyring.migrateKeys({ migrationId, apiId, keys })).migrated[0]?.keyId).toBe(`key_${text(15)}`);
    expect(asked.join(" ")).toBe("api perm id key rl key rl rl role perm id rl mig rk perm key");
  });

  it("asks for no id where one is given", async () => {
    const keyring = createKeyring(memoryStore(), { newId: () => "none" });
    expect(await keyring.createApi({ name: "docs", apiId: "api_given" })).toEqual({ apiId: "api_given" });
  });

  it.each([
    ["of another prefix", (prefix: string) => `x${prefix}_${text(0)}`],
    ["too short", (prefix: string) => `${prefix}_${text(0).slice(1)}`],
    ["too long", (prefix: string) => `${prefix}_${text(0)}A`],
    ["with a character that is not of Base58", (prefix: string) => `${prefix}_0${text(0).slice(1)}`],
    ["that is no text", () => 1],
    ["that is a promise", async (prefix: string) => `${prefix}_${text(0)}`],
  ])("refuses an id %s, and says what would be right", async (_, newId) => {
    const store = memoryStore();
    const refused = createKeyring(store, { newId: newId as never }).createApi({ name: "docs" });
    await expect(refused).rejects.toThrow(RangeError);
    await expect(refused).rejects.toThrow(/options\.newId must return `api_` and 22 characters of .* testIds\(\)/);
    expect((await createKeyring(store).listApis()).data).toEqual([]);
  });
});
