/** What the tests of a program use: a clock to turn, ids that repeat and expectOutcome, on a memory store. */
import { describe, expect, it } from "vitest";
import { createKeyring, createRatelimits, createVerifier, memoryStore } from "../../src/index.js";
import { expectOutcome, testClock, testIds } from "../../src/testing/index.js";

async function stage() {
  const clock = testClock();
  const store = memoryStore();
  const keyring = createKeyring(store, { clock: clock.now });
  const verifier = createVerifier(store, { clock: clock.now });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const ratelimits = [{ name: "calls", limit: 1, duration: 60_000, autoApply: true }];
  const { key } = await keyring.createKey({ apiId, expiresIn: 120_000, ratelimits, credits: { remaining: 9 } });
  return { clock, verifier, key };
}

describe("testClock", () => {
  it("turns windows and expiry without a sleep, from the same moment in every run", async () => {
    const { clock, verifier, key } = await stage();
    expect(clock.now()).toBe(Date.UTC(2026, 0, 1));
    await expectOutcome(verifier.verify({ key }), "VALID");
    await expectOutcome(verifier.verify({ key }), "RATE_LIMITED");
    clock.advance(60_000);
    await expectOutcome(verifier.verify({ key }), { code: "VALID", credits: 7 });
    clock.advance(60_001);
    await expectOutcome(verifier.verify({ key }), "EXPIRED");
    clock.set(Date.UTC(2026, 0, 1));
    expect((await expectOutcome(verifier.verify({ key }), { valid: false })).code).toBe("RATE_LIMITED");
    clock.advance(-5);
    expect(clock.now()).toBe(Date.UTC(2026, 0, 1) - 5);
    expect(() => clock.advance(0.5)).toThrow(RangeError);
    expect(() => testClock(NaN)).toThrow(RangeError);
    clock.set("2027-02-28T12:00:00Z");
    expect([clock.now(), testClock("2027-03-01").now()]).toEqual([Date.UTC(2027, 1, 28, 12), Date.UTC(2027, 2, 1)]);
    expect(() => clock.set("tomorrow")).toThrow(RangeError);
  });
});

describe("testIds", () => {
  /** What a program makes, without the texts of keys. */
  async function run() {
    const options = { clock: testClock().now, newId: testIds() };
    const store = memoryStore();
    const keyring = createKeyring(store, options);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const roles = [(await keyring.createRole({ name: "editor", permissions: ["read", "write"] })).roleId];
    const ratelimits = [{ name: "calls", limit: 1, duration: 60_000 }];
    const body = { apiId, roles, permissions: ["read", "export"], externalId: "user_1", ratelimits };
    for (let i = 0; i < 60; i++) await keyring.createKey(body);
    const ratelimit = createRatelimits(store, options);
    const override = { namespace: "email", identifier: "user_1", limit: 5, duration: 60_000 };
    const made = [await ratelimit.setOverride(override), await ratelimit.listNamespaces()];
    const { data } = await keyring.listKeys({ apiId, limit: 100 });
    const permissions = await keyring.listPermissions();
    return { made, keys: data.map(({ start: _, ...key }) => key), permissions, apiId };
  }

  it("a program makes the same rows in every run, listed in the order in which they were made", async () => {
    const [first, second] = [await run(), await run()];
    expect(first).toEqual(second);
    expect(first.apiId).toBe("api_1111111111111111111112");
    const { keys } = first;
    expect([keys[0]?.keyId, keys[57]?.keyId]).toEqual(["key_1111111111111111111112", "key_1111111111111111111121"]);
    expect(keys[59]).toMatchObject({ identity: { id: "id_1111111111111111111112" } });
    expect(keys[59]?.ratelimits?.[0]?.id).toBe("rl_1111111111111111111123");
    expect(first.permissions.data.map(({ slug }) => slug)).toEqual(["read", "write", "export"]);
    expect(first.made).toMatchObject([
      { overrideId: "ovr_1111111111111111111112" },
      { data: [{ id: "ns_1111111111111111111112" }] },
    ]);
  });

  it("a permission and a role are found by their ids, as in production", async () => {
    const keyring = createKeyring(memoryStore(), { newId: testIds() });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { permissionId } = await keyring.createPermission({ name: "read", slug: "read" });
    const { roleId } = await keyring.createRole({ name: "editor" });
    const { keyId } = await keyring.createKey({ apiId, permissions: [permissionId], roles: [roleId] });
    expect(await keyring.getKey({ keyId })).toMatchObject({ permissions: ["read"], roles: ["editor"] });
  });

  it("ids of two functions on one store are refused, and nothing is overwritten", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store, { newId: testIds() });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { keyId } = await keyring.createKey({ apiId, name: "first" });
    const other = createKeyring(store, { newId: testIds() });
    await expect(other.createApi({ name: "others" })).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(other.createKey({ apiId })).rejects.toMatchObject({ code: "STORE_FAILED" });
    expect(await keyring.getKey({ keyId })).toMatchObject({ name: "first" });
  });
});

describe("expectOutcome", () => {
  it("rejects with the whole result, and what was expected", async () => {
    const { verifier, key } = await stage();
    const error = await expectOutcome(verifier.verify({ key }), { code: "VALID", credits: 5 }).catch((e: unknown) => e);
    expect(error).toMatchObject({
      name: "AssertionError",
      actual: { code: "VALID", credits: 8 },
      expected: { credits: 5 },
    });
    expect((error as Error).message).toContain('"credits":8');
    await expect(expectOutcome({ valid: false, code: "NOT_FOUND" }, "VALID")).rejects.toThrow(/NOT_FOUND/);
  });
});
