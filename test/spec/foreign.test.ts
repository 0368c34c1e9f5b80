/**
 * Stores and limiters that a program brings: what breaks its type is never a VALID, and what does not answer holds
 * nobody up.
 */
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../src/http/index.js";
import {
  createKeyring,
  createRatelimits,
  createVerifier,
  type KeyRecord,
  type Limiter,
  type LimitVerdict,
  memoryLimiter,
  type OutcomeEvent,
  type Store,
  type VerifierOptions,
} from "../../src/index.js";
import { failure, limit, NOON, world } from "./support.js";

const JUNK: readonly unknown[] = [
  null,
  NaN,
  Infinity,
  1.5,
  -1,
  "false",
  "yes",
  0,
  1,
  {},
  [],
  [1],
  () => true,
  2n,
  "x".repeat(9_000),
];
const never = () => new Promise<never>(() => undefined);
/** Milliseconds of a deadline in these tests, and the most that a call may then take. */
const SOON = 25;
const SLACK = 1_500;

/** A key with everything, its verifier not yet made. */
async function stage() {
  const { store, keyring, create, clock, apiId } = await world();
  const all = {
    name: "n",
    meta: { a: 1 },
    expires: NOON + 1,
    permissions: ["a.b"],
    externalId: "user_1",
    ratelimits: [limit("requests")],
    credits: { remaining: 100, refill: { interval: "daily", amount: 1 } },
    ipAllowlist: ["192.0.2.7"],
  } as const;
  const { key, keyId } = await create(all);
  const record = (await store.findKey((await store.readMany("keys", [keyId]))[0]?.digest ?? "")) as KeyRecord;
  const over = (methods: object): Store => ({ ...store, ...methods });
  const verifier = (methods: object, options: VerifierOptions = {}) =>
    createVerifier(over(methods), { clock, ...options });
  return { store, keyring, key, keyId, record, over, verifier, clock, apiId };
}

const inTime = async <T>(act: () => Promise<T>): Promise<T> => {
  const began = performance.now();
  try {
    return await act();
  } finally {
    expect(performance.now() - began).toBeLessThan(SOON + SLACK);
  }
};

describe("foreign stores: what breaks its type is never a VALID", () => {
  it("the record as it should be is VALID, found at once or late", async () => {
    const { key, record, verifier } = await stage();
    for (const findKey of [() => record, () => Promise.resolve(record)]) {
      const answer = await verifier({ findKey }).verify({ key, permissions: "a.b" }, { clientAddress: "192.0.2.7" });
      expect(answer).toMatchObject({
        code: "VALID",
        name: "n",
        identity: { externalId: "user_1" },
        permissions: ["a.b"],
      });
    }
  });

  it("any field of a record, a spend or a draw broken: STORE_INVALID, which names it", async () => {
    const { key, record, verifier } = await stage();
    const asked = [{ key, permissions: "a.b" }, { clientAddress: "192.0.2.7" }] as const;
    const cases: readonly (readonly [method: string, whole: object, options: VerifierOptions])[] = [
      ["findKey", record, {}],
      ["spendCredits", { ok: true, remaining: 5 }, {}],
      ["drawCredits", { drawn: 5, generation: 1, remaining: 5 }, { credits: { mode: "leased", firstStep: 5 } }],
    ];
    const open: Limiter = { take: (checks) => checks.map(() => ({ exceeded: false, remaining: 1, reset: 1 })) };
    let broken = 0;
    for (const [method, whole, options] of cases) {
      let answer: unknown;
      // One verifier for all: what is broken is not remembered.
      const { verify } = verifier({ [method]: () => answer }, { ...options, limiter: open });
      for (const [field, right] of Object.entries(whole)) {
        for (const junk of JUNK) {
          if (typeof junk === typeof right && !(typeof junk === "number" && !Number.isSafeInteger(junk))) continue;
          if (
            (field === "remaining" && junk === null) ||
            (field === "ref" && (junk === 0 || junk === 1 || junk === -1))
          )
            continue;
          if (field === "ref" && junk === "false") continue;
          const wrong = { ...whole, [field]: junk };
          for (const given of [wrong, Promise.resolve(wrong)]) {
            answer = given;
            const error = await failure(verify(...asked));
            expect([error.code, error.message]).toEqual([
              "STORE_INVALID",
              expect.stringContaining(`${method} is malformed: ${field}`),
            ]);
            broken++;
          }
        }
      }
    }
    expect(broken).toBeGreaterThan(300);
  });

  it("the examples of the report: none is a VALID", async () => {
    const { key, record, verifier } = await stage();
    const context = { clientAddress: "192.0.2.7" };
    for (const part of [
      { enabled: "false" },
      { expires: NaN },
      { hasCredits: undefined },
      { parentDisabled: 0 },
      { ipAllowlists: undefined },
    ]) {
      const answering = verifier({ findKey: () => ({ ...record, ...part }) });
      expect((await failure(answering.verify({ key }, context))).code).toBe("STORE_INVALID");
    }
    for (const spend of [{ ok: "yes" }, { ok: true, remaining: NaN }, null, true, {}, []]) {
      expect((await failure(verifier({ spendCredits: () => spend }).verify({ key }, context))).code).toBe(
        "STORE_INVALID",
      );
    }
  });

  it("a polluted prototype lends no field to a record that lacks it", async () => {
    const { key, record, verifier } = await stage();
    for (const field of ["enabled", "hasCredits", "parentDisabled", "expires"] as const) {
      const { [field]: _, ...rest } = record;
      const answering = verifier({ findKey: () => rest });
      Object.assign(Object.prototype, { [field]: field === "expires" ? NOON - 1 : field === "enabled" });
      try {
        const answer = await answering
          .verify({ key }, { clientAddress: "192.0.2.7" })
          .catch((error: unknown) => error as { code: string });
        expect(answer.code).toBe(field === "expires" ? "VALID" : "STORE_INVALID");
      } finally {
        Reflect.deleteProperty(Object.prototype, field);
      }
    }
  });

  it("a record is validated when it is found, not at each call that finds it remembered", async () => {
    const { key, record, verifier } = await stage();
    let reads = 0;
    const watched = new Proxy(record, {
      get: (target, name, receiver) => {
        if (name === "enabled") reads++;
        return Reflect.get(target, name, receiver) as unknown;
      },
    });
    const { verify } = verifier({ findKey: () => watched });
    for (let call = 0; call < 5; call++)
      expect((await verify({ key }, { clientAddress: "192.0.2.7" })).code).toBe("VALID");
    expect(reads).toBe(1);
  });

  it("a broken root key lets nobody in, and a broken row changes nothing", async () => {
    const { store, keyring, over, keyId } = await stage();
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const root = (await store.readMany("rootKeys", [rootKeyId]))[0] as object;
    for (const part of [
      { enabled: "true" },
      { expires: "never" },
      { permissions: "*" },
      { workspaceId: 1 },
      { id: null },
    ]) {
      const { authenticate } = createAuthenticator(over({ findRootKey: () => ({ ...root, ...part }) }));
      expect((await failure(authenticate(`Bearer ${key}`))).code).toBe("STORE_INVALID");
    }
    const before = await keyring.getKey({ keyId });
    const row = (await store.readMany("keys", [keyId]))[0] as object;
    const readMany = (table: never, ids: string[]) =>
      table === "keys" ? [{ ...row, enabled: "no" }] : store.readMany(table, ids);
    expect((await failure(createKeyring(over({ readMany })).updateKey({ keyId, name: "other" }))).code).toBe(
      "STORE_INVALID",
    );
    expect(await keyring.getKey({ keyId })).toEqual(before);
  });
});

