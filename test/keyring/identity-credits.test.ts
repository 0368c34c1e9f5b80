/** Credits of an identity, as administration gives them and verifications take them (ruling D11). */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { afterAll, describe, expect, it } from "vitest";
import { createVerifier, explain, memoryStore, retryAfter, type Store } from "../../src/index.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { changed, DAY, failure, fault, limit, NOON, problems, world } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "identity-credits-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const newFile = () => join(folder, `${++files}.db`);
const STORES: Record<string, () => Store> = { memory: () => memoryStore(), SQLite: () => sqliteStore(newFile()) };
const DAILY = { interval: "daily", amount: 5 } as const;

/** A world whose identity `ada` has ten credits, and a verifier that remembers keys. */
async function plan(store: Store = memoryStore(), credits: object | null = { remaining: 10 }) {
  const there = await world({ store });
  await there.keyring.createIdentity({ externalId: "ada", ...(credits && { credits: credits as { remaining: 10 } }) });
  const verifier = createVerifier(store, { clock: () => there.time.now, usage: false });
  const spend = async (key: string, cost = 1) => {
    const { code, credits } = await verifier.verify({ key, credits: { cost } });
    return [code, credits];
  };
  const shown = async (keyId: string) => {
    const { credits, creditsFrom } = await there.keyring.getKey({ keyId });
    return [creditsFrom, credits?.remaining];
  };
  const left = async () => (await there.keyring.getIdentity({ identity: "ada" })).credits?.remaining;
  return { ...there, store, verifier, spend, shown, left };
}

