/** Refills as programs give and change them: intervals, time zones and rollovers, of keys and of identities. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createKeyring, createVerifier, forOwner, memoryStore, type Refill, type Store } from "../../../src/index.js";
import { calendarOf } from "../../../src/credits/refill-calendar.js";
import { guardStore } from "../../../src/lib/guards/guard-store.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createRandom } from "../../../src/testing/random.js";
import { testClock } from "../../../src/testing/world.js";
import { runs } from "../../runs.js";

const folder = mkdtempSync(join(tmpdir(), "refills-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const STORES: Record<string, () => Store> = {
  memory: () => memoryStore(),
  SQLite: () => sqliteStore(join(folder, `${++files}.db`)),
};
const DAY = 86_400_000;

async function world(store: Store, start: string) {
  const clock = testClock(start);
  const keyring = createKeyring(store, { clock: clock.now });
  const verifier = createVerifier(store, { clock: clock.now, usage: false });
  const { apiId } = await keyring.createApi({ name: "docs" });
  const made = async (remaining: number, refill: Refill) =>
    keyring.createKey({ apiId, credits: { remaining, refill } });
  const left = async (keyId: string) => (await keyring.getKey({ keyId })).credits?.remaining;
  const spend = async (key: string, cost: number) => {
    const { code, credits } = await verifier.verify({ key, credits: { cost } });
    return [code, credits];
  };
  return { clock, keyring, verifier, apiId, made, left, spend, store };
}

describe.each(Object.entries(STORES))("refills on %s", (_, open) => {
  it.each<[title: string, refill: Refill, before: string, at: string]>([
    ["every hour", { interval: "hourly", amount: 5 }, "2026-01-10T12:59:59.999Z", "2026-01-10T13:00:00Z"],
    [
      "every day in Berlin",
      { interval: "daily", amount: 5, timeZone: "Europe/Berlin" },
      "2026-07-09T21:59:59.999Z",
      "2026-07-09T22:00:00Z",
    ],
    [
      "every Monday",
      { interval: "weekly", amount: 5, refillDay: 1 },
      "2026-01-11T23:59:59.999Z",
      "2026-01-12T00:00:00Z",
    ],
    [
      "on the last of a month in New York",
      { interval: "monthly", amount: 5, refillDay: 31, timeZone: "America/New_York" },
      "2026-02-28T04:59:59.999Z",
      "2026-02-28T05:00:00Z",
    ],
  ])("come %s", async (_title, refill, before, at) => {
    const { clock, made, spend, left, keyring, apiId } = await world(open(), before);
    const { key, keyId } = await made(3, refill);
    await keyring.createIdentity({ externalId: "ada", credits: { remaining: 3, refill } });
    const drawing = await keyring.createKey({ apiId, externalId: "ada" });
    expect(await spend(key, 4)).toEqual(["USAGE_EXCEEDED", 3]);
    expect(await left(keyId)).toBe(3);
    clock.set(at);
    for (const text of [key, drawing.key]) {
      expect(await spend(text, 4)).toEqual(["VALID", 4]);
      expect(await spend(text, 5)).toEqual(["USAGE_EXCEEDED", 4]);
    }
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 4, refill });
    expect((await keyring.getIdentity({ identity: "ada" })).credits).toEqual({ remaining: 4, refill });
  });

  it("with a rollover expire, whether a call counts them or an administrator looks", async () => {
    const { clock, made, spend, left, keyring } = await world(open(), "2026-01-01T12:00:00Z");
    const { key, keyId } = await made(100, { interval: "monthly", amount: 50, refillDay: 1, rollover: 20 });
    expect(await spend(key, 10)).toEqual(["VALID", 90]);
    clock.set("2026-02-01T00:00:00Z");
    expect(await left(keyId)).toBe(70);
    expect(await spend(key, 60)).toEqual(["VALID", 10]);
    clock.set("2026-05-01T00:00:00Z");
    expect(await left(keyId)).toBe(70);
    expect((await keyring.updateCredits({ keyId, operation: "increment", value: 5 })).remaining).toBe(75);
    // A clock that steps back changes nothing.
    clock.set("2026-01-15T00:00:00Z");
    expect(await spend(key, 5)).toEqual(["VALID", 70]);
  });

  it("another rollover holds for what comes; boundaries that are due count under the one before", async () => {
    const { clock, made, left, keyring } = await world(open(), "2026-01-01T12:00:00Z");
    const refill = { interval: "daily", amount: 10 } as const;
    const { keyId } = await made(100, { ...refill, rollover: 30 });
    clock.advance(DAY);
    await keyring.updateKey({ keyId, credits: { refill: { ...refill, rollover: 0 } } });
    expect(await left(keyId)).toBe(40);
    clock.advance(DAY);
    expect(await left(keyId)).toBe(10);
    await keyring.updateKey({ keyId, credits: { refill } });
    clock.advance(2 * DAY);
    expect(await left(keyId)).toBe(30);
  });

  it("each change of the calendar counts from then on, and under a number that the account never had", async () => {
    const store = open();
    const { clock, made, left, keyring, spend } = await world(store, "2026-01-01T12:00:00Z");
    const berlin = { interval: "daily", amount: 10, timeZone: "Europe/Berlin" } as const;
    const utc = { interval: "daily", amount: 10 } as const;
    const { key, keyId } = await made(0, utc);
    const periodNow = async () => {
      const [row] = await store.readMany("keys", [keyId]);
      const [balance] = await store.readBalances([{ keyId, period: 0 }], clock.now());
      return [row!.refillCalendar, calendarOf(balance!.period)];
    };
    expect(await periodNow()).toEqual([undefined, 32]);
    const changes: [Refill | null, (number | undefined)[]][] = [
      [berlin, [undefined, 65]],
      [utc, [1, 69]],
      [berlin, [2, 73]],
      [null, [3, 0]],
      [{ ...berlin, timeZone: "Asia/Tokyo" }, [3, 77]],
      [{ interval: "hourly", amount: 10 }, [4, 80]],
    ];
    for (const [refill, expected] of changes) {
      await keyring.updateKey({ keyId, credits: { refill } });
      expect(await periodNow(), JSON.stringify(refill)).toEqual(expected);
      expect(await left(keyId)).toBe(0);
    }
    expect(await spend(key, 1)).toEqual(["USAGE_EXCEEDED", 0]);
    clock.advance(3_600_000);
    expect(await spend(key, 1)).toEqual(["VALID", 9]);
  });

  it("a spend that was prepared under the calendar of before is stale, also where days are the same again", async () => {
    const store = open();
    const { made, keyring } = await world(store, "2026-01-01T12:00:00Z");
    const berlin = { interval: "daily", amount: 10, timeZone: "Europe/Berlin" } as const;
    const { keyId } = await made(5, berlin);
    const [row] = await store.readMany("keys", [keyId]);
    const record = (await store.findKey(row!.digest!))!;
    const [{ period } = { period: 0 }] = (await store.readBalances([{ keyId, period: 0 }], 0)) as { period: number }[];
    await keyring.updateKey({ keyId, credits: { refill: { ...berlin, timeZone: "Asia/Tokyo" } } });
    await keyring.updateKey({ keyId, credits: { refill: berlin } });
    expect(await store.spendCredits(record.ref, 1, period + 1, 0)).toMatchObject({ ok: false, stale: true });
  });

  it("a rotated key keeps the calendar of its balance, and a change of one key is one of both", async () => {
    const { clock, made, left, keyring, spend } = await world(open(), "2026-01-01T12:00:00Z");
    const refill = { interval: "weekly", amount: 10, refillDay: 3, timeZone: "Europe/Berlin", rollover: 0 } as const;
    const { keyId } = await made(7, refill);
    await keyring.updateKey({ keyId, credits: { refill: { ...refill, refillDay: 4 } } });
    const next = await keyring.rerollKey({ keyId, expiration: 60 * DAY });
    await keyring.updateKey({ keyId: next.keyId, credits: { refill } });
    clock.advance(7 * DAY);
    expect([await left(keyId), await left(next.keyId)]).toEqual([10, 10]);
    expect(await spend(next.key, 4)).toEqual(["VALID", 6]);
  });

  it("imports bring them, and an owner's keys have no more than the ceiling lets stay", async () => {
    const { clock, keyring, apiId, left } = await world(open(), "2026-01-01T12:00:00Z");
    const refill = { interval: "daily", amount: 10, rollover: 5 } as const;
    const mine = forOwner(keyring, "ada", { apiId, ceiling: { keys: 5, credits: { remaining: 20, refill } } });
    const made = await mine.create({ name: "one" });
    clock.advance(DAY);
    expect(await left(made.keyId)).toBe(15);
    const asked = (over: object) =>
      mine.create({ name: "two", credits: { remaining: 1, refill: { ...refill, ...over } } });
    await expect(asked({ rollover: 6 })).rejects.toMatchObject({ code: "BAD_REQUEST" });
    const { rollover: _, ...all } = refill;
    await expect(mine.create({ name: "two", credits: { remaining: 1, refill: all } })).rejects.toMatchObject({
      code: "BAD_REQUEST",
    });
    await expect(asked({ timeZone: "Europe/Berlin" })).rejects.toMatchObject({ code: "BAD_REQUEST" });
    expect(await asked({ rollover: 0, amount: 3 })).toMatchObject({ keyId: expect.any(String) });
  });

  it("nodes that lease grant no more in any period than the plan and what rolls over, whoever counts it", async () => {
    for (let seed = 1; seed <= runs(60); seed++) {
      const random = createRandom(seed);
      const [amount, rollover] = [random.integer(1, 60), random.pick([0, 5, 20, 1_000])];
      const { store, clock, keyring, apiId } = await world(open(), "2026-01-01T12:00:00Z");
      const refill = { interval: "hourly", amount, rollover } as const;
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 50, refill } });
      const nodes = [0, 1].map(() => {
        const credits = { mode: "leased", size: 40, step: 20, firstStep: 10, ttl: 3_600_000 } as const;
        return createVerifier(store, { clock: clock.now, usage: false, credits });
      });
      let [most, at] = [50, clock.now()];
      for (let i = 0; i < 60; i++) {
        if (random.integer(0, 5) === 0) {
          clock.advance(random.pick([1_000, 1_800_000, 3_600_000, 7_200_000]));
          const hours = Math.floor(clock.now() / 3_600_000) - Math.floor(at / 3_600_000);
          for (let n = 0; n < hours; n++) most = Math.min(most, rollover) + amount;
        }
        at = clock.now();
        const cost = random.integer(1, 8);
        const { code } = await nodes[random.integer(0, 1)]!.verify({ key, credits: { cost } });
        if (code === "VALID") most -= cost;
        if (most < 0) expect.fail(`seed ${seed}: ${-most} too many`);
      }
      for (const node of nodes) await node.close();
      const { credits } = await keyring.getKey({ keyId });
      expect(credits!.remaining!, `seed ${seed}`).toBeLessThanOrEqual(most);
    }
  });
});

describe("a store that lets everything stay", () => {
  it("takes no rollover, and any calendar", async () => {
    const whole = memoryStore();
    const store = guardStore({ ...whole, powers: { ...whole.powers, rollover: false } });
    const { made, keyring } = await world(store, "2026-01-01T12:00:00Z");
    const { keyId } = await made(1, { interval: "hourly", amount: 1 });
    const refill = { interval: "hourly", amount: 1, rollover: 0 } as const;
    await expect(made(1, refill)).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
    await expect(keyring.updateKey({ keyId, credits: { refill } })).rejects.toMatchObject({
      code: "STORE_POWER_MISSING",
    });
    await expect(
      keyring.createIdentity({ externalId: "ada", credits: { remaining: 1, refill } }),
    ).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
  });
});
