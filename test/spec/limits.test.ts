/**
 * Rulings C through `verify`: which limits apply, all or nothing, overrides, unknown names, a limiter that cannot
 * answer.
 */
import { describe, expect, it } from "vitest";
import { type Limiter, memoryLimiter } from "../../src/index.js";
import { failure, limit, NOON, world } from "./support.js";

const remaining = (answer: { ratelimits?: readonly { name: string; remaining: number }[] }) =>
  Object.fromEntries((answer.ratelimits ?? []).map(({ name, remaining }) => [name, remaining]));

describe("ruling C1: which limits", () => {
  it("automatic ones of key and identity, cost 1; named ones besides", async () => {
    const { create, verify, keyring } = await world();
    await keyring.createIdentity({ externalId: "u", ratelimits: [limit("shared"), limit("both", { limit: 99 })] });
    const { key } = await create({
      externalId: "u",
      ratelimits: [limit("own"), limit("both"), limit("on-demand", { autoApply: false })],
    });
    expect(remaining(await verify({ key }))).toEqual({ own: 9, both: 9, shared: 9 });
    expect(remaining(await verify({ key, ratelimits: [{ name: "on-demand", cost: 3 }] }))).toEqual({
      own: 8,
      both: 8,
      shared: 8,
      "on-demand": 7,
    });
  });

  it("without limits the property is not there", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("on-demand", { autoApply: false })] });
    expect("ratelimits" in (await verify({ key }))).toBe(false);
  });

  it("A129: the same name twice is two checks on one bucket, and both must fit", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("requests", { autoApply: false })] });
    const twice = (a: number, b: number) =>
      verify({
        key,
        ratelimits: [
          { name: "requests", cost: a },
          { name: "requests", cost: b },
        ],
      });
    expect(await twice(6, 5)).toMatchObject({ code: "RATE_LIMITED" });
    expect(await twice(1_000, 0)).toMatchObject({ code: "RATE_LIMITED" });
    expect(await twice(6, 4)).toMatchObject({ code: "VALID", ratelimits: [{ remaining: 0 }, { remaining: 0 }] });
  });

  it("keys of one identity share its bucket; two identities do not", async () => {
    const { create, verify, keyring } = await world();
    for (const externalId of ["u", "v"])
      await keyring.createIdentity({ externalId, ratelimits: [limit("shared", { limit: 2 })] });
    const keys = await Promise.all(["u", "u", "v"].map((externalId) => create({ externalId })));
    const codes = [];
    for (const { key } of [...keys, ...keys]) codes.push((await verify({ key })).code);
    expect(codes).toEqual(["VALID", "VALID", "VALID", "RATE_LIMITED", "RATE_LIMITED", "VALID"]);
  });
});