describe.each(Object.entries(STORES))("credits of an identity on %s", (_, open) => {
  it("ruling D11: a key draws on its own balance and its identity's, on one of them, or on none", async () => {
    const { create, spend, shown, left } = await plan(open());
    const one = await create({ externalId: "ada" });
    const two = await create({ externalId: "ada" });
    const own = await create({ externalId: "ada", credits: { remaining: 3 }, creditsFrom: "key" });
    const capped = await create({ externalId: "ada", credits: { remaining: 3 } });
    const none = await create({ externalId: "ada", credits: { remaining: null } });
    const alone = await create();
    expect(await spend(capped.key, 4)).toEqual(["USAGE_EXCEEDED", 3]);
    expect([await spend(capped.key, 2), await left()]).toEqual([["VALID", 1], 8]);
    expect(await spend(one.key, 4)).toEqual(["VALID", 4]);
    expect(await spend(two.key, 4)).toEqual(["VALID", 0]);
    expect(await spend(one.key)).toEqual(["USAGE_EXCEEDED", 0]);
    expect(await spend(capped.key)).toEqual(["USAGE_EXCEEDED", 0]);
    expect(await spend(own.key, 3)).toEqual(["VALID", 0]);
    // Its own balance is used up: the identity's is not touched, and would not be.
    expect(await spend(own.key)).toEqual(["USAGE_EXCEEDED", 0]);
    expect(await spend(none.key, 1_000)).toEqual(["VALID", undefined]);
    expect(await spend(alone.key, 1_000)).toEqual(["VALID", undefined]);
    expect(await left()).toBe(0);
    const sources = await Promise.all([one, own, capped, none, alone].map(({ keyId }) => shown(keyId)));
    expect(sources).toEqual([
      ["identity", undefined],
      ["key", 0],
      ["both", 1],
      ["none", undefined],
      ["none", undefined],
    ]);
  });

  it("creditsFrom says which of the two wallets pay, and keeps what it said while the balance is set", async () => {
    const { keyring, create, spend, shown, left } = await plan(open());
    const { key, keyId } = await create({ externalId: "ada", credits: { remaining: 4 } });
    const seen: unknown[] = [];
    const see = async () => void seen.push([...(await shown(keyId)), (await spend(key))[1], await left()]);
    await see();
    await keyring.updateKey({ keyId, creditsFrom: "key" });
    await see();
    await keyring.updateCredits({ keyId, operation: "set", value: 8 });
    await see();
    await keyring.updateKey({ keyId, creditsFrom: "both" });
    await see();
    await keyring.updateKey({ keyId, credits: { remaining: 20 }, creditsFrom: "key" });
    await see();
    await keyring.updateKey({ keyId, creditsFrom: "identity" });
    await see();
    expect(seen).toEqual([
      ["both", 4, 3, 9],
      ["key", 3, 2, 9],
      ["key", 8, 7, 9],
      ["both", 7, 6, 8],
      ["key", 20, 19, 8],
      ["identity", undefined, 7, 7],
    ]);
    for (const creditsFrom of ["key", "both"] as const) {
      expect(await problems(create({ externalId: "ada", creditsFrom }))).toEqual(["body.creditsFrom"]);
      expect(await problems(keyring.updateKey({ keyId, creditsFrom }))).toEqual(["body.creditsFrom"]);
      expect(await problems(keyring.updateKey({ keyId, creditsFrom, credits: null }))).toEqual(["body.creditsFrom"]);
      const unlimited = keyring.updateKey({ keyId, creditsFrom, credits: { remaining: null } });
      expect(await problems(unlimited)).toEqual(["body.creditsFrom"]);
    }
  });

  it("ruling D11: giving an identity credits puts its keys under them at once, and taking them away is explicit", async () => {
    const { keyring, create, spend, left } = await plan(open(), null);
    const { key } = await create({ externalId: "ada" });
    expect(await spend(key)).toEqual(["VALID", undefined]);
    expect(await keyring.updateIdentityCredits({ identity: "ada", operation: "set", value: 2 })).toEqual({
      remaining: 2,
    });
    expect(await spend(key)).toEqual(["VALID", 1]);
    await keyring.updateIdentityCredits({ identity: "ada", operation: "increment", value: 5 });
    expect(await spend(key, 6)).toEqual(["VALID", 0]);
    expect(await spend(key)).toEqual(["USAGE_EXCEEDED", 0]);
    await keyring.updateIdentityCredits({ identity: "ada", operation: "increment", value: 5 });
    expect(await keyring.updateIdentityCredits({ identity: "ada", operation: "decrement", value: 9 })).toEqual({
      remaining: 0,
    });
    await keyring.updateIdentity({ identity: "ada", credits: null });
    expect([await spend(key), await left()]).toEqual([["VALID", undefined], undefined]);
  });

  it("ruling D11: a key that moves draws on the credits of its new identity", async () => {
    const { keyring, create, spend, left } = await plan(open());
    await keyring.createIdentity({ externalId: "bob", credits: { remaining: 100 } });
    const { key, keyId } = await create();
    expect(await spend(key)).toEqual(["VALID", undefined]);
    await keyring.updateKey({ keyId, externalId: "ada" });
    expect(await spend(key, 3)).toEqual(["VALID", 7]);
    await keyring.updateKey({ keyId, externalId: "bob" });
    expect(await spend(key, 3)).toEqual(["VALID", 97]);
    expect(await left()).toBe(7);
  });

  it("ruling D11: credits null is unlimited and says so, and creditsFrom identity undoes it", async () => {
    const { keyring, create, spend, shown } = await plan(open());
    const { key, keyId } = await create({ externalId: "ada" });
    const states: unknown[] = [];
    const state = async () => states.push([...(await shown(keyId)), ...(await spend(key, 2))]);
    await state();
    await keyring.updateCredits({ keyId, operation: "set", value: null });
    await state();
    await keyring.updateKey({ keyId, creditsFrom: "identity" });
    await state();
    await keyring.updateCredits({ keyId, operation: "set", value: 50 });
    await state();
    await keyring.updateKey({ keyId, creditsFrom: "identity" });
    await state();
    await keyring.updateKey({ keyId, creditsFrom: "none" });
    await state();
    await keyring.updateKey({ keyId, credits: { remaining: 9 } });
    await state();
    expect(states).toEqual([
      ["identity", undefined, "VALID", 8],
      ["none", undefined, "VALID", undefined],
      ["identity", undefined, "VALID", 6],
      ["both", 50, "VALID", 4],
      ["identity", undefined, "VALID", 2],
      ["none", undefined, "VALID", undefined],
      ["both", 9, "VALID", 0],
    ]);
    const both = keyring.updateKey({ keyId, creditsFrom: "identity", credits: { remaining: 1 } });
    expect(await problems(both)).toEqual(["body.creditsFrom"]);
  });

  it("ruling D11: an import with remaining null is unlimited, and one without credits draws on its identity", async () => {
    const { keyring, apiId, spend } = await plan(open());
    await keyring.createMigration({ id: "old", algorithm: "sha256" });
    const hashOf = (text: string) => createHash("sha256").update(text).digest("hex");
    const keys = [
      { hash: hashOf("old_key_null"), externalId: "ada", credits: { remaining: null } },
      { hash: hashOf("old_key_none"), externalId: "ada" },
    ];
    await keyring.migrateKeys({ migrationId: "old", apiId, keys });
    expect(await spend("old_key_null", 4)).toEqual(["VALID", undefined]);
    expect(await spend("old_key_none", 4)).toEqual(["VALID", 6]);
  });

  it("ruling D11: an identity on whose credits keys draw is not deleted, and the refusal counts them", async () => {
    const { keyring, create, spend, left } = await plan(open());
    const { keyId } = await create({ externalId: "ada" });
    await create({ externalId: "ada", enabled: false });
    await create({ externalId: "ada", credits: { remaining: 5 } });
    await create({ externalId: "ada", credits: { remaining: 5 }, creditsFrom: "key" });
    await create({ externalId: "ada", credits: { remaining: null } });
    const gone = await create({ externalId: "ada" });
    await keyring.deleteKey({ keyId: gone.keyId });
    const { apiId: elsewhere } = await keyring.createApi({ name: "elsewhere" });
    const other = await keyring.createKey({ apiId: elsewhere, externalId: "ada" });
    const refusal = await failure(keyring.deleteIdentity({ identity: "ada" }));
    expect([refusal.code, refusal.status, /: (\d+);/.exec(refusal.message)?.[1]]).toEqual(["CONFLICT", 409, "4"]);
    await keyring.deleteApi({ apiId: elsewhere });
    expect((await failure(keyring.deleteIdentity({ identity: "ada" }))).message).toContain(": 3;");
    expect([await left(), (await keyring.getKey({ keyId })).enabled]).toEqual([10, true]);
    expect(await spend(other.key)).toEqual(["NOT_FOUND", undefined]);
    // Without credits nothing is drawn on.
    await keyring.updateIdentity({ identity: "ada", credits: null });
    expect(await keyring.deleteIdentity({ identity: "ada" })).toEqual({});
  });

  it("ruling D11: the deletion may disable all keys of the owner, those with credits of their own too", async () => {
    const { keyring, create, spend } = await plan(open());
    const keys = [
      await create({ externalId: "ada" }),
      await create({ externalId: "ada", credits: { remaining: 5 } }),
      await create({ externalId: "ada", creditsFrom: "none" }),
      await create({ externalId: "ada", enabled: false }),
    ];
    const other = await create({ externalId: "bob", credits: { remaining: 5 } });
    expect(await keyring.deleteIdentity({ identity: "ada", keys: "disable" })).toEqual({});
    for (const { key } of keys) expect((await spend(key))[0]).toBe("DISABLED");
    expect(await spend(other.key)).toEqual(["VALID", 4]);
    expect(await fault(keyring.getIdentity({ identity: "ada" }))).toBe("NOT_FOUND 404");
  });

  it("the same of an owner without credits, whose keys share limits alone", async () => {
    const { keyring, create, spend } = await plan(open());
    await keyring.createIdentity({ externalId: "bob", ratelimits: [limit("requests", { autoApply: true })] });
    const { key } = await create({ externalId: "bob", credits: { remaining: 5 } });
    await keyring.deleteIdentity({ identity: "bob", keys: "disable" });
    expect((await spend(key))[0]).toBe("DISABLED");
  });

  it("a key that is made while the owner's keys are disabled is disabled too", async () => {
    const inner = open();
    let meanwhile: (() => Promise<unknown>) | undefined;
    const { keyring, create, spend } = await plan(
      changed(inner, {
        async write(...given) {
          const act = meanwhile;
          meanwhile = undefined;
          await act?.();
          return inner.write(...given);
        },
      }),
    );
    await create({ externalId: "ada", credits: { remaining: 5 } });
    const late: { key: string }[] = [];
    meanwhile = async () => late.push(await create({ externalId: "ada", credits: { remaining: 5 } }));
    await keyring.deleteIdentity({ identity: "ada", keys: "disable" });
    expect(late).toHaveLength(1);
    expect((await spend(late[0]!.key))[0]).toBe("DISABLED");
  });

  it("ruling D11: refills, a new balance and idempotency are the identity's", async () => {
    const { keyring, create, spend, left, time, verifier, store } = await plan(open(), { remaining: 1, refill: DAILY });
    const { key } = await create({ externalId: "ada" });
    expect(await spend(key)).toEqual(["VALID", 0]);
    const refused = await verifier.verify({ key, credits: { cost: 6 } });
    expect([refused.code, retryAfter(refused)]).toEqual(["USAGE_EXCEEDED", DAY / 2 + DAY]);
    time.now += 2 * DAY;
    expect(await left()).toBe(10);
    expect(await spend(key, 6)).toEqual(["VALID", 4]);
    await keyring.updateIdentity({
      identity: "ada",
      credits: { refill: { interval: "monthly", amount: 9, refillDay: 1 } },
    });
    time.now = Date.UTC(2026, 3, 1);
    expect(await spend(key, 0)).toEqual(["VALID", 13]);
    const other = await create({ externalId: "ada" });
    const once = { idempotencyKey: "once" };
    for (let i = 0; i < 2; i++)
      expect((await verifier.verify({ key: other.key, credits: { cost: 3 } }, once)).credits).toBe(10);
    const balances = await store.readBalances(
      [{ identityId: (await keyring.getIdentity({ identity: "ada" })).id, period: 0 }],
      0,
    );
    expect(balances[0]?.totals).toMatchObject({ credited: 1, refilled: 19, spent: 10 });
  });

  it("ruling D11: rerolled keys keep their account", async () => {
    const { keyring, create, spend, shown } = await plan(open());
    const { key, keyId } = await create({ externalId: "ada" });
    const next = await keyring.rerollKey({ keyId, expiration: DAY });
    expect([await spend(key, 4), await spend(next.key, 4), await spend(key, 4)]).toEqual([
      ["VALID", 6],
      ["VALID", 2],
      ["USAGE_EXCEEDED", 2],
    ]);
    await keyring.updateCredits({ keyId, operation: "set", value: 7 });
    expect([await shown(keyId), await shown(next.keyId)]).toEqual([
      ["both", 7],
      ["both", 7],
    ]);
    await keyring.updateKey({ keyId: next.keyId, credits: null });
    expect(await shown(keyId)).toEqual(["none", undefined]);
  });

  it("explain says whose credits a call would take", async () => {
    const { create, verifier } = await plan(open());
    const sources = [];
    for (const body of [{ externalId: "ada" }, { externalId: "ada", credits: { remaining: 2 } }, {}]) {
      const { checks } = await explain(verifier, { key: (await create(body)).key });
      const last = checks.at(-1);
      sources.push(last?.code === "USAGE_EXCEEDED" && [last.creditsFrom, last.remaining, last.decidedBy]);
    }
    expect(sources).toEqual([
      ["identity", 10, undefined],
      ["both", 2, "key"],
      ["none", undefined, undefined],
    ]);
  });
});

