/** Grants of credits: what they add, when they end, and that keys of their owner spend them in order. */
import { describe, expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { endUsedUpGrants } from "../../src/keyring/used-up-grants.js";
import { digestKey } from "../../src/lib/hash.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "../stores/postgres/support.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const path = temporaryPaths();
const { open } = pglite();
const NOON = Date.UTC(2026, 2, 10, 12);
const DAY = 86_400_000;
const BEDS: readonly (readonly [name: string, open: () => Store | Promise<Store>])[] = [
  ["memory", memoryStore],
  ["sqlite", () => sqliteStore(path())],
  ["postgres", async () => (await open(1))[0]!],
];

async function world(store: Store) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "models" });
  await keyring.createIdentity({ externalId: "ann", credits: { remaining: 10 } });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "ann" });
  const verifier = createVerifier(store, { clock });
  const spend = async (cost: number, of = key) => {
    const { code, credits } = (await verifier.verify({ key: of, credits: { cost } })) as {
      code: string;
      credits?: number;
    };
    return [code, credits];
  };
  const list = async (ended = false) =>
    (await keyring.listGrants({ identity: "ann", ended })).grants.map(({ grantId, remaining }) => [grantId, remaining]);
  return { time, keyring, apiId, key, keyId, verifier, spend, list };
}

const fault = (code: string, location?: string) =>
  expect.objectContaining({ code, ...(location && { errors: [expect.objectContaining({ location })] }) }) as Error;

