import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import { periodOf } from "../../../src/credits/refill-calendar.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import type { V2KeysUpdateKeyRequestBody } from "../../../src/keyring/schemas/requests.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/store.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { changed, DAY, failure, fault, limit, problems, refOf, world } from "../support.js";

const folder = mkdtempSync(join(tmpdir(), "keystile-reroll-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const STORES: Record<string, () => Store> = {
  memory: () => memoryStore(),
  SQLite: () => sqliteStore(join(folder, "keys.db")),
};
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
      rerolledFrom: old.keyId,
      credits: { remaining: 11, refill: REFILL },
      ratelimits: [{ ...before.ratelimits![0], id: expect.stringMatching(/^rl_/) }],
    });
    expect(after.ratelimits![0]!.id).not.toBe(before.ratelimits![0]!.id);
    expect(await keyring.getKey({ keyId: old.keyId })).toEqual({
      ...before,
      expires: time.now + 60_000,
      updatedAt: time.now,
      rerolledTo: fresh.keyId,
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
    const created = async () => (await create({ credits: { remaining: 0 } })).keyId;
    const reroll = async (of: string) => (await keyring.rerollKey({ keyId: of, expiration: 0 })).keyId;
    const late = async () => {
      const keyId = await created();
      time.now = start + 2 * DAY;
      return reroll(keyId);
    };
    const lateThenEarly = async () => {
      const first = await late();
      time.now = start;
      return reroll(first);
    };
    expect(await afterwards(async () => reroll(await created()))).toBe(10);
    expect(await afterwards(late)).toBe(0);
    expect(await afterwards(lateThenEarly)).toBe(0);
  });

  it("the shared balance is of the generation that both rows say, so that leases of it hold", async () => {
    const { keyring, store, create } = await world();
    const old = await create({ credits: { remaining: 100 } });
    const { keyId } = await keyring.rerollKey({ keyId: old.keyId, expiration: 0 });
    const row = (await store.readMany("keys", [keyId]))[0]!;
    const { account } = (await store.findKey(row.digest!))!;
    const drawn = await store.drawCredits(account!.ref, {
      holder: "h",
      spent: 0,
      cost: 1,
      step: 1,
      size: 1,
      period: 0,
      now: 0,
      until: 1,
    });
    expect(drawn?.generation).toBe(row.generation);
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
      [time.now + 5_000, time.now + 1_000],
    ] as const) {
      const { keyId } = await create({ expires });
      await keyring.rerollKey({ keyId, expiration: 1_000 });
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
    const row = (await store.readMany("keys", [keyId]))[0]!;
    for (const field of ["hash", "foreignDigest", "migrationId", "updatedAt"])
      expect(Object.hasOwn(row, field), field).toBe(false);
    expect(await keyring.getKey({ keyId })).toMatchObject({ credits: { remaining: 3 } });
  });

  it("ruling A7: a set through the new key leaves the old one what calendars before had counted", async () => {
    const { keyring, create, time } = await world();
    const start = time.now;
    const { keyId } = await create({ credits: { remaining: 0, refill: REFILL } });
    time.now = start + 2 * DAY;
    await keyring.updateKey({ keyId, credits: { refill: { interval: "monthly", amount: 7, refillDay: 1 } } });
    time.now = start + 3 * DAY;
    const fresh = await keyring.rerollKey({ keyId, expiration: 300 * DAY });
    await keyring.updateCredits({ keyId: fresh.keyId, operation: "set", value: 0 });
    time.now = start;
    await keyring.updateKey({ keyId, credits: { refill: REFILL } });
    time.now = start + 2 * DAY;
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(0);
  });

  it("a change of the calendar reaches every key of the account, also if one was replaced twice or removed", async () => {
    const { keyring, store, create, time } = await world();
    const verifier = createVerifier(store, { clock: () => time.now });
    const texts = new Map<string, string>();
    const reroll = async (of: string) => {
      const { keyId, key } = await keyring.rerollKey({ keyId: of, expiration: 300 * DAY });
      texts.set(keyId, key);
      return keyId;
    };
    const first = await create({ credits: { remaining: 100, refill: REFILL } });
    texts.set(first.keyId, first.key);
    const second = await reroll(first.keyId);
    const third = await reroll(second);
    const fourth = await reroll(third);
    const change = async (keyId: string, refill: NonNullable<V2KeysUpdateKeyRequestBody["credits"]>) => {
      await keyring.updateKey({ keyId, credits: refill });
      for (const id of texts.keys())
        expect((await keyring.getKey({ keyId: id })).credits).toEqual((await keyring.getKey({ keyId })).credits);
      for (const key of texts.values()) expect((await verifier.verify({ key })).code).toBe("VALID");
    };
    await change(third, { refill: { interval: "monthly", amount: 7, refillDay: 3 } });
    await change(first.keyId, { refill: REFILL });
    await change(second, { remaining: null });
    await change(third, { refill: REFILL });
    await change(fourth, { remaining: 50, refill: REFILL });
    for (const removed of [second, first.keyId]) {
      await keyring.deleteKey({ keyId: removed, permanent: true });
      texts.delete(removed);
      await change(fourth, { refill: null });
      await change(third, { refill: REFILL });
    }
    await keyring.deleteKey({ keyId: fourth, permanent: true });
    texts.delete(fourth);
    await change(third, { refill: null });
    await verifier.close();
  });

  it("mints nothing: however often a key is replaced, all its texts spend one balance and one set of buckets", async () => {
    const { keyring, store, create, time } = await world();
    const verifier = createVerifier(store, { clock: () => time.now });
    const first = await create({
      credits: { remaining: 10 },
      ratelimits: [limit("day", { limit: 12, duration: DAY, autoApply: true })],
    });
    const texts = [first.key];
    let { keyId } = first;
    for (let i = 0; i < 4; i++) {
      const fresh = await keyring.rerollKey({ keyId, expiration: DAY });
      texts.push(fresh.key);
      keyId = fresh.keyId;
    }
    const codes: string[] = [];
    for (let i = 0; i < 20; i++) codes.push((await verifier.verify({ key: texts[i % texts.length]! })).code);
    expect(codes).toEqual([
      ...Array<string>(10).fill("VALID"),
      ...Array<string>(2).fill("USAGE_EXCEEDED"),
      ...Array<string>(8).fill("RATE_LIMITED"),
    ]);
    const named = {
      key: texts[0]!,
      ratelimits: [{ name: "burst", limit: 3, duration: DAY, cost: 3 }],
      credits: { cost: 0 },
    };
    time.now += DAY;
    expect((await verifier.verify(named)).code).toBe("VALID");
    expect((await verifier.verify({ ...named, key: texts[4]! })).code).toBe("RATE_LIMITED");
    await verifier.close();
  });

  it("spends that come between what rerollKey reads and its write are lost in neither", async () => {
    const { store, create } = await world();
    const { keyId } = await create({ credits: { remaining: 100 } });
    const ref = await refOf(store, keyId);
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
    const left = (await store.readBalances([{ keyId, period: 0 }], 0))[0]?.remaining;
    expect(left).toBeLessThan(100);
    expect((await store.readBalances([{ keyId: fresh.keyId, period: 0 }], 0))[0]?.remaining).toBe(left);
  });

  it("a change of credits through one key holds for the others: unlimited, limited again, another calendar", async () => {
    const { keyring, store, create, time } = await world();
    const verifier = createVerifier(store, { clock: () => time.now });
    const first = await create({ credits: { remaining: 5 } });
    const second = await keyring.rerollKey({ keyId: first.keyId, expiration: 300 * DAY });
    const third = await keyring.rerollKey({ keyId: second.keyId, expiration: 300 * DAY });
    const keys = [first, second, third];
    for (const [i, { keyId }] of keys.entries()) {
      const credits = async () =>
        Promise.all(keys.map(async ({ key }) => (await verifier.verify({ key, credits: { cost: 0 } })).credits));
      await keyring.updateCredits({ keyId, operation: "set", value: null });
      expect(await credits(), `unlimited through ${i}`).toEqual([undefined, undefined, undefined]);
      await keyring.updateCredits({ keyId, operation: "set", value: 7 });
      expect(await credits(), `limited through ${i}`).toEqual([7, 7, 7]);
      await keyring.updateKey({ keyId, credits: { refill: REFILL } });
      time.now += DAY;
      expect(await credits(), `refilled through ${i}`).toEqual([12, 12, 12]);
      await keyring.updateKey({ keyId, credits: { refill: { interval: "monthly", amount: 100, refillDay: 1 } } });
      time.now += DAY;
      for (const { key } of keys) expect((await verifier.verify({ key })).code).toBe("VALID");
    }
    await verifier.close();
  });

  it("when the old key is removed for good, the balance stays with the new one", async () => {
    const { keyring, store, create, time } = await world();
    const verifier = createVerifier(store, { clock: () => time.now });
    const first = await create({ credits: { remaining: 5 } });
    const second = await keyring.rerollKey({ keyId: first.keyId, expiration: 0 });
    await keyring.deleteKey({ keyId: first.keyId, permanent: true });
    expect(await verifier.verify({ key: second.key })).toMatchObject({ code: "VALID", credits: 4 });
    const third = await keyring.rerollKey({ keyId: second.keyId, expiration: 0 });
    await keyring.deleteKey({ keyId: second.keyId, permanent: true });
    expect(await verifier.verify({ key: third.key })).toMatchObject({ code: "VALID", credits: 3 });
    await verifier.close();
  });

  it("a key of the account that is removed while it is read is passed over, and the rest stay linked", async () => {
    const { keyring, store, create } = await world();
    const first = await create({ credits: { remaining: 5 } });
    const second = await keyring.rerollKey({ keyId: first.keyId, expiration: DAY });
    const third = await keyring.rerollKey({ keyId: second.keyId, expiration: DAY });
    let isRemoved = false;
    const other = await world({
      store: changed(store, {
        async readMany(table, ids) {
          if (table === "keys" && ids.includes(second.keyId) && !isRemoved) {
            isRemoved = true;
            await keyring.deleteKey({ keyId: second.keyId, permanent: true });
          }
          return store.readMany(table, ids);
        },
      }),
    });
    await other.keyring.updateCredits({ keyId: first.keyId, operation: "set", value: null });
    expect(isRemoved).toBe(true);
    const [row, latest] = await store.readMany("keys", [first.keyId, third.keyId]);
    expect([row!.rerolledTo, latest!.rerolledFrom, latest!.rerolledTo]).toEqual([third.keyId, first.keyId, undefined]);
    expect(latest).toMatchObject({ creditsFrom: "none", hasCredits: false });
  });

  it("keeps the prefix of an import that never verified, or takes another", async () => {
    const { keyring, apiId } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const imported = async (hash: string, prefix?: string) => {
      const keys = [{ hash, ...(prefix !== undefined && { prefix }) }];
      return (await keyring.migrateKeys({ migrationId, apiId, keys })).migrated[0]!.keyId;
    };
    const keyId = await imported("1".repeat(64), "sk_live");
    expect((await keyring.rerollKey({ keyId, expiration: 0 })).key).toMatch(/^sk_live_[1-9A-HJ-NP-Za-km-z]{20,}$/);
    const plain = await imported("2".repeat(64));
    expect((await keyring.rerollKey({ keyId: plain, expiration: 0 })).key).not.toContain("_");
    const other = await imported("3".repeat(64));
    const named = await keyring.rerollKey({ keyId: other, expiration: 0, prefix: "acme" });
    expect(named.key).toMatch(/^acme_/);
    expect((await keyring.getKey({ keyId: named.keyId })).start).toBe(named.key.slice(0, 9));
    expect(await fault(keyring.rerollKey({ keyId: plain, expiration: 0, prefix: "a b" }))).toBe("BAD_REQUEST 400");
  });

  it("an unknown or deleted key is 404", async () => {
    const { keyring, create } = await world();
    const { keyId } = await create();
    await keyring.deleteKey({ keyId });
    expect(await fault(keyring.rerollKey({ keyId, expiration: 0 }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.rerollKey({ keyId: "key_unknown", expiration: 0 }))).toBe("NOT_FOUND 404");
  });
});

