/** What is kept of a refused call: what decided, and neither the key's text nor more than a bound. */
import { describe, expect, it } from "vitest";
import type { Refusal } from "../../src/contracts/outcomes.js";
import { createAnalytics, createKeyring, createVerifier, memoryStore, type VerifierOptions } from "../../src/index.js";
import { createRefusalLog } from "../../src/verify/refusals.js";

const NOON = Date.UTC(2026, 10, 10, 12);

async function world(options: VerifierOptions = {}) {
  const store = memoryStore();
  const keyring = createKeyring(store, { clock: () => NOON });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const open = () => createVerifier(store, { clock: () => NOON, analytics: true, ...options });
  const lastOf = async (keyId: string) => store.readRefusals!({ workspaceId: "ws_default", keyId });
  const verifier = open();
  return { store, keyring, apiId, verifier, lastOf };
}

describe("refusals", () => {
  it("name the query, the limit, the address or the state that decided, with cost and what was left", async () => {
    const { keyring, apiId, verifier, lastOf, store } = await world();
    const limit = { name: "requests", limit: 1, duration: 60_000, autoApply: true };
    const { key, keyId } = await keyring.createKey({
      ...{ apiId, externalId: "acme", credits: { remaining: 4 }, ratelimits: [limit] },
      ipAllowlist: ["10.0.0.1"],
    });
    const at = { clientAddress: "10.0.0.1" };
    await verifier.verify({ key, tags: ["path=/a"] }, { clientAddress: "10.9.9.9" });
    await verifier.verify({ key });
    await verifier.verify({ key, permissions: "a.read AND b.write" }, at);
    await verifier.verify({ key, credits: { cost: 9 } }, at);
    await verifier.verify({ key, credits: { cost: 2 } }, at);
    await keyring.updateIdentity({ identity: "acme", enabled: false });
    await verifier.verify({ key }, at);
    await keyring.updateIdentity({ identity: "acme", enabled: true, expires: NOON - 1 });
    await verifier.verify({ key }, at);
    await keyring.updateKey({ keyId, expires: NOON - 2 });
    await verifier.verify({ key }, at);
    await keyring.updateApi({ apiId, enabled: false });
    await keyring.updateIdentity({ identity: "acme", expires: null });
    await keyring.updateKey({ keyId, expires: null });
    await verifier.verify({ key }, at);
    await keyring.updateKey({ keyId, enabled: false });
    await verifier.verify({ key }, at);
    await verifier.close();
    const call = { time: NOON, cost: 1, remaining: 4 };
    expect([...(await lastOf(keyId))].reverse()).toEqual<Refusal[]>([
      { ...call, code: "FORBIDDEN", address: "10.9.9.9", tags: ["path=/a"] },
      { ...call, code: "FORBIDDEN", address: "" },
      { ...call, code: "INSUFFICIENT_PERMISSIONS", permissions: "a.read AND b.write" },
      { ...call, code: "USAGE_EXCEEDED", cost: 9 },
      {
        ...{ ...call, code: "RATE_LIMITED", cost: 2 },
        ratelimit: { name: "requests", limit: 1, duration: 60_000, remaining: 0, reset: 60_000 },
      },
      { ...call, code: "FORBIDDEN", decidedBy: "identity" },
      { ...call, code: "EXPIRED", decidedBy: "identity" },
      { ...call, code: "EXPIRED" },
      { ...call, code: "FORBIDDEN", decidedBy: "api" },
      { ...call, code: "DISABLED" },
    ]);
    await store.close();
  });

  it("hold no text of the key, and no more text than a bound", async () => {
    const { keyring, apiId, verifier, lastOf } = await world();
    const { key, keyId } = await keyring.createKey({ apiId, ipAllowlist: ["10.0.0.1"] });
    await verifier.verify({ key, tags: [`key=${key}`] }, { clientAddress: `${key} ${"x".repeat(500)}` });
    await keyring.updateKey({ keyId, ipAllowlist: null });
    const query = Array.from({ length: 40 }, (_, i) => `documents.read${i}`).join(" OR ");
    await verifier.verify({ key, tags: ["a".repeat(128), "b".repeat(128), "c"], permissions: query });
    await verifier.close();
    const [permissions, address] = await lastOf(keyId);
    expect(address).toMatchObject({ tags: ["key=[key]"], address: `[key] ${"x".repeat(57)}…` });
    expect(permissions).toMatchObject({ permissions: `${query.slice(0, 255)}…` });
    expect(permissions).not.toHaveProperty("tags");
  });

  it("of credits say whose decided, and a spend by id is one of them", async () => {
    const { keyring, apiId, verifier, lastOf } = await world();
    await keyring.createIdentity({ externalId: "acme", credits: { remaining: 5 } });
    const drawing = await keyring.createKey({ apiId, externalId: "acme" });
    const capped = await keyring.createKey({ apiId, externalId: "acme", credits: { remaining: 9 } });
    await verifier.verify({ key: drawing.key, credits: { cost: 6 } });
    await verifier.spend({ keyId: drawing.keyId }, { cost: 7 });
    await verifier.verify({ key: capped.key, credits: { cost: 6 } });
    await verifier.spend({ keyId: capped.keyId }, { cost: 8, tags: ["job=1"] });
    await verifier.spend({ identity: "acme" }, { cost: 8 });
    await keyring.updateCredits({ keyId: capped.keyId, operation: "set", value: 1 });
    await verifier.verify({ key: capped.key, credits: { cost: 2 } });
    await verifier.spend({ keyId: capped.keyId }, { cost: 3 });
    await verifier.close();
    const code = "USAGE_EXCEEDED";
    const byId = { time: NOON, code, kind: "spend" } as const;
    expect(await lastOf(capped.keyId)).toEqual<Refusal[]>([
      { ...byId, cost: 3, remaining: 1 },
      { time: NOON, code, cost: 2, remaining: 1 },
      { ...byId, cost: 8, remaining: 5, decidedBy: "identity", tags: ["job=1"] },
      { time: NOON, code, cost: 6, remaining: 5, decidedBy: "identity" },
    ]);
    expect(await lastOf(drawing.keyId)).toEqual<Refusal[]>([
      { ...byId, cost: 7, remaining: 5, decidedBy: "identity" },
      { time: NOON, code, cost: 6, remaining: 5, decidedBy: "identity" },
    ]);
  });

  it.each<[string, VerifierOptions["analytics"], number]>([
    ["are not kept where the option says so", { refusals: false }, 0],
    ["have no tags where these are not counted", { tags: false }, 1],
  ])("%s", async (_, analytics, length) => {
    const { keyring, apiId, verifier, lastOf } = await world({ analytics });
    const { key, keyId } = await keyring.createKey({ apiId, enabled: false });
    await verifier.verify({ key, tags: ["plan=pro"] });
    await verifier.close();
    const all = await lastOf(keyId);
    expect(all).toHaveLength(length);
    for (const one of all) expect(one).toEqual({ time: NOON, code: "DISABLED", cost: 1 });
  });

  it("of a store without the power are counted alone", async () => {
    const inner = memoryStore();
    const { readRefusals: _, ...rest } = inner;
    const store = { ...rest, powers: { ...inner.powers, refusals: false } };
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId, enabled: false });
    const verifier = createVerifier(store, { analytics: true });
    await verifier.verify({ key });
    await verifier.close();
    const { hours, last } = await createAnalytics(store).refusals({ keyId });
    expect([hours.map(({ code, count }) => [code, count]), last]).toEqual([[["DISABLED", 1]], []]);
  });
});

