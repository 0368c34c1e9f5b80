/** explain: tells what a verification would return, from the same checks, and takes nothing. */
import fc from "fast-check";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import {
  createKeyring,
  createVerifier,
  explain,
  memoryStore,
  type Store,
  type VerifierOptions,
} from "../../src/index.js";
import { digestKey } from "../../src/lib/hash.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { validateExplained } from "../../src/verify/explain.js";
import { runs } from "../runs.js";
import { failure, limit, NOON, world } from "../spec/support.js";

const folder = mkdtempSync(join(tmpdir(), "explain-"));
afterAll(() => rmSync(folder, { recursive: true }));
/** What the checks of each code found together, and whether all of them pass. */
const byCode = ({ checks }: { checks: readonly { code: string; passes: boolean }[] }) => {
  const found: Record<string, { passes?: boolean }> = {};
  for (const check of checks) {
    const passes = check.passes && found[check.code]?.passes !== false;
    found[check.code] = { ...found[check.code], ...check, passes };
  }
  return found;
};

describe("explain", () => {
  it("says of each check what it found: permissions by name, limits and the balance", async () => {
    const { verifier, create, apiId, keyring, time } = await world();
    const { key, keyId } = await create({
      permissions: ["documents.*"],
      ratelimits: [limit("calls", { limit: 2 })],
      credits: { remaining: 3 },
      expires: NOON + 60_000,
      ipAllowlist: ["10.0.0.0/8"],
    });
    await verifier.verify({ key }, { clientAddress: "10.0.0.1" });
    const request = {
      key,
      permissions: "documents.read AND (admin OR billing.view)",
      credits: { cost: 5 },
      ratelimits: [{ name: "calls", cost: 2 }],
    };
    const explained = await explain(verifier, request, { clientAddress: "192.0.2.1" });
    expect(explained).toMatchObject({ passes: false, refusal: "FORBIDDEN", keyId, apiId });
    expect(Object.entries(byCode(explained)).map(([code, { passes }]) => [code, passes])).toEqual([
      ["DISABLED", true],
      ["EXPIRED", true],
      ["FORBIDDEN", false],
      ["INSUFFICIENT_PERMISSIONS", false],
      ["RATE_LIMITED", false],
      ["USAGE_EXCEEDED", false],
    ]);
    expect(byCode(explained)).toMatchObject({
      EXPIRED: { expires: NOON + 60_000 },
      FORBIDDEN: { parentDisabled: false, ownerDisabled: false, addressAllowed: false },
      INSUFFICIENT_PERMISSIONS: { missing: ["admin", "billing.view"] },
      RATE_LIMITED: {
        limits: [{ name: "calls", limit: 2, cost: 2, remaining: 1, reset: 30_000, exceeded: true, autoApply: true }],
        retryAfter: 30_000,
        degraded: false,
      },
      USAGE_EXCEEDED: { cost: 5, remaining: 2 },
    });
    time.now += 60_001;
    await keyring.updateKey({ keyId, enabled: false });
    expect(await explain(verifier, { key }, { clientAddress: "10.0.0.1" })).toMatchObject({ refusal: "DISABLED" });
    expect(await explain(verifier, { key }, { apiId: "api_of_others" })).toEqual({
      passes: false,
      refusal: "NOT_FOUND",
      checks: [],
    });
  });

  it("shows nothing of what a key does not have, and no permission without a query", async () => {
    const { verifier, create, apiId } = await world();
    const { key, keyId } = await create();
    expect(await explain(verifier, { key })).toStrictEqual({
      passes: true,
      keyId,
      apiId,
      checks: [
        { code: "DISABLED", passes: true },
        { code: "EXPIRED", passes: true },
        { code: "FORBIDDEN", passes: true, parentDisabled: false, ownerDisabled: false, addressAllowed: true },
        { code: "INSUFFICIENT_PERMISSIONS", passes: true, has: [], missing: [] },
        { code: "RATE_LIMITED", passes: true, limits: [], degraded: false },
        { code: "USAGE_EXCEEDED", passes: true, cost: 1, creditsFrom: "none" },
      ],
    });
  });

  it("says whose state it was: the key's or its owner's", async () => {
    const { verifier, create, keyring, time } = await world();
    await keyring.createIdentity({ externalId: "acme", enabled: false, expires: NOON + 5 });
    const { key } = await create({ externalId: "acme", expires: NOON + 10 });
    const checks = async () => byCode(await explain(verifier, { key }));
    expect(await checks()).toMatchObject({
      EXPIRED: { passes: true, expires: NOON + 10, ownerExpires: NOON + 5 },
      FORBIDDEN: { passes: false, parentDisabled: false, ownerDisabled: true, addressAllowed: true },
    });
    time.now = NOON + 6;
    expect(await explain(verifier, { key })).toMatchObject({ refusal: "EXPIRED" });
  });

  it("says whose credits a call would take: the key's, its identity's, nobody's", async () => {
    const { verifier, create, keyring } = await world();
    await keyring.createIdentity({ externalId: "acme", credits: { remaining: 5 } });
    const sources: [object, object][] = [
      [{ credits: { remaining: 3 } }, { creditsFrom: "key", remaining: 3 }],
      [
        { externalId: "acme", creditsFrom: "identity" },
        { creditsFrom: "identity", remaining: 5 },
      ],
      [{}, { creditsFrom: "none" }],
    ];
    for (const [given, expected] of sources) {
      const { key } = await create(given);
      expect(byCode(await explain(verifier, { key }))["USAGE_EXCEEDED"]).toEqual({
        ...{ code: "USAGE_EXCEEDED", passes: true, cost: 1 },
        ...expected,
      });
    }
  });

  it("of two costs of one limit, calls exceeded what the verification does: one of 0 never is", async () => {
    const { verifier, create } = await world();
    const { key } = await create({ ratelimits: [limit("calls", { limit: 2 })] });
    const request = {
      key,
      ratelimits: [
        { name: "calls", cost: 3 },
        { name: "calls", cost: 0 },
      ],
    };
    const explained = byCode(await explain(verifier, request))["RATE_LIMITED"] as { limits: { exceeded: boolean }[] };
    const { ratelimits } = await verifier.verify(request);
    expect(explained.limits.map(({ exceeded }) => exceeded)).toEqual([true, false]);
    expect(ratelimits?.map(({ exceeded }) => exceeded)).toEqual([true, false]);
  });

  const stores: Record<string, (options: VerifierOptions) => Store> = {
    "a memory store": () => memoryStore(),
    "a file": () => sqliteStore(join(folder, `${Math.random()}.db`)),
  };
  const credits = [{ mode: "exact" }, { mode: "leased", size: 4, step: 2 }] as const;

  it.each(Object.keys(stores).flatMap((store) => credits.map((mode) => [store, mode] as const)))(
    "on %s, %o: tells the code of the call that follows, asked once or three times",
    async (name, mode) => {
      const step = fc.record({
        names: fc.array(fc.record({ limit: fc.nat(1), cost: fc.nat(4) }), { maxLength: 3 }),
        cost: fc.nat(3),
        query: fc.constantFrom(undefined, "a", "a AND b", "a OR b"),
        pause: fc.constantFrom(0, 0, 1_000, 20_000),
      });
      const property = fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 16 }), async (steps) => {
        const time = { now: NOON };
        const clock = () => time.now;
        const store = stores[name]!({});
        const keyring = createKeyring(store, { clock });
        const { apiId } = await keyring.createApi({ name: "documents" });
        const ratelimits = [limit("limit0", { limit: 4 }), limit("limit1", { limit: 3, autoApply: false })];
        const { key } = await keyring.createKey({ apiId, permissions: ["a"], ratelimits, credits: { remaining: 9 } });
        const verifier = createVerifier(store, { clock, credits: mode });
        for (const { names, cost, query, pause } of steps) {
          const request = {
            key,
            ...(query !== undefined && { permissions: query }),
            credits: { cost },
            ratelimits: names.map((one) => ({ name: `limit${one.limit}`, cost: one.cost })),
          };
          const first = await explain(verifier, request);
          expect([await explain(verifier, request), await explain(verifier, request)]).toEqual([first, first]);
          expect(first.refusal ?? "VALID").toBe((await verifier.verify(request)).code);
          time.now += pause;
        }
        await verifier.close();
        await store.close();
      });
      await fc.assert(property, { numRuns: runs(name === "a file" ? 15 : 60) });
    },
  );

  it("emits no event, and gives a migrated key no digest", async () => {
    const events: string[] = [];
    const { store, keyring, apiId, clock } = await world();
    const verifier = createVerifier(store, { clock, onOutcome: ({ code }) => events.push(code) });
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    const hash = Buffer.from(await digestKey("secret"), "base64").toString("hex");
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash }] });
    expect(await explain(verifier, { key: "a_b_secret", migrationId })).toMatchObject({ passes: true });
    const [row] = await store.readMany("keys", [migrated[0]!.keyId]);
    expect([row?.digest, row?.start]).toEqual([undefined, "..."]);
    await verifier.verify({ key: "a_b_secret", migrationId });
    await vi.waitFor(() => expect(events).toEqual(["VALID"]), 20_000);
  });

  it("refuses what a verification refuses, and a caller or an idempotency key", async () => {
    const { verifier, create } = await world();
    const { key } = await create();
    expect((await failure(explain(verifier, { key, permissions: "a AND" }))).code).toBe("PERMISSIONS_QUERY_SYNTAX");
    expect((await failure(explain(verifier, { key, ratelimits: [{ name: "none" }] }))).code).toBe("BAD_REQUEST");
    await expect(explain(verifier, { key }, { caller: {} } as never)).rejects.toThrow(
      /^context\.caller is not an option/,
    );
    await expect(explain({ verify: verifier.verify }, { key })).rejects.toThrow(/createVerifier made/);
    await verifier.close();
    expect((await failure(explain(verifier, { key }))).code).toBe("VERIFIER_CLOSED");
  });
});