describe.each(BEDS)("a grant that is ended before its time: %s", (_, openStore) => {
  const PACK = { identity: "ann", grantId: "pack", amount: 50 };
  const END = { identity: "ann", grantId: "pack", reason: "refund" };

  it("takes away what is left, once, and no call spends it any more", async () => {
    const store = await openStore();
    const { keyring, spend, list, verifier } = await world(store);
    await keyring.grantCredits({ ...PACK, priority: 0 });
    expect(await spend(20)).toEqual(["VALID", 40]);
    const once = { idempotencyKey: "evt_1" };
    expect(await keyring.endGrant(END, once)).toMatchObject({ amount: 50, withdrawn: 30, endedAt: NOON });
    expect(await keyring.endGrant(END, once)).toMatchObject({ withdrawn: 0, endedAt: NOON, repeated: true });
    expect(await keyring.endGrant(END)).toEqual(expect.not.objectContaining({ repeated: true }));
    expect(await spend(11)).toEqual(["USAGE_EXCEEDED", 10]);
    expect(await spend(10)).toEqual(["VALID", 0]);
    expect(await list()).toEqual([]);
    expect(await list(true)).toEqual([["pack", 0]]);
    // Its id stays known, and the owner lost its mark with the last open grant.
    expect((await keyring.grantCredits(PACK)).created).toBe(false);
    const [row] = await store.readNames("identities", "ws_default", ["ann"]);
    expect(row).not.toHaveProperty("hasGrants");
    const late = { idempotencyKey: "evt_2" };
    expect(await keyring.endGrant(END, late)).not.toHaveProperty("repeated");
    expect(await keyring.endGrant(END, late)).toMatchObject({ withdrawn: 0, repeated: true });
    await expect(keyring.endGrant({ ...END, grantId: "none" })).rejects.toEqual(fault("NOT_FOUND"));
    await verifier.close();
    await store.close();
  });

  it("one that is used up has nothing to take away", async () => {
    const { keyring, spend, list, verifier } = await world(await openStore());
    await keyring.grantCredits({ ...PACK, priority: 0 });
    expect(await spend(50)).toEqual(["VALID", 10]);
    expect(await keyring.endGrant(END)).toMatchObject({ amount: 50, withdrawn: 0, endedAt: NOON });
    expect([await list(), await spend(10)]).toEqual([[], ["VALID", 0]]);
    await verifier.close();
  });

  it("refills no more, and others stay open", async () => {
    const store = await openStore();
    const { keyring, time, spend, list, verifier } = await world(store);
    await keyring.grantCredits({ ...PACK, priority: 255, refill: { interval: "daily", amount: 50 } });
    time.now += 1;
    await keyring.grantCredits({ ...PACK, grantId: "other", amount: 5 });
    time.now += DAY;
    expect(await keyring.endGrant(END)).toMatchObject({ withdrawn: 100 });
    time.now += DAY;
    expect(await list(true)).toEqual([
      ["pack", 0],
      ["other", 5],
    ]);
    expect(await spend(15)).toEqual(["VALID", 0]);
    await verifier.close();
    await store.close();
  });

  it("voids what is reserved and leased of it; the statement has the reason and adds up", async () => {
    const store = await openStore();
    const { keyring, time, key, list, verifier } = await world(store);
    await keyring.grantCredits({ ...PACK, priority: 0 });
    await keyring.grantCredits({ ...PACK, grantId: "other", amount: 1, priority: 255 });
    const leased = createVerifier(store, {
      clock: () => time.now,
      credits: { mode: "leased", step: 8 },
      analytics: true,
    });
    await leased.verify({ key });
    await leased.flush();
    const calls = await Promise.all([1, 2, 3].map(() => leased.verify({ key })));
    expect(calls.map(({ code }) => code)).toEqual(["VALID", "VALID", "VALID"]);
    const reserved = await verifier.reserve({ key, credits: { cost: 20 } });
    expect((await keyring.endGrant(END)).withdrawn).toBeGreaterThan(0);
    if (!reserved.valid) throw new Error(reserved.code);
    expect(await reserved.commit(20)).toEqual({ settled: false, reason: "voided" });
    await leased.close();
    expect(await list(true)).toContainEqual(["pack", 0]);
    expect((await keyring.getIdentity({ identity: "ann" })).credits).toEqual({ remaining: 10, granted: 1 });
    const { id } = await keyring.getIdentity({ identity: "ann" });
    const ofOwner = (await keyring.listAudit({ id })).data.map(({ operation }) => operation);
    expect(ofOwner.slice(0, 3)).toEqual(["endGrant", "grantCredits", "grantCredits"]);
    const months = createAnalytics(store, { clock: () => time.now });
    const statement = await months.statement({ externalId: "ann" }, "2026-03");
    const pack = statement.accounts.find(({ grantId }) => grantId === "pack")!;
    const { granted, adjustments, spent, forfeited, closing } = pack;
    expect(granted + adjustments).toBe(spent + forfeited + closing);
    // What the node had spent of its lease, and not told yet.
    expect([granted, spent + closing]).toEqual([50, 4]);
    expect(statement.unexplained).toBe(0);
    const why = { kind: "adjustment", grantId: "pack", operation: "endGrant", reason: "refund" };
    expect(statement.lines).toContainEqual({ ...why, time: NOON, credits: pack.adjustments });
    await verifier.close();
    await store.close();
  });
});

