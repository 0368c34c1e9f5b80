/** Draws, returns and reserves: clause 14. */
import type { CreditChange } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Store } from "../../contracts/store.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { accountWith, insert, keyRow, readBalance, readRow, refOf } from "./rows.js";

export function leasesClauses(all: Clause): void {
  const clause = withPower(all, "leases", (store: Store) => store);
  const reserve = withPower(all, "reserves", (store: Store) => store);

  reserve(
    "clause 14: an expired reserve comes back to an exact spend that would be refused without it, and to reads",
    async (store) => {
      const ref = await accountWith(store, 1_000);
      const request = { holder: "dead", spent: 0, cost: 1, step: 250, size: 1_000, period: 0, now: 0, until: 1_000 };
      const drawn = (await store.drawCredits(ref, request))!.drawn;
      const left = (await readBalance(store, "key_000001", 0, 999))!;
      expect(left.reserved).toBeGreaterThan(drawn);
      expect(left.remaining! + left.reserved).toBe(1_000);
      const all = 1_000 - drawn;
      expect(await store.spendCredits(ref, all, 0, 999)).toEqual({ ok: false, remaining: left.remaining });
      expect(await store.spendCredits(ref, 0, 0, 1_000)).toEqual({ ok: true, remaining: all });
      expect(await readBalance(store, "key_000001", 0, 1_000)).toMatchObject({
        remaining: all,
        period: 0,
        reserved: 0,
      });
      expect(await store.spendCredits(ref, all, 0, 1_000)).toEqual({ ok: true, remaining: 0 });
      expect(await store.spendCredits(ref, 1, 0, 2_000)).toEqual({ ok: false, remaining: 0 });
      // A node that was only slow ends its lease: what it did not spend comes back, once.
      for (let i = 0; i < 2; i++) await store.returnCredits(ref, { holder: "dead", spent: 1 });
      expect((await readBalance(store, "key_000001", 0, 2_000))?.remaining).toBe(drawn - 1);
    },
  );

  reserve("clause 14: an expired reserve is in the balance that an increment or a decrement changes", async (store) => {
    const ref = await accountWith(store, 1_000);
    const request = { holder: "dead", spent: 0, cost: 1, step: 250, size: 1_000, period: 0, now: 0, until: 1_000 };
    const { drawn } = (await store.drawCredits(ref, request))!;
    const add = async (credits: number, now: number) => {
      const row = (await readRow(store, "keys", "key_000001"))!;
      const write = { table: "keys", row, credits: { period: 0, add: credits, now } } as const;
      const outcome = await store.write([write]);
      const balance = (await readBalance(store, "key_000001", 0, now))!;
      expect(outcome).toMatchObject([{ remaining: balance.remaining }]);
      return balance;
    };
    const left = (await readBalance(store, "key_000001", 0, 999))!;
    expect(await add(-2_000, 999)).toMatchObject({ remaining: 0, reserved: left.reserved });
    expect((await add(-2_000, 1_000)).remaining).toBe(0);
    expect(await store.spendCredits(ref, 1, 0, 1_000)).toEqual({ ok: false, remaining: 0 });
    expect((await add(7, 1_000)).remaining).toBe(7);
    // A node that was only slow ends its lease: what it did not spend comes back.
    await store.returnCredits(ref, { holder: "dead", spent: 1 });
    expect((await readBalance(store, "key_000001", 0, 2_000))?.remaining).toBe(7 + drawn - 1);
  });

  reserve("clause 14: an expired reserve is in the balance that a spend returns, whatever its cost", async (store) => {
    const ref = await accountWith(store, 1_000);
    const draw = async (holder: string, until: number) => {
      const sizes = { cost: 1, step: 100, size: 400 };
      return (await store.drawCredits(ref, { holder, spent: 0, ...sizes, period: 0, now: 0, until }))!.drawn;
    };
    const drawn = await draw("dead", 1_000);
    await draw("alive", 9_000);
    const { remaining: left } = (await readBalance(store, "key_000001", 0, 1_000))!;
    expect(left).toBeGreaterThan((await readBalance(store, "key_000001", 0, 999))!.remaining!);
    const spends: unknown[] = [];
    // Also the second of two that nothing comes between.
    for (const cost of [0, 1, 1, 0, 1, 0]) spends.push(await store.spendCredits(ref, cost, 0, 1_000));
    expect(spends).toEqual([0, 1, 2, 2, 3, 3].map((spent) => ({ ok: true, remaining: left! - spent })));
    await store.returnCredits(ref, { holder: "dead", spent: 1 });
    expect(await store.spendCredits(ref, 0, 0, 1_000)).toEqual({ ok: true, remaining: left! - 3 + drawn - 1 });
  });

  clause("clause 14: draws never hand out more than was there, and what is given back returns", async (store) => {
    const ref = await accountWith(store, 100);
    const ask = (holder: string, cost: number, now = 0) =>
      store.drawCredits(ref, { holder, spent: 0, cost, step: 10, size: 40, period: 0, now, until: now + 1000 });
    let held = 0;
    for (let i = 0; i < 50; i++) held += (await ask(i % 2 ? "a" : "b", 1))?.drawn ?? 0;
    expect(held).toBeLessThanOrEqual(100);
    const { remaining, reserved } = (await readBalance(store, "key_000001", 0, 0))!;
    expect(remaining! + reserved).toBe(100);
    expect(held).toBeLessThanOrEqual(reserved);
    for (const [holder, spent] of [
      ["a", 3],
      ["b", 0],
      ["a", 3],
      ["stranger", 5],
    ] as const)
      await store.returnCredits(ref, { holder, spent });
    expect(await readBalance(store, "key_000001", 0, 0)).toMatchObject({ remaining: 97, reserved: 0 });
    expect((await ask("c", 98))?.drawn).toBe(0);
  });

  clause("clause 14: an unlimited key gives whatever is asked, a key that is gone nothing", async (store) => {
    await insert(store, keyRow(1));
    const row = (await readRow(store, "keys", "key_000001"))!;
    await store.write([{ table: "keys", row, credits: { period: 0, remaining: null } }]);
    const ref = await refOf(store, "digest-1");
    const request = { holder: "a", spent: 0, cost: 7, step: 10, size: 40, period: 0, now: 0, until: 1000 };
    expect(await store.drawCredits(ref, request)).toEqual({ drawn: 7, generation: 1, remaining: null });
    await store.write([{ table: "keys", remove: "key_000001", version: 2 }]);
    expect(await store.drawCredits(ref, request)).toBeUndefined();
    await store.returnCredits(ref, { holder: "a", spent: 5 });
  });

  reserve("clause 14: the reserve of a holder that vanished comes back once it expires", async (store) => {
    const ref = await accountWith(store, 100);
    const ask = (holder: string, cost: number, now: number) =>
      store.drawCredits(ref, { holder, spent: 0, cost, step: 5, size: 25, period: 0, now, until: now + 1000 });
    const lost = (await ask("crashed", 1, 0))!.drawn;
    const before = (await readBalance(store, "key_000001", 0, 0))!.remaining!;
    expect(before + lost).toBeLessThan(100);
    expect((await ask("other", before + 1, 999))!.drawn).toBe(0);
    expect((await ask("other", before + 1, 1000))!.drawn).toBe(before + 1);
    expect((await ask("other", 100 - lost - before - 1, 1001))!.drawn).toBe(100 - lost - before - 1);
    expect((await ask("other", 1, 5000))!.drawn).toBe(0);
  });

  clause("clause 14: a set balance voids older leases", async (store) => {
    const ref = await accountWith(store, 100);
    const request = { holder: "a", spent: 0, cost: 1, step: 10, size: 40, period: 0, now: 0, until: 1000 };
    const drawn = (await store.drawCredits(ref, request))!;
    const row = (await readRow(store, "keys", "key_000001"))!;
    await store.write([{ table: "keys", row: { ...row, generation: 1 }, credits: { period: 0, remaining: 50 } }]);
    expect(await readBalance(store, "key_000001", 0, 0)).toMatchObject({ remaining: 50, reserved: drawn.drawn });
    expect(await store.drawCredits(ref, request)).toMatchObject({ drawn: 0, generation: 1 });
    await store.returnCredits(ref, { holder: "a", spent: 1 });
    expect(await readBalance(store, "key_000001", 0, 0)).toMatchObject({ remaining: 50, reserved: 0 });
    expect((await store.drawCredits(ref, { ...request, holder: "b" }))!.generation).toBe(1);
    expect((await store.findKey("digest-1"))?.generation).toBe(1);
  });

  clause("clause 14: what a lease has spent counts once, however often it is reported", async (store) => {
    const ref = await accountWith(store, 100);
    const draw = async (spent: number) =>
      (await store.drawCredits(ref, {
        holder: "a",
        spent,
        cost: 1,
        step: 10,
        size: 10,
        period: 0,
        now: 0,
        until: 1_000,
      }))!.drawn;
    const read = async () => (await readBalance(store, "key_000001", 0, 0))!;
    let drawn = await draw(0);
    for (const spent of [5, 5, 3, 8]) drawn += await draw(spent);
    // Of a report that arrives late, or twice, only what is new counts.
    expect(await read()).toMatchObject({ remaining: 100 - drawn, reserved: drawn - 8 });
    await store.returnCredits(ref, { holder: "a", spent: 9 });
    const { totals, ...left } = await read();
    expect(left).toEqual({ remaining: 91, period: 0, reserved: 0 });
    if (totals !== undefined)
      expect(totals).toMatchObject({ credited: 100, refilled: 0, adjusted: 0, spent: 9, forfeited: 0 });
  });

  clause("clause 14: the totals of a store that keeps them add up after anything", async (store) => {
    const ref = await accountWith(store, 100, { amount: 7, period: 0 });
    const draw = (holder: string, now: number) =>
      store.drawCredits(ref, { holder, spent: 2, cost: 1, step: 9, size: 30, period: 2, now, until: now + 1_000 });
    const change = async (credits: CreditChange) => {
      const row = (await readRow(store, "keys", "key_000001"))!;
      const generation = row.generation + (credits.remaining === undefined ? 0 : 1);
      expect(await store.write([{ table: "keys", row: { ...row, generation }, credits }])).toHaveLength(1);
    };
    const steps: readonly (() => unknown)[] = [
      () => store.spendCredits(ref, 3, 2, 0),
      () => draw("a", 0),
      () => draw("b", 0),
      () => store.spendCredits(ref, 1_000_000, 3, 5_000),
      () => draw("a", 6_000),
      () => change({ period: 3, add: 50 }),
      () => change({ period: 3, add: -20 }),
      () => change({ period: 3, remaining: 40 }),
      () => store.returnCredits(ref, { holder: "b", spent: 4 }),
      () => draw("c", 7_000),
      () => change({ period: 3, remaining: null }),
      () => change({ period: 3, remaining: 9 }),
      () => change({ period: 3, add: Number.MAX_SAFE_INTEGER }),
      () => store.spendCredits(ref, Number.MAX_SAFE_INTEGER, 3, 8_000),
      () => store.spendCredits(ref, 1, 9, 8_000),
    ];
    for (const [i, step] of steps.entries()) {
      await step();
      const { remaining, reserved, totals } = (await readBalance(store, "key_000001", 0, 0))!;
      if (totals === undefined || remaining === null) continue;
      const { credited, refilled, adjusted, spent, forfeited, expired = 0 } = totals;
      const sum = (...counts: number[]) => counts.reduce((all, count) => all + BigInt(count), 0n);
      const went = sum(spent, remaining, reserved, forfeited, expired);
      expect(sum(credited, refilled, adjusted), `after step ${i}`).toBe(went);
    }
  });
}