describe("explain: a key that changes meanwhile", () => {
  /** A store in which an administrator acts around each reading of a balance. */
  async function meeting() {
    const inner = memoryStore();
    const acts = { before: async (): Promise<unknown> => 0, after: async (): Promise<unknown> => 0, readings: 0 };
    const store: Store = {
      ...inner,
      async spendCredits(...given) {
        acts.readings++;
        await acts.before();
        const spend = await inner.spendCredits(...given);
        await acts.after();
        return spend;
      },
    };
    const clock = () => NOON;
    const keyring = createKeyring(inner, { clock });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const daily = { interval: "daily", amount: 10 } as const;
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 5, refill: daily } });
    const refills = [{ interval: "monthly", amount: 10, refillDay: 1 } as const, daily];
    let changes = 0;
    const changeRefill = () => keyring.updateKey({ keyId, credits: { remaining: 7, refill: refills[changes++ % 2]! } });
    return {
      acts,
      key,
      keyId,
      keyring,
      changeRefill,
      unbound: () => keyring.updateKey({ keyId, credits: null }),
      remove: () => keyring.deleteKey({ keyId, permanent: true }),
      verifier: createVerifier(store, { clock }),
    };
  }

  it("its refill: all checks are explained again, by the key as it is then", async () => {
    const { acts, key, changeRefill, verifier } = await meeting();
    acts.before = async () => {
      if (acts.readings === 1) await changeRefill();
    };
    const explained = await explain(verifier, { key, credits: { cost: 6 } });
    expect(explained).toMatchObject({ passes: true });
    expect(explained.checks.map(({ code }) => code)).toHaveLength(6);
    expect(byCode(explained)["USAGE_EXCEEDED"]).toMatchObject({ passes: true, remaining: 7 });
    expect(acts.readings).toBe(2);
  });

  it("its refill and its limits: the limits explained are those of then", async () => {
    const { acts, key, keyId, keyring, verifier } = await meeting();
    await keyring.updateKey({ keyId, ratelimits: [limit("old", { limit: 2 })] });
    const monthly = { interval: "monthly", amount: 10, refillDay: 1 } as const;
    acts.before = async () => {
      if (acts.readings > 1) return;
      const ratelimits = [limit("first", { limit: 3 }), limit("second", { limit: 4 })];
      await keyring.updateKey({ keyId, credits: { remaining: 7, refill: monthly }, ratelimits });
    };
    const explained = await explain(verifier, { key, credits: { cost: 6 } });
    expect(acts.readings).toBe(2);
    expect(byCode(explained)["RATE_LIMITED"]).toMatchObject({
      passes: true,
      limits: [
        { name: "first", limit: 3, remaining: 3, cost: 1 },
        { name: "second", limit: 4, remaining: 4, cost: 1 },
      ],
    });
    expect(explained.passes).toBe(true);
  });

  it("its refill, again and again: STORE_BUSY after as many attempts as a verification makes", async () => {
    const { acts, key, changeRefill, verifier } = await meeting();
    acts.before = changeRefill;
    expect(await failure(explain(verifier, { key, credits: { cost: 1 } }))).toMatchObject({
      code: "STORE_BUSY",
      detail: "the credits of this key kept changing while it was explained; try again",
    });
    const attempts = acts.readings;
    expect(await failure(verifier.verify({ key, credits: { cost: 1 } }))).toMatchObject({
      code: "STORE_BUSY",
      detail: "the credits of this key kept changing while it was verified; try again",
    });
    expect([attempts, acts.readings]).toEqual([9, 18]);
  });

  it("its credits: a key that became unlimited passes at any cost", async () => {
    const { acts, key, unbound, verifier } = await meeting();
    acts.before = unbound;
    const explained = await explain(verifier, { key, credits: { cost: 6 } });
    const found = { code: "USAGE_EXCEEDED", passes: true, cost: 6, creditsFrom: "none" };
    expect(byCode(explained)["USAGE_EXCEEDED"]).toStrictEqual(found);
  });

  it("it goes: NOT_FOUND, before its balance is read or after", async () => {
    const nothing = { passes: false, refusal: "NOT_FOUND", checks: [] };
    const before = await meeting();
    before.acts.before = before.remove;
    expect(await explain(before.verifier, { key: before.key })).toEqual(nothing);
    const after = await meeting();
    after.acts.before = after.changeRefill;
    after.acts.after = after.remove;
    expect(await explain(after.verifier, { key: after.key })).toEqual(nothing);
    expect(after.acts.readings).toBe(1);
  });
});

