/** Contract 2.2, 3, 4.1 and rulings A: the order of checks, what each outcome consumes, which fields it shows. */
import { describe, expect, it } from "vitest";
import { createVerifier, type V2KeysVerifyKeyResponseData } from "../../src/index.js";
import { failure, limit, NOON, world } from "./support.js";

describe("the eight codes", () => {
  it("contract 2.2: VALID", async () => {
    const { create, verify } = await world();
    const { key, keyId } = await create();
    expect(await verify({ key })).toEqual({ valid: true, code: "VALID", keyId, enabled: true });
  });

  it("contract 2.2: NOT_FOUND has nothing but valid and code (ruling A5)", async () => {
    const { verify } = await world();
    expect(await verify({ key: "nope" })).toStrictEqual({ valid: false, code: "NOT_FOUND" });
  });

  it("contract 3: DISABLED", async () => {
    const { create, verify } = await world();
    const { key, keyId } = await create({ enabled: false });
    expect(await verify({ key })).toStrictEqual({ valid: false, code: "DISABLED", keyId, enabled: false });
  });

  it("contract 3, ruling A3: EXPIRED, strictly after `expires`", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ expires: NOON + 1_000 });
    time.now = NOON + 1_000;
    expect((await verify({ key })).code).toBe("VALID");
    time.now = NOON + 1_001;
    expect(await verify({ key })).toMatchObject({ valid: false, code: "EXPIRED", expires: NOON + 1_000 });
  });

  it("ruling A4: FORBIDDEN for a disabled API or workspace", async () => {
    const { create, verify, keyring, apiId } = await world();
    const { key } = await create({ permissions: ["b", "a"] });
    await keyring.updateApi({ apiId, enabled: false });
    expect(await verify({ key, permissions: "a" })).toMatchObject({ code: "FORBIDDEN", permissions: ["a", "b"] });
    expect("roles" in (await verify({ key, permissions: "a" }))).toBe(false);
    await keyring.updateApi({ apiId, enabled: true });
    expect((await verify({ key })).code).toBe("VALID");
    await keyring.updateWorkspace({ enabled: false });
    expect((await verify({ key })).code).toBe("FORBIDDEN");
    await keyring.updateWorkspace({ enabled: true });
    expect((await verify({ key })).code).toBe("VALID");
  });

  it("ruling A4: FORBIDDEN for an address outside the allow-list of key or API", async () => {
    const { create, verify, keyring, apiId } = await world();
    const { key } = await create({ ipAllowlist: ["10.0.0.0/8", "2001:db8::/32"] });
    const from = async (clientAddress?: string) =>
      (await verify({ key }, clientAddress === undefined ? {} : { clientAddress })).code;
    expect(await from("10.1.2.3")).toBe("VALID");
    expect(await from("::ffff:10.1.2.3")).toBe("VALID");
    expect(await from("2001:db8::1")).toBe("VALID");
    for (const outside of ["11.0.0.1", "2001:db9::1", "nonsense", "", undefined])
      expect(await from(outside), String(outside)).toBe("FORBIDDEN");
    await keyring.updateApi({ apiId, ipAllowlist: ["10.1.0.0/16"] });
    expect(await from("10.1.2.3")).toBe("VALID");
    expect(await from("10.2.2.3")).toBe("FORBIDDEN");
  });

  it("contract 2.2: INSUFFICIENT_PERMISSIONS, with what the key has", async () => {
    const { create, verify } = await world();
    const { key } = await create({ permissions: ["b.read", "a.read"] });
    expect(await verify({ key, permissions: "a.read AND c.read" })).toMatchObject({
      valid: false,
      code: "INSUFFICIENT_PERMISSIONS",
      permissions: ["a.read", "b.read"],
      roles: [],
    });
  });

  it("contract 3: RATE_LIMITED", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("requests", { limit: 1 })] });
    expect((await verify({ key })).code).toBe("VALID");
    expect(await verify({ key })).toMatchObject({
      valid: false,
      code: "RATE_LIMITED",
      ratelimits: [{ exceeded: true, remaining: 0 }],
    });
  });

  it("contract 3: USAGE_EXCEEDED", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: 1 } });
    expect(await verify({ key })).toMatchObject({ code: "VALID", credits: 0 });
    expect(await verify({ key })).toMatchObject({ valid: false, code: "USAGE_EXCEEDED", credits: 0 });
  });
});

