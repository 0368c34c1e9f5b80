import { describe, expect, it } from "vitest";
import { periodOf } from "../../../src/credits/refill-calendar.js";
import type { UpdateKeyCreditsData, V2KeysUpdateCreditsRequestBody } from "../../../src/keyring/schemas/requests.js";
import { createKeyring, createVerifier, type Store } from "../../../src/index.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { changed, DAY, failure, fault, refOf, world } from "../support.js";

const DAILY = { interval: "daily", amount: 5 } as const;

async function limited(
  credits: NonNullable<Parameters<Awaited<ReturnType<typeof world>>["create"]>[0]>["credits"] = { remaining: 10 },
) {
  const one = await world();
  const { keyId } = await one.create({ credits });
  const credit = async () => (await one.keyring.getKey({ keyId })).credits;
  const change = (operation: "set" | "increment" | "decrement", value: number | null) =>
    one.keyring.updateCredits({ keyId, operation, value } as V2KeysUpdateCreditsRequestBody);
  return { ...one, keyId, credit, change };
}

describe("updateCredits: set, increment, decrement", () => {
  it("answers the balance after the change", async () => {
    const { change, credit } = await limited();
    expect(await change("set", 3)).toEqual({ remaining: 3 });
    expect(await change("increment", 4)).toEqual({ remaining: 7 });
    expect(await change("decrement", 2)).toEqual({ remaining: 5 });
    expect(await credit()).toEqual({ remaining: 5 });
  });

  it("a decrement stops at 0, an increment at 2^53 − 1", async () => {
    const { change } = await limited();
    expect(await change("decrement", 11)).toEqual({ remaining: 0 });
    expect(await change("increment", Number.MAX_SAFE_INTEGER)).toEqual({ remaining: Number.MAX_SAFE_INTEGER });
    expect(await change("increment", 1)).toEqual({ remaining: Number.MAX_SAFE_INTEGER });
  });

  it.each([[{ value: null }], [{}]])("set %j makes it unlimited and clears the refill", async (value) => {
    const { keyring, credit, store, keyId } = await limited({ remaining: 1, refill: DAILY });
    expect(await keyring.updateCredits({ keyId, operation: "set", ...value })).toEqual({ remaining: null });
    expect(await credit()).toBeUndefined();
    expect(await store.spendCredits(await refOf(store, keyId), 1_000, 0, 0)).toEqual({ ok: true, remaining: null });
  });

  it("increment and decrement of an unlimited key are a 400 that says what to do", async () => {
    const { create, keyring } = await world();
    const { keyId } = await create();
    for (const operation of ["increment", "decrement"] as const) {
      const { errors } = await failure(keyring.updateCredits({ keyId, operation, value: 1 }));
      expect(errors).toEqual([
        {
          location: "body.operation",
          message: "does not fit a key without a balance of its own",
          fix: 'give the key a balance first, with "set", or change the credits of its identity',
        },
      ]);
    }
    expect(await keyring.updateCredits({ keyId, operation: "set", value: 0 })).toEqual({ remaining: 0 });
    expect(await keyring.updateCredits({ keyId, operation: "increment", value: 2 })).toEqual({ remaining: 2 });
  });

  it("ruling D3: refills due are counted before an increment, and come on top of it", async () => {
    const { change, time } = await limited({ remaining: 1, refill: DAILY });
    time.now += 3 * DAY;
    expect(await change("increment", 100)).toEqual({ remaining: 116, refill: DAILY });
    expect(await change("decrement", 16)).toEqual({ remaining: 100, refill: DAILY });
  });

  it("ruling D3: set replaces also the refills that were due; later ones still come", async () => {
    const { change, credit, time } = await limited({ remaining: 1, refill: DAILY });
    time.now += 3 * DAY;
    expect(await change("set", 2)).toEqual({ remaining: 2, refill: DAILY });
    time.now += DAY;
    expect(await credit()).toEqual({ remaining: 7, refill: DAILY });
  });

  it("found: set to what an uncounted refill makes it, it stays so when the clock steps back", async () => {
    const { change, credit, time } = await limited({ remaining: 1, refill: DAILY });
    time.now += DAY;
    expect(await change("set", 6)).toEqual({ remaining: 6, refill: DAILY });
    time.now -= DAY;
    expect(await credit()).toEqual({ remaining: 6, refill: DAILY });
    time.now += DAY;
    expect(await credit()).toEqual({ remaining: 6, refill: DAILY });
  });

  it("set to what it is, while a call takes from it, it is what was set", async () => {
    const inner = memoryStore();
    let spends = async (): Promise<unknown> => undefined;
    const store: Store = {
      ...inner,
      async readBalances(...given) {
        const read = await inner.readBalances(...given);
        await spends();
        return read;
      },
    };
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
    const verifier = createVerifier(inner);
    spends = async () => {
      spends = async () => undefined;
      expect((await verifier.verify({ key, credits: { cost: 4 } })).credits).toBe(6);
    };
    expect(await keyring.updateCredits({ keyId, operation: "set", value: 10 })).toEqual({ remaining: 10 });
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 10 });
    await verifier.close();
  });

  it("a balance that is set is a new generation, in the row and in the store; an addition is not", async () => {
    const { change, store, keyId } = await limited();
    const generation = async () => {
      const { generation: row } = (await store.readMany("keys", [keyId]))[0]!;
      const drawn = await store.drawCredits(await refOf(store, keyId), {
        holder: "h",
        spent: 0,
        cost: 0,
        step: 0,
        size: 0,
        period: 0,
        now: 0,
        until: 1,
      });
      expect(drawn?.generation).toBe(row);
      return row;
    };
    const first = await generation();
    await change("increment", 1);
    expect(await generation()).toBe(first);
    await change("set", 5);
    expect(await generation()).toBe(first + 1);
    await change("set", null);
    await change("set", 5);
    expect(await generation()).toBe(first + 3);
  });

  it("an unknown key is 404", async () => {
    const { keyring } = await world();
    expect(await fault(keyring.updateCredits({ keyId: "key_unknown", operation: "set", value: 1 }))).toBe(
      "NOT_FOUND 404",
    );
  });
});

