/** retryAfter: the wait that a refusal tells is the one after which the limiter lets the same call pass. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  memoryStore,
  type OutcomeEvent,
  retryAfter,
  type VerifierOptions,
} from "../../src/index.js";
import { retryAfterOf, waitFor } from "../../src/ratelimit/wait-time.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { runs } from "../runs.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const START = 1_700_000_000_000;

/** A key with these limits, and a clock to turn. */
async function stage(ratelimits: readonly object[], options: VerifierOptions = {}) {
  const store = memoryStore();
  const time = { now: START };
  const keyring = createKeyring(store, { clock: () => time.now });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId, ratelimits: ratelimits as never });
  return { key, keyId, keyring, apiId, time, verifier: createVerifier(store, { clock: () => time.now, ...options }) };
}

/** An owner of its own. */
async function newOwner(keyring: ReturnType<typeof createKeyring>, more: object) {
  const externalId = `owner_${randomUUID()}`;
  await keyring.createIdentity({ externalId, ...more });
  return { externalId };
}

describe("retryAfter of USAGE_EXCEEDED", () => {
  const DAY = 86_400_000;
  const refills = fc.constantFrom(
    { interval: "daily", amount: 3 },
    { interval: "monthly", amount: 50, refillDay: 1 },
    { interval: "monthly", amount: 7, refillDay: 31 },
  );

  it("ruling C10: it is the refill that covers the cost, and a millisecond before it the call is refused", async () => {
    const property = fc.asyncProperty(
      refills,
      fc.nat(20),
      fc.nat(60),
      fc.nat(40 * DAY),
      async (refill, remaining, more, later) => {
        const { keyring, apiId, time, verifier } = await stage([]);
        time.now += later;
        const { key } = await keyring.createKey({ apiId, credits: { remaining, refill: refill } });
        const request = { key, credits: { cost: remaining + 1 + more } };
        const wait = retryAfter(await verifier.verify(request))!;
        expect(wait).toBeGreaterThan(0);
        time.now += wait - 1;
        expect((await verifier.verify(request)).code).toBe("USAGE_EXCEEDED");
        time.now++;
        expect((await verifier.verify(request)).code).toBe("VALID");
      },
    );
    await fc.assert(property, { numRuns: runs(200) });
  });

  it("without a refill, or beyond what is refilled at once, waiting does not help; a copy does not know", async () => {
    const { keyring, apiId, verifier } = await stage([]);
    const waits = [];
    const daily = { interval: "daily", amount: 1 } as const;
    for (const [credits, cost] of [
      [{ remaining: 1 }, 2],
      [{ remaining: 0, refill: daily }, 400],
      [{ remaining: 0, refill: daily }, 401],
    ] as const) {
      const { key } = await keyring.createKey({ apiId, credits });
      const result = await verifier.verify({ key, credits: { cost } });
      waits.push(retryAfter(result) !== undefined);
      expect(retryAfter(structuredClone(result))).toBeUndefined();
    }
    expect(waits).toEqual([false, true, false]);
  });
});

