import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../src/contracts/errors.js";
import type { KeyRecord } from "../../src/contracts/store.js";
import type { RatelimitResponse } from "../../src/contracts/types.js";
import { applyLimits, sharedLimits, toApplied } from "../../src/ratelimit/applied-limits.js";
import { clampIdentity, toRatelimitData, toRatelimitResponse } from "../../src/ratelimit/take-limits.js";
import { plainRecord } from "../records.js";

const limit = (name: string, over: Partial<RatelimitResponse> = {}): RatelimitResponse => ({
  id: `rl_${name}`,
  name,
  limit: 10,
  duration: 1_000,
  autoApply: true,
  ...over,
});
const record = (own: RatelimitResponse[], shared: RatelimitResponse[] = []): KeyRecord =>
  plainRecord({ identity: { id: "id_1", externalId: "user", ratelimits: shared }, ratelimits: own });
const ask = (name: string, over: { cost?: number; limit?: number; duration?: number } = {}) => ({
  name,
  cost: 1,
  limit: undefined,
  duration: undefined,
  ...over,
});
const apply = (key: KeyRecord, asked: ReturnType<typeof ask>[]) => {
  const { keyId, workspaceId, ratelimits } = key;
  const own = ratelimits.map((one) =>
    toApplied({ bucketOwner: keyId, workspaceId, shard: "id_1" }, one, { id: one.id }),
  );
  const limits = [...own, ...(sharedLimits(key) ?? [])];
  return applyLimits({ keyId, bucketOwner: keyId, workspaceId, shard: "id_1", limits }, asked);
};

describe("applyLimits", () => {
  it("ruling C1: automatic limits of key and identity apply at cost 1, others when named", () => {
    const key = record([limit("auto"), limit("named", { autoApply: false })], [limit("shared")]);
    expect(apply(key, []).map(({ name, bucket, cost }) => [name, bucket, cost])).toEqual([
      ["auto", "key_1 auto", 1],
      ["shared", "id_1 shared", 1],
    ]);
    expect(apply(key, [ask("named", { cost: 3 })]).map(({ name, cost }) => [name, cost])).toEqual([
      ["auto", 1],
      ["shared", 1],
      ["named", 3],
    ]);
  });

  it("all buckets of a call are of one shard: own, shared, overridden and ad hoc ones", () => {
    const key = record([limit("own")], [limit("shared")]);
    const asked = [ask("own", { limit: 3 }), ask("ad hoc", { limit: 1, duration: 1_000 })];
    expect(apply(key, asked).map(({ name, shard }) => [name, shard])).toEqual([
      ["shared", "id_1"],
      ["own", "id_1"],
      ["ad hoc", "id_1"],
    ]);
  });

  it("ruling C1, A131: one limit per name, key over identity", () => {
    const key = record([limit("requests", { limit: 1, id: "rl_key00000" })], [limit("requests", { limit: 99 })]);
    expect(apply(key, [])).toMatchObject([{ id: "rl_key00000", limit: 1, bucket: "key_1 requests" }]);
  });

  it("ruling C1: a request entry takes the place of the automatic one, twice if named twice", () => {
    const key = record([limit("auto")]);
    const applied = apply(key, [ask("auto", { cost: 5, limit: 50 }), ask("auto", { duration: 9 })]);
    expect(applied.map(({ bucket, cost, limit, duration }) => ({ bucket, cost, limit, duration }))).toEqual([
      { bucket: "key_1 auto", cost: 5, limit: 50, duration: 1_000 },
      { bucket: "key_1 auto", cost: 1, limit: 10, duration: 9 },
    ]);
  });

  it("ruling C5: an unknown name with limit and duration is an ad hoc limit of the key, its id stable", () => {
    const key = record([]);
    const asked = [ask("adhoc", { limit: 5, duration: 60_000 })];
    const [first] = apply(key, asked);
    expect(first).toMatchObject({ name: "adhoc", autoApply: false, bucket: "key_1 adhoc", limit: 5, duration: 60_000 });
    expect(first?.id).toMatch(/^rl_[a-zA-Z0-9_]{5,}$/);
    expect(apply(key, asked)[0]?.id).toBe(first?.id);
    expect(apply({ ...key, keyId: "key_2" }, asked)[0]?.id).not.toBe(first?.id);
    const long = "😀".repeat(200);
    expect([...apply(key, [ask(long, { limit: 1, duration: 1 })])[0]!.name]).toHaveLength(128);
  });

  it("ruling C5: an unknown name otherwise is a 400 at its place, and no name that exists is told", () => {
    const key = record([limit("secret_plan")]);
    const wrong = [ask("secret_plan"), ask("nope"), ask("half", { limit: 5 }), ask("half2", { duration: 5 })];
    const caught = (() => {
      try {
        return apply(key, wrong);
      } catch (error) {
        return error;
      }
    })();
    if (!isKeystileError(caught)) throw new Error("expected a KeystileError");
    expect(caught.status).toBe(400);
    expect(caught.errors.map(({ location }) => location)).toEqual([1, 2, 3].map((i) => `body.ratelimits[${i}].name`));
    expect(JSON.stringify(caught.errors) + caught.message).not.toContain("secret_plan");
    expect(caught.errors[0]).toMatchObject({
      message: "names no rate limit of this key",
      fix: "name an existing limit, or give both limit and duration",
    });
  });

  it("a call that asks for nothing gets the automatic limits themselves, not a copy", () => {
    const limits = [
      toApplied({ bucketOwner: "key_1", workspaceId: "ws", shard: "key_1" }, limit("auto"), { id: "rl_auto" }),
    ];
    const key = { keyId: "key_1", bucketOwner: "key_1", workspaceId: "ws", shard: "key_1", limits };
    expect(applyLimits(key, [])).toBe(limits);
  });

  it("ruling C2: a check tells what is configured, whatever its request overrides; an ad hoc limit has nothing configured", () => {
    const key = record([limit("own")]);
    const own = { limit: 10, duration: 1_000 };
    const asked = [ask("own"), ask("own", own), ask("own", { limit: 11 }), ask("own", { duration: 999 })];
    expect(apply(key, asked).map(({ configured }) => configured)).toEqual(
      asked.map(() => expect.objectContaining(own)),
    );
    expect(apply(key, [ask("ad hoc", own)]).at(-1)).toMatchObject({ configured: undefined });
  });
});