describe("foreign stores: what does not answer holds nobody up", () => {
  it.each<[method: string, body: object, options: VerifierOptions]>([
    ["pollChanges", {}, {}],
    ["findKey", {}, {}],
    ["spendCredits", {}, {}],
    ["drawCredits", {}, { credits: { mode: "leased", firstStep: 5 } }],
    ["readMany", { key: "other", migrationId: "old" }, {}],
    ["findForeignKey", { key: "other", migrationId: "old" }, {}],
    ["findRootKey", { key: "root_other" }, {}],
  ])("verify, whose store hangs in %s, rejects with STORE_TIMEOUT", async (method, body, options) => {
    const { key, keyring, verifier } = await stage();
    await keyring.createMigration({ id: "old", algorithm: "sha256" });
    const { verify } = verifier({ [method]: never }, { storeTimeout: SOON, ...options });
    const error = await inTime(() => failure(verify({ key, ...body }, { clientAddress: "192.0.2.7" })));
    expect([error.code, error.status]).toEqual(["STORE_TIMEOUT", 503]);
    expect(error.message).toMatch(new RegExp(`^the store did not answer ${method} within ${SOON} ms`));
    expect(error.message.endsWith("whether it was done is unknown")).toBe(method.endsWith("Credits"));
  });

  it("keyring, authenticator and rate limits too; and a verifier can be closed while returns hang", async () => {
    const { keyring, key, over, verifier, keyId, clock, apiId } = await stage();
    const { key: rootKey } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const options = { storeTimeout: SOON };
    const calls: readonly (() => Promise<unknown>)[] = [
      () => createKeyring(over({ readMany: never }), options).getKey({ keyId }),
      () => createKeyring(over({ write: never }), options).updateKey({ keyId, name: "other" }),
      () => createKeyring(over({ insertKeys: never }), options).createKey({ apiId }),
      () => createAuthenticator(over({ findRootKey: never }), options).authenticate(`Bearer ${rootKey}`),
      () => createAuthenticator(over({ pollChanges: never }), { ...options, clock }).authenticate(`Bearer ${rootKey}`),
      () => createRatelimits(over({ readNames: never }), options).getNamespace({ namespace: "email" }),
    ];
    for (const call of calls) expect((await inTime(() => failure(call()))).code).toBe("STORE_TIMEOUT");
    const closing = verifier(
      { returnCredits: never },
      { ...options, credits: { mode: "leased", firstStep: 5, closeTimeout: SOON } },
    );
    expect((await closing.verify({ key }, { clientAddress: "192.0.2.7" })).code).toBe("VALID");
    expect((await inTime(() => failure(closing.close()))).code).toBe("CREDITS_NOT_RETURNED");
  });

  it("a find that comes after its deadline is dropped; the next call asks again and is answered", async () => {
    const { key, record, verifier } = await stage();
    const answers: ((found: KeyRecord) => void)[] = [];
    const { verify } = verifier(
      { findKey: () => new Promise<KeyRecord>((resolve) => answers.push(resolve)) },
      { storeTimeout: SOON },
    );
    expect((await failure(verify({ key }, { clientAddress: "192.0.2.7" }))).code).toBe("STORE_TIMEOUT");
    answers[0]?.({ ...record, enabled: false });
    const next = verify({ key }, { clientAddress: "192.0.2.7" });
    await Promise.resolve();
    answers[1]?.(record);
    expect((await next).code).toBe("VALID");
  });
});