describe("rulings C2–C4: buckets", () => {
  it("full at first sight, refilled continuously, never beyond its capacity", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ ratelimits: [limit("requests", { limit: 6, duration: 60_000 })] });
    for (let left = 5; left >= 0; left--)
      expect(await verify({ key })).toMatchObject({ code: "VALID", ratelimits: [{ remaining: left }] });
    expect((await verify({ key })).ratelimits?.[0]).toMatchObject({ exceeded: true, remaining: 0, reset: 60_000 });
    time.now += 9_999;
    expect((await verify({ key })).code).toBe("RATE_LIMITED");
    time.now += 1;
    expect((await verify({ key })).code).toBe("VALID");
    expect((await verify({ key })).code).toBe("RATE_LIMITED");
    time.now += 400 * 86_400_000;
    expect((await verify({ key })).ratelimits?.[0]?.remaining).toBe(5);
    time.now = NOON;
    expect((await verify({ key })).ratelimits?.[0]?.remaining).toBe(4);
  });

  it("an override changes capacity and speed for its check and leaves used tokens in place", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("requests")] });
    for (let i = 0; i < 10; i++) await verify({ key });
    expect(await verify({ key, ratelimits: [{ name: "requests", limit: 12 }] })).toMatchObject({
      code: "VALID",
      ratelimits: [{ limit: 12, remaining: 1 }],
    });
    expect(await verify({ key, ratelimits: [{ name: "requests", limit: 5 }] })).toMatchObject({
      code: "RATE_LIMITED",
      ratelimits: [{ limit: 5, remaining: 0 }],
    });
    expect((await verify({ key })).code).toBe("RATE_LIMITED");
  });

  it("ruling C2: tokens taken through an override are gone for the limit itself, as `reset` says", async () => {
    const { create, verify, time } = await world();
    const plain = async (key: string, cost: number) =>
      (await verify({ key, ratelimits: [{ name: "requests", cost }] })).ratelimits?.[0];
    for (const over of [{ limit: 1_000 }, { duration: 1 }, { duration: 0 }]) {
      const { key } = await create({ ratelimits: [limit("requests")] });
      expect((await verify({ key, ratelimits: [{ name: "requests", cost: 10, ...over }] })).code).toBe("VALID");
      expect(await plain(key, 1)).toMatchObject({ exceeded: true, remaining: 0, reset: 60_000 });
      time.now += 600;
      expect(await plain(key, 0)).toMatchObject({ remaining: 0, reset: 59_400 });
    }
  });

  it("A133, ruling C3: all or nothing over the limits of one call", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("minute"), limit("burst", { limit: 1, autoApply: false })] });
    const refused = await verify({ key, ratelimits: [{ name: "burst", cost: 2 }] });
    expect(refused.ratelimits).toMatchObject([
      { name: "minute", exceeded: false, remaining: 10 },
      { name: "burst", exceeded: true, remaining: 1 },
    ]);
    expect(remaining(await verify({ key, ratelimits: [{ name: "burst" }] }))).toEqual({ minute: 9, burst: 0 });
  });

  it("A125, ruling C4: limit 0 refuses, duration 0 is always full, numbers stay within the schema", async () => {
    const { create, verify } = await world();
    const { key } = await create();
    const ask = async (over: object) =>
      verify({ key, ratelimits: [{ name: "adhoc", limit: 5, duration: 1_000, ...over }] });
    expect(await ask({ limit: 0 })).toMatchObject({ code: "RATE_LIMITED", ratelimits: [{ limit: 1, remaining: 0 }] });
    expect((await ask({ limit: 0, cost: 0 })).code).toBe("VALID");
    for (const duration of [0, 1, 999]) {
      const [result] = (await ask({ name: `window-${duration}`, duration, cost: 5 })).ratelimits ?? [];
      expect(result).toMatchObject({ exceeded: false, duration: 1_000, remaining: duration === 0 ? 5 : 0 });
      const again = (await ask({ name: `window-${duration}`, duration, cost: 5 })).code;
      expect(again).toBe(duration === 0 ? "VALID" : "RATE_LIMITED");
      expect(result?.reset).toBeGreaterThanOrEqual(1_000);
      expect(Number.isInteger(result?.remaining)).toBe(true);
    }
  });

  it("A127: a cost of 2^53 - 1 is refused and changes nothing", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("requests")] });
    expect((await verify({ key, ratelimits: [{ name: "requests", cost: 2 ** 53 - 1 }] })).code).toBe("RATE_LIMITED");
    expect(await verify({ key })).toMatchObject({ code: "VALID", ratelimits: [{ remaining: 9 }] });
  });

  it("A123: the longest window needs no timer", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ ratelimits: [limit("monthly", { limit: 1, duration: 2_592_000_000 })] });
    expect((await verify({ key })).ratelimits?.[0]).toMatchObject({ reset: 2_592_000_000, duration: 2_592_000_000 });
    time.now += 2_591_999_999;
    expect((await verify({ key })).code).toBe("RATE_LIMITED");
    time.now += 1;
    expect((await verify({ key })).code).toBe("VALID");
  });
});