describe("ruling A1: order", () => {
  it("A195: of many faults the first in order is the only one reported, and nothing is consumed", async () => {
    const { create, verify, keyring, apiId, time } = await world();
    const { key, keyId } = await create({
      enabled: false,
      expires: NOON + 1,
      ipAllowlist: ["10.0.0.1"],
      permissions: ["a"],
      credits: { remaining: 1 },
      ratelimits: [limit("requests", { limit: 1 })],
    });
    time.now = NOON + 1_000;
    await keyring.updateApi({ apiId, enabled: false });
    const ask = (cost = 2) =>
      verify({ key, permissions: "b", credits: { cost }, ratelimits: [{ name: "requests", cost: 2 }] });
    const codes: string[] = [];
    const next = async () => {
      const { code, credits } = await ask();
      codes.push(code);
      expect(credits).toBe(1);
    };
    await next();
    await keyring.updateKey({ keyId, enabled: true });
    await next();
    await keyring.updateKey({ keyId, expires: null });
    await next();
    await keyring.updateApi({ apiId, enabled: true });
    await next();
    await keyring.updateKey({ keyId, ipAllowlist: [] });
    await next();
    await keyring.addPermissions({ keyId, permissions: ["b"] });
    await next();
    const last = await verify({ key, permissions: "b", credits: { cost: 2 } });
    codes.push(last.code);
    expect(last).toMatchObject({ credits: 1, ratelimits: [{ name: "requests", remaining: 0, exceeded: false }] });
    expect(codes).toEqual([
      "DISABLED",
      "EXPIRED",
      "FORBIDDEN",
      "FORBIDDEN",
      "INSUFFICIENT_PERMISSIONS",
      "RATE_LIMITED",
      "USAGE_EXCEEDED",
    ]);
    await keyring.updateKey({ keyId, ratelimits: [] });
    expect((await verify({ key, permissions: "b", credits: { cost: 1 } })).code).toBe("VALID");
  });

  it("A001, ruling A1: a bad body is a 400 before any store call", async () => {
    const { verify, calls } = await world();
    for (const name of Object.keys(calls)) delete calls[name];
    const error = await failure(verify({ key: 1, credits: { cost: -1 } } as never));
    expect(error).toMatchObject({ code: "BAD_REQUEST", status: 400 });
    expect(error.errors.map(({ location }) => location)).toEqual(["body.key", "body.credits.cost"]);
    expect(calls).toEqual({});
  });

  it("contract 4.1-5, A049: a malformed query is a 400 at body.permissions whether the key exists or not", async () => {
    const { verify, create, calls } = await world();
    const { key } = await create();
    for (const name of Object.keys(calls)) delete calls[name];
    const [known, unknown] = [
      await failure(verify({ key, permissions: "a AND" })),
      await failure(verify({ key: "x", permissions: "a AND" })),
    ];
    expect(known).toMatchObject({
      code: "PERMISSIONS_QUERY_SYNTAX",
      status: 400,
      errors: [{ location: "body.permissions" }],
    });
    expect({ ...known }).toEqual({ ...unknown });
    expect(calls).toEqual({});
  });

  it("contract 4.1-1, 4.1-2: outcomes are answers, never errors; valid exactly with VALID", async () => {
    const { create, verify } = await world();
    const { key } = await create({ enabled: false });
    for (const answer of [await verify({ key }), await verify({ key: "x" })])
      expect(answer.valid).toBe(answer.code === "VALID");
  });
});