describe("foreign limiters", () => {
  const verdict: LimitVerdict = { exceeded: false, remaining: 5, reset: 1_000 };
  const taking = (answer: () => unknown): Limiter => ({ take: answer as Limiter["take"] });
  const scene = async (limiter: Limiter, onLimiterFailure: "local" | "deny" | "allow") => {
    const events: OutcomeEvent[] = [];
    const { key, verifier } = await stage();
    const made = verifier(
      {},
      { limiter, onLimiterFailure, limiterTimeout: SOON, onOutcome: (event) => events.push(event) },
    );
    return {
      verify: () => made.verify({ key }, { clientAddress: "192.0.2.7" }),
      counters: made.counters,
      close: made.close,
      events,
    };
  };

  it.each(Object.keys(verdict))("a verdict whose %s is broken counts as none", async (field) => {
    for (const junk of JUNK) {
      if (typeof junk === "number" && Number.isFinite(junk) && junk >= 0 && field !== "exceeded") continue;
      const { verify } = await scene(
        taking(() => [{ ...verdict, [field]: junk }]),
        "deny",
      );
      expect((await failure(verify())).code).toBe("LIMITER_UNAVAILABLE");
    }
  });

  it("a polluted prototype lends no field to a verdict that lacks it", async () => {
    const { verify } = await scene(
      taking(() => [{ remaining: 5, reset: 1_000 }]),
      "deny",
    );
    Object.assign(Object.prototype, { exceeded: false });
    try {
      expect((await failure(verify())).code).toBe("LIMITER_UNAVAILABLE");
    } finally {
      Reflect.deleteProperty(Object.prototype, "exceeded");
    }
  });

  it.each(["local", "deny", "allow"] as const)(
    "one that never answers: what onLimiterFailure says (%s), and degraded is told",
    async (failing) => {
      for (const hanging of [never, () => ({ then: () => undefined })]) {
        const { verify, counters, close, events } = await scene(taking(hanging), failing);
        if (failing === "deny") {
          const error = await inTime(() => failure(verify()));
          expect([error.code, (error.cause as Error).message]).toEqual([
            "LIMITER_UNAVAILABLE",
            `The limiter did not answer within ${SOON} ms.`,
          ]);
        } else {
          expect((await inTime(verify)).ratelimits).toMatchObject([
            { exceeded: false, remaining: failing === "local" ? 9 : 10 },
          ]);
          await close();
          expect(events.map(({ degraded }) => degraded)).toEqual([true]);
        }
        expect(counters().degraded).toBe(1);
      }
    },
  );

  it("rate limits of anything too", async () => {
    const { over, clock } = await stage();
    const options = { clock, limiter: taking(never), limiterTimeout: SOON };
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    const { limit: limitOne } = createRatelimits(over({}), { ...options, onLimiterFailure: "deny" });
    expect((await inTime(() => failure(limitOne(check)))).code).toBe("LIMITER_UNAVAILABLE");
    expect(await inTime(() => createRatelimits(over({}), options).limit(check))).toMatchObject({
      success: true,
      remaining: 9,
    });
  });

  it("an answer in time is the limiter's own", async () => {
    const inner = memoryLimiter();
    const late: Limiter = { take: (checks, now) => Promise.resolve().then(() => inner.take(checks, now)) };
    const { verify, counters } = await scene(late, "deny");
    expect((await verify()).code).toBe("VALID");
    expect(counters().degraded).toBe(0);
  });
});

describe("foreign: the options", () => {
  it.each([0, 600_001, 1.5, NaN, "5", null])("a timeout of %s is refused, and the option named", async (timeout) => {
    const { store } = await world();
    const makers = [createVerifier, createKeyring, createAuthenticator, createRatelimits] as readonly ((
      ...given: unknown[]
    ) => unknown)[];
    for (const make of makers)
      expect(() => make(store, { storeTimeout: timeout })).toThrow(/^options\.storeTimeout must be/);
    for (const make of [createVerifier, createRatelimits] as typeof makers) {
      expect(() => make(store, { limiterTimeout: timeout })).toThrow(/^options\.limiterTimeout must be/);
    }
  });
});