describe("updateKey: credits in parts", () => {
  it("remaining alone keeps the refill, refill alone keeps the balance, {} keeps both", async () => {
    const { keyring, keyId, credit } = await limited({ remaining: 10, refill: DAILY });
    await keyring.updateKey({ keyId, credits: {} });
    expect(await credit()).toEqual({ remaining: 10, refill: DAILY });
    await keyring.updateKey({ keyId, credits: { remaining: 4 } });
    expect(await credit()).toEqual({ remaining: 4, refill: DAILY });
    const monthly = { interval: "monthly", amount: 9, refillDay: 1 } as const;
    await keyring.updateKey({ keyId, credits: { refill: monthly } });
    expect(await credit()).toEqual({ remaining: 4, refill: monthly });
    await keyring.updateKey({ keyId, credits: { refill: null } });
    expect(await credit()).toEqual({ remaining: 4 });
    await keyring.updateKey({ keyId, credits: { remaining: 1, refill: DAILY } });
    expect(await credit()).toEqual({ remaining: 1, refill: DAILY });
  });

  it("remaining null clears the refill unless one is given in the same breath", async () => {
    const { keyring, keyId, credit } = await limited({ remaining: 10, refill: DAILY });
    await keyring.updateKey({ keyId, credits: { remaining: null, refill: DAILY } });
    expect(await credit()).toEqual({ remaining: null, refill: DAILY });
    await keyring.updateKey({ keyId, credits: { refill: { ...DAILY, amount: 6 } } });
    expect(await credit()).toEqual({ remaining: null, refill: { ...DAILY, amount: 6 } });
    await keyring.updateKey({ keyId, credits: { remaining: null } });
    expect(await credit()).toBeUndefined();
  });

  it("ruling D3: a new calendar counts from now on, after what the old one owed", async () => {
    const { keyring, keyId, credit, time } = await limited({ remaining: 0, refill: DAILY });
    time.now += 2 * DAY;
    await keyring.updateKey({ keyId, credits: { refill: { interval: "monthly", amount: 100, refillDay: 31 } } });
    expect((await credit())?.remaining).toBe(10);
    time.now = Date.UTC(2026, 2, 31);
    expect((await credit())?.remaining).toBe(110);
  });

  it("an unlimited key with a refill that becomes limited is refilled from then on only", async () => {
    const { keyring, keyId, credit, time } = await limited({ remaining: null, refill: DAILY });
    time.now += 100 * DAY;
    await keyring.updateCredits({ keyId, operation: "set", value: 1 });
    expect(await credit()).toEqual({ remaining: 1, refill: DAILY });
    time.now += DAY;
    expect(await credit()).toEqual({ remaining: 6, refill: DAILY });
  });

  it("ruling D4, A7: another refillDay of a daily refill has no effect, also when the clock stepped back", async () => {
    const { keyring, keyId, credit, time } = await limited({ remaining: 0, refill: DAILY });
    time.now += 2 * DAY;
    await keyring.updateCredits({ keyId, operation: "increment", value: 0 });
    time.now -= 2 * DAY;
    await keyring.updateKey({ keyId, credits: { refill: { ...DAILY, refillDay: 4 } } });
    time.now += 2 * DAY;
    expect(await credit()).toEqual({ remaining: 10, refill: { ...DAILY, refillDay: 4 } });
  });

  it("ruling A7: sending the refill that stands, with a clock that stepped back, brings no second refill", async () => {
    const { keyring, keyId, store, credit, time } = await limited({ remaining: 0, refill: DAILY });
    time.now += 2 * DAY;
    await keyring.updateCredits({ keyId, operation: "increment", value: 0 });
    time.now -= 2 * DAY;
    await keyring.updateKey({ keyId, credits: { refill: { ...DAILY } } });
    time.now += 2 * DAY;
    expect(await credit()).toEqual({ remaining: 10, refill: DAILY });
    expect((await store.readMany("keys", [keyId]))[0]?.hasCredits).toBe(true);
  });
  /** A daily refill counted on 12 March, and a clock that then stands on 10 March again. */
  async function counted() {
    const one = await limited({ remaining: 0, refill: DAILY });
    one.time.now += 2 * DAY;
    await one.change("increment", 0);
    expect((await one.credit())?.remaining).toBe(10);
    one.time.now -= 2 * DAY;
    const set = (credits: UpdateKeyCreditsData) => one.keyring.updateKey({ keyId: one.keyId, credits });
    return { ...one, set };
  }
  const monthly = (refillDay: number) => ({ interval: "monthly", amount: 100, refillDay }) as const;

  it("ruling A7: another calendar, set while the clock stands behind, counts nothing that was counted", async () => {
    const { set, credit, time } = await counted();
    await set({ refill: monthly(12) });
    time.now = Date.UTC(2026, 2, 12);
    expect((await credit())?.remaining).toBe(10);
    time.now = Date.UTC(2026, 3, 12);
    expect((await credit())?.remaining).toBe(110);
  });

  it("ruling A7: nor by a calendar in between, nor by none, nor by a balance without end", async () => {
    for (const between of [{ refill: monthly(1) }, { refill: null }, { remaining: null }] as const) {
      const { set, credit, time } = await counted();
      await set(between);
      await set({ remaining: 10, refill: DAILY });
      time.now += 2 * DAY;
      expect((await credit())?.remaining, JSON.stringify(between)).toBe(10);
      time.now += DAY;
      expect((await credit())?.remaining).toBe(15);
    }
  });

  it("ruling A7: a calendar begins at the boundary that the one before counted last, however the clock stands", async () => {
    const { keyring, keyId, change, credit, time } = await limited({ remaining: 0, refill: monthly(11) });
    const set = (credits: UpdateKeyCreditsData) => keyring.updateKey({ keyId, credits });
    time.now = Date.UTC(2026, 2, 20);
    await change("increment", 0);
    expect((await credit())?.remaining).toBe(100);
    time.now = Date.UTC(2026, 2, 10);
    await set({ refill: { ...monthly(11), amount: 1 } });
    await set({ refill: DAILY });
    time.now = Date.UTC(2026, 2, 11);
    expect((await credit())?.remaining).toBe(100);
    time.now = Date.UTC(2026, 2, 12);
    expect((await credit())?.remaining).toBe(105);
  });

  it("port clause 13: a boundary that is counted while the calendar changes is not counted by the new one", async () => {
    const store = memoryStore();
    let meanwhile: (() => unknown) | undefined;
    const racing = changed(store, {
      async readBalances(queries, now) {
        const balances = await store.readBalances(queries, now);
        await meanwhile?.();
        meanwhile = undefined;
        return balances;
      },
    });
    const { keyring, create, time } = await world({ store: racing });
    const { keyId } = await create({ credits: { remaining: 10, refill: DAILY } });
    const ref = await refOf(store, keyId);
    // Another process, whose clock has passed midnight.
    meanwhile = () => store.spendCredits(ref, 1, periodOf(DAILY, time.now + DAY), 0);
    await keyring.updateKey({ keyId, credits: { refill: monthly(11) } });
    expect(meanwhile).toBeUndefined();
    time.now += DAY;
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 14, refill: monthly(11) });
  });
});