describe("ruling A2: consumption", () => {
  it("contract 3-1: RATE_LIMITED takes neither tokens nor credits", async () => {
    const { create, verify } = await world();
    const { key } = await create({
      credits: { remaining: 5 },
      ratelimits: [limit("minute", { limit: 5 }), limit("burst", { limit: 1 })],
    });
    expect(await verify({ key, ratelimits: [{ name: "burst", cost: 2 }] })).toMatchObject({
      code: "RATE_LIMITED",
      credits: 5,
    });
    const after = await verify({
      key,
      credits: { cost: 0 },
      ratelimits: [
        { name: "minute", cost: 0 },
        { name: "burst", cost: 0 },
      ],
    });
    expect(after.ratelimits?.map(({ remaining }) => remaining)).toEqual([5, 1]);
  });

  it("A135: USAGE_EXCEEDED keeps the tokens it took and takes no credit", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: 5 }, ratelimits: [limit("minute", { limit: 3 })] });
    expect(await verify({ key, credits: { cost: 6 } })).toMatchObject({
      code: "USAGE_EXCEEDED",
      credits: 5,
      ratelimits: [{ remaining: 2 }],
    });
    expect((await verify({ key, credits: { cost: 6 } })).ratelimits?.[0]?.remaining).toBe(1);
  });

  it.each(["DISABLED", "EXPIRED", "FORBIDDEN", "INSUFFICIENT_PERMISSIONS"])("%s consumes nothing", async (code) => {
    const { create, verify, keyring, time } = await world();
    const { key, keyId } = await create({ credits: { remaining: 3 }, ratelimits: [limit("minute", { limit: 3 })] });
    const patch = {
      DISABLED: { enabled: false },
      EXPIRED: { expires: NOON - 1 },
      FORBIDDEN: { ipAllowlist: ["10.0.0.1"] },
      INSUFFICIENT_PERMISSIONS: {},
    }[code];
    await keyring.updateKey({ keyId, ...patch });
    expect(await verify({ key, permissions: "x" })).toMatchObject({ code, credits: 3 });
    await keyring.updateKey({ keyId, enabled: true, expires: null, ipAllowlist: [] });
    time.now += 1;
    expect(await verify({ key, credits: { cost: 0 }, ratelimits: [{ name: "minute", cost: 0 }] })).toMatchObject({
      credits: 3,
      ratelimits: [{ remaining: 3 }],
    });
  });
});

describe("ruling A5, A6: fields", () => {
  it("a key with everything shows everything it has", async () => {
    const { create, verify, keyring } = await world();
    await keyring.createRole({ name: "editor", permissions: ["documents.write"] });
    await keyring.createIdentity({
      externalId: "user_1",
      meta: { plan: "pro" },
      ratelimits: [limit("shared", { autoApply: false })],
    });
    const { key, keyId } = await create({
      name: "prod",
      meta: { team: "x" },
      expires: NOON + 10,
      credits: { remaining: 7 },
      permissions: ["documents.read"],
      roles: ["editor"],
      externalId: "user_1",
      ratelimits: [limit("requests")],
    });
    const answer = await verify({ key, permissions: "documents.read AND documents.write" });
    expect(answer).toStrictEqual({
      valid: true,
      code: "VALID",
      keyId,
      enabled: true,
      name: "prod",
      meta: { team: "x" },
      expires: NOON + 10,
      credits: 6,
      permissions: ["documents.read", "documents.write"],
      roles: ["editor"],
      identity: {
        id: expect.any(String),
        externalId: "user_1",
        meta: { plan: "pro" },
        ratelimits: [
          { id: expect.stringMatching(/^rl_\w{5,}$/), name: "shared", limit: 10, duration: 60_000, autoApply: false },
        ],
      },
      ratelimits: [
        {
          exceeded: false,
          id: expect.stringMatching(/^rl_\w{5,}$/),
          name: "requests",
          limit: 10,
          duration: 60_000,
          reset: 6_000,
          remaining: 9,
          autoApply: true,
        },
      ],
    } satisfies V2KeysVerifyKeyResponseData);
  });

  it("permissions and roles appear only when the query was evaluated, empty ones included", async () => {
    const { create, verify } = await world();
    const { key } = await create();
    expect(Object.keys(await verify({ key })).sort()).toEqual(["code", "enabled", "keyId", "valid"]);
    expect(await verify({ key, permissions: "a" })).toMatchObject({ permissions: [], roles: [] });
  });

  it("A149: an unlimited key omits credits, whatever cost was sent", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: null } });
    const answer = await verify({ key, credits: { cost: 10 ** 12 } });
    expect(answer.code).toBe("VALID");
    expect("credits" in answer).toBe(false);
  });

  it("credits is the balance after the call, and as it stands when an earlier check failed", async () => {
    const { create, verify, keyring } = await world();
    const { key, keyId } = await create({ credits: { remaining: 5 } });
    expect((await verify({ key, credits: { cost: 2 } })).credits).toBe(3);
    expect((await verify({ key, credits: { cost: 0 } })).credits).toBe(3);
    expect((await verify({ key, credits: { cost: 4 } })).credits).toBe(3);
    await keyring.updateKey({ keyId, enabled: false });
    expect(await verify({ key, credits: { cost: 1 } })).toMatchObject({ code: "DISABLED", credits: 3 });
  });

  it("an answer belongs to its receiver: changing it changes no later answer", async () => {
    const { create, verify } = await world();
    const { key } = await create({ permissions: ["a"], meta: { deep: { x: 1 } }, externalId: "u" });
    const first = await verify({ key, permissions: "a" });
    first.permissions?.push("root");
    expect(() => ((first.meta as { deep: { x: number } }).deep.x = 2)).toThrow(TypeError);
    expect(await verify({ key, permissions: "a" })).toMatchObject({ permissions: ["a"], meta: { deep: { x: 1 } } });
  });
});