describe("rerollKey: only the newest key of a chain", () => {
  it("is a CONFLICT for another, which names the newest; nothing is made, and nothing ends sooner", async () => {
    const { keyring, store, apiId, create } = await world();
    const first = await create();
    const second = await keyring.rerollKey({ keyId: first.keyId, expiration: DAY });
    const third = await keyring.rerollKey({ keyId: second.keyId, expiration: DAY });
    const rows = () => store.readMany("keys", [first.keyId, second.keyId, third.keyId]);
    const before = await rows();
    for (const { keyId } of [first, second])
      for (const expiration of [0, DAY]) {
        const refusal = await failure(keyring.rerollKey({ keyId, expiration }));
        expect([refusal.code, refusal.status]).toEqual(["CONFLICT", 409]);
        expect(refusal.message).toContain(third.keyId);
      }
    expect(await rows()).toEqual(before);
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(3);
    await keyring.rerollKey({ keyId: third.keyId, expiration: 0 });
  });

  it.each(Object.entries(STORES))("of many at once one succeeds, and the others name its key: %s", async (_, open) => {
    const store = open();
    const { keyring, apiId, create, time } = await world({ store });
    const elsewhere = createKeyring(store, { clock: () => time.now });
    const { keyId } = await create();
    const calls = [keyring, elsewhere, keyring, elsewhere].map((one) => one.rerollKey({ keyId, expiration: DAY }));
    const settled = await Promise.allSettled(calls);
    const [made, ...more] = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    expect(more).toEqual([]);
    for (const one of settled)
      if (one.status === "rejected")
        expect(one.reason).toMatchObject({
          code: "CONFLICT",
          message: expect.stringContaining(made!.keyId) as unknown,
        });
    expect((await keyring.listKeys({ apiId })).data.map((key) => key.keyId).sort()).toEqual(
      [keyId, made!.keyId].sort(),
    );
    await store.close();
  });

  it.each([false, true])("once the newest was deleted (permanent: %s) the chain has ended", async (permanent) => {
    const { keyring, create, time } = await world();
    const first = await create();
    const second = await keyring.rerollKey({ keyId: first.keyId, expiration: DAY });
    const third = await keyring.rerollKey({ keyId: second.keyId, expiration: DAY });
    await keyring.deleteKey({ keyId: third.keyId, permanent });
    for (const { keyId } of [first, second]) {
      const refusal = await failure(keyring.rerollKey({ keyId, expiration: DAY }));
      expect([refusal.code, refusal.message]).toEqual([
        "CONFLICT",
        "the key was rotated before; the newest key of its chain was deleted: create a new key",
      ]);
      expect(await problems(keyring.updateKey({ keyId, expires: null }))).toEqual(["body.expires"]);
      expect((await keyring.getKey({ keyId })).expires).toBe(time.now + DAY);
    }
  });

  it("a key that has expired has no successor, which would be EXPIRED from the start", async () => {
    const { keyring, apiId, create, time } = await world();
    const { keyId } = await create({ expires: time.now + DAY });
    time.now += DAY + 1;
    expect(await fault(keyring.rerollKey({ keyId, expiration: 0 }))).toBe("CONFLICT 409");
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(1);
    await keyring.updateKey({ keyId, expires: time.now });
    await keyring.rerollKey({ keyId, expiration: 0 });
  });
});