describe("retryAfter of USAGE_EXCEEDED, of several accounts", () => {
  const DAY = 86_400_000;
  const path = temporaryPaths();
  const stores = [
    ["memory", memoryStore],
    ["sqlite", () => sqliteStore(path())],
  ] as const;
  const plans = fc.record(
    {
      interval: fc.constantFrom("hourly", "daily"),
      amount: fc.integer({ min: 1, max: 9 }),
      rollover: fc.integer({ min: 0, max: 20 }),
      timeZone: fc.constantFrom("UTC", "Asia/Kolkata"),
    },
    { requiredKeys: ["interval", "amount"] },
  );
  const grants = fc.array(
    fc.record(
      {
        amount: fc.integer({ min: 1, max: 9 }),
        expiresIn: fc.integer({ min: 3_600_000, max: 3 * DAY }),
        refill: plans,
        priority: fc.constantFrom(50, 100, 150),
      },
      { requiredKeys: ["amount"] },
    ),
    { maxLength: 2 },
  );
  const credits = fc.record({ remaining: fc.nat(9), refill: plans }, { requiredKeys: ["remaining"] });

  it.each(stores)(
    "%s: a cap, a plan, grants: after it the call passes, a millisecond before it does not",
    async (_, open) => {
      const store = open();
      const time = { now: START };
      const clock = () => time.now;
      const keyring = createKeyring(store, { clock });
      const verifier = createVerifier(store, { clock });
      const { apiId } = await keyring.createApi({ name: "models" });
      let [owners, waits] = [0, 0];
      const property = fc.asyncProperty(
        credits,
        credits,
        grants,
        fc.integer({ min: 1, max: 25 }),
        async (cap, plan, given, cost) => {
          const externalId = `owner_${++owners}`;
          await keyring.createIdentity({ externalId, credits: plan });
          for (const [i, grant] of given.entries())
            await keyring.grantCredits({
              identity: externalId,
              grantId: `grant_${i}`,
              ...(grant as { amount: number }),
            });
          const { key } = await keyring.createKey({ apiId, externalId, credits: cap });
          const request = { key, credits: { cost } };
          const code = async () => (await verifier.verify(request)).code;
          const result = await verifier.verify(request);
          if (result.code === "VALID") return;
          const wait = retryAfter(result);
          const began = time.now;
          if (wait === undefined) {
            for (const days of [1, 2, 3, 9, 30]) {
              time.now = began + days * DAY;
              expect(await code()).toBe("USAGE_EXCEEDED");
            }
          } else {
            waits++;
            time.now += wait - 1;
            expect(await code()).toBe("USAGE_EXCEEDED");
            time.now++;
            expect(await code()).toBe("VALID");
          }
        },
      );
      // All of them always: the waits are counted.
      await fc.assert(property, { numRuns: 100 });
      expect(waits).toBeGreaterThan(10);
      await store.close();
    },
  );

  it("no account has a refill, or the key or its owner ends before: waiting does not help", async () => {
    const { keyring, apiId, verifier } = await stage([]);
    const daily = { interval: "daily", amount: 5 } as const;
    const midnight = Math.ceil(START / DAY) * DAY;
    const waitOf = async (more: object, owner: object, plan: object) => {
      const { externalId } = await newOwner(keyring, { ...owner, credits: plan });
      const { key } = await keyring.createKey({ apiId, externalId, credits: { remaining: 9 }, ...more });
      return retryAfter(await verifier.verify({ key, credits: { cost: 3 } }));
    };
    const plan = { remaining: 1, refill: daily };
    expect(await waitOf({}, {}, { remaining: 1 })).toBeUndefined();
    expect(await waitOf({}, {}, plan)).toBe(midnight - START);
    expect(await waitOf({ expires: midnight }, { expires: midnight }, plan)).toBe(midnight - START);
    expect(await waitOf({ expires: midnight - 1 }, {}, plan)).toBeUndefined();
    expect(await waitOf({}, { expires: midnight - 1 }, plan)).toBeUndefined();
  });

  it("a limit that lets the call pass once the key has expired tells no wait either", async () => {
    const calls = { name: "calls", limit: 1, duration: 60_000, autoApply: true };
    const { key, verifier, keyring, keyId } = await stage([calls]);
    await keyring.updateKey({ keyId, expires: START + 59_999 });
    await verifier.verify({ key });
    expect(retryAfter(await verifier.verify({ key }))).toBeUndefined();
  });
});

