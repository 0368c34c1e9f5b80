/** The usual call against its obvious twin: the ordered checks, by which the same request goes once it has a tag. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answerFor, commonAnswer } from "../src/answer.js";
import { exactSpender, leasedSpender } from "../src/leases.js";
import { memoryLimiter } from "../src/limiters/memory.js";
import type { OutcomeEvent } from "../src/outcomes.js";
import { createQueryCompiler } from "../src/permissions.js";
import { createPreparer } from "../src/prepared-key.js";
import { bucketOf } from "../src/ratelimit.js";
import { readValues } from "../src/request.js";
import type { KeyRow } from "../src/store.js";
import { answerUsual, isUsual, type Means, type UsualValues } from "../src/usual-call.js";
import { createVerifier, type CreditsOptions } from "../src/verifier.js";
import { failure, limit, NOON, world } from "./spec/support.js";
import { keyRow } from "./stores/suite.js";
import { opened } from "./leases/support.js";
import { runs } from "./runs.js";

const LIMIT = { id: "rl_1", ...limit("requests", { limit: 2, duration: 1_000 }) };

/** One key at hand, with a lease of its 1,000 credits and a bucket of 2 tokens, both used once, and what the call would take from. */
async function atHand(
  over: Partial<KeyRow> = {},
  { suspended = false, mode = "leased" }: { suspended?: boolean; mode?: CreditsOptions["mode"] } = {},
) {
  const { store } = await opened(0);
  const row = keyRow(7, { limited: true, name: "seven", ratelimits: [LIMIT], ...over });
  await store.insertKeys([row.limited ? { row, balance: { remaining: 1_000, amount: 0, period: 0 } } : { row }]);
  if (suspended) await store.write([{ table: "apis", row: { ...(await store.read("apis", "api_1"))!, enabled: false } }]);
  const key = createPreparer()((await store.findKey(row.digest as string))!);
  const events: OutcomeEvent[] = [];
  const compileQuery = createQueryCompiler();
  compileQuery("a.b");
  const buckets = memoryLimiter();
  const limiter = { takeOne: buckets.takeOne, take: () => expect.fail("a list of checks"), degradedCalls: () => 0 };
  const spender = mode === "leased" ? leasedSpender(store, { size: 100, step: 100 }) : exactSpender(store);
  if (row.limited) await spender.spend(key, 1, NOON);
  const bucket = bucketOf(key.keyId, LIMIT.name);
  buckets.take([{ ...LIMIT, bucket, cost: 1 }], NOON);
  const means: Means = { compileQuery, rememberedKey: () => key, limiter, spender, onOutcome: (event) => events.push(event) };
  const call = (now = NOON, permissions?: string) => answerUsual(means, readValues({ key: "k", permissions }) as UsualValues, key, now);
  const left = async () => ({
    credits: row.limited ? (await spender.spend(key, 0, NOON))?.remaining : undefined,
    tokens: buckets.take([{ ...LIMIT, bucket, cost: 0 }], NOON)[0]?.remaining,
  });
  return { store, key, means, call, left, events, spender };
}

describe("isUsual", () => {
  it("a key, perhaps with a query that was asked before, and nothing else", async () => {
    const { means } = await atHand();
    for (const body of [{ key: "k" }, { key: "k", permissions: "a.b" }, { key: "", tags: undefined }])
      expect(isUsual(means, readValues(body))).toBe(true);
    const others = [
      { tags: [] },
      { credits: { cost: 1 } },
      { ratelimits: [] },
      { migrationId: "m" },
      { apiId: "a" },
      { key: 1 },
      { permissions: 1 },
    ];
    for (const other of others) expect(isUsual(means, readValues({ key: "k", ...other })), JSON.stringify(other)).toBe(false);
    expect(isUsual(means, readValues({ permissions: "a" }))).toBe(false);
  });
});