describe("a key that was rotated", () => {
  it("ends no later, whatever updateKey says: null, a later time, enabled; it may end sooner", async () => {
    const { keyring, store, create, time } = await world();
    const verifier = createVerifier(store, { clock: () => time.now });
    const first = await create();
    const { keyId } = first;
    const second = await keyring.rerollKey({ keyId, expiration: DAY });
    const end = time.now + DAY;
    for (const expires of [null, end + 1]) {
      const { errors } = await failure(keyring.updateKey({ keyId, expires, permissions: ["never.made"] }));
      expect(errors).toEqual([
        {
          location: "body.expires",
          message: "cannot be later than it is: the key was rotated",
          fix: `use ${second.keyId}, which replaced it`,
        },
      ]);
    }
    expect((await keyring.listPermissions()).data).toEqual([]);
    await keyring.updateKey({ keyId, expires: end, name: "old" });
    await keyring.updateKey({ keyId, expires: end - 1, enabled: false });
    expect(await problems(keyring.updateKey({ keyId, expires: end }))).toEqual(["body.expires"]);
    time.now = end;
    await keyring.updateKey({ keyId, enabled: true });
    expect((await verifier.verify({ key: first.key })).code).toBe("EXPIRED");
    expect(await problems(keyring.updateKey({ keyId, expires: null }))).toEqual(["body.expires"]);
    await keyring.updateKey({ keyId: second.keyId, expires: end + DAY });
    await verifier.close();
  });

  it("a rotation that comes between reading and writing does not let a later end through", async () => {
    const { keyring, store, create, time } = await world();
    const { keyId } = await create();
    let isRotated = false;
    const other = await world({
      store: changed(store, {
        async write(...given) {
          if (!isRotated) {
            isRotated = true;
            await keyring.rerollKey({ keyId, expiration: DAY });
          }
          return store.write(...given);
        },
      }),
    });
    isRotated = false;
    expect(await problems(other.keyring.updateKey({ keyId, expires: null }))).toEqual(["body.expires"]);
    expect((await keyring.getKey({ keyId })).expires).toBe(time.now + DAY);
  });
});
