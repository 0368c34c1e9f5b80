/** Spends by id: credits of keys and identities without a key's text, on real stores. */
import { describe, expect, it } from "vitest";
import {
  createAnalytics,
  createKeyring,
  createVerifier,
  forOwner,
  type KeystileError,
  memoryStore,
  type OutcomeEvent,
  type SpendOwner,
  type Store,
  type VerifierOptions,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const path = temporaryPaths();
const NOON = Date.UTC(2026, 2, 10, 12);
const DAY = 86_400_000;
const MONTHLY = { interval: "monthly", amount: 1_000, refillDay: 1, rollover: 0 } as const;
const BEDS: readonly (readonly [name: string, open: () => Store, credits: VerifierOptions["credits"]])[] = [
  ["memory", memoryStore, { mode: "exact" }],
  ["SQLite", () => sqliteStore(path()), { mode: "exact" }],
  ["SQLite, leased", () => sqliteStore(path()), { mode: "leased", size: 100, step: 50, firstStep: 50 }],
];

async function world(store: Store, options: VerifierOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const events: OutcomeEvent[] = [];
  const verifier = createVerifier(store, { clock, onOutcome: (event) => events.push(event), ...options });
  const { apiId } = await keyring.createApi({ name: "models" });
  await keyring.createIdentity({ externalId: "acme", credits: { remaining: 1_000, refill: MONTHLY } });
  const create = (body: object = {}) => keyring.createKey({ apiId, externalId: "acme", ...body });
  const left = async () => (await keyring.getBalance({ identity: "acme" })).remaining;
  const problem = async (call: Promise<unknown>) =>
    call.then(
      () => "resolved",
      (error: unknown) => {
        const { code, errors } = error as KeystileError;
        return [code, errors[0]?.location];
      },
    );
  return { store, time, clock, keyring, events, verifier, apiId, create, left, problem };
}

describe.each(BEDS)("verifier.spend on %s", (_, open, credits) => {
  it("takes credits of a key by its id, of all that its calls take from, and checks nothing else", async () => {
    const { verifier, create, keyring, left, time } = await world(open(), { credits });
    const { keyId, key } = await create({ credits: { remaining: 5 } });
    expect(await verifier.spend({ keyId }, { cost: 3 })).toEqual({ code: "VALID", remaining: 2 });
    expect(await verifier.spend({ keyId }, { cost: 3 })).toEqual({ code: "USAGE_EXCEEDED", remaining: 2 });
    expect(await left()).toBe(997);
    await keyring.updateKey({ keyId, enabled: false, expires: NOON - DAY });
    expect(await verifier.spend({ keyId })).toEqual({ code: "VALID", remaining: 1 });
    time.now += DAY;
    expect((await verifier.verify({ key })).code).toBe("DISABLED");
    expect(await verifier.spend({ keyId }, { cost: 0 })).toEqual({ code: "VALID", remaining: 1 });
    await keyring.deleteKey({ keyId });
    expect(await verifier.spend({ keyId })).toEqual({ code: "NOT_FOUND" });
    await verifier.close();
  });

  it("takes credits of an identity by its externalId or id, grants in their order, and none that are unlimited", async () => {
    const { verifier, keyring, left } = await world(open(), { credits });
    const { id } = await keyring.getIdentity({ identity: "acme" });
    expect(await verifier.spend({ identity: "acme" }, { cost: 10 })).toEqual({ code: "VALID", remaining: 990 });
    await keyring.grantCredits({ identity: "acme", grantId: "order_1", amount: 50, expiresIn: DAY, reason: "bonus" });
    expect(await verifier.spend({ identity: id }, { cost: 60 })).toEqual({ code: "VALID", remaining: 980 });
    const { accounts } = await keyring.getBalance({ identity: "acme" });
    expect(accounts.map(({ kind, remaining }) => [kind, remaining])).toEqual([
      ["grant", 0],
      ["plan", 980],
    ]);
    expect(await verifier.spend({ identity: "acme" }, { cost: 981 })).toEqual({
      code: "USAGE_EXCEEDED",
      remaining: 980,
    });
    expect(await left()).toBe(980);
    await keyring.createIdentity({ externalId: "free" });
    expect(await verifier.spend({ identity: "free" }, { cost: 5 })).toEqual({ code: "VALID", remaining: null });
    expect(await verifier.spend({ identity: "nobody" })).toEqual({ code: "NOT_FOUND" });
    await verifier.close();
  });

  it("under an idempotency key it is made once, whatever becomes of the balance; another owner or cost is a mismatch", async () => {
    const { verifier, create, left, problem, time } = await world(open(), { credits });
    const { keyId } = await create();
    const once = { idempotencyKey: "job 1" };
    expect(await verifier.spend({ keyId }, { cost: 4 }, once)).toEqual({ code: "VALID", remaining: 996 });
    time.now += 1_000;
    expect(await verifier.spend({ keyId }, { cost: 4 }, once)).toEqual({
      code: "VALID",
      remaining: 996,
      repeated: true,
    });
    for (const [owner, cost] of [
      [{ keyId }, 5],
      [{ identity: "acme" }, 4],
    ] as const)
      expect(await problem(verifier.spend(owner, { cost }, once))).toEqual(["IDEMPOTENCY_MISMATCH", undefined]);
    expect(await left()).toBe(996);
    await verifier.spend({ identity: "acme" }, { cost: 996 });
    expect(await verifier.spend({ keyId }, { cost: 1 }, { idempotencyKey: "2" })).toMatchObject({
      code: "USAGE_EXCEEDED",
    });
    expect(await verifier.spend({ keyId }, { cost: 4 }, once)).toEqual({ code: "VALID", remaining: 0, repeated: true });
    const both = await Promise.allSettled(
      [1, 2].map(() => verifier.spend({ keyId }, { cost: 0 }, { idempotencyKey: "3" })),
    );
    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    await verifier.close();
  });

  it("finds the owner's refill again where that changed meanwhile", async () => {
    const inner = open();
    let meanwhile: (() => Promise<unknown>) | undefined;
    const store: Store = {
      ...inner,
      async findWallet(id) {
        const found = await inner.findWallet!(id);
        const act = meanwhile;
        meanwhile = undefined;
        await act?.();
        return found;
      },
    };
    const { verifier, keyring } = await world(store, { credits });
    const refill = { interval: "daily", amount: 10 } as const;
    meanwhile = () => keyring.changePlan({ identity: "acme", refill });
    expect(await verifier.spend({ identity: "acme" }, { cost: 7 })).toEqual({ code: "VALID", remaining: 993 });
    await verifier.close();
  });

  it("is told and counted as a call of its owner, and its tags", async () => {
    const { verifier, create, events, store, clock, apiId } = await world(open(), { credits, analytics: true });
    const { keyId } = await create({ credits: { remaining: 10 } });
    await verifier.spend({ keyId }, { cost: 4, tags: ["job=thumbs"] });
    await verifier.spend({ keyId }, { cost: 40 });
    await verifier.spend({ identity: "acme" }, { cost: 3, tags: ["job=mail"] });
    await verifier.spend({ identity: "acme" }, { cost: 2, tags: ["job=mail"] });
    await verifier.spend({ identity: "nobody" }, { tags: ["x"] });
    expect(verifier.counters()).toMatchObject({
      creditsSpent: 9,
      verifications: { VALID: 3, USAGE_EXCEEDED: 1, NOT_FOUND: 1 },
    });
    await verifier.close();
    const told = events.map(({ kind, code, keyId: of, externalId, spent, remaining, decidedBy, tags }) => [
      ...[kind, code, of === keyId, externalId, spent, remaining, decidedBy, tags.join()],
    ]);
    expect(told).toEqual([
      ["spend", "VALID", true, "acme", 4, 6, "key", "job=thumbs"],
      ["spend", "USAGE_EXCEEDED", true, "acme", 0, 6, "key", ""],
      ["spend", "VALID", false, "acme", 3, 993, undefined, "job=mail"],
      ["spend", "VALID", false, "acme", 2, 991, undefined, "job=mail"],
      ["spend", "NOT_FOUND", false, undefined, 0, undefined, undefined, "x"],
    ]);
    const analytics = createAnalytics(store, { clock });
    const span = { from: NOON - DAY, to: NOON + DAY };
    const { rows } = await analytics.query({ by: ["externalId", "keyId"], where: { externalId: ["acme"] }, ...span });
    expect(rows.map(({ keyId, count, spent }) => [keyId, count, spent])).toEqual(
      expect.arrayContaining([
        [keyId, 2, 4],
        ["", 2, 5],
      ]),
    );
    const { rows: tagged } = await analytics.query({ by: ["tag"], ...span });
    expect(tagged.map(({ tag, count }) => [tag, count])).toEqual(expect.arrayContaining([["x", 1]]));
    const mine = forOwner(createKeyring(store, { clock }), "acme", { apiId });
    expect(await mine.usage({ by: "keyId", ...span })).toHaveLength(1);
  });
});

describe("verifier.spend: what it refuses", () => {
  it("names what is wrong", async () => {
    const { verifier, problem } = await world(memoryStore());
    const owners = [
      {},
      { keyId: "" },
      { keyId: 3 },
      { keyId: "a", identity: "b" },
      { keyId: "a", more: 1 },
      "key_1",
      null,
    ];
    for (const owner of owners as unknown as SpendOwner[])
      expect(await problem(verifier.spend(owner))).toEqual(["BAD_REQUEST", "owner"]);
    for (const request of [{ cost: -1 }, { cost: 1.5 }, { cost: "3" }, { cost: undefined }])
      expect(await problem(verifier.spend({ keyId: "a" }, request as never))).toEqual(["BAD_REQUEST", "body.cost"]);
    expect(await problem(verifier.spend({ keyId: "a" }, { tags: [3] } as never))).toEqual([
      "BAD_REQUEST",
      "body.tags[0]",
    ]);
    expect(await problem(verifier.spend({ keyId: "a" }, { credits: { cost: 1 } } as never))).toEqual([
      "BAD_REQUEST",
      "body.credits",
    ]);
    expect(await problem(verifier.spend({ keyId: "a" }, 3 as never))).toEqual(["BAD_REQUEST", "body"]);
    await expect(verifier.spend({ keyId: "a" }, {}, { idempotencyKey: undefined } as never)).rejects.toThrow(TypeError);
    await expect(verifier.spend({ keyId: "a" }, {}, { idempotencykey: "x" } as never)).rejects.toThrow(
      /idempotencykey/,
    );
    await verifier.close();
    expect(await problem(verifier.spend({ keyId: "a" }))).toEqual(["VERIFIER_CLOSED", undefined]);
  });

  it("an owner that is deleted between the reads is NOT_FOUND, not unlimited; one that stays without its balance is STORE_BUSY", async () => {
    const inner = memoryStore();
    let before = async (): Promise<unknown> => undefined;
    const store: Store = { ...inner, findWallet: async (id) => before().then(() => inner.findWallet!(id)) };
    const { verifier, problem, keyring } = await world(store);
    before = () => keyring.deleteIdentity({ identity: "acme" });
    expect(await verifier.spend({ identity: "acme" }, { cost: 7 })).toEqual({ code: "NOT_FOUND" });
    before = async () => undefined;
    await keyring.createIdentity({ externalId: "broken", credits: { remaining: 5 } });
    const broken = createVerifier({ ...inner, findWallet: () => undefined });
    expect(await problem(broken.spend({ identity: "broken" }))).toEqual(["STORE_BUSY", undefined]);
  });

  it("an account that keeps changing is STORE_BUSY, and one of another workspace NOT_FOUND", async () => {
    const inner = memoryStore();
    const store: Store = { ...inner, spendCredits: () => ({ ok: false, remaining: 0, stale: true }) };
    const { verifier, problem, create } = await world(store);
    expect(await problem(verifier.spend({ identity: "acme" }))).toEqual(["STORE_BUSY", undefined]);
    const { keyId } = await create();
    const other = createVerifier(inner, { workspaceId: "ws_other" });
    expect(await other.spend({ keyId })).toEqual({ code: "NOT_FOUND" });
    expect(await other.spend({ identity: "acme" })).toEqual({ code: "NOT_FOUND" });
    const { wallets: _, ...powers } = inner.powers;
    const { findWallet: _f, spendWallets: _s, settleWallets: _t, ...rest } = inner;
    const old = createVerifier({ ...rest, powers });
    expect(await problem(old.spend({ identity: "acme" }))).toEqual(["STORE_POWER_MISSING", undefined]);
  });
});