describe("answerUsual", () => {
  it("takes a credit and a token, answers, and tells of it", async () => {
    const { call, left, events } = await atHand();
    expect(await left()).toEqual({ credits: 999, tokens: 1 });
    const { id, name, duration, autoApply } = LIMIT;
    expect(call(NOON)).toEqual({
      valid: true,
      code: "VALID",
      keyId: "key_000007",
      enabled: true,
      name: "seven",
      credits: 998,
      ratelimits: [{ exceeded: false, id, name, limit: 2, duration, reset: 1_000, remaining: 0, autoApply }],
    });
    expect(await left()).toEqual({ credits: 998, tokens: 0 });
    expect(events).toEqual([
      { time: NOON, code: "VALID", tags: [], keyId: "key_000007", apiId: "api_1", workspaceId: "ws_1", spent: 1, degraded: false },
    ]);
  });

  const refusals: [what: string, over: Partial<KeyRow>, now: number, query: string | undefined][] = [
    ["a disabled key", { enabled: false }, NOON, undefined],
    ["an expired key", { expires: NOON - 1 }, NOON, undefined],
    ["a permission that it lacks", {}, NOON, "a.b"],
    ["metadata", { meta: { plan: "pro" } }, NOON, undefined],
    ["an allow-list", { ipAllowlist: ["192.0.2.1"] }, NOON, undefined],
    ["no limit", { ratelimits: [] }, NOON, undefined],
    ["a limit that is not automatic", { ratelimits: [{ ...LIMIT, autoApply: false }] }, NOON, undefined],
    ["two limits", { ratelimits: [LIMIT, { ...LIMIT, id: "rl_2", name: "tokens" }] }, NOON, undefined],
  ];
  it.each(refusals)("%s: nothing is taken, and nothing told", async (_what, over, now, query) => {
    const { call, left, events } = await atHand(over);
    const before = await left();
    expect(call(now, query)).toBeUndefined();
    expect(await left()).toEqual(before);
    expect(events).toEqual([]);
  });

  it("a key of a disabled API", async () => {
    const { call, left } = await atHand({}, { suspended: true });
    expect(call()).toBeUndefined();
    expect(await left()).toEqual({ credits: 999, tokens: 1 });
  });

  it("the last moment of a key is one of its life (ruling A3)", async () => {
    const { call } = await atHand({ expires: NOON });
    expect(call(NOON)).toMatchObject({ code: "VALID", expires: NOON });
    expect(call(NOON + 1)).toBeUndefined();
  });

  it("the common answer is that of the one builder, in the order of its properties", async () => {
    const { key } = await atHand();
    const ratelimits = [{ exceeded: false, id: "rl_1", name: "a", limit: 1, duration: 1_000, reset: 1_000, remaining: 0, autoApply: true }];
    for (const code of ["VALID", "RATE_LIMITED"] as const) {
      const one = answerFor(key, code, { queried: true, credits: 3, ratelimits });
      expect(JSON.stringify(commonAnswer(key, code, 3, ratelimits))).toBe(JSON.stringify(one));
    }
  });

  it.each(["leased", "exact"] as const)("%s: an exceeded limit refuses, and no credit is taken (ruling A2)", async (mode) => {
    const { call, left, events } = await atHand({}, { mode });
    expect(await call()).toMatchObject({ code: "VALID", credits: 998 });
    for (let i = 0; i < 3; i++) {
      const refused = { valid: false, code: "RATE_LIMITED", credits: 998, ratelimits: [{ exceeded: true, remaining: 0, reset: 1_000 }] };
      expect(await call()).toMatchObject(refused);
    }
    expect(await left()).toEqual({ credits: 998, tokens: 0 });
    expect(events.map(({ code, spent }) => [code, spent])).toEqual([["VALID", 1], ...Array(3).fill(["RATE_LIMITED", 0])]);
  });

  it("an exceeded limit of an unlimited key shows no credits", async () => {
    const { call } = await atHand({ limited: false });
    expect(call()).toMatchObject({ code: "VALID" });
    expect(call()).toMatchObject({ code: "RATE_LIMITED" });
    expect(call()).not.toHaveProperty("credits");
  });

  it("a limiter that throws: no credit is taken, and the error rises", async () => {
    const { key, means, left } = await atHand();
    const limiter = {
      ...means.limiter,
      takeOne: () => {
        throw new Error("planted");
      },
    };
    expect(() => answerUsual({ ...means, limiter }, readValues({ key: "k" }) as UsualValues, key, NOON)).toThrow("planted");
    expect(await left()).toEqual({ credits: 999, tokens: 1 });
  });

  it("a lease that is used up: the next credit is drawn", async () => {
    const { key, call, left, spender } = await atHand();
    while (spender.takeHeld(key, 1) !== undefined);
    expect(await call()).toMatchObject({ code: "VALID", credits: 899 });
    expect(await left()).toEqual({ credits: 899, tokens: 0 });
  });

  it.each(["leased", "exact"] as const)(
    "%s: no credits left: USAGE_EXCEEDED, the token is taken, and the limit is shown (ruling A2)",
    async (mode) => {
      const { key, call, left, events, spender } = await atHand({}, { mode });
      for (let i = 0; i < 999; i++) await spender.spend(key, 1, NOON);
      const told = { code: "USAGE_EXCEEDED", valid: false, credits: 0, ratelimits: [{ exceeded: false, remaining: 0 }] };
      expect(await call()).toMatchObject(told);
      expect(await left()).toEqual({ credits: 0, tokens: 0 });
      expect(events).toMatchObject([{ code: "USAGE_EXCEEDED", spent: 0 }]);
    },
  );

  it("a key that was removed meanwhile looks as if it had never been", async () => {
    const { store, key, call, events } = await atHand({}, { mode: "exact" });
    const { version } = (await store.read("keys", key.keyId))!;
    await store.write([{ table: "keys", remove: key.keyId, version }]);
    expect(await call()).toEqual({ valid: false, code: "NOT_FOUND" });
    expect(events).toEqual([{ time: NOON, code: "NOT_FOUND", tags: [], spent: 0, degraded: false }]);
  });

  it("an unlimited key needs no lease", async () => {
    const { call, left } = await atHand({ limited: false });
    expect(call()).not.toHaveProperty("credits");
    expect(await left()).toEqual({ credits: undefined, tokens: 0 });
  });

  it("a balance that was made unlimited meanwhile is not shown", async () => {
    const { store, key, call } = await atHand({}, { mode: "exact" });
    const row = (await store.read("keys", key.keyId))!;
    await store.write([{ table: "keys", row, credits: { period: 0, remaining: null } }]);
    const answer = await call();
    expect(answer).toMatchObject({ code: "VALID" });
    expect(answer).not.toHaveProperty("credits");
  });

  it("a limiter that may fail, or answer late, is not asked here", async () => {
    const { key, means } = await atHand();
    const { takeOne: _, ...limiter } = means.limiter;
    expect(answerUsual({ ...means, limiter }, readValues({ key: "k" }) as UsualValues, key, NOON)).toBeUndefined();
  });
});