describe.each(BEDS)("grants that are over: %s", (_, openStore) => {
  const HOUR = DAY / 24;
  const PACK = { identity: "ann", grantId: "pack", amount: 5, priority: 0 };

  async function watched() {
    const store = await openStore();
    const bed = await world(store);
    const digest = await digestKey(bed.key);
    const [row] = await store.readNames("identities", "ws_default", ["ann"]);
    return {
      ...bed,
      store,
      owner: { table: "identities", id: row!.id } as const,
      isFlagged: async () => (await store.readMany("identities", [row!.id]))[0]!.hasGrants === true,
      accounts: async () => (await store.findKey(digest))!.wallets?.[0]?.accounts.length,
      ended: async () => (await bed.keyring.listGrants({ identity: "ann", ended: true })).grants[0]!.endedAt,
    };
  }

  it("one that is used up ends with the first call of an hour, and the key is found without grants again", async () => {
    const { keyring, spend, verifier, time, isFlagged, accounts, ended } = await watched();
    await keyring.grantCredits(PACK);
    await spend(4);
    await verifier.flush();
    expect([await isFlagged(), await accounts(), await ended()]).toEqual([true, 2, undefined]);
    await spend(1);
    time.now += HOUR;
    expect(await spend(1)).toEqual(["VALID", 9]);
    await verifier.flush();
    expect([await isFlagged(), await accounts(), await ended()]).toEqual([false, undefined, time.now]);
    expect(await spend(1)).toEqual(["VALID", 8]);
    await keyring.grantCredits({ ...PACK, grantId: "next" });
    expect(await spend(1)).toEqual(["VALID", 12]);
    await verifier.close();
  });

  it("a verifier whose clock is ahead ends none that has expired by it alone", async () => {
    const { keyring, spend, verifier, time, isFlagged, accounts } = await watched();
    await keyring.grantCredits({ ...PACK, expiresIn: DAY });
    expect(await spend(1)).toEqual(["VALID", 14]);
    time.now += 40 * DAY;
    expect(await spend(0)).toEqual(["VALID", 10]);
    await verifier.flush();
    time.now -= 40 * DAY;
    expect(await spend(1)).toEqual(["VALID", 13]);
    expect([await isFlagged(), await accounts()]).toEqual([true, 2]);
    await verifier.close();
  });

  it("an owner that is gone has none to end; a store without accounts beside the balance has none to remove", async () => {
    const { store, verifier, apiId } = await watched();
    await endUsedUpGrants(store, { table: "identities", id: "id_gone" }, NOON);
    const without = createKeyring({ ...store, powers: { ...store.powers, wallets: false } });
    const { keyId } = await without.createKey({ apiId, credits: { remaining: 1 } });
    await without.deleteKey({ keyId, permanent: true });
    await expect(without.getKey({ keyId })).rejects.toEqual(fault("NOT_FOUND"));
    await verifier.close();
  });

  it("grants of more owners than wait at a time end too", async () => {
    const store = await openStore();
    const { keyring, apiId, verifier, time } = await world(store);
    const keys: string[] = [];
    for (let i = 0; i < 130; i++) {
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 0 } });
      await keyring.grantCredits({ keyId, amount: 1 });
      keys.push(key);
      await verifier.verify({ key });
    }
    for (let round = 0; round < 3; round++) {
      time.now += round === 0 ? HOUR : 1_000;
      for (const key of keys) await verifier.verify({ key, credits: { cost: 0 } });
      await verifier.flush();
    }
    const { length } = (await store.list("keys", { workspaceId: "ws_default", limit: 200 })).filter(
      ({ hasGrants }) => hasGrants === true,
    );
    expect(length).toBe(0);
    await verifier.close();
  });

  it("one of which something is reserved stays open, and what returns can be spent", async () => {
    const { keyring, key, spend, verifier, time, store, owner, accounts } = await watched();
    await keyring.grantCredits(PACK);
    const held = await verifier.reserve({ key, credits: { cost: 5 } }, { timeout: HOUR });
    await endUsedUpGrants(store, owner, time.now);
    expect(await accounts()).toBe(2);
    if (held.valid) await held.commit(2);
    expect(await spend(13)).toEqual(["VALID", 0]);
    await endUsedUpGrants(store, owner, time.now);
    expect(await accounts()).toBe(undefined);
    await verifier.close();
  });

  it("a grant that is given while others end is never hidden, wherever it comes in between", async () => {
    const names = ["readMany", "list", "readBalances"] as const;
    for (const [name, isBefore] of names.flatMap((one) => [[one, true] as const, [one, false] as const])) {
      const { keyring, spend, verifier, time, store, owner, isFlagged } = await watched();
      await keyring.grantCredits(PACK);
      await spend(4);
      let isGiven = false;
      // What is left of the other is spent only then: giving does not end it.
      const give = async () => {
        if (isGiven) return;
        isGiven = true;
        await keyring.grantCredits({ ...PACK, grantId: "next", priority: 1 });
        expect(await spend(1)).toEqual(["VALID", 15]);
      };
      const method = store[name] as (...given: readonly unknown[]) => unknown;
      const call = async (...given: readonly unknown[]) => {
        if (isBefore) await give();
        const result = await method(...given);
        await give();
        return result;
      };
      await endUsedUpGrants({ ...store, [name]: call }, owner, time.now);
      expect([name, isBefore, await isFlagged()]).toEqual([name, isBefore, true]);
      expect(await spend(5)).toEqual(["VALID", 10]);
      await verifier.close();
    }
  });

  it("of a key with a successor both lose the mark; grants that ended are removed with their owner", async () => {
    const store = await openStore();
    const { keyring, apiId, verifier, time } = await world(store);
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1 } });
    await keyring.grantCredits({ keyId, amount: 1, priority: 0 });
    const successor = await keyring.rerollKey({ keyId, expiration: DAY });
    await verifier.verify({ key });
    time.now += HOUR;
    await verifier.verify({ key, credits: { cost: 0 } });
    await verifier.flush();
    const rows = await store.readMany("keys", [keyId, successor.keyId]);
    expect(rows.map((row) => row!.hasGrants)).toEqual([undefined, undefined]);
    expect((await verifier.verify({ key: successor.key })).credits).toBe(0);
    for (const id of [keyId, successor.keyId]) await keyring.deleteKey({ keyId: id, permanent: true });
    await keyring.grantCredits({ identity: "ann", amount: 1, expiresIn: 1_000 });
    const [ann] = await store.readNames("identities", "ws_default", ["ann"]);
    await endUsedUpGrants(store, { table: "identities", id: ann!.id }, time.now + 1_000 + HOUR);
    await keyring.deleteIdentity({ identity: "ann", keys: "disable" });
    expect(await store.list("grants", { workspaceId: "ws_default", limit: 10 })).toEqual([]);
    await verifier.close();
  });
});