describe("a key that vanishes during the call", () => {
  it.each([true, false])("is NOT_FOUND, never VALID (enabled: %s)", async (enabled) => {
    const { create, store, clock } = await world();
    const { key } = await create({ credits: { remaining: 5 }, enabled });
    const { verify } = createVerifier({ ...store, spendCredits: () => undefined }, { clock });
    expect(await verify({ key })).toStrictEqual({ valid: false, code: "NOT_FOUND" });
  });

  it("one that became unlimited since it was read is VALID without credits", async () => {
    const { create, store, clock } = await world();
    const [good, disabled] = [
      await create({ credits: { remaining: 5 } }),
      await create({ credits: { remaining: 5 }, enabled: false }),
    ];
    const { verify } = createVerifier(
      { ...store, spendCredits: () => Promise.resolve({ ok: true, remaining: null }) },
      { clock },
    );
    const answers = [await verify({ key: good.key }), await verify({ key: disabled.key })];
    expect(answers.map(({ code }) => code)).toEqual(["VALID", "DISABLED"]);
    for (const answer of answers) expect("credits" in answer).toBe(false);
  });
});

describe("rulings A7, A8", () => {
  it("ruling A7: the clock is read once a call", async () => {
    let reads = 0;
    const { create, verify } = await world({ clock: () => (reads++, NOON) });
    const { key } = await create({
      credits: { remaining: 5, refill: { interval: "daily", amount: 1 } },
      ratelimits: [limit("minute")],
      expires: NOON + 5,
    });
    reads = 0;
    await verify({ key, permissions: "a OR b" });
    expect(reads).toBe(1);
    await verify({ key });
    expect(reads).toBe(2);
  });

  it("A111: expiry is judged per call and follows the clock as it stands", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ expires: NOON + 1_000 });
    const codes = [];
    for (const offset of [0, 1_000, 1_001, 500]) {
      time.now = NOON + offset;
      codes.push((await verify({ key })).code);
    }
    expect(codes).toEqual(["VALID", "VALID", "EXPIRED", "VALID"]);
  });

  it("A041, ruling A8: tags change nothing and leave with the outcome", async () => {
    const events: object[] = [];
    const { create, verify, verifier, apiId } = await world({ onOutcome: (event) => events.push(event) });
    const { key, keyId } = await create({ credits: { remaining: 5 }, externalId: "u" });
    const [plain, tagged] = [
      await verify({ key, credits: { cost: 0 } }),
      await verify({ key, credits: { cost: 0 }, tags: ["path=/x", `k=${key}`] }),
    ];
    expect(tagged).toEqual(plain);
    await verify({ key, credits: { cost: 2 } });
    await verify({ key: "unknown", tags: ["t"] });
    await verifier.close();
    expect(events).toMatchObject([
      { tags: [], spent: 0 },
      {
        time: NOON,
        code: "VALID",
        keyId,
        apiId,
        workspaceId: "ws_default",
        tags: ["path=/x", "k=[key]"],
        spent: 0,
        degraded: false,
      },
      { code: "VALID", spent: 2 },
      { code: "NOT_FOUND", tags: ["t"] },
    ]);
    expect(JSON.stringify(events)).not.toContain(key);
    expect(verifier.counters().outcomesDropped).toBe(0);
  });
});