describe("analytics.refusals", () => {
  it("a name that a range has not is a mistake, and hours that are given beside the key count", async () => {
    const { keyring, apiId, verifier, store } = await world({ analytics: true });
    const { key, keyId } = await keyring.createKey({ apiId, enabled: false });
    await verifier.verify({ key });
    await verifier.close();
    const analytics = createAnalytics(store, { clock: () => NOON });
    const early = { from: NOON - 7_200_000, to: NOON - 3_600_000 };
    expect((await analytics.refusals({ keyId })).hours).toHaveLength(1);
    expect((await analytics.refusals({ keyId }, early)).hours).toEqual([]);
    expect((await analytics.refusals({ keyId, ...early })).hours).toEqual([]);
    for (const range of [{ form: early.from }, { ...early, apiId }, { month: "2026-11" }])
      await expect(analytics.refusals({ keyId }, range as never)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });
});

describe("createRefusalLog", () => {
  const refusal = (time: number): Refusal => ({ time, code: "DISABLED", cost: 1 });

  it("holds the last ten of a key, newest first, and gives them once", () => {
    const log = createRefusalLog();
    for (let time = 0; time < 25; time++) log.note({ keyId: "key_1", workspaceId: "ws" }, refusal(time));
    const take = (keyId: string, workspaceId = "ws") => log.take({ keyId, workspaceId });
    expect(take("key_1", "ws_2"), "the key's id was used again").toBeUndefined();
    expect(take("key_1")?.map(({ time }) => time)).toEqual([24, 23, 22, 21, 20, 19, 18, 17, 16, 15]);
    expect([take("key_1"), take("key_2")]).toEqual([undefined, undefined]);
  });

  it("holds so many keys: whoever has most makes space for who is below an equal part, and nobody else", () => {
    const log = createRefusalLog(6);
    const note = (workspaceId: string, n: number) => log.note({ keyId: `${workspaceId}${n}`, workspaceId }, refusal(n));
    for (let n = 0; n < 9; n++) note("a", n);
    for (let n = 0; n < 9; n++) note("b", n);
    for (let n = 0; n < 2; n++) note("c", n);
    for (let n = 9; n < 99; n++) note("a", n);
    const held = ["a", "b", "c"].map((ws) =>
      Array.from({ length: 99 }, (_, n) => n).filter((n) => log.take({ keyId: `${ws}${n}`, workspaceId: ws })),
    );
    expect(held).toEqual([
      [4, 5],
      [1, 2],
      [0, 1],
    ]);
  });
});