describe("credits of an identity", () => {
  it("what does not fit is refused at its place", async () => {
    const { keyring, create } = await plan(memoryStore(), null);
    const { keyId } = await create({ externalId: "ada" });
    const increment = { operation: "increment", value: 1 } as const;
    expect(await problems(keyring.updateIdentityCredits({ identity: "ada", ...increment }))).toEqual([
      "body.operation",
    ]);
    expect(await problems(keyring.updateCredits({ keyId, ...increment }))).toEqual(["body.operation"]);
    expect(await fault(keyring.updateIdentityCredits({ identity: "eve", ...increment }))).toBe("NOT_FOUND 404");
    const monthly = { remaining: 1, refill: { interval: "monthly", amount: 1 } } as never;
    expect(await problems(keyring.createIdentity({ externalId: "eve", credits: monthly }))).toEqual([
      "body.credits.refill.refillDay",
    ]);
    expect(await problems(keyring.deleteIdentity({ identity: "ada", keys: "remove" as never }))).toEqual(["body.keys"]);
    expect(await problems(keyring.updateKey({ keyId, creditsFrom: "key" }))).toEqual(["body.creditsFrom"]);
  });

  it("another process on the file draws on them from its next poll on", async () => {
    const file = newFile();
    const [here, there] = [sqliteStore(file), sqliteStore(file)];
    const { keyring, create, verifier: first } = await plan(here, null);
    const { key } = await create({ externalId: "ada" });
    const verifier = createVerifier(there, { clock: () => NOON, usage: false });
    expect((await verifier.verify({ key })).credits).toBeUndefined();
    await createKeyring(here, { clock: () => NOON }).updateIdentityCredits({
      identity: "ada",
      operation: "set",
      value: 1,
    });
    const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
    await nextTurn();
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 0 });
    expect((await verifier.verify({ key })).code).toBe("USAGE_EXCEEDED");
    await keyring.updateIdentity({ identity: "ada", credits: null });
    await nextTurn();
    expect((await verifier.verify({ key })).code).toBe("VALID");
    for (const one of [first, verifier]) await one.close();
    for (const store of [here, there]) await store.close();
  });

  it("keys of an identity share one lease of a node: it holds no more for many keys than for one", async () => {
    const { keyring, create, store, time } = await plan(memoryStore(), { remaining: 1_000 });
    const keys = await Promise.all(Array.from({ length: 20 }, () => create({ externalId: "ada" })));
    const credits = { mode: "leased", size: 40, step: 10, firstStep: 10 } as const;
    const verifier = createVerifier(store, { clock: () => time.now, usage: false, credits });
    for (const { key } of keys) expect((await verifier.verify({ key })).code).toBe("VALID");
    const { id } = await keyring.getIdentity({ identity: "ada" });
    const [balance] = await store.readBalances([{ identityId: id, period: 0 }], time.now);
    expect(1_000 - balance!.remaining! - 20).toBeLessThanOrEqual(40);
    await verifier.close();
    expect((await keyring.getIdentity({ identity: "ada" })).credits).toEqual({ remaining: 980 });
  });
});
