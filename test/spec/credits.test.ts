/** Rulings D and contract 3-1, 3-2 through `verify`: atomic spending, cost 0, refills. */
import { describe, expect, it } from "vitest";
import { createVerifier } from "../../src/index.js";
import { NOON, world } from "./support.js";

const DAY = 86_400_000;

describe("ruling D1: taking", () => {
  it("the default cost is 1 and is taken in the last step", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: 2 } });
    expect((await verify({ key })).credits).toBe(1);
  });

  it.each(["exact", "leased"] as const)(
    "A141: 2,000 concurrent calls on 500 credits: exactly 500 pass (%s)",
    async (mode) => {
      const { create, verify, keyring, verifier } = await world({ credits: { mode } });
      const { key, keyId } = await create({ credits: { remaining: 500 } });
      const answers = await Promise.all(Array.from({ length: 2_000 }, () => verify({ key })));
      expect(answers.filter(({ valid }) => valid)).toHaveLength(500);
      expect(answers.filter(({ code }) => code === "USAGE_EXCEEDED")).toHaveLength(1_500);
      await verifier.close();
      expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(0);
    },
  );

  it("A147: a cost above the balance takes nothing", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: 5 } });
    expect(await verify({ key, credits: { cost: 6 } })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 5 });
    expect(await verify({ key, credits: { cost: 5 } })).toMatchObject({ code: "VALID", credits: 0 });
  });

  it("ruling D2: cost 0 passes at balance 0", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: 0 } });
    expect(await verify({ key, credits: { cost: 0 } })).toMatchObject({ code: "VALID", credits: 0 });
  });
});

describe("what a node that vanished had reserved", () => {
  /** A node that is never closed has 10 credits in memory and some in reserve, and its lease has expired. */
  const vanished = async () => {
    const bed = await world();
    const { key, keyId } = await bed.create({ credits: { remaining: 1_000 } });
    const leased = { mode: "leased", size: 500, step: 10, firstStep: 10 } as const;
    const node = createVerifier(bed.store, { clock: bed.clock, credits: leased });
    for (let i = 0; i < 10; i++) await node.verify({ key });
    expect((await bed.keyring.getKey({ keyId })).credits?.reserved).toBeGreaterThan(100);
    bed.time.now += 60_000;
    expect((await bed.keyring.getKey({ keyId })).credits?.remaining).toBe(990);
    return { ...bed, key, keyId };
  };

  it("each answer has it, whatever the cost", async () => {
    const { keyring, verify, key, keyId } = await vanished();
    for (const [cost, left] of [
      [0, 990],
      [1, 989],
      [0, 989],
      [1, 988],
      [988, 0],
      [1, 0],
    ] as const)
      expect((await verify({ key, credits: { cost } })).credits, `after ${cost}`).toBe(left);
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 0 });
  });

  it("a decrement reaches what is shown as remaining", async () => {
    const { keyring, verify, key, keyId } = await vanished();
    expect(await keyring.updateCredits({ keyId, operation: "decrement", value: 990 })).toMatchObject({ remaining: 0 });
    expect(await verify({ key })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
    expect(await keyring.updateCredits({ keyId, operation: "increment", value: 3 })).toMatchObject({ remaining: 3 });
  });
});

describe("ruling D3: refill", () => {
  it("A161, contract 2.3: daily adds the amount at 00:00 UTC", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ credits: { remaining: 3, refill: { interval: "daily", amount: 10 } } });
    time.now = NOON + DAY / 2 - 1;
    expect((await verify({ key })).credits).toBe(2);
    time.now += 1;
    expect((await verify({ key })).credits).toBe(11);
    expect((await verify({ key })).credits).toBe(10);
  });

  it("A163: boundaries missed while idle all count, once", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ credits: { remaining: 0, refill: { interval: "daily", amount: 5 } } });
    time.now = NOON + 3 * DAY;
    expect((await verify({ key })).credits).toBe(14);
    expect((await verify({ key })).credits).toBe(13);
    time.now = NOON;
    expect((await verify({ key })).credits).toBe(12);
    time.now = NOON + 3 * DAY;
    expect((await verify({ key })).credits).toBe(11);
  });

  it("A159: monthly on day 31 falls on the month's last day where it is shorter", async () => {
    const { create, verify, time } = await world();
    time.now = Date.UTC(2028, 0, 30);
    const { key } = await create({
      credits: { remaining: 0, refill: { interval: "monthly", amount: 1, refillDay: 31 } },
    });
    const at = async (...date: [number, number, number]) => {
      time.now = Date.UTC(...date);
      const before = (time.now -= 1);
      const low = (await verify({ key, credits: { cost: 0 } })).credits;
      time.now = before + 1;
      return [low, (await verify({ key, credits: { cost: 0 } })).credits];
    };
    expect(await at(2028, 0, 31)).toEqual([0, 1]);
    expect(await at(2028, 1, 29)).toEqual([1, 2]);
    expect(await at(2028, 2, 31)).toEqual([2, 3]);
    expect(await at(2028, 3, 30)).toEqual([3, 4]);
    expect(await at(2029, 1, 28)).toEqual([13, 14]);
  });

  it("A refill counted at a refused call is not lost, nor counted twice", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ credits: { remaining: 0, refill: { interval: "daily", amount: 2 } } });
    time.now = NOON + DAY;
    expect(await verify({ key, credits: { cost: 5 } })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 2 });
    expect(await verify({ key, credits: { cost: 2 } })).toMatchObject({ code: "VALID", credits: 0 });
    expect(await verify({ key, credits: { cost: 1 } })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
  });

  it("A165: balances stop at 2^53 - 1", async () => {
    const { create, verify, time } = await world();
    const huge = Number.MAX_SAFE_INTEGER;
    const { key } = await create({ credits: { remaining: huge - 1, refill: { interval: "daily", amount: huge } } });
    time.now = NOON + 9 * DAY;
    expect((await verify({ key, credits: { cost: 0 } })).credits).toBe(huge);
  });

  it("ruling A7: another amount counts no boundary twice, also after the clock stepped back", async () => {
    const { create, verify, time, keyring } = await world();
    const { key, keyId } = await create({ credits: { remaining: 0, refill: { interval: "daily", amount: 5 } } });
    time.now = NOON + DAY;
    expect((await verify({ key })).credits).toBe(4);
    time.now = NOON;
    await keyring.updateKey({ keyId, credits: { refill: { interval: "daily", amount: 7 } } });
    time.now = NOON + DAY;
    expect((await verify({ key })).credits).toBe(3);
    time.now = NOON + 2 * DAY;
    expect((await verify({ key })).credits).toBe(9);
  });

  it("an unlimited key ignores its refill", async () => {
    const { create, verify, time } = await world();
    const { key } = await create({ credits: { remaining: null, refill: { interval: "daily", amount: 5 } } });
    time.now = NOON + 3 * DAY;
    const answer = await verify({ key });
    expect(answer.code).toBe("VALID");
    expect("credits" in answer).toBe(false);
  });

  it("leased: refills reach the balance too", async () => {
    const { create, verify, time } = await world({ credits: { mode: "leased", size: 4, step: 2 } });
    const { key } = await create({ credits: { remaining: 1, refill: { interval: "daily", amount: 2 } } });
    expect((await verify({ key })).code).toBe("VALID");
    expect((await verify({ key })).code).toBe("USAGE_EXCEEDED");
    time.now = NOON + DAY;
    expect([(await verify({ key })).code, (await verify({ key })).code, (await verify({ key })).code]).toEqual([
      "VALID",
      "VALID",
      "USAGE_EXCEEDED",
    ]);
  });
});