describe("explain: a key by its id", () => {
  it("tells what it tells by the text, also with a query, costs and an address", async () => {
    const { verifier, create } = await world();
    const { key, keyId } = await create({ permissions: ["a"], credits: { remaining: 3 }, ipAllowlist: ["10.0.0.0/8"] });
    const request = { permissions: "a AND b", credits: { cost: 5 } };
    const context = { clientAddress: "10.0.0.1" };
    const byText = await explain(verifier, { key, ...request }, context);
    expect(await explain(verifier, { keyId, ...request }, context)).toEqual(byText);
    expect(byCode(byText)["INSUFFICIENT_PERMISSIONS"]).toMatchObject({ has: ["a"], missing: ["b"] });
    const nothing = { passes: false, refusal: "NOT_FOUND", checks: [] };
    for (const [request, options] of [
      [{ keyId: "key_gone" }, {}],
      [{ keyId }, { apiId: "api_of_others" }],
    ] as const)
      expect(await explain(verifier, request, options)).toEqual(nothing);
  });

  it("finds an import that never verified, and lets it stay so", async () => {
    const { verifier, keyring, apiId, store } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: "a".repeat(64) }] });
    const { keyId } = migrated[0]!;
    expect(await explain(verifier, { keyId })).toMatchObject({ passes: true, keyId, apiId });
    expect((await store.readMany("keys", [keyId]))[0]).not.toHaveProperty("digest");
    await keyring.deleteKey({ keyId });
    expect(await explain(verifier, { keyId })).toMatchObject({ refusal: "NOT_FOUND" });
  });

  it("refuses an id that is none, both names at once, and what a verification refuses", async () => {
    const { verifier } = await world();
    const problems = async (request: object) => (await failure(explain(verifier, request as never))).errors;
    for (const keyId of ["", "k".repeat(256), 5, undefined])
      expect(await problems({ keyId })).toEqual([
        { location: "body.keyId", message: "must be the id of a key, of 1 to 255 characters" },
      ]);
    expect(await problems({ keyId: "key_1", key: "text" })).toEqual([
      { location: "body.key", message: "must be left out", fix: "name the key by keyId or key" },
    ]);
    expect(await problems({ keyId: "key_1", permissions: "a AND" })).toMatchObject([
      { location: "body.permissions", position: 5 },
    ]);
    expect(await problems({ keyId: "key_1", wrong: 1 })).toMatchObject([{ location: "body.wrong" }]);
  });

  it("validateExplained: refuses the same before a key is looked for", () => {
    expect(() => validateExplained({ keyId: "key_1", permissions: "a" })).not.toThrow();
    for (const wrong of [{ keyId: "" }, { keyId: "key_1", key: "text" }, { keyId: "key_1", wrong: 1 }])
      expect(() => validateExplained(wrong)).toThrow(expect.objectContaining({ code: "BAD_REQUEST" }));
    const query = { keyId: "key_1", permissions: "a AND" };
    expect(() => validateExplained(query)).toThrow(expect.objectContaining({ code: "PERMISSIONS_QUERY_SYNTAX" }));
  });
});

it("explain: with a limiter that fails, what this node's share leaves, and when it fits again", async () => {
  const { store, create, clock } = await world();
  const limiter = { take: () => Promise.reject(new Error("gone")), close: () => undefined };
  const verifier = createVerifier(store, { clock, limiter, nodes: 5 });
  const { key } = await create({ ratelimits: [limit("calls", { limit: 10, autoApply: false })] });
  const request = { key, ratelimits: [{ name: "calls", cost: 2 }] };
  expect((await verifier.verify(request)).code).toBe("VALID");
  const explained = await explain(verifier, request);
  expect(explained).toMatchObject({ passes: false, refusal: "RATE_LIMITED" });
  // A share of 2 in 60 seconds: both tokens are back when all of it has passed.
  expect(byCode(explained)["RATE_LIMITED"]).toMatchObject({
    degraded: true,
    retryAfter: 60_000,
    limits: [{ name: "calls", cost: 2, remaining: 0, exceeded: true }],
  });
});
