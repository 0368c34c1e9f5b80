/** Credits that expire where the refill has a rollover: clause 33. */
import type { Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { withCredits } from "./account.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { createRandom } from "../random.js";

const DAYS = 32_000_000_000;
/** Daily, of an account that had other calendars before. */
const NUMBERED_DAYS = 73_000_000_000;
const HOURS = 64_000_000_000;
const WEEKS = 66_000_000_000;
const MONTHS = 67_000_000_000;

export function rolloverClauses(clause: Clause): void {
  const rollover = withPower(clause, "rollover", (store: Store) => store);
  clause("clause 7: each kind of numbered calendar has its own bound on boundaries at once", async (store) => {
    const bounds = [
      [HOURS, 9_600],
      [NUMBERED_DAYS, 400],
      [WEEKS, 60],
      [MONTHS, 24],
    ] as const;
    for (const [i, [calendar, most]] of bounds.entries()) {
      const { spend } = await withCredits(store, 10, { amount: 1, period: calendar }, i);
      expect(await spend(1, calendar + most + 3)).toEqual({ ok: true, remaining: 9 + most, forfeited: 3 });
      for (const period of [calendar + 4_000_000_000, DAYS, 0])
        expect(await spend(1, period)).toMatchObject({ ok: false, stale: true });
    }
  });

  rollover("clause 33: a rollover of 0 lets nothing stay", async (store) => {
    const { spend, read } = await open(store, 100, { amount: 10, rollover: 0 });
    expect(await spend(1, DAYS)).toEqual({ ok: true, remaining: 99 });
    expect(await spend(0, DAYS + 1)).toEqual({ ok: true, remaining: 10 });
    expect(await spend(11, DAYS + 1)).toEqual({ ok: false, remaining: 10 });
    expect(await spend(4, DAYS + 1)).toEqual({ ok: true, remaining: 6 });
    const totals = { credited: 100, refilled: 10, spent: 5, forfeited: 0, expired: 99 };
    expect((await read(DAYS + 1))?.totals).toMatchObject(totals);
    // A clock that steps back brings nothing back, and takes nothing again.
    expect(await spend(1, DAYS)).toEqual({ ok: true, remaining: 5 });
    expect(await spend(1, DAYS + 4)).toEqual({ ok: true, remaining: 9 });
    expect((await read(DAYS + 4))?.totals).toMatchObject({ refilled: 40, spent: 7, expired: 124 });
  });

  rollover("clause 33: boundaries at once leave what one after the other leaves", async (store) => {
    const random = createRandom(31);
    for (let n = 0; n < 40; n++) {
      const [had, amount, most] = [random.integer(0, 50), random.integer(1, 20), random.integer(0, 60)];
      const passed = random.integer(1, 6);
      const terms = { amount, period: DAYS, ...(n % 10 > 0 && { rollover: most }) };
      const { spend, left: leftAt } = await withCredits(store, had, terms, n);
      let left = had;
      for (let i = 0; i < passed; i++) left = (n % 10 > 0 ? Math.min(left, most) : left) + amount;
      const about = JSON.stringify({ had, amount, most, passed });
      expect(await leftAt(DAYS + passed), about).toBe(left);
      expect(await spend(1, DAYS + passed), about).toEqual({ ok: true, remaining: left - 1 });
    }
  });

  rollover("clause 33: nothing passes 2^53 - 1, and no credit is lost in counting", async (store) => {
    const most = Number.MAX_SAFE_INTEGER;
    for (const [i, { had, amount, rollover, left }] of [
      { had: most, amount: most, rollover: most, left: most },
      { had: most, amount: 7, rollover: most - 7, left: most },
      { had: most, amount: 7, rollover: most - 8, left: most - 1 },
      { had: 5, amount: most, rollover: 0, left: most },
      { had: 5, amount: 2 ** 52, rollover: 3, left: 2 ** 52 + 3 },
    ].entries()) {
      const { spend, read } = await open(store, had, { amount, rollover }, i);
      const at = DAYS + 400;
      expect(await spend(1, at), `case ${i}`).toEqual({ ok: true, remaining: left - 1 });
      const found = (await read(at))?.totals;
      if (found === undefined) continue;
      const { credited, refilled, spent, forfeited, expired = 0 } = found;
      const sum = (...counts: number[]) => counts.reduce((all, count) => all + BigInt(count), 0n);
      expect(sum(credited, refilled), `case ${i}`).toBe(sum(spent, left - 1, forfeited, expired));
    }
  });

  rollover("clause 33: refills that are due count under the rollover that they were due by", async (store) => {
    const { spend, change: changed } = await open(store, 100, { amount: 10, rollover: 20 });
    const change = async (period: number, refill: { amount: number; period?: number; rollover?: number }) =>
      expect(await changed({ period, refill })).toHaveLength(1);
    await change(DAYS + 1, { amount: 10, rollover: 0 });
    expect(await spend(0, DAYS + 1)).toEqual({ ok: true, remaining: 30 });
    await change(DAYS + 2, { amount: 10 });
    expect(await spend(0, DAYS + 3)).toEqual({ ok: true, remaining: 20 });
    await change(DAYS + 3, { amount: 10, period: NUMBERED_DAYS, rollover: 5 });
    expect(await spend(0, DAYS + 9)).toMatchObject({ ok: false, stale: true });
    expect(await spend(0, NUMBERED_DAYS + 1)).toEqual({ ok: true, remaining: 15 });
  });

  rollover("clause 33: a reservation that returns after a boundary stays as far as there was space", async (store) => {
    if (store.powers.reservations !== true) return;
    for (const [i, { rollover, left }] of [
      { rollover: 0, left: 10 },
      { rollover: 65, left: 75 },
      { rollover: 1_000, left: 100 },
    ].entries()) {
      // Whether the boundary is counted first, or the reservation returns first.
      for (const isFirst of [true, false]) {
        const n = 2 * i + (isFirst ? 0 : 1);
        const { ref, spend, settle, read } = await open(store, 100, { amount: 10, rollover }, n);
        const request = { cost: 40, now: 0, reservation: { id: `res_${n}`, until: 1_000 } };
        expect(await store.reserveCredits(ref, DAYS, request)).toEqual({ ok: true, remaining: 60 });
        if (isFirst) expect(await spend(1, DAYS + 1)).toMatchObject({ ok: true });
        expect(await settle(String(n), 10, 500)).toEqual({ settled: true });
        if (!isFirst) expect(await spend(1, DAYS + 1)).toMatchObject({ ok: true });
        const found = await read(DAYS + 1);
        expect(found, `rollover ${rollover}, first ${isFirst}`).toMatchObject({ remaining: left - 1, reserved: 0 });
      }
    }
  });

  rollover("clause 33: after a second boundary nothing returns, and a time-out returns likewise", async (store) => {
    if (store.powers.reservations !== true) return;
    for (const [n, passed] of [0, 1, 2].entries()) {
      const { ref, spend, read } = await open(store, 100, { amount: 10, rollover: 1_000 }, n);
      const reservation = { id: `res_${n}`, until: 1_000 };
      expect(await store.reserveCredits(ref, DAYS, { cost: 40, now: 0, reservation })).toMatchObject({ ok: true });
      for (let i = 1; i <= passed; i++) expect(await spend(1, DAYS + i)).toMatchObject({ ok: true });
      const left = 60 + 9 * passed + (passed < 2 ? 40 : 0);
      expect(await spend(0, DAYS + passed, 2_000)).toEqual({ ok: true, remaining: left });
      expect(await spend(left, DAYS + passed, 2_000)).toEqual({ ok: true, remaining: 0 });
      const found = (await read(DAYS + passed))?.totals;
      if (found !== undefined) expect(found).toMatchObject({ forfeited: 0, expired: passed < 2 ? 0 : 40 });
    }
  });

  rollover("clause 33: a lease from before a boundary draws no more", async (store) => {
    if (!store.powers.leases) return;
    const { spend, draw, end, read } = await open(store, 100, { amount: 10, rollover: 0 });
    const ask = (spent: number, period: number) => draw("a", 1, 0, { spent, step: 20, size: 20, period });
    expect(await ask(0, DAYS)).toMatchObject({ drawn: 20 });
    expect(await ask(15, DAYS + 1)).toMatchObject({ drawn: 0, ended: true });
    // Another node has counted the boundary.
    expect(await spend(1, DAYS + 1)).toEqual({ ok: true, remaining: 9 });
    expect(await ask(15, DAYS)).toMatchObject({ drawn: 0, ended: true });
    await end("a", 15);
    expect(await read(DAYS + 1)).toMatchObject({ remaining: 9, reserved: 0 });
    const anew = await draw("b", 2, 0, { period: DAYS + 1, step: 2, size: 2 });
    expect(anew).toMatchObject({ drawn: 2, remaining: 7 });
    await end("b");
    expect(await read(DAYS + 1)).toMatchObject({ remaining: 9, reserved: 0 });
  });
}

/** A key with a balance that is refilled daily. */
const open = (store: Store, remaining: number, terms: { amount: number; rollover: number }, n?: number) =>
  withCredits(store, remaining, { period: DAYS, ...terms }, n);
