/** Namespaces, overrides, limit and multiLimit: operations `ratelimit.*`, rulings C2–C4, C7, F1. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCallerGrants } from "../../../src/access/grants.js";
import type { Caller } from "../../../src/contracts/caller.js";
import type { Limiter } from "../../../src/contracts/limiter.js";
import { createRequestLimit } from "../../../src/http/workspace-limit.js";
import { createRatelimits, type RatelimitsOptions } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryLimiter } from "../../../src/ratelimit/memory/limiter.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { runs } from "../../runs.js";
import { failure, fault, NOON, problems } from "../support.js";

function world(options: RatelimitsOptions = {}) {
  const store = memoryStore();
  const time = { now: NOON };
  const clock = () => time.now;
  const ratelimits = createRatelimits(store, { clock, ...options });
  const check = (over: object = {}) => ({
    namespace: "email",
    identifier: "user_1",
    limit: 10,
    duration: 60_000,
    ...over,
  });
  return { store, time, clock, ratelimits, check };
}

const callerOf = (workspaceId: string, ...permissions: string[]): Caller => ({
  workspaceId,
  ...createCallerGrants(permissions, workspaceId),
});

describe("ratelimits: limit", () => {
  it("rulings C2, C4: a bucket per identifier, full at first sight, refilled continuously", async () => {
    const { ratelimits, check, time } = world();
    expect(await ratelimits.limit(check({ cost: 4 }))).toEqual({
      limit: 10,
      remaining: 6,
      reset: 24_000,
      success: true,
    });
    expect(await ratelimits.limit(check({ cost: 7 }))).toEqual({
      limit: 10,
      remaining: 6,
      reset: 24_000,
      success: false,
    });
    expect((await ratelimits.limit(check({ identifier: "user_2" }))).remaining).toBe(9);
    expect((await ratelimits.limit(check({ namespace: "sms" }))).remaining).toBe(9);
    time.now += 6_000;
    expect((await ratelimits.limit(check())).remaining).toBe(6);
  });

  it("a cost of 0 reads; a cost above the limit is always refused; identifiers compare exactly (ruling B5)", async () => {
    const { ratelimits, check } = world();
    expect(await ratelimits.limit(check({ cost: 0 }))).toMatchObject({ remaining: 10, success: true });
    expect(await ratelimits.limit(check({ cost: 11 }))).toMatchObject({ remaining: 10, success: false });
    await ratelimits.limit(check({ identifier: "é", cost: 10 }));
    for (const identifier of ["e\u0301", "É", "é ", "*"])
      expect((await ratelimits.limit(check({ identifier }))).remaining).toBe(9);
  });

  it("ruling C4: numbers are as they are, but for a reset within its bounds", async () => {
    const { ratelimits, check } = world();
    const answer = await ratelimits.limit(check({ limit: 5_000_000, cost: 2_000_000 }));
    expect(answer).toEqual({ limit: 5_000_000, remaining: 3_000_000, reset: 24_000, success: true });
    expect((await ratelimits.limit(check({ limit: 5_000_000, cost: 3_000_001 }))).success).toBe(false);
    expect((await ratelimits.limit(check({ identifier: "other", cost: 0 }))).reset).toBe(1_000);
  });

  it("every fault of the request at its place", async () => {
    const { ratelimits } = world();
    const body = { namespace: "", identifier: "x".repeat(513), limit: 0, duration: 999, cost: -1, extra: 1 };
    expect((await problems(ratelimits.limit(body as never))).sort()).toEqual([
      "body.cost",
      "body.duration",
      "body.extra",
      "body.identifier",
      "body.limit",
      "body.namespace",
    ]);
    for (const duration of [2_592_000_001, 1_000.5, NaN, Infinity, "1000"]) {
      expect(
        await problems(ratelimits.limit({ namespace: "a", identifier: "b", limit: 1, duration } as never)),
      ).toEqual(["body.duration"]);
    }
    for (const none of [null, [], "x", 1]) expect(await problems(ratelimits.limit(none as never))).toEqual(["body"]);
  });

  it("one namespace is made however many calls need it first", async () => {
    const { ratelimits, check, store } = world();
    const answers = await Promise.all(Array.from({ length: 20 }, () => ratelimits.limit(check())));
    expect(answers.filter(({ success }) => success)).toHaveLength(10);
    expect(await store.readNames("namespaces", "ws_default", ["email"])).toHaveLength(1);
  });

  it("a namespace of one workspace is another's stranger, by name and by id, though they share a limiter", async () => {
    const { ratelimits, check, store, clock } = world({ limiter: memoryLimiter() });
    const limiter = memoryLimiter();
    const [a, b] = ["ws_a", "ws_b"].map((workspaceId) => createRatelimits(store, { workspaceId, clock, limiter }));
    const { namespaceId } = await a!.createNamespace({ name: "email" });
    await a!.limit(check({ cost: 10 }));
    expect((await b!.limit(check({ cost: 10 }))).success).toBe(true);
    expect(await fault(b!.getNamespace({ namespace: namespaceId }))).toBe("NOT_FOUND 404");
    expect((await ratelimits.limit(check())).remaining).toBe(9);
  });
});

describe("ratelimits: multiLimit", () => {
  it("ruling C3: all or nothing in one call of the limiter; each check says whether it fits", async () => {
    const inner = memoryLimiter();
    const calls: number[] = [];
    const limiter: Limiter = {
      take: (checks, now) => {
        calls.push(checks.length);
        return inner.take(checks, now);
      },
      close: () => undefined,
    };
    const { ratelimits, check } = world({ limiter });
    const first = await ratelimits.multiLimit([check({ cost: 4 }), check({ namespace: "sms", limit: 3, cost: 4 })]);
    expect(first).toEqual({
      passed: false,
      limits: [
        { namespace: "email", identifier: "user_1", limit: 10, remaining: 10, reset: 1_000, passed: true },
        { namespace: "sms", identifier: "user_1", limit: 3, remaining: 3, reset: 1_000, passed: false },
      ],
    });
    const second = await ratelimits.multiLimit([check({ cost: 4 }), check({ namespace: "sms", limit: 3 })]);
    expect([second.passed, ...second.limits.map(({ remaining }) => remaining)]).toEqual([true, 6, 2]);
    expect(calls).toEqual([2, 2]);
  });

  it("port clause 6: the same bucket twice, also once by name and once by id, must fit together", async () => {
    const { ratelimits, check } = world();
    const { namespaceId } = await ratelimits.createNamespace({ name: "email" });
    const both = [check({ cost: 6 }), check({ namespace: namespaceId, cost: 5 })];
    const answer = await ratelimits.multiLimit(both);
    expect(answer.passed).toBe(false);
    expect(answer.limits.map(({ namespace }) => namespace)).toEqual(["email", namespaceId]);
    expect((await ratelimits.multiLimit([check({ cost: 6 }), check({ namespace: namespaceId, cost: 4 })])).passed).toBe(
      true,
    );
  });

  it("1 to 100 checks, each judged at its place, before any namespace is made", async () => {
    const { ratelimits, check, store } = world();
    expect(await problems(ratelimits.multiLimit([]))).toEqual(["body"]);
    expect(await problems(ratelimits.multiLimit(Array.from({ length: 101 }, () => check())))).toEqual(["body"]);
    expect(await problems(ratelimits.multiLimit({ 0: check(), length: 1 } as never))).toEqual(["body"]);
    expect(await problems(ratelimits.multiLimit([check(), check({ limit: 0 }), 1 as never]))).toEqual([
      "body[1].limit",
      "body[2]",
    ]);
    expect(await store.readNames("namespaces", "ws_default", ["email"])).toEqual([]);
    expect(
      (await ratelimits.multiLimit(Array.from({ length: 100 }, (_, i) => check({ identifier: `u${i}` })))).limits,
    ).toHaveLength(100);
  });

  it("what multiLimit passes, limit one by one passes too, and tokens are never minted (property)", async () => {
    const step = fc.record({ identifier: fc.constantFrom("a", "b"), cost: fc.integer({ min: 0, max: 4 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { maxLength: 12 }), async (calls) => {
        const { ratelimits, check } = world();
        const left: Record<string, number> = { a: 10, b: 10 };
        for (const call of calls) {
          const need = { a: 0, b: 0 };
          for (const { identifier, cost } of call) need[identifier as "a"] += cost;
          const fits = need.a <= left["a"]! && need.b <= left["b"]!;
          const { passed, limits } = await ratelimits.multiLimit(call.map((one) => check(one)));
          expect(passed).toBe(fits);
          if (fits) for (const name of ["a", "b"] as const) left[name]! -= need[name];
          for (const { identifier, remaining } of limits) expect(remaining).toBe(left[identifier]);
        }
      }),
      { numRuns: runs(100) },
    );
  });
});

describe("ratelimits: overrides", () => {
  it("what is used drains at the rate of an override from the next check on; requests of other rates gain nothing", async () => {
    const { ratelimits, check, time } = world();
    const succeeds = async (over: object) => (await ratelimits.limit(check(over))).success;
    const day = { duration: 86_400_000 };
    expect(await succeeds({ ...day, cost: 10 })).toBe(true);
    time.now += 10_000;
    expect(await succeeds({ limit: 1_000_000, duration: 1_000 })).toBe(true);
    time.now += 10_000;
    expect(await succeeds(day)).toBe(false);
    await ratelimits.setOverride({ namespace: "email", identifier: "user_1", limit: 11, duration: 66_000 });
    expect(await ratelimits.limit(check(day))).toMatchObject({ success: false, reset: 65_987 });
    time.now += 5_986;
    expect(await succeeds(day)).toBe(false);
    time.now++;
    expect(await succeeds(day)).toBe(true);
  });

  it("an override replaces limit and window of one identifier from the next check on; tokens used stay used (ruling C2)", async () => {
    const { ratelimits, check } = world();
    await ratelimits.limit(check({ cost: 6 }));
    const { overrideId } = await ratelimits.setOverride({
      namespace: "email",
      identifier: "user_1",
      limit: 8,
      duration: 80_000,
    });
    expect(overrideId).toMatch(/^ovr_[a-zA-Z0-9]+$/);
    expect(await ratelimits.limit(check())).toEqual({
      limit: 8,
      remaining: 1,
      reset: 70_000,
      success: true,
      overrideId,
    });
    expect(await ratelimits.limit(check({ identifier: "user_2" }))).not.toHaveProperty("overrideId");
    const both = await ratelimits.multiLimit([check(), check({ identifier: "user_2" })]);
    expect(both.limits.map((one) => one.overrideId)).toEqual([overrideId, undefined]);
    expect(Object.hasOwn(both.limits[1]!, "overrideId")).toBe(false);
  });

  it("a limit of 0 lets nothing pass but a cost of 0; one of `*` is for all without one of their own", async () => {
    const { ratelimits, check } = world();
    await ratelimits.setOverride({ namespace: "email", identifier: "user_1", limit: 0, duration: 1_000 });
    await ratelimits.setOverride({ namespace: "email", identifier: "*", limit: 0, duration: 1_000 });
    expect(await ratelimits.limit(check())).toMatchObject({ success: false, limit: 0, remaining: 0 });
    expect((await ratelimits.limit(check({ cost: 0 }))).success).toBe(true);
    expect(await ratelimits.limit(check({ identifier: "user_2" }))).toMatchObject({ limit: 0, success: false });
  });

  it("set, get, list by id, delete; setting again keeps the id", async () => {
    const { ratelimits, time } = world();
    const set = (identifier: string, limit: number) =>
      ratelimits.setOverride({ namespace: "email", identifier, limit, duration: 1_000 });
    const { overrideId } = await set("user_1", 1);
    expect(await set("user_1", 2)).toEqual({ overrideId });
    const shown = { overrideId, identifier: "user_1", limit: 2, duration: 1_000 };
    expect(await ratelimits.getOverride({ namespace: "email", identifier: "user_1" })).toEqual(shown);
    for (let i = 2; i <= 12; i++) {
      time.now += 1;
      await set(`user_${i}`, i);
    }
    await ratelimits.setOverride({ namespace: "sms", identifier: "user_1", limit: 1, duration: 1_000 });
    const first = await ratelimits.listOverrides({ namespace: "email" });
    expect(first.data.map(({ limit }) => limit)).toEqual([2, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    const second = await ratelimits.listOverrides({ namespace: "email", cursor: first.pagination.cursor! });
    expect(second).toMatchObject({
      data: [{ identifier: "user_11" }, { identifier: "user_12" }],
      pagination: { hasMore: false },
    });
    expect(await ratelimits.deleteOverride({ namespace: "email", identifier: "user_1" })).toEqual({});
    for (const gone of [ratelimits.getOverride, ratelimits.deleteOverride]) {
      expect(await fault(gone({ namespace: "email", identifier: "user_1" }))).toBe("NOT_FOUND 404");
      expect(await fault(gone({ namespace: "nowhere", identifier: "user_1" }))).toBe("NOT_FOUND 404");
    }
  });

  it("identifiers with blanks do not meet: each has its own override and its own bucket", async () => {
    const { ratelimits } = world();
    const { namespaceId } = await ratelimits.createNamespace({ name: "a" });
    await ratelimits.setOverride({ namespace: "a", identifier: `b ${namespaceId} c`, limit: 5, duration: 1_000 });
    expect(await fault(ratelimits.getOverride({ namespace: "a", identifier: "b" }))).toBe("NOT_FOUND 404");
    expect(await fault(ratelimits.getOverride({ namespace: "a", identifier: "c" }))).toBe("NOT_FOUND 404");
  });
});

describe("ratelimits: namespaces", () => {
  it("by id or name; a namespace with this id goes before one with this name; a name that exists is a 409", async () => {
    const { ratelimits, store } = world();
    const { namespaceId } = await ratelimits.createNamespace({ name: "email" });
    expect(namespaceId).toMatch(/^ns_[a-zA-Z0-9]+$/);
    const row = {
      id: `ns_${"1".repeat(22)}`,
      version: 0,
      workspaceId: "ws_default",
      name: namespaceId,
      createdAt: NOON,
    };
    await store.write([{ table: "namespaces", row }]);
    expect(await ratelimits.getNamespace({ namespace: namespaceId })).toEqual({ id: namespaceId, name: "email" });
    expect(await ratelimits.getNamespace({ namespace: "email" })).toEqual({ id: namespaceId, name: "email" });
    expect(await fault(ratelimits.createNamespace({ name: "email" }))).toBe("CONFLICT 409");
    expect(await fault(ratelimits.getNamespace({ namespace: "Email" }))).toBe("NOT_FOUND 404");
    expect(await problems(ratelimits.createNamespace({ name: "" }))).toEqual(["body.name"]);
  });
});

const ENTERING = ["ratelimit.*.limit", "ratelimit.*.set_override"];

describe("ratelimits: with a caller (contract 5.4, ruling F4)", () => {
  async function guarded() {
    const all = world();
    const { namespaceId } = await all.ratelimits.createNamespace({ name: "email" });
    const other = await all.ratelimits.createNamespace({ name: "sms" });
    return { ...all, namespaceId, otherId: other.namespaceId };
  }

  it("ratelimit.*.limit lets in everywhere, ratelimit.<namespace_id>.limit there only, by name and by id", async () => {
    const { ratelimits, check, namespaceId, otherId } = await guarded();
    const one = { caller: callerOf("ws_default", `ratelimit.${namespaceId}.limit`) };
    const every = { caller: callerOf("ws_default", "ratelimit.*.limit") };
    for (const namespace of ["email", namespaceId]) {
      await ratelimits.limit(check({ namespace }), one);
      await ratelimits.limit(check({ namespace }), every);
    }
    for (const namespace of ["sms", otherId])
      expect(await fault(ratelimits.limit(check({ namespace }), one))).toBe("CALLER_FORBIDDEN 403");
    expect(await fault(ratelimits.multiLimit([check(), check({ namespace: "sms" })], one))).toBe(
      "CALLER_FORBIDDEN 403",
    );
    expect(await fault(ratelimits.limit(check(), { caller: callerOf("ws_default", "api.*.verify_key") }))).toBe(
      "CALLER_FORBIDDEN 403",
    );
  });

  it("to who may act in some only, a namespace that is not there looks like one that is another's", async () => {
    const { ratelimits, check, namespaceId } = await guarded();
    const context = { caller: callerOf("ws_default", `ratelimit.${namespaceId}.limit`) };
    const texts = [];
    for (const namespace of ["sms", "nowhere", "ns_nowhere"]) {
      const { code, detail } = await failure(ratelimits.limit(check({ namespace }), context));
      texts.push(`${code} ${detail}`);
    }
    expect(new Set(texts).size).toBe(1);
    expect(texts[0]).toMatch(/^CALLER_FORBIDDEN/);
  });

  it("a namespace whose name holds control characters, from before they were refused, is used by its id", async () => {
    const { store, ratelimits, check } = world();
    const { namespaceId } = await ratelimits.createNamespace({ name: "email" });
    const [row] = await store.readMany("namespaces", [namespaceId]);
    const name = "two\r\nlines";
    await store.write([{ table: "namespaces", row: { ...row!, name } }]);
    const identifier = "user_1";
    expect((await ratelimits.limit(check({ namespace: namespaceId }))).remaining).toBe(9);
    await ratelimits.setOverride({ namespace: namespaceId, identifier, limit: 3, duration: 60_000 });
    for (const namespace of [namespaceId, name]) {
      expect(await ratelimits.getNamespace({ namespace })).toEqual({ id: namespaceId, name });
      expect(await ratelimits.getOverride({ namespace, identifier })).toMatchObject({ limit: 3 });
      expect((await ratelimits.listOverrides({ namespace })).data).toHaveLength(1);
    }
    expect(await problems(ratelimits.limit(check({ namespace: name })))).toEqual(["body.namespace"]);
    await ratelimits.deleteOverride({ namespace: name, identifier });
  });

  it("an id that no namespace of the workspace has is not found, and never made into a name", async () => {
    const { ratelimits, check, store, namespaceId, clock } = await guarded();
    const elsewhere = createRatelimits(store, { workspaceId: "ws_other", clock });
    const theirs = await elsewhere.createNamespace({ name: "theirs" });
    const making = { caller: callerOf("ws_default", ...ENTERING, "ratelimit.*.create_namespace") };
    const limited = { caller: callerOf("ws_default", ...ENTERING) };
    const override = { identifier: "a", limit: 1, duration: 1_000 };
    for (const namespace of [`ns_${"1".repeat(22)}`, theirs.namespaceId]) {
      for (const context of [undefined, making]) {
        expect(await fault(ratelimits.limit(check({ namespace }), context))).toBe("NOT_FOUND 404");
        const both = [check({ namespace: "new" }), check({ namespace })];
        expect(await fault(ratelimits.multiLimit(both, context))).toBe("NOT_FOUND 404");
        expect(await fault(ratelimits.setOverride({ namespace, ...override }, context))).toBe("NOT_FOUND 404");
      }
      const forbidden = await failure(ratelimits.limit(check({ namespace }), limited));
      expect([forbidden.code, forbidden.detail]).toEqual([
        "CALLER_FORBIDDEN",
        (await failure(ratelimits.limit(check({ namespace: "new" }), limited))).detail,
      ]);
      expect(await store.readNames("namespaces", "ws_default", [namespace, "new"])).toEqual([]);
    }
    expect((await ratelimits.limit(check({ namespace: namespaceId }))).success).toBe(true);
    // Only the form of an id makes a text one.
    expect((await ratelimits.limit(check({ namespace: "ns_mails" }))).success).toBe(true);
  });

  it("no namespace is named like the id of another", async () => {
    const { ratelimits, namespaceId } = await guarded();
    expect(await fault(ratelimits.createNamespace({ name: namespaceId }))).toBe("CONFLICT 409");
    expect((await ratelimits.listNamespaces({ search: namespaceId })).data).toHaveLength(1);
    const caller = callerOf("ws_default", "ratelimit.*.limit");
    expect(await fault(ratelimits.createNamespace({ name: namespaceId }, { caller }))).toBe("CALLER_FORBIDDEN 403");
  });

  it("an unknown namespace is made with ratelimit.*.create_namespace, and is a 403 without; nothing is made then", async () => {
    const { ratelimits, check, store } = await guarded();
    const limited = { caller: callerOf("ws_default", "ratelimit.*.limit", "ratelimit.*.set_override") };
    const making = { caller: callerOf("ws_default", "ratelimit.*.limit", "ratelimit.*.create_namespace") };
    expect(await fault(ratelimits.multiLimit([check(), check({ namespace: "new" })], limited))).toBe(
      "CALLER_FORBIDDEN 403",
    );
    const setting = ratelimits.setOverride({ namespace: "new", identifier: "a", limit: 1, duration: 1_000 }, limited);
    expect(await failure(setting)).toMatchObject({
      status: 403,
      message: expect.stringMatching(/takes one of: ratelimit\.\*\.create_namespace$/) as string,
    });
    expect(await store.readNames("namespaces", "ws_default", ["new"])).toEqual([]);
    expect((await ratelimits.limit(check({ cost: 0 }))).remaining).toBe(10);
    expect((await ratelimits.limit(check({ namespace: "new" }), making)).success).toBe(true);
    expect(await fault(ratelimits.createNamespace({ name: "more" }, limited))).toBe("CALLER_FORBIDDEN 403");
    await ratelimits.createNamespace({ name: "more" }, making);
  });

  it("each verb asks for its own action, once the body is judged", async () => {
    const { ratelimits } = await guarded();
    const nobody = { caller: callerOf("ws_default") };
    const body = { namespace: "email", identifier: "user_1" };
    const calls = [
      [() => ratelimits.setOverride({ ...body, limit: 1, duration: 1_000 }, nobody), "set_override"],
      [() => ratelimits.getOverride(body, nobody), "read_override"],
      [() => ratelimits.listOverrides({ namespace: "email" }, nobody), "read_override"],
      [() => ratelimits.deleteOverride(body, nobody), "delete_override"],
      [() => ratelimits.getNamespace({ namespace: "email" }, nobody), "read_namespace"],
      [() => ratelimits.createNamespace({ name: "x" }, nobody), "create_namespace"],
    ] as const;
    for (const [call, action] of calls) {
      const error = await failure(call());
      expect([error.code, error.detail]).toEqual([
        "CALLER_FORBIDDEN",
        expect.stringContaining(`ratelimit.*.${action}`),
      ]);
    }
    expect(await problems(ratelimits.getOverride({ namespace: "email" } as never, nobody))).toEqual([
      "body.identifier",
    ]);
    const setter = { caller: callerOf("ws_default", "ratelimit.*.set_override", "ratelimit.*.delete_override") };
    await ratelimits.setOverride({ ...body, limit: 1, duration: 1_000 }, setter);
    expect(await fault(ratelimits.getOverride(body, setter))).toBe("CALLER_FORBIDDEN 403");
    await ratelimits.deleteOverride(body, setter);
  });

  it("a caller of another workspace may do nothing here", async () => {
    const { ratelimits, check } = await guarded();
    const caller = callerOf("ws_other", "ratelimit.*.limit", "ratelimit.*.create_namespace", "svc:v1:ws_other:**#*");
    for (const namespace of ["email", "new"])
      expect(await fault(ratelimits.limit(check({ namespace }), { caller }))).toBe("CALLER_FORBIDDEN 403");
    expect(await fault(ratelimits.createNamespace({ name: "x" }, { caller }))).toBe("CALLER_FORBIDDEN 403");
  });
});

describe("ratelimits: a limiter that cannot answer (ruling C7), options", () => {
  const broken: Limiter = {
    take: () => {
      throw new Error("gone");
    },
    close: () => undefined,
  };

  it("local: this node's share; deny: 503; allow: passes", async () => {
    const { ratelimits, check } = world({ limiter: broken, nodes: 2 });
    expect(await ratelimits.limit(check({ cost: 5 }))).toMatchObject({ success: true, remaining: 0 });
    expect((await ratelimits.limit(check())).success).toBe(false);
    expect(await fault(world({ limiter: broken, onLimiterFailure: "deny" }).ratelimits.limit(check()))).toBe(
      "LIMITER_UNAVAILABLE 503",
    );
    expect(
      (await world({ limiter: broken, onLimiterFailure: "allow" }).ratelimits.limit(check({ cost: 10 }))).success,
    ).toBe(true);
  });

  it.each([
    [{ workspaceId: "a b" }],
    [{ nodes: 0 }],
    [{ limiter: {} }],
    [{ onLimiterFailure: "x" }],
    [{ clock: 1 }],
    [{ newId: 1 }],
    [{ size: 1 }],
  ])("%j throws", (options) => {
    expect(() => createRatelimits(memoryStore(), options as never)).toThrow(/^options\./);
    expect(() => createRatelimits({} as never)).toThrow(/store/);
  });
});

describe("createRatelimits: newId", () => {
  it("makes the ids of namespaces and overrides, and is held to their form", async () => {
    const asked: unknown[] = [];
    const newId = (prefix: string, now: number) =>
      `${prefix}_${"ABC".charAt(asked.push([prefix, now]) - 1).repeat(22)}`;
    const { ratelimits, check } = world({ newId });
    const { overrideId } = await ratelimits.setOverride({
      namespace: "email",
      identifier: "user_1",
      limit: 1,
      duration: 1_000,
    });
    expect(overrideId).toBe(`ovr_${"B".repeat(22)}`);
    expect(await ratelimits.createNamespace({ name: "calls" })).toEqual({ namespaceId: `ns_${"C".repeat(22)}` });
    expect(asked).toEqual([
      ["ns", NOON],
      ["ovr", NOON],
      ["ns", NOON],
    ]);
    await expect(ratelimits.limit(check({ namespace: "more" }))).rejects.toThrow(/options\.newId must return `ns_`/);
  });
});

describe("request limit (contract 4.1-6, ruling F5)", () => {
  it("a bucket per workspace; a refusal says when one request fits again", async () => {
    const limit = createRequestLimit({ limit: 3, duration: 10_000 });
    expect(await limit.take("ws_1", NOON)).toEqual({
      exceeded: false,
      limit: 3,
      remaining: 2,
      reset: 3_334,
      retryAfter: 0,
    });
    await limit.take("ws_1", NOON);
    await limit.take("ws_1", NOON);
    const refused = await limit.take("ws_1", NOON);
    expect(refused).toMatchObject({ exceeded: true, remaining: 0, retryAfter: 3_334 });
    expect((await limit.take("ws_2", NOON)).exceeded).toBe(false);
    expect((await limit.take("ws_1", NOON + refused.retryAfter)).exceeded).toBe(false);
  });

  it("ruling C7: a limiter that cannot answer counts in this process", async () => {
    const broken: Limiter = { take: () => Promise.reject(new Error("gone")), close: () => undefined };
    const limit = createRequestLimit({ limit: 1, duration: 1_000, limiter: broken });
    expect([(await limit.take("ws_1", NOON)).exceeded, (await limit.take("ws_1", NOON)).exceeded]).toEqual([
      false,
      true,
    ]);
  });

  it("of several nodes each counts its share meanwhile, and says when that lets a request pass", async () => {
    const broken: Limiter = { take: () => Promise.reject(new Error("gone")), close: () => undefined };
    const limit = createRequestLimit({ limit: 9, duration: 9_000, limiter: broken, nodes: 4 });
    const asked: unknown[] = [];
    for (let i = 0; i < 3; i++) asked.push(await limit.take("ws_1", NOON));
    // A token each 4.5 s, where all nodes together make one a second.
    expect(asked).toEqual([
      { exceeded: false, limit: 9, remaining: 1, reset: 4_500, retryAfter: 0 },
      { exceeded: false, limit: 9, remaining: 0, reset: 9_000, retryAfter: 0 },
      { exceeded: true, limit: 9, remaining: 0, reset: 9_000, retryAfter: 4_500 },
    ]);
    expect((await limit.take("ws_1", NOON + 4_499)).exceeded).toBe(true);
    expect((await limit.take("ws_1", NOON + 4_500)).exceeded).toBe(false);
    const works = createRequestLimit({ limit: 9, duration: 9_000, limiter: memoryLimiter(), nodes: 4 });
    expect(await works.take("ws_1", NOON)).toMatchObject({ remaining: 8 });
  });

  it.each([
    [{}],
    [{ limit: 1, duration: 1, nodes: 0 }],
    [{ limit: 1 }],
    [{ limit: 0, duration: 1 }],
    [{ limit: 1, duration: 2_592_000_001 }],
    [{ limit: 1, duration: 1, x: 1 }],
  ])("%j throws", (options) => {
    expect(() => createRequestLimit(options as never)).toThrow(/options\.requestLimit\./);
  });
});