describe("sharedLimits", () => {
  it("a key without an identity, or whose identity has no limits of its own property, shares none", () => {
    const { identity: _, ...alone } = record([limit("own")]);
    const inheriting = Object.assign(Object.create({ ratelimits: [limit("inherited")] }) as object, {
      id: "id_1",
      externalId: "user",
    });
    for (const key of [
      alone,
      { ...alone, identity: { id: "id_1", externalId: "user" } },
      { ...alone, identity: inheriting },
      record([limit("own")]),
      record([limit("own")], [limit("own")]),
    ])
      expect(sharedLimits(key)).toBeUndefined();
  });
});

describe("toRatelimitData", () => {
  it("ruling C4: numbers in results are brought into the schema's bounds", () => {
    const shown = (check: object, verdict: object) =>
      toRatelimitData({ name: "n", autoApply: false, limit: 5, duration: 5_000, ...check }, "rl_00000001", {
        exceeded: false,
        remaining: 4,
        reset: 2_000,
        ...verdict,
      });
    expect(shown({}, {})).toEqual({
      exceeded: false,
      id: "rl_00000001",
      name: "n",
      limit: 5,
      duration: 5_000,
      reset: 2_000,
      remaining: 4,
      autoApply: false,
    });
    expect(shown({ limit: 0, duration: 0 }, { remaining: 0, reset: 0 })).toMatchObject({
      limit: 1,
      duration: 1_000,
      reset: 1_000,
      remaining: 0,
    });
    expect(
      shown({ limit: 2 ** 53 - 1, duration: 2 ** 53 - 1 }, { remaining: 2 ** 53 - 1, reset: 2 ** 53 - 1 }),
    ).toMatchObject({
      limit: 1_000_000,
      duration: 2_592_000_000,
      reset: 2_592_000_000,
      remaining: 1_000_000,
    });
    expect(toRatelimitResponse(limit("n", { limit: 10 ** 9, duration: 10 ** 12 }))).toMatchObject({
      limit: 1_000_000,
      duration: 2_592_000_000,
    });
  });
});

describe("clampIdentity", () => {
  it("ruling C4: shows the limits in the schema's bounds, and of the identity what the schema names", () => {
    const ratelimits = [
      limit("large", { limit: 10 ** 9, duration: 10 ** 12 }),
      limit("small", { limit: 0, duration: 0 }),
    ];
    const shown = [limit("large", { limit: 1_000_000, duration: 2_592_000_000 }), limit("small", { limit: 1 })];
    const stored = { id: "id_1", externalId: "user", ratelimits, other: 1 };
    expect(clampIdentity(stored)).toStrictEqual({ id: "id_1", externalId: "user", ratelimits: shown });
    expect(clampIdentity({ ...stored, meta: { plan: "pro" } })).toStrictEqual({
      id: "id_1",
      externalId: "user",
      meta: { plan: "pro" },
      ratelimits: shown,
    });
  });

  it("an identity without limits is shown as it is, and properties that it inherits are not", () => {
    const plain = { id: "id_1", externalId: "user", meta: { plan: "pro" } };
    expect(clampIdentity(plain)).toBe(plain);
    const inherited = { meta: { plan: "inherited" }, ratelimits: [limit("inherited")] };
    const bare = Object.assign(Object.create(inherited) as typeof inherited, { id: "id_1", externalId: "user" });
    expect(clampIdentity(bare)).toBe(bare);
    expect(clampIdentity(Object.assign(bare, { ratelimits: [limit("own")] }))).toStrictEqual({
      id: "id_1",
      externalId: "user",
      ratelimits: [limit("own")],
    });
  });
});
