/**
 * How long calls of one key wait for draws, counted in draws that follow each other; and that drawing beside each other
 * grants nothing twice.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Spend, Store } from "../../src/contracts/store.js";
import { runs } from "../runs.js";
import { leasedSpender } from "../../src/credits/leased-spender.js";
import { account, accountOf, eagerSpender, gate, hindered, opened, settled, storeError } from "./support.js";

const CALLS = 64;
const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

/** A spender whose draws end together, round by round. */
async function rounds(credits: number, options = { size: 8, step: 4 }) {
  const bed = await opened(credits);
  const { pass, open, count } = gate();
  const hinder = hindered(bed.store);
  const drawing: Store = {
    ...hinder.store,
    drawCredits: (ref, request) => pass().then(() => hinder.store.drawCredits(ref, request)),
  };
  const spender = eagerSpender(drawing, options);
  const one = account(bed.record);
  const spend = (cost = 1): Promise<Spend | undefined> => Promise.resolve(spender.spend(one, cost, 0));
  return { ...bed, hinder, spender, spend, open, count };
}

const failure = (spend: Promise<unknown>): Promise<unknown> =>
  spend.then(
    () => expect.fail("it was granted"),
    (error: unknown) => error,
  );

describe("leasedSpender: a draw that fails", () => {
  it("fails every call that waited for it, each with an error of its own, and none draws again", async () => {
    const { hinder, spend, open, spender, balance } = await rounds(1_000);
    hinder.draws = storeError();
    const failing = times(CALLS, () => failure(spend()));
    await open();
    const errors = await Promise.all(failing);
    // Whether it drew is unknown: its lease ends, and what it may have drawn comes back.
    expect(hinder.asked).toEqual({ draws: 1, returns: 1 });
    for (const error of errors) {
      expect(error).toMatchObject({
        name: "KeystileError",
        code: "STORE_BUSY",
        status: 503,
        message: "planted failure",
        cause: new Error("planted cause"),
      });
    }
    expect(new Set(errors).size).toBe(CALLS);
    // Who comes now draws anew.
    hinder.draws = undefined;
    const later = spend();
    await open();
    expect(await later).toEqual({ ok: true, remaining: 999 });
    await spender.close();
    expect(await balance()).toBe(999);
  });

  it("one that is no KeystileError rises as it is; one without a cause gets none", async () => {
    for (const error of [new Error("no answer"), Object.assign(storeError(), { cause: undefined })]) {
      const { hinder, spend, open } = await rounds(1_000);
      hinder.draws = error;
      const failing = [failure(spend()), failure(spend())];
      await open();
      const [first, second] = (await Promise.all(failing)) as [Error, Error];
      expect(first).toBe(error);
      expect(second.message).toBe(error.message);
      expect(second.cause).toBeUndefined();
    }
  });
});

