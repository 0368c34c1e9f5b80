import { describe, expect, it } from "vitest";
import { failure, fault, limit, NOON, world } from "../support.js";

const FULL = {
  name: "one",
  externalId: "user_1",
  meta: { plan: "pro" },
  roles: ["reader"],
  permissions: ["a", "b"],
  expires: Date.UTC(2027, 0, 1),
  credits: { remaining: 10, refill: { interval: "daily", amount: 5 } },
  ratelimits: [limit("requests"), limit("tokens")],
  ipAllowlist: ["10.0.0.0/8"],
} as const;

async function full() {
  const one = await world();
  await one.keyring.createRole({ name: "reader" });
  await one.keyring.createRole({ name: "writer" });
  const { keyId } = await one.create(FULL);
  const get = () => one.keyring.getKey({ keyId });
  return { ...one, keyId, get, before: await get() };
}

describe("updateKey: an absent field keeps, null clears, a list replaces", () => {
  it("an update of nothing changes nothing, updatedAt included", async () => {
    const { keyring, keyId, get, before, time } = await full();
    time.now += 5;
    expect(await keyring.updateKey({ keyId })).toEqual({});
    expect(await get()).toEqual(before);
  });

  it("each field by itself", async () => {
    const { keyring, keyId, get } = await full();
    let expected: object = { ...(await get()), updatedAt: expect.any(Number) };
    const step = async (change: object, shown: object) => {
      await keyring.updateKey({ keyId, ...change });
      expected = { ...expected, ...shown };
      expect(await get()).toEqual(expected);
    };
    await step({ name: "two" }, { name: "two" });
    await step({ meta: { plan: "free" } }, { meta: { plan: "free" } });
    expect((await failure(keyring.updateKey({ keyId, expires: 1_700_000_000 }))).errors).toEqual([
      {
        location: "body.expires",
        message: "must be in milliseconds, not seconds",
        fix: "did you mean 1700000000000?",
      },
    ]);
    await step({ expires: NOON - 5 }, { expires: NOON - 5, state: "expired" });
    await step({ enabled: false }, { enabled: false, state: "disabled" });
    await step({ permissions: ["c", "a", "c"] }, { permissions: ["a", "c"] });
    await step({ roles: ["writer"] }, { roles: ["writer"] });
    await step({ ipAllowlist: ["::1"] }, { ipAllowlist: ["::1"] });
    await step({ externalId: "user_2" }, { identity: { id: expect.any(String), externalId: "user_2" } });
    await step({ externalId: "user_1" }, { identity: { id: expect.any(String), externalId: "user_1" } });
  });

  it("null clears each field that may be absent, and empty lists empty", async () => {
    const { keyring, keyId, get } = await full();
    await keyring.updateKey({
      keyId,
      name: null,
      externalId: null,
      meta: null,
      expires: null,
      credits: null,
      ratelimits: [],
      roles: [],
      permissions: [],
      ipAllowlist: null,
    });
    const shown = ["apiId", "createdAt", "creditsFrom", "enabled", "keyId", "start", "state", "updatedAt"];
    expect(Object.keys(await get()).sort()).toEqual(shown);
  });

  it("a rate limit keeps its id while its name stays", async () => {
    const { keyring, keyId, get, before } = await full();
    await keyring.updateKey({ keyId, ratelimits: [limit("tokens", { limit: 99, autoApply: true }), limit("new")] });
    const { ratelimits = [] } = await get();
    expect(ratelimits[0]).toEqual({ ...before.ratelimits![1], limit: 99, autoApply: true });
    expect(ratelimits[1]!.name).toBe("new");
    expect(before.ratelimits!.map(({ id }) => id)).not.toContain(ratelimits[1]!.id);
  });

  it("a find sees every change at once", async () => {
    const { keyring, store, keyId } = await full();
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    await keyring.updateKey({ keyId, enabled: false, permissions: ["z"], credits: null });
    expect(await store.findKey(digest!)).toMatchObject({ enabled: false, permissions: ["z"], hasCredits: false });
  });

  it("an unknown role is 404 and changes nothing; so is an unknown key, for which nothing is made", async () => {
    const { keyring, keyId, get, before } = await full();
    expect((await failure(keyring.updateKey({ keyId, name: "no", roles: ["nobody"] }))).message).toMatch(
      /body\.roles\[0\]/,
    );
    expect(await get()).toEqual(before);
    expect(
      await fault(keyring.updateKey({ keyId: "key_unknown", permissions: ["new.one"], externalId: "new.one" })),
    ).toBe("NOT_FOUND 404");
    expect((await keyring.listPermissions({ search: "new.one" })).data).toEqual([]);
    expect((await keyring.listIdentities({ search: "new.one" })).data).toEqual([]);
  });
});

describe("updateKey: a balance that vanished", () => {
  it("is set anew where the wish sets one", async () => {
    const { store, create } = await world();
    const { keyId } = await create({ credits: { remaining: 3 } });
    const { keyring } = await world({ store: { ...store, readBalances: (queries) => queries.map(() => undefined) } });
    await keyring.updateKey({ keyId, credits: { remaining: 5, refill: { interval: "daily", amount: 1 } } });
    expect((await store.readBalances([{ keyId, period: 0 }], 0))[0]?.remaining).toBe(5);
  });
});

describe("deleteKey: hidden or removed", () => {
  it("a hidden key is not found by its text nor by its id; it can still be removed, once", async () => {
    const { keyring, store, keyId } = await full();
    const { digest } = (await store.readMany("keys", [keyId]))[0]!;
    expect(await keyring.deleteKey({ keyId })).toEqual({});
    expect(await store.findKey(digest!)).toBeUndefined();
    for (const again of [keyring.deleteKey({ keyId, permanent: false }), keyring.updateKey({ keyId, enabled: true })]) {
      expect(await fault(again)).toBe("NOT_FOUND 404");
    }
    expect(await keyring.deleteKey({ keyId, permanent: true })).toEqual({});
    expect((await store.readMany("keys", [keyId]))[0]).toBeUndefined();
    expect(await fault(keyring.deleteKey({ keyId, permanent: true }))).toBe("NOT_FOUND 404");
  });

  it("permanent removes the row and its balance", async () => {
    const { keyring, store, keyId } = await full();
    await keyring.deleteKey({ keyId, permanent: true });
    expect((await store.readMany("keys", [keyId]))[0]).toBeUndefined();
    expect((await store.readBalances([{ keyId, period: 0 }], 0))[0]).toBeUndefined();
  });
});