describe("verify: the usual call and its twin", () => {
  const permissions = fc.constantFrom("a.b", "a.b AND c", "d.e OR c", undefined, undefined);
  const step = fc.oneof(
    { weight: 120, arbitrary: fc.record({ do: fc.constant("verify" as const), key: fc.nat(1), permissions }) },
    { weight: 20, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: -500, max: 5_000 }) }) },
    {
      weight: 20,
      arbitrary: fc.record({
        do: fc.constant("update" as const),
        key: fc.nat(1),
        change: fc.oneof(
          fc.record({ enabled: fc.boolean() }),
          fc.record({ expires: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 9_000 })) }),
          fc.record({ name: fc.constantFrom(null, "renamed") }),
          fc.record({ meta: fc.constantFrom(null, { plan: "pro" }) }),
          fc.record({ permissions: fc.constantFrom(["a.b"], ["c"], ["a.b", "c"]) }),
          fc.record({ credits: fc.oneof(fc.constant(null), fc.record({ remaining: fc.constantFrom(0, 3, 100) })) }),
          fc.record({ ratelimits: fc.constantFrom([], [limit("requests")], [limit("requests", { limit: 2, duration: 1_000 })]) }),
        ),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("delete" as const), key: fc.nat(1) }) },
  );

  type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

  /** The same keys, and all that is told of them but for ids, which are drawn at random. */
  async function play(steps: Step[], credits: CreditsOptions, more: object) {
    const events: unknown[] = [];
    const { create, keyring, verify, time, store } = await world({
      credits,
      onOutcome: ({ keyId: _, apiId: __, tags: ___, ...event }) => events.push(event),
    });
    const keys = await Promise.all(
      [0, 1].map((n) =>
        create({
          name: `Key ${n}`,
          permissions: ["a.b", "c"].slice(n % 2),
          ratelimits: [limit("requests", { limit: 6 + 4 * n })],
          ...(n > 0 && { credits: { remaining: n * 100 } }),
        }),
      ),
    );
    const seen: unknown[] = [];
    for (const move of steps) {
      if (move.do === "wait") time.now += move.ms;
      else {
        const { key, keyId } = keys[move.key]!;
        if (move.do === "verify") {
          const asked = move.permissions === undefined ? {} : { permissions: move.permissions };
          const { keyId: _, ratelimits, ...answer } = await verify({ key, ...asked, ...more });
          seen.push({ ...answer, ratelimits: ratelimits?.map(({ id: __, ...result }) => result) });
        } else {
          const doing = move.do === "delete" ? keyring.deleteKey({ keyId }) : keyring.updateKey(expiring(keyId, move.change, time.now));
          seen.push(await doing.then(() => "done", String));
        }
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 0));
    const balances = await Promise.all(keys.map(async ({ keyId }) => (await store.readBalance(keyId, 0))?.remaining));
    return { seen, events, balances };
  }
  const expiring = (keyId: string, change: object, now: number) =>
    ({ keyId, ...change, ...("expires" in change && typeof change.expires === "number" && { expires: now + change.expires }) }) as never;

  const modes: CreditsOptions[] = [{ mode: "leased", size: 40, step: 20 }, { mode: "exact" }];
  it.each(modes)("$mode: answers, events and balances are the same over random histories", async (credits) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 100, maxLength: 200 }), async (steps) => {
        expect(await play(steps, credits, {})).toEqual(await play(steps, credits, { tags: ["twin"] }));
      }),
      { numRuns: runs(50) },
    );
  });

  it("spec §4.1-4: what the caller may not see is not answered from what is at hand", async () => {
    const { create, verify, apiId } = await world({ credits: { mode: "leased" } });
    const { key } = await create({ credits: { remaining: 10 }, ratelimits: [limit("requests")] });
    expect(await verify({ key })).toMatchObject({ code: "VALID" });
    expect(await verify({ key })).toMatchObject({ code: "VALID" });
    const caller = { workspaceId: "ws_other", may: () => true, mayAny: () => true };
    expect(await verify({ key }, { caller })).toEqual({ valid: false, code: "NOT_FOUND" });
    expect(apiId).toMatch(/^api_/);
  });

  it("a verifier of one workspace does not answer keys of another that are at hand", async () => {
    const { create, verify } = await world({ credits: { mode: "leased" }, workspaceId: "ws_other" });
    const { key } = await create({ credits: { remaining: 10 }, ratelimits: [limit("requests")] });
    for (let i = 0; i < 3; i++) expect(await verify({ key })).toEqual({ valid: false, code: "NOT_FOUND" });
  });

  it("nor where the store learns late what has changed", async () => {
    const { store, create, clock, apiId } = await world();
    const { key } = await create({ ratelimits: [limit("requests")] });
    const { workspaceId } = (await store.read("apis", apiId))!;
    const late = { ...store, catchUp: () => Promise.resolve() };
    for (const [workspace, code] of [
      [workspaceId, "VALID"],
      ["ws_other", "NOT_FOUND"],
    ] as const) {
      const { verify } = createVerifier(late, { clock, workspaceId: workspace });
      for (let i = 0; i < 3; i++) expect(await verify({ key })).toMatchObject({ code });
    }
  });

  it("a broken clock hides no 400 and no 403 (ruling A1)", async () => {
    const { store } = await world();
    const { verify } = createVerifier(store, { clock: () => NaN });
    const caller = { workspaceId: "ws_1", may: () => false, mayAny: () => false };
    expect(await failure(verify({} as never))).toMatchObject({ code: "BAD_REQUEST" });
    expect(await failure(verify({ key: "k", permissions: "(" }))).toMatchObject({ code: "PERMISSIONS_QUERY_SYNTAX" });
    expect(await failure(verify({ key: "k", permissions: "" }))).toMatchObject({ code: "BAD_REQUEST" });
    expect(await failure(verify({ key: "k" }, { caller }))).toMatchObject({ code: "CALLER_FORBIDDEN" });
    await expect(verify({ key: "k" })).rejects.toThrow("options.clock");
  });

  it("ruling G7: the context is read once, and belongs to the call", async () => {
    const { store, create, clock } = await world();
    const { key } = await create({ ratelimits: [limit("requests")] });
    const { verify } = createVerifier({ ...store, catchUp: () => Promise.resolve() }, { clock });
    await verify({ key });
    const caller = { workspaceId: "ws_other", may: () => false, mayAny: () => false };
    const context: { caller?: typeof caller } = {};
    const answer = verify({ key }, context);
    context.caller = caller;
    expect(await answer).toMatchObject({ code: "VALID" });
    let reads = 0;
    const changing = Object.defineProperty({}, "caller", { get: () => (reads++ === 0 ? caller : undefined) });
    expect(await failure(verify({ key }, changing))).toMatchObject({ code: "CALLER_FORBIDDEN" });
    expect(reads).toBe(1);
  });

  it("ruling G7: every property of a request is read once, usual or not", async () => {
    const { create, verify } = await world({ credits: { mode: "leased" } });
    const { key } = await create({ credits: { remaining: 100 }, ratelimits: [limit("requests", { limit: 2 })] });
    for (let i = 0; i < 4; i++) {
      let reads = 0;
      const request = Object.defineProperty({}, "key", { enumerable: true, get: () => (reads++, key) });
      await verify(request as never);
      expect(reads).toBe(1);
    }
  });
});
