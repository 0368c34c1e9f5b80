/** Keys that draw on several accounts: the cap of a key inside its owner's plan, with a bonus that expires. */
import { describe, expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  explain,
  type KeyRecord,
  memoryStore,
  retryAfter,
  type Store,
  type VerifierOptions,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const path = temporaryPaths();
const NOON = Date.UTC(2026, 2, 10, 12);
const EXPIRES = NOON + 60_000;
const BEDS: readonly (readonly [name: string, open: () => Store, credits: VerifierOptions["credits"]])[] = [
  ["memory", memoryStore, { mode: "exact" }],
  ["sqlite", () => sqliteStore(path()), { mode: "exact" }],
  ["sqlite, leased", () => sqliteStore(path()), { mode: "leased", size: 100, step: 50, firstStep: 50 }],
];

/** A key of 5 credits a call of which also takes from a plan of 20 and a bonus of 3. */
async function world(inner: Store, options: VerifierOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(inner, { clock });
  const { apiId } = await keyring.createApi({ name: "models" });
  const create = (remaining: number) => keyring.createKey({ apiId, credits: { remaining } });
  const [capped, plan, bonus] = [await create(5), await create(20), await create(3)];
  const main = async ({ key }: { readonly key: string }) => {
    const { ref, generation } = (await inner.findKey(await digestOf(inner, key)))!;
    return { ref, generation, priority: 100, createdAt: 1 };
  };
  const wallets = [
    { owner: "key", accounts: [await main(capped)] },
    {
      owner: "identity",
      accounts: [await main(plan), { ...(await main(bonus)), grantId: "bonus", expires: EXPIRES }],
    },
  ] as const;
  const withWallets = (record: KeyRecord | undefined) =>
    record?.keyId === capped.keyId ? { ...record, wallets } : record;
  const store: Store = { ...inner, findKey: async (digest) => withWallets(await inner.findKey(digest)) };
  const verifierOf = (of: Store) => createVerifier(of, { clock, ...options });
  const verifier = verifierOf(store);
  const left = async () => {
    const keys = await Promise.all([capped, plan, bonus].map(({ keyId }) => keyring.getKey({ keyId })));
    return keys.map(({ credits }) => credits!.remaining);
  };
  const verify = (cost: number, context = {}) => verifier.verify({ key: capped.key, credits: { cost } }, context);
  return { time, keyring, verifier, verifierOf, store, verify, left, capped, plan };
}

async function digestOf(store: Store, key: string): Promise<string> {
  const asked: string[] = [];
  const watched: Store = { ...store, findKey: (digest) => (asked.push(digest), store.findKey(digest)) };
  await createVerifier(watched).verify({ key, credits: { cost: 0 } });
  return asked[0]!;
}

describe.each(BEDS)("verify: several accounts: %s", (_, open, credits) => {
  it("takes of each wallet, the bonus first; credits is the least that is left", async () => {
    const { verify, left, verifier } = await world(open(), { credits });
    expect(await verify(2)).toMatchObject({ code: "VALID", credits: 3 });
    expect(await left()).toEqual([3, 20, 1]);
    expect(await verify(3)).toMatchObject({ code: "VALID", credits: 0 });
    expect(await left()).toEqual([0, 18, 0]);
    expect(await verify(1)).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
    expect(await left()).toEqual([0, 18, 0]);
    await verifier.close();
  });

  it("the plan refuses what the cap would cover, and nothing is taken", async () => {
    const { verify, left, keyring, plan, capped, time, verifier } = await world(open(), { credits });
    await keyring.updateCredits({ keyId: plan.keyId, operation: "set", value: 1 });
    await keyring.updateCredits({ keyId: capped.keyId, operation: "set", value: 50 });
    expect(await verify(5)).toMatchObject({ code: "USAGE_EXCEEDED", credits: 4 });
    time.now = EXPIRES;
    expect(await verify(2)).toMatchObject({ code: "USAGE_EXCEEDED", credits: 1 });
    expect(await verify(1)).toMatchObject({ code: "VALID", credits: 0 });
    await verifier.close();
    expect(await left()).toEqual([49, 0, credits?.mode === "leased" ? 3 : 0]);
  });

  it("a refusal says no time to wait where no account has a refill", async () => {
    const { verify, verifier } = await world(open(), { credits });
    const refused = await verify(6);
    expect(refused.code).toBe("USAGE_EXCEEDED");
    expect(retryAfter(refused)).toBeUndefined();
    await verifier.close();
  });

  it("explain tells the least, and takes nothing", async () => {
    const { verifier, capped, left } = await world(open(), { credits });
    const of = async (cost: number) => (await explain(verifier, { key: capped.key, credits: { cost } })).checks.at(-1);
    expect(await of(5)).toMatchObject({ passes: true, remaining: 5 });
    expect(await of(6)).toMatchObject({ passes: false, remaining: 5 });
    expect(await left()).toEqual([5, 20, 3]);
    await verifier.close();
  });

  it("a repeat of a call with an idempotency key takes nothing again", async () => {
    const { verify, left, verifier } = await world(open(), { credits });
    for (let i = 0; i < 2; i++)
      expect(await verify(4, { idempotencyKey: "a" })).toMatchObject({ code: "VALID", credits: 1 });
    expect(await left()).toEqual([1, 19, 0]);
    await verifier.close();
  });

  it("a reservation settles by its id in another process, and returns what was taken last first", async () => {
    const { verifier, verifierOf, store, capped, left } = await world(open(), { credits });
    const call = await verifier.reserve({ key: capped.key, credits: { cost: 5 } });
    if (!call.valid) throw new Error(call.code);
    expect(await left()).toEqual([0, 18, 0]);
    await expect(call.commit(6)).rejects.toThrow(RangeError);
    const other = verifierOf(store);
    expect(await other.settle(call.id, 4)).toEqual({ settled: true, spent: 4 });
    expect(await call.commit(4)).toEqual({ settled: false, reason: "settled" });
    expect(await left()).toEqual([1, 19, 0]);
    // Not its last character, some of whose bits are none of the signature's.
    const forged = call.id.slice(0, -2) + (call.id.at(-2) === "x" ? "y" : "x") + call.id.slice(-1);
    expect(await other.settle(forged, 0)).toEqual({ settled: false, reason: "unknown" });
    await Promise.all([verifier.close(), other.close()]);
  });

  it("of a store that cannot take from several accounts it fails, and lets nobody in", async () => {
    const { verifierOf, store, capped, left } = await world(open(), { credits });
    const verifier = verifierOf({ ...store, powers: { ...store.powers, wallets: false } });
    for (const cost of [0, 1])
      await expect(verifier.verify({ key: capped.key, credits: { cost } })).rejects.toMatchObject({
        code: "STORE_POWER_MISSING",
      });
    expect(await left()).toEqual([5, 20, 3]);
    await verifier.close();
  });
});

describe("verify: several accounts, leased", () => {
  it("what this node has leased of one of them comes back for a call that needs it", async () => {
    const { verifier, verify, plan, left } = await world(sqliteStore(path()), {
      credits: { mode: "leased", size: 18, step: 18, firstStep: 18 },
    });
    expect(await verifier.verify({ key: plan.key })).toMatchObject({ code: "VALID" });
    expect(await verify(5)).toMatchObject({ code: "VALID", credits: 0 });
    expect((await left())[0]).toBe(0);
    await verifier.close();
    expect(await left()).toEqual([0, 17, 0]);
  });
});

describe("verify: an owner whose grants have all expired", () => {
  it.each([
    ["exact", { mode: "exact" }, { spendCredits: 3 }],
    // A draw of the grant, and once that has gone back one of the balance, after reads of the balances.
    ["leased", { mode: "leased", size: 50, step: 50, firstStep: 50 }, { spendWallets: 3, drawCredits: 2 }],
  ] as const)("%s: a call takes from the balance alone, as before there was a grant", async (_, credits, expected) => {
    const asked: Record<string, number> = {};
    const inner = memoryStore();
    const counting = (name: "spendCredits" | "spendWallets" | "drawCredits") => ({
      [name]: (...given: unknown[]) => {
        asked[name] = (asked[name] ?? 0) + 1;
        return (inner[name] as (...given: unknown[]) => unknown)(...given);
      },
    });
    const store: Store = {
      ...inner,
      ...counting("spendCredits"),
      ...counting("spendWallets"),
      ...counting("drawCredits"),
    };
    const time = { now: NOON };
    const clock = () => time.now;
    const keyring = createKeyring(inner, { clock });
    const verifier = createVerifier(store, { clock, credits });
    const { apiId } = await keyring.createApi({ name: "models" });
    await keyring.createIdentity({ externalId: "acme", credits: { remaining: 2_000 } });
    await keyring.grantCredits({ identity: "acme", amount: 5, expires: EXPIRES });
    const { key } = await keyring.createKey({ apiId, externalId: "acme" });
    const verify = (cost: number) => verifier.verify({ key, credits: { cost } });
    expect(await verify(2)).toMatchObject({ code: "VALID", credits: 2_003 });
    expect(asked["spendCredits"]).toBeUndefined();
    time.now = EXPIRES;
    for (const left of [1_998, 1_996, 1_994]) expect(await verify(2)).toMatchObject({ code: "VALID", credits: left });
    expect({ spendWallets: 1, ...asked }).toEqual({ spendWallets: 1, ...expected });
    const { checks } = await explain(verifier, { key, credits: { cost: 2 } });
    expect(checks.at(-1)).toMatchObject({ accounts: [{ remaining: 0 }, { owner: "identity" }] });
    await keyring.grantCredits({ identity: "acme", amount: 9, expires: EXPIRES + 1_000 });
    expect(await verify(9)).toMatchObject({ code: "VALID" });
    await verifier.close();
    expect(await keyring.getBalance({ identity: "acme" })).toMatchObject({ remaining: 1_994 });
  });
});