describe.each(BEDS)("grantCredits: %s", (_, openStore) => {
  it("under an idempotency key a grant is made once, with an id of its own or of the caller's", async () => {
    const { keyring, list, time } = await world(await openStore());
    const body = { identity: "ann", amount: 5 };
    const once = { idempotencyKey: "evt_1" };
    const [made, again] = await Promise.all([keyring.grantCredits(body, once), keyring.grantCredits(body, once)]);
    expect([made, again].filter(({ created }) => created)).toHaveLength(1);
    const stands = { ...made, remaining: 5, created: false, repeated: true };
    expect(await keyring.grantCredits(body, once)).toEqual(stands);
    await expect(keyring.grantCredits({ ...body, amount: 6 }, once)).rejects.toThrow(fault("IDEMPOTENCY_MISMATCH"));
    const named = { ...body, grantId: "order 1" };
    await keyring.grantCredits(named);
    // Nothing is added, and the key is of this body from then on.
    expect(await keyring.grantCredits(named, { idempotencyKey: "evt_2" })).toMatchObject({ created: false });
    expect(await keyring.grantCredits(named, { idempotencyKey: "evt_2" })).toMatchObject({ repeated: true });
    await expect(keyring.grantCredits(body, { idempotencyKey: "evt_2" })).rejects.toThrow(
      fault("IDEMPOTENCY_MISMATCH"),
    );
    expect((await list()).map(([, remaining]) => remaining)).toEqual([5, 5]);
    // Also where the owner could be given none any more.
    await keyring.updateIdentityCredits({ identity: "ann", operation: "set", value: null });
    expect(await keyring.grantCredits(body, once)).toEqual(stands);
    await keyring.deleteIdentity({ identity: "ann", keys: "disable" });
    await keyring.createIdentity({ externalId: "ann", credits: { remaining: 1 } });
    await expect(keyring.grantCredits(body, once)).rejects.toThrow(fault("NOT_FOUND"));
    time.now += 30 * DAY;
    const other = await keyring.grantCredits(body, once);
    expect([other.created, other.id === made.id]).toEqual([true, false]);
  });

  it("after 30 days an idempotency key grants anew, beside what it granted before", async () => {
    const { keyring, list, time } = await world(await openStore());
    const give = () => keyring.grantCredits({ identity: "ann", amount: 5 }, { idempotencyKey: "evt_1" });
    const first = await give();
    time.now += 30 * DAY;
    const second = await give();
    expect([second.created, second.id === first.id]).toEqual([true, false]);
    expect(await give()).toEqual({ ...second, created: false, repeated: true });
    expect(await list()).toHaveLength(2);
  });

  it("gives an identity's keys credits that are spent first as they expire first; the same id adds nothing", async () => {
    const { keyring, spend, list, time, verifier } = await world(await openStore());
    expect(await spend(1)).toEqual(["VALID", 9]);
    const body = { identity: "ann", grantId: "order 4711", amount: 5, expiresIn: DAY, reason: "bonus" };
    const made = await keyring.grantCredits(body);
    expect(made).toEqual({
      ...{ grantId: "order 4711", amount: 5, remaining: 5, expires: NOON + DAY, created: true },
      id: expect.stringMatching(/^grant_\w{22}$/) as string,
    });
    expect(await spend(2)).toEqual(["VALID", 12]);
    expect(await keyring.grantCredits({ ...body, amount: 50 })).toEqual({ ...made, remaining: 3, created: false });
    expect(await list()).toEqual([["order 4711", 3]]);
    expect((await keyring.listGrants({ identity: "ann" })).grants[0]).toEqual({
      ...{ grantId: "order 4711", id: made.id, amount: 5, remaining: 3, expires: NOON + DAY },
      ...{ priority: 100, createdAt: NOON, reason: "bonus" },
    });
    time.now = NOON + DAY;
    expect(await list()).toEqual([]);
    expect(await list(true)).toEqual([["order 4711", 0]]);
    expect(await spend(10)).toEqual(["USAGE_EXCEEDED", 9]);
    expect(await spend(9)).toEqual(["VALID", 0]);
    expect((await keyring.grantCredits(body)).created).toBe(false);
    await verifier.close();
  });

  it("an event that comes again after its grant has expired adds nothing, and succeeds", async () => {
    const { keyring, list, time, verifier } = await world(await openStore());
    const paid = { identity: "ann", grantId: "invoice 1", amount: 5, expires: NOON + DAY };
    const { id } = await keyring.grantCredits(paid);
    for (time.now of [NOON + DAY, NOON + 399 * DAY])
      expect(await keyring.grantCredits(paid)).toEqual({
        ...paid,
        identity: undefined,
        id,
        remaining: 0,
        created: false,
      });
    // The first time it is refused: nothing could be spent of it.
    await expect(keyring.grantCredits({ ...paid, grantId: "invoice 2" })).rejects.toEqual(
      fault("BAD_REQUEST", "body.expires"),
    );
    expect(await list(true)).toEqual([["invoice 1", 0]]);
    await verifier.close();
  });

  it("priority decides before expiry, and a cost is taken from several", async () => {
    const { keyring, spend, list, verifier } = await world(await openStore());
    await keyring.grantCredits({ identity: "ann", grantId: "overage", amount: 100, priority: 255 });
    await keyring.grantCredits({ identity: "ann", grantId: "soon", amount: 3, expiresIn: DAY });
    await keyring.grantCredits({ identity: "ann", grantId: "first", amount: 2, priority: 0 });
    expect(await spend(4)).toEqual(["VALID", 111]);
    // Made in one millisecond: in any order.
    expect(Object.fromEntries(await list())).toEqual({ overage: 100, soon: 1, first: 0 });
    expect(await spend(12)).toEqual(["VALID", 99]);
    expect((await keyring.getIdentity({ identity: "ann" })).credits?.remaining).toBe(0);
    await verifier.close();
  });

  it("lists, states and filters count what can be spent of grants", async () => {
    const { keyring, spend, keyId, verifier, time } = await world(await openStore());
    await keyring.grantCredits({ identity: "ann", grantId: "g", amount: 5, expiresIn: DAY, priority: 200 });
    await spend(10);
    const credits = { remaining: 0, granted: 5 };
    expect((await keyring.getIdentity({ identity: "ann" })).credits).toEqual(credits);
    expect(await keyring.getKey({ keyId })).toMatchObject({ state: "active", ownerCredits: credits });
    const found = async (creditsBelow: number) => (await keyring.searchKeys({ creditsBelow })).data.length;
    expect([await found(5), await found(6)]).toEqual([0, 1]);
    time.now += DAY;
    expect(await keyring.getKey({ keyId })).toMatchObject({ state: "exhausted", ownerCredits: { remaining: 0 } });
    expect(await found(1)).toBe(1);
    await verifier.close();
  });

  it("a refill of its own adds to the grant alone", async () => {
    const { keyring, spend, list, time, verifier } = await world(await openStore());
    const refill = { interval: "daily", amount: 20 } as const;
    await keyring.grantCredits({ identity: "ann", grantId: "free", amount: 20, priority: 0, refill });
    expect(await spend(20)).toEqual(["VALID", 10]);
    time.now += DAY;
    expect(await list()).toEqual([["free", 20]]);
    expect(await spend(25)).toEqual(["VALID", 5]);
    await verifier.close();
  });

  it("a key with credits of its own has grants of its own, which its successor shares", async () => {
    const { keyring, apiId, spend, verifier } = await world(await openStore());
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const successor = await keyring.rerollKey({ keyId, expiration: 60_000 });
    await keyring.grantCredits({ keyId, amount: 4 });
    expect(await spend(2, key)).toEqual(["VALID", 3]);
    expect(await spend(3, successor.key)).toEqual(["VALID", 0]);
    expect((await keyring.listGrants({ keyId: successor.keyId })).grants).toHaveLength(1);
    expect(await spend(1)).toEqual(["VALID", 9]);
    await verifier.close();
  });

  it("16 grants of an owner are open; what is used up or has expired makes space", async () => {
    const { keyring, spend, list, time, verifier } = await world(await openStore());
    const grant = (grantId: string) => keyring.grantCredits({ identity: "ann", grantId, amount: 1, expiresIn: DAY });
    const made = await Promise.allSettled(Array.from({ length: 18 }, (_, i) => grant(`g${i}`)));
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(16);
    await expect(grant("more")).rejects.toEqual(fault("CONFLICT"));
    expect(await spend(26)).toEqual(["VALID", 0]);
    expect((await grant("more")).created).toBe(true);
    expect(await list()).toEqual([["more", 1]]);
    time.now += DAY;
    await Promise.all(Array.from({ length: 16 }, (_, i) => grant(`h${i}`)));
    expect(await list()).toHaveLength(16);
    expect(await list(true)).toHaveLength(33);
    time.now += 401 * DAY;
    await grant("late");
    expect(await list(true)).toHaveLength(33 - 16 + 1 - 16 + 16);
    await verifier.close();
  });

  it("an owner without credits of its own is refused, and nothing is changed", async () => {
    const { keyring, keyId, spend, verifier } = await world(await openStore());
    await keyring.createIdentity({ externalId: "free" });
    const refused: (readonly [Parameters<typeof keyring.grantCredits>[0], Error])[] = [
      [{ identity: "free", amount: 5 }, fault("BAD_REQUEST", "body.identity")],
      [{ keyId, amount: 5 }, fault("BAD_REQUEST", "body.keyId")],
      [{ identity: "nobody", amount: 5 }, fault("NOT_FOUND")],
      [{ identity: "ann", amount: 5, expires: NOON }, fault("BAD_REQUEST", "body.expires")],
      [{ identity: "ann", amount: 5, expires: NOON + DAY, expiresIn: DAY }, fault("BAD_REQUEST", "body.expiresIn")],
      [{ amount: 5 } as never, fault("BAD_REQUEST", "body.identity")],
      [{ identity: "ann", keyId, amount: 5 } as never, fault("BAD_REQUEST", "body.identity")],
      [{ identity: "ann", amount: 0 }, fault("BAD_REQUEST", "body.amount")],
    ];
    for (const [body, error] of refused) await expect(keyring.grantCredits(body)).rejects.toEqual(error);
    expect(await spend(0)).toEqual(["VALID", 10]);
    await verifier.close();
  });

  it("grants end with their owner", async () => {
    const store = await openStore();
    const { keyring, apiId, verifier } = await world(store);
    const grant = await keyring.grantCredits({ identity: "ann", amount: 5 });
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 1 } });
    const other = await keyring.grantCredits({ keyId, amount: 5 });
    await expect(keyring.deleteIdentity({ identity: "ann" })).rejects.toEqual(fault("CONFLICT"));
    await keyring.deleteIdentity({ identity: "ann", keys: "disable" });
    await keyring.deleteKey({ keyId, permanent: true });
    expect(await store.readMany("grants", [grant.id, other.id])).toEqual([undefined, undefined]);
    expect(await store.readBalances([{ grantId: grant.id, period: 0 }], NOON)).toEqual([undefined]);
    await verifier.close();
  });

  it("shows what is reserved of a grant, and one that was ended before its expiry with its end", async () => {
    const { keyring, key, verifier, time } = await world(await openStore());
    await keyring.grantCredits({ identity: "ann", grantId: "one", amount: 4, priority: 1, expiresIn: 9 * DAY });
    const call = await verifier.reserve({ key, credits: { cost: 3 } });
    const grants = async () => (await keyring.listGrants({ identity: "ann", ended: true })).grants;
    expect(await grants()).toMatchObject([{ grantId: "one", remaining: 1, reserved: 3 }]);
    if (call.valid) await call.commit(3);
    await verifier.verify({ key, credits: { cost: 1 } });
    time.now += DAY;
    // Used up: the next grant ends it.
    await keyring.grantCredits({ identity: "ann", grantId: "two", amount: 1 });
    expect(await grants()).toMatchObject([{ grantId: "one", remaining: 0, endedAt: NOON + DAY }, { grantId: "two" }]);
    // Kept for 400 days after its end: its id adds nothing till then, and a later grant removes it.
    time.now += 399 * DAY;
    expect(await keyring.grantCredits({ identity: "ann", grantId: "one", amount: 4 })).toMatchObject({
      created: false,
    });
    time.now += DAY;
    await keyring.grantCredits({ identity: "ann", grantId: "three", amount: 1 });
    expect((await grants()).map(({ grantId }) => grantId)).toEqual(["two", "three"]);
    await verifier.close();
  });

  it("a reservation of plan and grant settles, and returns what was taken last first", async () => {
    const { keyring, key, list, verifier } = await world(await openStore());
    await keyring.grantCredits({ identity: "ann", grantId: "g", amount: 5, expiresIn: DAY });
    const call = await verifier.reserve({ key, credits: { cost: 8 } });
    if (!call.valid) throw new Error(call.code);
    expect([call.credits, await list()]).toEqual([7, [["g", 0]]]);
    expect(await verifier.settle(call.id, 4)).toEqual({ settled: true, spent: 4 });
    expect([await list(), (await keyring.getIdentity({ identity: "ann" })).credits?.remaining]).toEqual([
      [["g", 1]],
      10,
    ]);
    await verifier.close();
  });
});
