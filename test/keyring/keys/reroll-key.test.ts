import { describe, expect, it } from "vitest";
import { periodOf } from "../../../src/credits/refill-calendar.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { DAY, fault, limit, refOf, world } from "../support.js";

const REFILL = { interval: "daily", amount: 5 } as const;

describe("rerollKey: everything under a new id and a new text", () => {
  it("copies all but id, text, times and the ids of its limits; the balance as it stands", async () => {
    const { keyring, store, create, time } = await world();
    await keyring.createRole({ name: "reader" });
    const old = await create({
      prefix: "docs_v2",
      name: "one",
      externalId: "user_1",
      meta: { plan: "pro" },
      roles: ["reader"],
      permissions: ["a"],
      expires: time.now + 300 * DAY,
      credits: { remaining: 10, refill: REFILL },
      ratelimits: [limit("requests", { autoApply: true })],
      enabled: false,
      ipAllowlist: ["10.0.0.0/8"],
    });
    await store.spendCredits(await refOf(store, old.keyId), 4, periodOf(REFILL, time.now), 0);
    time.now += DAY;
    const before = await keyring.getKey({ keyId: old.keyId });
    const fresh = await keyring.rerollKey({ keyId: old.keyId, expiration: 60_000 });
    expect(fresh.keyId).not.toBe(old.keyId);
    expect(fresh.key).toMatch(/^docs_v2_[1-9A-HJ-NP-Za-km-z]{20,}$/);
    expect(fresh.key).not.toBe(old.key);
    const after = await keyring.getKey({ keyId: fresh.keyId });
    expect(after).toEqual({
      ...before,
      keyId: fresh.keyId,
      start: fresh.key.slice(0, 12),
      createdAt: time.now,
      credits: { remaining: 11, refill: REFILL },
      ratelimits: [{ ...before.ratelimits![0], id: expect.stringMatching(/^rl_/) }],
    });
    expect(after.ratelimits![0]!.id).not.toBe(before.ratelimits![0]!.id);
    expect(await keyring.getKey({ keyId: old.keyId })).toEqual({
      ...before,
      expires: time.now + 60_000,
      updatedAt: time.now,
    });
    expect((await keyring.whoami({ key: fresh.key })).keyId).toBe(fresh.keyId);
  });

  it("ruling D3: the copied balance refills once a boundary, not for those that the old key counted", async () => {
    const { keyring, create, time } = await world();
    const old = await create({ credits: { remaining: 0, refill: REFILL } });
    time.now += 2 * DAY;
    const { keyId } = await keyring.rerollKey({ keyId: old.keyId, expiration: 0 });
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(10);
    time.now += DAY;
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(15);
    expect(await keyring.updateCredits({ keyId, operation: "set", value: 1 })).toEqual({
      remaining: 1,
      refill: REFILL,
    });
  });

  it("ruling A7: with a clock that stands behind what the old key counted, the copy counts no boundary again", async () => {
    const { keyring, create, time } = await world();
    const { keyId } = await create({ credits: { remaining: 0, refill: REFILL } });
    time.now += 2 * DAY;
    await keyring.updateCredits({ keyId, operation: "increment", value: 0 });
    time.now -= 2 * DAY;
    const fresh = await keyring.rerollKey({ keyId, expiration: 0 });
    const balance = async () => (await keyring.getKey({ keyId: fresh.keyId })).credits?.remaining;
    expect(await balance()).toBe(10);
    time.now += 2 * DAY;
    expect(await balance()).toBe(10);
    time.now += DAY;
    expect(await balance()).toBe(15);
  });

  it("ruling A7: a copy remembers what calendars before its own counted, and when it began itself", async () => {
    const { keyring, create, time } = await world();
    const start = time.now;
    const afterwards = async (between: () => Promise<string>) => {
      const keyId = await between();
      time.now = start;
      await keyring.updateKey({ keyId, credits: { refill: REFILL } });
      time.now = start + 2 * DAY;
      const { credits } = await keyring.getKey({ keyId });
      time.now = start;
      return credits?.remaining;
    };
    const { keyId } = await create({ credits: { remaining: 0 } });
    const reroll = async (of: string) => (await keyring.rerollKey({ keyId: of, expiration: 0 })).keyId;
    const late = async () => {
      time.now = start + 2 * DAY;
      return reroll(keyId);
    };
    const lateThenEarly = async () => {
      const first = await late();
      time.now = start;
      return reroll(first);
    };
    expect(await afterwards(() => reroll(keyId))).toBe(10);
    expect(await afterwards(late)).toBe(0);
    expect(await afterwards(lateThenEarly)).toBe(0);
  });

  it("the new balance is of the generation that its row says, so that leases of it hold", async () => {
    const { keyring, store, create } = await world();
    const old = await create({ credits: { remaining: 100 } });
    const { keyId } = await keyring.rerollKey({ keyId: old.keyId, expiration: 0 });
    const drawn = await store.drawCredits(await refOf(store, keyId), {
      holder: "h",
      spent: 0,
      cost: 1,
      step: 1,
      size: 1,
      period: 0,
      now: 0,
      until: 1,
    });
    expect(drawn?.generation).toBe((await store.read("keys", keyId))?.generation);
  });

  it("ruling A3: with expiration 0 the old key is EXPIRED at once, otherwise valid up to its last millisecond", async () => {
    const { keyring, store, create, time } = await world();
    const verifier = createVerifier(store, { clock: () => time.now });
    const code = async (key: string) => (await verifier.verify({ key })).code;
    const first = await create();
    expect(await code(first.key)).toBe("VALID");
    const second = await keyring.rerollKey({ keyId: first.keyId, expiration: 0 });
    expect([await code(first.key), await code(second.key)]).toEqual(["EXPIRED", "VALID"]);
    await keyring.rerollKey({ keyId: second.keyId, expiration: 1_000 });
    time.now += 1_000;
    expect(await code(second.key)).toBe("VALID");
    time.now += 1;
    expect(await code(second.key)).toBe("EXPIRED");
    await verifier.close();
  });

  it("an old key that expires sooner keeps its time, one that would expire later does not", async () => {
    const { keyring, create, time } = await world();
    for (const [expires, shown] of [
      [time.now + 5, time.now + 5],
      [time.now + 500, time.now + 100],
    ] as const) {
      const { keyId } = await create({ expires });
      await keyring.rerollKey({ keyId, expiration: 100 });
      expect((await keyring.getKey({ keyId })).expires).toBe(shown);
    }
    time.now = 0;
    const { keyId } = await create();
    await keyring.rerollKey({ keyId, expiration: 0 });
    expect((await keyring.getKey({ keyId })).expires).toBe(0);
  });

  it("an unlimited key stays unlimited, its refill with it; an imported key leaves its hash behind", async () => {
    const { keyring, store, create, apiId } = await world();
    const unlimited = await create({ credits: { remaining: null, refill: REFILL } });
    const copy = await keyring.rerollKey({ keyId: unlimited.keyId, expiration: 0 });
    expect((await keyring.getKey({ keyId: copy.keyId })).credits).toEqual({ remaining: null, refill: REFILL });

    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const hash = "ab".repeat(32);
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash, credits: { remaining: 3 } }] });
    const { keyId, key } = await keyring.rerollKey({ keyId: migrated[0]!.keyId, expiration: 0 });
    expect(key).not.toContain("_");
    const row = (await store.read("keys", keyId))!;
    for (const field of ["hash", "foreignDigest", "migrationId", "updatedAt"])
      expect(Object.hasOwn(row, field), field).toBe(false);
    expect(await keyring.getKey({ keyId })).toMatchObject({ credits: { remaining: 3 } });
  });

  it("copies the balance as it stands when the new key is written: what is spent meanwhile is in neither twice", async () => {
    const { store, create } = await world();
    const { keyId } = await create({ credits: { remaining: 100 } });
    const ref = await refOf(store, keyId);
    // Spends that come between all that rerollKey reads and its write.
    const { keyring } = await world({
      store: {
        ...store,
        async write(writes) {
          for (let i = 0; i < 40; i++) await store.spendCredits(ref, 1, 0, 0);
          return store.write(writes);
        },
      },
    });
    const fresh = await keyring.rerollKey({ keyId, expiration: 0 });
    const left = (await store.readBalance(keyId, 0, 0))?.remaining;
    expect(left).toBeLessThan(100);
    expect((await store.readBalance(fresh.keyId, 0, 0))?.remaining).toBe(left);
  });

  it("an unknown or deleted key is 404", async () => {
    const { keyring, create } = await world();
    const { keyId } = await create();
    await keyring.deleteKey({ keyId });
    expect(await fault(keyring.rerollKey({ keyId, expiration: 0 }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.rerollKey({ keyId: "key_unknown", expiration: 0 }))).toBe("NOT_FOUND 404");
  });
});