describe("retryAfter", () => {
  const limit = fc.record({
    limit: fc.integer({ min: 1, max: 20 }),
    duration: fc.integer({ min: 1_000, max: 100_000 }),
  });
  const asks = fc.array(fc.record({ limit: fc.nat(1), cost: fc.nat(8) }), { minLength: 1, maxLength: 4 });
  const steps = fc.array(fc.record({ asks, pause: fc.nat(20_000) }), { minLength: 1, maxLength: 8 });

  it("after it the same call passes, a millisecond before it does not, and a copy of the answer tells at most one more", async () => {
    let refusals = 0;
    const property = fc.asyncProperty(limit, limit, steps, async (first, second, history) => {
      const named = [first, second].map((size, i) => ({ name: `limit${i}`, ...size, autoApply: i === 0 }));
      const { key, time, verifier } = await stage(named);
      for (const { asks, pause } of history) {
        const request = { key, ratelimits: asks.map((ask) => ({ name: `limit${ask.limit}`, cost: ask.cost })) };
        const result = await verifier.verify(request);
        const wait = retryAfter(result);
        if (result.code === "RATE_LIMITED") {
          refusals++;
          const copy = structuredClone(result);
          expect(retryAfter(copy)).toBeUndefined();
          // The answer's `reset` is clamped to a second from below.
          if (result.ratelimits?.every(({ reset }) => reset > 1_000))
            expect([wait, wait! + 1]).toContain(retryAfter(copy, request));
          if (wait === undefined) {
            time.now += 200_000;
            expect((await verifier.verify(request)).code).toBe("RATE_LIMITED");
          } else {
            time.now += wait - 1;
            expect((await verifier.verify(request)).code).toBe("RATE_LIMITED");
            time.now++;
            expect((await verifier.verify(request)).code).toBe("VALID");
          }
        } else expect(wait).toBeUndefined();
        time.now += pause;
      }
    });
    await fc.assert(property, { numRuns: runs(300) });
    expect(refusals).toBeGreaterThan(10);
  });

  it("counts in the limiter's numbers, which answers show clamped", async () => {
    const { key, verifier } = await stage([
      { name: "calls", limit: 4_000_000, duration: 8_000_000_000, autoApply: false },
    ]);
    const request = { key, ratelimits: [{ name: "calls", cost: 4_000_000 }] };
    await verifier.verify(request);
    expect(retryAfter(await verifier.verify({ key, ratelimits: [{ name: "calls", cost: 1 }] }))).toBe(2_000);
    expect(retryAfter(await verifier.verify(request))).toBe(8_000_000_000);
  });

  it("the one automatic limit, a limiter that waits, and a node's share", async () => {
    const calls = [{ name: "calls", limit: 10, duration: 60_000, autoApply: true }];
    const only = await stage(calls);
    for (let i = 0; i < 10; i++) await only.verifier.verify({ key: only.key });
    expect(retryAfter(await only.verifier.verify({ key: only.key }))).toBe(6_000);

    const slow = { take: async () => [{ exceeded: true, remaining: 0, reset: 50_000 }] };
    const waiting = await stage(calls, { limiter: slow });
    expect(retryAfter(await waiting.verifier.verify({ key: waiting.key }))).toBe(0);

    const gone = { take: () => Promise.reject(new Error("gone")) };
    const sharing = await stage(calls, { limiter: gone, nodes: 5 });
    for (let i = 0; i < 2; i++) await sharing.verifier.verify({ key: sharing.key });
    // Two calls a minute are this node's share.
    expect(retryAfter(await sharing.verifier.verify({ key: sharing.key }))).toBe(30_000);
  });

  it("a limit that is configured anew: of a key, and of overrides in its requests", async () => {
    const DAY = 86_400_000;
    const sized = (limit: number, duration: number) => ({ name: "calls", limit, duration, autoApply: true });
    for (const [before, after, wait] of [
      [sized(100, DAY), sized(100, 60_000), 600],
      [sized(1_000, 3_600_000), sized(10, 3_600_000), 99 * 3_600_000 + 360_000],
    ] as const) {
      for (const override of [undefined, { name: "calls", limit: after.limit, duration: after.duration }]) {
        const { key, keyring, keyId, time, verifier } = await stage([before]);
        const asked = (cost: number) => ({ key, ratelimits: [{ ...override, name: "calls", cost }] });
        await verifier.verify({ key, ratelimits: [{ name: "calls", cost: before.limit }] });
        if (override === undefined) await keyring.updateKey({ keyId, ratelimits: [after] });
        const refused = await verifier.verify(asked(1));
        expect([refused.code, retryAfter(refused)]).toEqual(["RATE_LIMITED", wait]);
        time.now += wait - 1;
        expect((await verifier.verify(asked(1))).code).toBe("RATE_LIMITED");
        time.now++;
        expect((await verifier.verify(asked(1))).code).toBe("VALID");
      }
    }
  });

  it("a copy whose request asked for no limit: each automatic one costs 1", async () => {
    const { key, verifier } = await stage([{ name: "calls", limit: 10, duration: 60_000, autoApply: true }]);
    for (let i = 0; i < 10; i++) await verifier.verify({ key });
    expect(retryAfter(structuredClone(await verifier.verify({ key })), {})).toBe(6_000);
  });

  it("other outcomes have none, whatever they look like", () => {
    expect(retryAfter({ valid: false, code: "NOT_FOUND" }, {})).toBeUndefined();
    expect(retryAfter({ valid: false, code: "RATE_LIMITED" }, {})).toBeUndefined();
  });

  it("a copy of a VALID answer has none, though it shows its limits; and nothing of it is said to be degraded", async () => {
    const events: OutcomeEvent[] = [];
    const { key, verifier } = await stage([{ name: "calls", limit: 10, duration: 60_000, autoApply: true }], {
      onOutcome: (event) => events.push(event),
    });
    const result = await verifier.verify({ key });
    expect([result.code, result.ratelimits?.length]).toEqual(["VALID", 1]);
    expect(retryAfter(structuredClone(result), {})).toBeUndefined();
    await verifier.close();
    expect(events.map(({ code, degraded }) => [code, degraded])).toEqual([["VALID", false]]);
  });
});

describe("retryAfterOf", () => {
  const check = (bucket: string, cost: number, exceeded: boolean, size = { limit: 10, duration: 1_000 }) => ({
    bucket,
    cost,
    exceeded,
    reset: 1_000,
    ...size,
  });

  it("adds up the costs of one bucket, and takes the longest wait of those that refused", () => {
    expect(retryAfterOf([check("a", 3, true), check("a", 4, false)])).toBe(700);
    expect(retryAfterOf([check("a", 3, true), check("b", 4, true)])).toBe(400);
    expect(retryAfterOf([check("a", 3, true), check("b", 9, false)])).toBe(300);
    expect(retryAfterOf([check("a", 6, false), check("a", 5, true)])).toBeUndefined();
  });

  it("an override counts what was asked for before it, not after", () => {
    const small = { limit: 3, duration: 1_000 };
    expect(retryAfterOf([check("a", 1, true, small), check("a", 5, true)])).toBe(600);
    expect(retryAfterOf([check("a", 5, true), check("a", 0, true, small)])).toBe(500);
  });

  it("a limit of 0 never holds anything, and a cost of 0 never waits", () => {
    expect(waitFor({ limit: 0, duration: 1_000 }, 1, 1_000)).toBeUndefined();
    expect(waitFor({ limit: 0, duration: 1_000 }, 0, 1_000)).toBe(0);
    // A limiter of one's own may name any reset.
    expect(waitFor({ limit: 10, duration: 1_000 }, 0, 5_000)).toBe(0);
  });
});
