/** Draws, returns and reserves: clause 14. */
import type { CreditChange, Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { accountThrough, withCredits } from "./account.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { insert, keyRow } from "./rows.js";
import { drawsWhatIsThere, expiredReserveReturns, setVoidsLeases } from "./shared-credits.js";
import { alone } from "./shared-steps.js";

export function leasesClauses(all: Clause): void {
  const clause = withPower(all, "leases", (store: Store) => store);
  const reserve = withPower(all, "reserves", (store: Store) => store);

  reserve(
    "clause 14: an expired reserve comes back to an exact spend that would be refused without it, and to reads",
    alone(expiredReserveReturns),
  );

  reserve("clause 14: an expired reserve is in the balance that an increment or a decrement changes", async (store) => {
    const { draw, spend, end, read, left, change } = await withCredits(store, 1_000);
    const { drawn } = (await draw("dead", 1, 0, { step: 250, size: 1_000 }))!;
    const add = async (credits: number, now: number) => {
      const outcome = await change({ add: credits, now });
      const balance = (await read(0, now))!;
      expect(outcome).toMatchObject([{ remaining: balance.remaining }]);
      return balance;
    };
    const { reserved } = (await read(0, 999))!;
    expect(await add(-2_000, 999)).toMatchObject({ remaining: 0, reserved });
    expect((await add(-2_000, 1_000)).remaining).toBe(0);
    expect(await spend(1, 0, 1_000)).toEqual({ ok: false, remaining: 0 });
    expect((await add(7, 1_000)).remaining).toBe(7);
    // A node that was only slow ends its lease: what it did not spend comes back.
    await end("dead", 1);
    expect(await left(0, 2_000)).toBe(7 + drawn - 1);
  });

  reserve("clause 14: an expired reserve is in the balance that a spend returns, whatever its cost", async (store) => {
    const { draw, spend, end, left } = await withCredits(store, 1_000);
    const { drawn } = (await draw("dead", 1, 0, { step: 100, size: 400 }))!;
    await draw("alive", 1, 0, { step: 100, size: 400, until: 9_000 });
    const all = (await left(0, 1_000))!;
    expect(all).toBeGreaterThan((await left(0, 999))!);
    const spends: unknown[] = [];
    // Also the second of two that nothing comes between.
    for (const cost of [0, 1, 1, 0, 1, 0]) spends.push(await spend(cost, 0, 1_000));
    expect(spends).toEqual([0, 1, 2, 2, 3, 3].map((spent) => ({ ok: true, remaining: all - spent })));
    await end("dead", 1);
    expect(await spend(0, 0, 1_000)).toEqual({ ok: true, remaining: all - 3 + drawn - 1 });
  });

  clause(
    "clause 14: draws never hand out more than was there, and what is given back returns",
    alone(drawsWhatIsThere),
  );

  clause("clause 14: an unlimited key gives whatever is asked, a key that is gone nothing", async (store) => {
    await insert(store, keyRow(1));
    const { draw, end, change } = await accountThrough(store);
    await change({ remaining: null });
    expect(await draw("a", 7)).toEqual({ drawn: 7, generation: 1, remaining: null });
    await store.write([{ table: "keys", remove: keyRow(1).id, version: 2 }]);
    expect(await draw("a", 7)).toBeUndefined();
    await end("a", 5);
  });

  reserve("clause 14: the reserve of a holder that vanished comes back once it expires", async (store) => {
    const { draw, left } = await withCredits(store, 100);
    const ask = async (holder: string, cost: number, now: number) =>
      (await draw(holder, cost, now, { step: 5, size: 25 }))!.drawn;
    const lost = await ask("crashed", 1, 0);
    const before = (await left())!;
    expect(before + lost).toBeLessThan(100);
    expect(await ask("other", before + 1, 999)).toBe(0);
    expect(await ask("other", before + 1, 1000)).toBe(before + 1);
    expect(await ask("other", 100 - lost - before - 1, 1001)).toBe(100 - lost - before - 1);
    expect(await ask("other", 1, 5000)).toBe(0);
  });

  clause("clause 14: a set balance voids older leases", alone(setVoidsLeases));

  clause("clause 14: what a lease has spent counts once, however often it is reported", async (store) => {
    const account = await withCredits(store, 100);
    const draw = async (spent: number) => (await account.draw("a", 1, 0, { spent, size: 10 }))!.drawn;
    const read = async () => (await account.read())!;
    let drawn = await draw(0);
    for (const spent of [5, 5, 3, 8]) drawn += await draw(spent);
    // Of a report that arrives late, or twice, only what is new counts.
    expect(await read()).toMatchObject({ remaining: 100 - drawn, reserved: drawn - 8 });
    await account.end("a", 9);
    const { totals, ...left } = await read();
    expect(left).toEqual({ remaining: 91, period: 0, reserved: 0 });
    if (totals !== undefined)
      expect(totals).toMatchObject({ credited: 100, refilled: 0, adjusted: 0, spent: 9, forfeited: 0 });
  });

  clause("clause 14: the totals of a store that keeps them add up after anything", async (store) => {
    const { spend, draw, end, read, change } = await withCredits(store, 100, { amount: 7, period: 0 });
    const ask = (holder: string, now: number) => draw(holder, 1, now, { spent: 2, step: 9, size: 30, period: 2 });
    const set = async (credits: Partial<CreditChange>) =>
      expect(await change({ period: 3, ...credits })).toHaveLength(1);
    const steps: readonly (() => unknown)[] = [
      () => spend(3, 2),
      () => ask("a", 0),
      () => ask("b", 0),
      () => spend(1_000_000, 3, 5_000),
      () => ask("a", 6_000),
      () => set({ add: 50 }),
      () => set({ add: -20 }),
      () => set({ remaining: 40 }),
      () => end("b", 4),
      () => ask("c", 7_000),
      () => set({ remaining: null }),
      () => set({ remaining: 9 }),
      () => set({ add: Number.MAX_SAFE_INTEGER }),
      () => spend(Number.MAX_SAFE_INTEGER, 3, 8_000),
      () => spend(1, 9, 8_000),
    ];
    for (const [i, step] of steps.entries()) {
      await step();
      const { remaining, reserved, totals } = (await read())!;
      if (totals === undefined || remaining === null) continue;
      const { credited, refilled, adjusted, spent, forfeited, expired = 0 } = totals;
      const sum = (...counts: number[]) => counts.reduce((all, count) => all + BigInt(count), 0n);
      const went = sum(spent, remaining, reserved, forfeited, expired);
      expect(sum(credited, refilled, adjusted), `after step ${i}`).toBe(went);
    }
  });
}