describe("leasedSpender: a draw that is not enough for all who waited", () => {
  it("is followed by one draw for all that were not served", async () => {
    const { spend, open, count, hinder, spender, balance } = await rounds(10_000);
    const spends = times(CALLS, () => spend(3));
    expect(count()).toBe(1);
    await open();
    // Of 4 drawn 3 went to the first, and one was left over for the others.
    expect(count()).toBe(1);
    await open();
    expect([count(), hinder.asked.draws]).toEqual([0, 2]);
    const answers = await Promise.all(spends);
    expect(answers).toEqual(times(CALLS, (i) => ({ ok: true, remaining: 10_000 - 3 * (i + 1) })));
    await spender.close();
    expect(await balance()).toBe(10_000 - 3 * CALLS);
  });

  it("a call that comes while a draw is in flight waits for it, and shares the next", async () => {
    const { spend, open, count, hinder } = await rounds(10_000);
    const spends = times(3, () => spend(4));
    await open();
    expect(count()).toBe(1);
    spends.push(spend(2), spend(2));
    expect(count()).toBe(1);
    await open();
    expect((await Promise.all(spends.slice(0, 3))).every((spent) => spent?.ok)).toBe(true);
    await open();
    expect((await Promise.all(spends)).every((spent) => spent?.ok)).toBe(true);
    expect(hinder.asked.draws).toBe(3);
  });

  it("one that is too dear is refused by the reply, and holds up no cheaper one behind it", async () => {
    const { spend, open, spender, balance } = await rounds(100, { size: 8, step: 4 });
    const spends = [spend(4), spend(97), spend(96), spend(1)];
    for (let round = 0; round < 2; round++) await open();
    expect((await Promise.all(spends)).map((spent) => spent!.ok)).toEqual([true, false, true, false]);
    await spender.close();
    expect(await balance()).toBe(0);
  });

  it("calls of one turn that count by different calendars draw one after the other, and only the wrong one is stale", async () => {
    const { spender, record, open, balance } = await rounds(100);
    const daily = { ...account(record), refill: { interval: "daily", amount: 5 } } as const;
    const spends = [account(record), daily, account(record)].map((one) => Promise.resolve(spender.spend(one, 5, 0)));
    for (let round = 0; round < 3; round++) await open();
    expect(await Promise.all(spends)).toEqual([
      { ok: true, remaining: 95 },
      { ok: false, remaining: 0, stale: true },
      { ok: true, remaining: 90 },
    ]);
    await spender.close();
    expect(await balance()).toBe(90);
  });

  it("never has two draws of a key in flight, whoever calls, and draws of other keys wait for none of it", async () => {
    const { store } = await opened(100_000, 3);
    const inFlight = new Map<unknown, number>();
    let most = 0;
    let mostInAll = 0;
    const watched: Store = {
      ...store,
      async drawCredits(ref, request) {
        const now = (inFlight.get(ref) ?? 0) + 1;
        inFlight.set(ref, now);
        most = Math.max(most, now);
        mostInAll = Math.max(
          mostInAll,
          [...inFlight.values()].reduce((sum, count) => sum + count),
        );
        await settled();
        const drawn = await store.drawCredits(ref, request);
        inFlight.set(ref, inFlight.get(ref)! - 1);
        return drawn;
      },
    };
    const spender = leasedSpender(watched, { size: 1_000, step: 250 });
    const keys = await Promise.all([1, 2, 3].map((n) => accountOf(store, n)));
    for (let round = 0; round < 200; round++) {
      const calls = times(1 + (round % 40), (i) => spender.spend(keys[(round + i) % 3]!, 1 + (i % 3), 0));
      for (const spent of await Promise.all(calls)) expect(spent).toMatchObject({ ok: true });
    }
    expect([most, mostInAll]).toEqual([1, 3]);
    await spender.close();
  });

  it("no more than a step is in hand after it", async () => {
    const { store, record } = await opened(10_000);
    let drawn = 0;
    const ended: number[] = [];
    const watched: Store = {
      ...store,
      drawCredits: async (...given) => {
        await settled();
        const answer = await store.drawCredits(...given);
        drawn += answer!.drawn;
        return answer;
      },
      returnCredits: (_ref, { spent }) => void ended.push(drawn - spent),
    };
    const spender = eagerSpender(watched, { size: 100, step: 10 });
    const one = account(record);
    await Promise.all(times(300, (i) => spender.spend(one, 1 + (i % 4), 0)));
    await spender.close();
    expect(ended).toHaveLength(1);
    expect(ended[0]).toBeLessThanOrEqual(10);
  });

  it("all that is there is granted", async () => {
    for (const credits of [1, 5, 10, 50, 333]) {
      const { spend, open, spender, balance } = await rounds(credits, { size: 1_000, step: 250 });
      const spends = times(400, () => spend());
      for (let round = 0; round < 2; round++) await open();
      expect((await Promise.all(spends)).filter((spent) => spent?.ok)).toHaveLength(credits);
      await spender.close();
      expect(await balance()).toBe(0);
    }
  });

  it("any costs at once: never more than is there, each call within two rounds, and the rest comes back", async () => {
    const numRuns = runs(300);
    const seen = { granted: 0, refused: 0 };
    const costs = fc.oneof(
      fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 40, size: "max" }),
      fc
        .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 12 }))
        .map(([count, cost]) => times(count, () => cost)),
    );
    const property = fc.asyncProperty(
      costs,
      fc.nat({ max: 200 }),
      fc.constantFrom(1, 4, 20),
      async (given, credits, step) => {
        const { spend, open, count, spender, balance } = await rounds(credits, { size: 2 * step, step });
        const spends = given.map(spend);
        for (let round = 0; round < 2; round++) await open();
        expect(count()).toBe(0);
        const answers = await Promise.all(spends);
        const granted = given.filter((_, i) => answers[i]?.ok);
        const taken = granted.reduce((sum, cost) => sum + cost, 0);
        seen.granted += granted.length;
        seen.refused += given.length - granted.length;
        expect(taken).toBeLessThanOrEqual(credits);
        // With one cost for all, nothing that would still fit is refused.
        if (new Set(given).size === 1 && granted.length < given.length)
          expect(given[0]).toBeGreaterThan(credits - taken);
        await spender.close();
        expect(await balance()).toBe(credits - taken);
      },
    );
    await fc.assert(property, { numRuns });
    expect(Math.min(seen.granted, seen.refused)).toBeGreaterThan(1.7 * numRuns);
  });
});
