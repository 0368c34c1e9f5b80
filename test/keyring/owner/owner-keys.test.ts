/**
 * forOwner: an owner lists, creates, rotates and revokes its own keys, never another's, and none beyond its ceiling.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  forOwner,
  memoryStore,
  type OwnerCeiling,
  type Store,
} from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { DAY, failure, fault, limit, NOON, problems, world } from "../support.js";

const folder = mkdtempSync(join(tmpdir(), "owner-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const STORES: Record<string, () => Store> = {
  memory: () => memoryStore(),
  SQLite: () => sqliteStore(join(folder, `${++files}.db`)),
};

const ceiling: OwnerCeiling = {
  keys: 3,
  permissions: ["documents.*"],
  credits: { remaining: 100 },
  ratelimits: [limit("requests", { limit: 10, autoApply: true })],
  expiresIn: 30 * DAY,
};

async function stage(store: Store = memoryStore(), given: OwnerCeiling | null = ceiling) {
  const w = await world({ store });
  const { keyring, apiId, time } = w;
  const options = { apiId, prefix: "doc", meta: { plan: "free" }, ...(given && { ceiling: given }) };
  const verifier = createVerifier(store, { clock: () => time.now });
  const codeOf = async (key: string) => (await verifier.verify({ key, credits: { cost: 0 } })).code;
  return { ...w, options, mine: forOwner(keyring, "auth0|me", options), verifier, codeOf };
}

describe.each(Object.entries(STORES))("forOwner on %s", (_, open) => {
  it("creates keys with what the ceiling has, or less if asked", async () => {
    const { mine, keyring, verifier, time } = await stage(open());
    const { key, keyId } = await mine.create({ name: "laptop", permissions: ["documents.read", "documents.*"] });
    expect(key).toMatch(/^doc_/);
    expect(await keyring.getKey({ keyId })).toMatchObject({
      name: "laptop",
      meta: { plan: "free" },
      identity: { externalId: "auth0|me" },
      permissions: ["documents.*", "documents.read"],
      credits: { remaining: 100 },
      ratelimits: [{ name: "requests", limit: 10, duration: 60_000, autoApply: true }],
      expires: time.now + 30 * DAY,
    });
    expect(await verifier.verify({ key, credits: { cost: 40 } })).toMatchObject({ code: "VALID", credits: 60 });
    const less = await mine.create({
      credits: { remaining: 5 },
      expiresIn: DAY,
      ratelimits: [limit("requests", { limit: 2, duration: 120_000 })],
    });
    expect(await keyring.getKey({ keyId: less.keyId })).toMatchObject({
      credits: { remaining: 5 },
      ratelimits: [{ limit: 2, duration: 120_000, autoApply: true }],
      expires: time.now + DAY,
    });
    expect((await verifier.verify({ key: less.key, credits: { cost: 6 } })).code).toBe("USAGE_EXCEEDED");
    expect((await verifier.verify({ key: less.key, credits: { cost: 5 } })).credits).toBe(0);
  });

  it("an expiry that is past is refused, and no identity is made", async () => {
    const { keyring, mine, time } = await stage(open());
    expect(await problems(mine.create({ expires: time.now - 1 }))).toEqual(["body.expires"]);
    expect(await problems(mine.create({ expires: time.now + 5, expiresIn: 5 }))).toEqual(["body.expiresIn"]);
    expect((await keyring.listIdentities()).data).toEqual([]);
  });

  it("has at most as many as the ceiling allows, however many are created at once; ended ones make room", async () => {
    const { mine, time, apiId } = await stage(open());
    const made = await Promise.allSettled(Array.from({ length: 12 }, () => mine.create({ expiresIn: DAY })));
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
    for (const one of made)
      if (one.status === "rejected") expect(one.reason).toMatchObject({ code: "KEY_LIMIT_REACHED", status: 409 });
    const { data } = await mine.list();
    await mine.revoke({ keyId: data[0]!.keyId });
    await mine.create();
    expect(await fault(mine.create())).toBe("KEY_LIMIT_REACHED 409");
    time.now += DAY + 1;
    await mine.create();
    expect(data[0]?.apiId).toBe(apiId);
  });

  it("shows nothing of the identity's metadata, unless the list asks for it", async () => {
    const { mine, keyring } = await stage(open());
    await keyring.createIdentity({ externalId: "auth0|me", meta: { notes: "internal" } });
    await mine.create();
    const shown = async (body?: { identityMeta: boolean }) => (await mine.list(body)).data[0]?.identity;
    expect(await shown()).toEqual({ id: expect.stringMatching(/^id_/), externalId: "auth0|me" });
    expect(await shown({ identityMeta: true })).toMatchObject({ meta: { notes: "internal" } });
  });

  it("renames a key of its own", async () => {
    const { mine, keyring, options } = await stage(open());
    const { keyId } = await mine.create({ name: "laptop" });
    expect(await mine.rename({ keyId, name: "desk" })).toEqual({});
    expect((await mine.list()).data[0]?.name).toBe("desk");
    await mine.rename({ keyId, name: null });
    expect((await mine.list()).data[0]).not.toHaveProperty("name");
    const theirs = await forOwner(keyring, "auth0|you", options).create();
    expect(await fault(mine.rename({ keyId: theirs.keyId, name: "mine" }))).toBe("NOT_FOUND 404");
    expect(await problems(mine.rename({ keyId, name: "" }))).toEqual(["body.name"]);
  });

  it("gives keys of its own a balance with a refill, or less of both", async () => {
    const refill = { interval: "monthly", amount: 100, refillDay: 1 } as const;
    const { mine, verifier, time } = await stage(open(), { credits: { remaining: 50, refill } });
    const made = [
      await mine.create(),
      await mine.create({ credits: { remaining: 5, refill: { ...refill, amount: 9 } } }),
    ];
    time.now = Date.UTC(2026, 3, 1);
    const left = await Promise.all(made.map(({ key }) => verifier.verify({ key, credits: { cost: 0 } })));
    expect(left.map(({ credits }) => credits)).toEqual([150, 14]);
    for (const wrong of [
      { ...refill, amount: 101 },
      { ...refill, refillDay: 2 },
      { interval: "daily", amount: 1 },
    ] as const)
      expect(await problems(mine.create({ credits: { remaining: 1, refill: wrong } }))).toEqual([
        "body.credits.refill",
      ]);
  });

  it("takes a ceiling that was written as a variable, and needs no credits where `identity` is false", async () => {
    const ceiling = { keys: 2, identity: false };
    const { mine } = await stage(open(), ceiling);
    expect(await mine.create()).toMatchObject({ keyId: expect.any(String) });
    await expect(stage(open(), { identity: "true" as never })).rejects.toThrow(
      new TypeError("options.ceiling.identity must be true or false"),
    );
  });

  it("draws on the credits of its identity alone, where the ceiling says so", async () => {
    const { mine, keyring, verifier } = await stage(open(), { identity: true });
    expect(await fault(mine.create())).toBe("CONFLICT 409");
    await keyring.updateIdentityCredits({ identity: "auth0|me", operation: "set", value: 10 });
    const { key, keyId } = await mine.create();
    expect((await verifier.verify({ key, credits: { cost: 4 } })).credits).toBe(6);
    expect(await problems(mine.create({ credits: { remaining: 1 } }))).toEqual(["body.credits"]);
    expect(await problems(mine.create({ creditsFrom: "none" } as never))).toEqual(["body.creditsFrom"]);
    await mine.revoke({ keyId });
    const next = await mine.create();
    expect((await verifier.verify({ key: next.key, credits: { cost: 7 } })).code).toBe("USAGE_EXCEEDED");
  });

  it("makes no key while its identity is disabled or has ended, and lists and revokes those that it has", async () => {
    const { mine, keyring, time, codeOf } = await stage(open());
    const [one, two] = [await mine.create(), await mine.create()];
    const identity = "auth0|me";
    for (const [change, code] of [
      [{ enabled: false }, "FORBIDDEN"],
      [{ enabled: true, expires: time.now - 1 }, "EXPIRED"],
    ] as const) {
      await keyring.updateIdentity({ identity, ...change });
      expect(await codeOf(one.key)).toBe(code);
      expect(await fault(mine.create())).toBe("CONFLICT 409");
      expect(await fault(mine.rotate({ keyId: one.keyId }))).toBe("CONFLICT 409");
      expect((await mine.list()).data.map(({ keyId }) => keyId)).toContain(one.keyId);
      await mine.rename({ keyId: one.keyId, name: code });
    }
    await mine.revoke({ keyId: two.keyId });
    await keyring.updateIdentity({ identity, expires: time.now });
    expect(await codeOf((await mine.create()).key)).toBe("VALID");
    expect(await codeOf(one.key)).toBe("VALID");
    expect(await codeOf(two.key)).toBe("NOT_FOUND");
  });

  it("has no balance of its own, unless the ceiling gives one, also before its identity has credits", async () => {
    const { mine, keyring, verifier } = await stage(open(), {});
    for (const credits of [{ remaining: 2 ** 53 - 1 }, { remaining: 0 }, { remaining: null }])
      expect(await problems(mine.create({ credits }))).toEqual(["body.credits"]);
    const first = await mine.create();
    const { key, keyId } = await mine.rotate({ keyId: first.keyId });
    expect((await verifier.verify({ key })).credits).toBeUndefined();
    // The plan comes: keys made and rotated before it draw on it.
    await keyring.updateIdentityCredits({ identity: "auth0|me", operation: "set", value: 10 });
    expect(await problems(mine.create({ credits: { remaining: 1_000 } }))).toEqual(["body.credits"]);
    expect((await keyring.getKey({ keyId })).creditsFrom).toBe("identity");
    expect([await verifier.verify({ key }), await verifier.verify({ key: first.key })]).toMatchObject([
      { credits: 9 },
      { credits: 8 },
    ]);
  });

  it("lists newest first, page by page, its own keys of this API alone", async () => {
    const { mine, time, keyring, options } = await stage(open(), { keys: 10 });
    const other = await keyring.createApi({ name: "billing" });
    await keyring.createKey({ apiId: other.apiId, externalId: "auth0|me" });
    await forOwner(keyring, "auth0|you", options).create();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      time.now += 1;
      ids.unshift((await mine.create({ name: `key ${i}` })).keyId);
    }
    const first = await mine.list({ limit: 2 });
    const second = await mine.list({ limit: 2, cursor: first.pagination.cursor });
    const third = await mine.list({ limit: 2, cursor: second.pagination.cursor });
    expect([first, second, third].map(({ data }) => data.map(({ keyId }) => keyId))).toEqual([
      ids.slice(0, 2),
      ids.slice(2, 4),
      ids.slice(4),
    ]);
    expect([first, second, third].map(({ pagination }) => pagination.hasMore)).toEqual([true, true, false]);
    expect((await mine.list()).data.map(({ name }) => name)).toEqual(["key 4", "key 3", "key 2", "key 1", "key 0"]);
    expect(await forOwner(keyring, "auth0|nobody", options).list()).toEqual({
      data: [],
      pagination: { hasMore: false },
    });
  });

  it("rotates with an overlap, in which both verify and share the balance; the one before ends at once", async () => {
    const { mine, time, codeOf, verifier } = await stage(open(), { ...ceiling, keys: 1 });
    const first = await mine.create();
    const second = await mine.rotate({ keyId: first.keyId, overlap: 60_000 });
    await verifier.verify({ key: first.key, credits: { cost: 30 } });
    expect((await verifier.verify({ key: second.key, credits: { cost: 0 } })).credits).toBe(70);
    expect(await fault(mine.rotate({ keyId: first.keyId }))).toBe("CONFLICT 409");
    expect(await fault(mine.create())).toBe("KEY_LIMIT_REACHED 409");
    const third = await mine.rotate({ keyId: second.keyId, overlap: 60_000 });
    expect(await Promise.all([first, second, third].map(({ key }) => codeOf(key)))).toEqual([
      "EXPIRED",
      "VALID",
      "VALID",
    ]);
    time.now += 60_001;
    expect(await Promise.all([second, third].map(({ key }) => codeOf(key)))).toEqual(["EXPIRED", "VALID"]);
    const raced = await Promise.allSettled([1, 2, 3].map(() => mine.rotate({ keyId: third.keyId, overlap: 0 })));
    expect(raced.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  it("a key of a stranger, of another API or of nobody is not found, whatever is done to it", async () => {
    const { mine, keyring, options, create, codeOf } = await stage(open());
    await mine.create();
    const you = forOwner(keyring, "auth0|you", options);
    const other = await keyring.createApi({ name: "billing" });
    const yours = [
      await you.create(),
      await create(),
      await keyring.createKey({ apiId: other.apiId, externalId: "auth0|me" }),
    ];
    const absent = await failure(mine.revoke({ keyId: "key_absent" }));
    for (const { keyId, key } of yours) {
      for (const act of [() => mine.rotate({ keyId }), () => mine.revoke({ keyId })]) {
        const { code, message } = await failure(act());
        expect([code, message]).toEqual([absent.code, absent.message]);
      }
      expect(await codeOf(key)).toBe("VALID");
    }
    expect(await fault(forOwner(keyring, "new", options).revoke({ keyId: yours[0]!.keyId }))).toBe("NOT_FOUND 404");
  });

  it("an owner without a key has nothing to rotate or revoke; addresses and expiry are as asked", async () => {
    const { mine, keyring, verifier, time } = await stage(open());
    expect(await fault(mine.rotate({ keyId: "key_of_nobody" }))).toBe("NOT_FOUND 404");
    expect(await fault(mine.revoke({ keyId: "key_of_nobody" }))).toBe("NOT_FOUND 404");
    expect(await mine.revokeAll()).toEqual({ revoked: 0 });
    const expires = time.now + DAY;
    const { key, keyId } = await mine.create({ ipAllowlist: ["10.0.0.0/8"], expires });
    expect(await keyring.getKey({ keyId })).toMatchObject({ expires });
    expect((await verifier.verify({ key }, { clientAddress: "10.1.1.1" })).code).toBe("VALID");
    expect((await verifier.verify({ key }, { clientAddress: "192.0.2.1" })).code).toBe("FORBIDDEN");
    expect(await problems(mine.create({ expires, expiresIn: DAY }))).toEqual(["body.expiresIn"]);
  });

  it("goes on where another call came first: creating, and revoking all", async () => {
    const inner = open();
    let meanwhile: (() => Promise<unknown>) | undefined;
    let conflicts = 0;
    const { mine, keyring, options } = await stage({
      ...inner,
      async write(...given) {
        if (conflicts > 0 && given[0].some((write) => write.table === "keys")) {
          conflicts--;
          return "conflict";
        }
        const act = meanwhile;
        meanwhile = undefined;
        await act?.();
        return inner.write(...given);
      },
    });
    await mine.create();
    conflicts = 2;
    const { keyId } = await mine.create();
    expect([conflicts, (await mine.list()).data.length]).toEqual([0, 2]);
    // Another call revokes both before the first of them is written here.
    const elsewhere = forOwner(createKeyring(inner), "auth0|me", options);
    meanwhile = () => elsewhere.revokeAll();
    expect(await mine.revokeAll()).toEqual({ revoked: 0 });
    expect((await mine.list()).data).toEqual([]);
    expect(await fault(mine.revoke({ keyId }))).toBe("NOT_FOUND 404");
    await mine.create();
    meanwhile = () => Promise.reject(new Error("the disk is gone"));
    await expect(mine.revokeAll()).rejects.toThrow("the disk is gone");
    expect((await keyring.listKeys({ apiId: options.apiId })).data).toHaveLength(1);
  });

  it.each(["rotated first", "revoked first"])("revokes all, a replacement made meanwhile too: %s", async (order) => {
    const { mine, codeOf } = await stage(open(), { keys: 5 });
    for (let round = 0; round < 20; round++) {
      const { keyId } = await mine.create();
      await mine.create();
      const replacements: string[] = [];
      const rotate = () =>
        mine.rotate({ keyId, overlap: 0 }).then(
          ({ key }) => void replacements.push(key),
          (error: unknown) => expect(error).toMatchObject({ code: "NOT_FOUND" }),
        );
      const acts = [rotate, mine.revokeAll];
      await Promise.all((order === "rotated first" ? acts : acts.reverse()).map((act) => act()));
      for (const key of replacements) expect(await codeOf(key)).toBe("NOT_FOUND");
      expect((await mine.list()).data).toEqual([]);
    }
  });

  it("revokes all, a replacement that another process makes after the keys were listed too", async () => {
    const inner = open();
    let meanwhile: (() => Promise<unknown>) | undefined;
    const { mine, options, keyring } = await stage(
      {
        ...inner,
        async list(...given) {
          const listed = await inner.list(...given);
          const act = given[0] === "keys" ? meanwhile : undefined;
          if (act !== undefined) meanwhile = undefined;
          await act?.();
          return listed;
        },
      },
      { keys: 5 },
    );
    const elsewhere = createKeyring(inner);
    const verifier = createVerifier(inner);
    const { keyId } = await mine.create();
    const { keyId: old } = await mine.create();
    const made: string[] = [];
    meanwhile = async () => {
      made.push((await forOwner(elsewhere, "auth0|me", options).rotate({ keyId, overlap: 0 })).key);
      made.push((await elsewhere.rerollKey({ keyId: old, expiration: DAY })).key);
      // Nothing leads to the replacement any more.
      await elsewhere.deleteKey({ keyId: old, permanent: true });
    };
    expect(await mine.revokeAll()).toEqual({ revoked: 3 });
    for (const key of made) expect((await verifier.verify({ key })).code).toBe("NOT_FOUND");
    expect((await keyring.listKeys({ apiId: options.apiId })).data).toEqual([]);
  });

  it("revokes all, and gives up where others go on making keys; the keys of a deleted API count as gone", async () => {
    const inner = open();
    let isBusy = false;
    const { mine, options, keyring } = await stage(
      {
        ...inner,
        async write(...given) {
          const outcome = await inner.write(...given);
          if (isBusy) await keyring.createKey({ apiId: options.apiId, externalId: "auth0|me" });
          return outcome;
        },
      },
      { keys: 5 },
    );
    await mine.create();
    isBusy = true;
    expect(await fault(mine.revokeAll())).toBe("STORE_BUSY 503");
    isBusy = false;
    expect((await mine.revokeAll()).revoked).toBeGreaterThan(0);
    await mine.create();
    await keyring.deleteApi({ apiId: options.apiId });
    expect(await mine.revokeAll()).toEqual({ revoked: 0 });
  });

  it("revokes one, or all of its own", async () => {
    const { mine, keyring, options, codeOf } = await stage(open());
    const [one, two] = [await mine.create(), await mine.create()];
    const theirs = await forOwner(keyring, "auth0|you", options).create();
    expect(await mine.revoke({ keyId: one.keyId })).toEqual({});
    expect(await fault(mine.revoke({ keyId: one.keyId }))).toBe("NOT_FOUND 404");
    expect(await fault(mine.rotate({ keyId: one.keyId }))).toBe("NOT_FOUND 404");
    expect(await codeOf(two.key)).toBe("VALID");
    await mine.create();
    expect(await mine.revokeAll()).toEqual({ revoked: 2 });
    expect(await mine.revokeAll()).toEqual({ revoked: 0 });
    expect(await Promise.all([one, two, theirs].map(({ key }) => codeOf(key)))).toEqual([
      "NOT_FOUND",
      "NOT_FOUND",
      "VALID",
    ]);
    expect((await mine.list()).data).toEqual([]);
  });
});

describe("forOwner: what exceeds the ceiling", () => {
  it.each([
    [{ permissions: ["documents.read", "billing.view"] }, ["permissions[1]"]],
    [{ permissions: ["*"] }, ["permissions[0]"]],
    [{ permissions: ["documents"] }, ["permissions[0]"]],
    [{ credits: { remaining: 101 } }, ["credits.remaining"]],
    [{ credits: { remaining: null } }, ["credits.remaining"]],
    [{ credits: { remaining: 1, refill: { interval: "daily", amount: 1 } } }, ["credits.refill"]],
    [{ expiresIn: 30 * DAY + 1 }, ["expiresIn"]],
    [{ expires: NOON + 30 * DAY + 1 }, ["expires"]],
    [{ ratelimits: [limit("requests", { limit: 11 })] }, ["ratelimits[0].limit"]],
    [{ ratelimits: [limit("requests", { duration: 59_999 })] }, ["ratelimits[0].duration"]],
    [{ ratelimits: [limit("shared")] }, ["ratelimits[0].name"]],
    [{ permissions: ["x"], expiresIn: 31 * DAY }, ["permissions[0]", "expiresIn"]],
    [{ externalId: "auth0|you" }, ["externalId"]],
    [{ meta: { plan: "pro" } }, ["meta"]],
    [{ roles: ["admin"] }, ["roles"]],
  ])("%j is refused at its location", async (body, locations) => {
    const { mine } = await stage();
    expect(await problems(mine.create(body as never))).toEqual(locations.map((location) => `body.${location}`));
    expect((await mine.list()).data).toEqual([]);
  });

  it("without a ceiling: ten keys, no permission, any expiry", async () => {
    const { mine, keyring } = await stage(memoryStore(), null);
    expect(await problems(mine.create({ permissions: ["a"] }))).toEqual(["body.permissions[0]"]);
    expect(await problems(mine.create({ credits: { remaining: 7 } }))).toEqual(["body.credits"]);
    const { keyId } = await mine.create({ expires: NOON + 10_000 * DAY });
    expect((await keyring.getKey({ keyId })).creditsFrom).toBe("none");
    for (let i = 1; i < 10; i++) await mine.create();
    expect(await fault(mine.create())).toBe("KEY_LIMIT_REACHED 409");
  });

  it("names the option that is wrong, when the owner is bound", async () => {
    const { keyring, apiId } = await stage();
    const bind =
      (options: object, owner = "me") =>
      () =>
        forOwner(keyring, owner, { apiId, ...options });
    expect(() => forOwner({ ...keyring }, "me", { apiId })).toThrow(/^keyring must be one that createKeyring made/);
    expect(() => forOwner(keyring, "me", 5 as never)).toThrow(new TypeError("options must be an object with apiId"));
    expect(bind({ ceiling: { keys: 0 } })).toThrow(/^options\.ceiling\.keys must be from 1/);
    expect(bind({ ceiling: { permissions: ["a b"] } })).toThrow(/^options\.ceiling\.permissions\[0\] must/);
    expect(bind({ ceiling: { ratelimits: [limit("ab")] } })).toThrow(/^options\.ceiling\.ratelimits\[0\]\.name must/);
    expect(bind({ ceiling: { credits: 100 } })).toThrow(/^options\.ceiling\.credits must/);
    expect(bind({ ceiling: { credits: { remaining: null } } })).toThrow(/^options\.ceiling\.credits\.remaining must/);
    expect(bind({ ceiling: { identity: 1 } })).toThrow(/^options\.ceiling\.identity must be true/);
    expect(bind({ cieling: {} })).toThrow(/^options\.cieling is not an option/);
    expect(bind({}, "")).toThrow(/^body\.externalId/);
    expect(bind({ prefix: "a b" })).toThrow(/^body\.prefix/);
    const deep = JSON.parse("[".repeat(32) + "]".repeat(32)) as unknown;
    for (const meta of ["free", null, [], { at: new Date() }, { n: NaN }, { deep }, { s: "x".repeat(66_000) }])
      expect(bind({ meta })).toThrow(/^body\.meta/);
    expect(() => forOwner({ ...keyring }, "me", { apiId })).toThrow(/createKeyring made/);
    const absent = forOwner(keyring, "me", { apiId: "api_absent" });
    expect(await fault(absent.create())).toBe("NOT_FOUND 404");
    expect(await fault(absent.list())).toBe("NOT_FOUND 404");
  });
});

describe("forOwner: metadata of new keys", () => {
  it("is that of the moment when the owner was bound, whatever becomes of the object", async () => {
    const { keyring, apiId } = await stage();
    const meta = { plan: "free" };
    const mine = forOwner(keyring, "me", { apiId, meta });
    meta.plan = "pro";
    const { keyId } = await mine.create();
    expect((await keyring.getKey({ keyId })).meta).toEqual({ plan: "free" });
  });
});

describe("forOwner: several handles on one file", () => {
  it("never pass the ceiling together", async () => {
    const path = join(folder, "shared.db");
    const stores = [sqliteStore(path), sqliteStore(path)];
    const { apiId } = await createKeyring(stores[0]!).createApi({ name: "documents" });
    const owners = stores.map((store) => forOwner(createKeyring(store), "me", { apiId, ceiling: { keys: 7 } }));
    const made = await Promise.allSettled(Array.from({ length: 40 }, (_, i) => owners[i % 2]!.create()));
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(7);
    expect((await owners[1]!.list()).data).toHaveLength(7);
    for (const store of stores) await store.close();
  });
});

describe("an owner with more keys than one call of the store returns", () => {
  it("lists and revokes all of them", async () => {
    const { keyring, apiId, mine } = await stage(memoryStore(), null);
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = Array.from({ length: 1_001 }, (_, i) => ({
      hash: i.toString(16).padStart(64, "0"),
      externalId: "auth0|me",
    }));
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys });
    expect(migrated.length).toBe(1_001);
    const { data, pagination } = await mine.list({ limit: 100 });
    expect([data.length, pagination.hasMore]).toEqual([100, true]);
    expect(await mine.revokeAll()).toEqual({ revoked: 1_001 });
    expect((await mine.list()).data).toEqual([]);
  });
});

describe("forOwner: one key", () => {
  it("get shows what list shows, reads no other key, and no key of another", async () => {
    const store = memoryStore();
    const { mine, keyring, options, time } = await stage(store);
    const { keyId } = await mine.create({ name: "laptop" });
    const theirs = await forOwner(keyring, "auth0|you", options).create();
    expect(await mine.get({ keyId })).toEqual((await mine.list()).data[0]);
    const { keyId: gone } = await mine.create();
    await mine.revoke({ keyId: gone });
    const elsewhere = await keyring.createKey({
      apiId: (await keyring.createApi({ name: "other" })).apiId,
      externalId: "auth0|me",
    });
    for (const other of [theirs.keyId, gone, elsewhere.keyId, "key_1p7xQ5T5VMLL1bPekcXcAA"])
      await expect(mine.get({ keyId: other })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(mine.get({ keyId: "" })).rejects.toMatchObject({ code: "BAD_REQUEST" });
    const unlisted = Object.assign(Object.create(store) as Store, {
      list: () => Promise.reject(new Error("all keys are read")),
    });
    const one = forOwner(createKeyring(unlisted, { clock: () => time.now }), "auth0|me", options);
    expect((await one.get({ keyId })).name).toBe("laptop");
  });

  it("get leaves out the metadata of the owner, unless it is asked for", async () => {
    const { mine, keyring } = await stage();
    await keyring.createIdentity({ externalId: "auth0|me", meta: { plan: "gold" } });
    const { keyId } = await mine.create();
    expect((await mine.get({ keyId })).identity).not.toHaveProperty("meta");
    expect((await mine.get({ keyId, identityMeta: true })).identity?.meta).toEqual({ plan: "gold" });
  });

  it("replacing the first of a long chain again lets others run meanwhile", async () => {
    const { mine } = await stage();
    const { keyId: first } = await mine.create();
    let keyId = first;
    for (let i = 0; i < 300; i++) ({ keyId } = await mine.rotate({ keyId, overlap: 0 }));
    let turns = 0;
    const count = (): void => void (turns++, (timer = setImmediate(count)));
    let timer = setImmediate(count);
    await expect(mine.rotate({ keyId: first })).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining(keyId) as string,
    });
    clearImmediate(timer);
    expect(turns).toBeGreaterThan(2);
  });
});

it("forOwner: the audit trail has the owner as the actor of what it changes", async () => {
  const { mine, keyring } = await stage();
  const { keyId } = await mine.create();
  await mine.rename({ keyId, name: "laptop" });
  await mine.rotate({ keyId });
  await mine.revoke({ keyId });
  await mine.revokeAll();
  const { data } = await keyring.listAudit();
  const done = data.filter(({ operation }) => operation !== "createApi");
  expect(new Set(done.map(({ operation }) => operation))).toEqual(
    new Set(["createKey", "updateKey", "rerollKey", "deleteKey"]),
  );
  for (const { actorKind, actor } of done) expect([actorKind, actor]).toEqual(["owner", "auth0|me"]);
  await keyring.createKey({ apiId: (await keyring.createApi({ name: "other" })).apiId });
  expect((await keyring.listAudit({ limit: 1 })).data[0]?.actorKind).toBe("program");
});