describe("ruling C5: unknown names", () => {
  it("with limit and duration: an ad hoc limit of that key, also one with a name of 255", async () => {
    const { create, verify } = await world();
    const [one, two] = [await create(), await create()];
    const ask = (key: string, name = "adhoc") => verify({ key, ratelimits: [{ name, limit: 1, duration: 60_000 }] });
    const [first] = (await ask(one.key)).ratelimits ?? [];
    expect(first).toMatchObject({
      name: "adhoc",
      autoApply: false,
      id: expect.stringMatching(/^rl_[a-zA-Z0-9_]{5,}$/),
    });
    expect((await ask(one.key)).code).toBe("RATE_LIMITED");
    expect((await ask(two.key)).code).toBe("VALID");
    expect((await ask(one.key, "n".repeat(255))).ratelimits?.[0]?.name).toHaveLength(128);
  });

  it("ruling C6: whoever names a flood of them that never come back locks out no other key", async () => {
    const { create, verify } = await world({ limiter: memoryLimiter({ size: 100 }) });
    const flooder = await create();
    const others = await Promise.all(Array.from({ length: 50 }, () => create({ ratelimits: [limit("requests")] })));
    for (let i = 0; i < 200; i++) {
      const { code } = await verify({
        key: flooder.key,
        ratelimits: [{ name: `flood_${i}`, limit: 1, duration: Number.MAX_SAFE_INTEGER }],
      });
      expect(code).toBe(i < 50 ? "VALID" : "RATE_LIMITED");
    }
    for (const { key } of others) expect((await verify({ key })).code).toBe("VALID");
  });

  it("otherwise 400 at its place, once the key has passed the checks before, and nothing is consumed", async () => {
    const { create, verify, keyring } = await world();
    const { key, keyId } = await create({
      credits: { remaining: 5 },
      ratelimits: [limit("requests")],
      permissions: ["a"],
    });
    const bad = { key, ratelimits: [{ name: "requests" }, { name: "unknown" }] };
    const error = await failure(verify(bad));
    expect(error).toMatchObject({ status: 400, errors: [{ location: "body.ratelimits[1].name" }] });
    expect((await verify({ ...bad, permissions: "b" })).code).toBe("INSUFFICIENT_PERMISSIONS");
    expect((await verify({ ...bad, key: "unknown" })).code).toBe("NOT_FOUND");
    expect(await verify({ key, credits: { cost: 0 }, ratelimits: [{ name: "requests", cost: 0 }] })).toMatchObject({
      credits: 5,
      ratelimits: [{ remaining: 10 }],
    });
    await keyring.updateKey({ keyId, enabled: false });
    expect((await verify(bad)).code).toBe("DISABLED");
  });
});

describe("ruling C7: a limiter that cannot answer", () => {
  const broken = (late: boolean): Limiter => ({
    take() {
      if (!late) throw new Error("connection lost");
      return Promise.reject(new Error("connection lost"));
    },
    close: () => undefined,
  });

  it.each([true, false])("local: each node enforces its share and says degraded (late: %s)", async (late) => {
    const events: { degraded: boolean }[] = [];
    const { create, verify, verifier } = await world({
      limiter: broken(late),
      nodes: 5,
      onOutcome: (event) => events.push(event),
    });
    const { key } = await create({ ratelimits: [limit("requests")] });
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push((await verify({ key })).code);
    expect(codes).toEqual(["VALID", "VALID", "RATE_LIMITED"]);
    expect(verifier.counters().degraded).toBe(3);
    await verifier.close();
    expect(events.map(({ degraded }) => degraded)).toEqual([true, true, true]);
  });

  it("deny: a 500-class KeystileError, and no credit is taken", async () => {
    const { create, verify, keyring } = await world({ limiter: broken(true), onLimiterFailure: "deny" });
    const { key, keyId } = await create({ credits: { remaining: 5 }, ratelimits: [limit("requests")] });
    const error = await failure(verify({ key }));
    expect(error.code).toBe("LIMITER_UNAVAILABLE");
    expect(error.status).toBeGreaterThanOrEqual(500);
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(5);
  });

  it("allow: passes, and says degraded", async () => {
    const { create, verify, verifier } = await world({ limiter: broken(false), onLimiterFailure: "allow" });
    const { key } = await create({ ratelimits: [limit("requests", { limit: 1 })] });
    for (let i = 0; i < 3; i++) expect((await verify({ key })).code).toBe("VALID");
    expect(verifier.counters().degraded).toBe(3);
  });

  it("a limiter of the program's own that answers late serves", async () => {
    const inner = memoryLimiter();
    const limiter: Limiter = { take: async (checks, now) => inner.take(checks, now), close: () => inner.close() };
    const { create, verify, verifier } = await world({ limiter });
    const { key } = await create({ ratelimits: [limit("requests", { limit: 1 })] });
    expect([(await verify({ key })).code, (await verify({ key })).code]).toEqual(["VALID", "RATE_LIMITED"]);
    expect(verifier.counters().degraded).toBe(0);
  });
});
