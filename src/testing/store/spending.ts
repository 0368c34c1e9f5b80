/** Spending and refills: clauses 5, 6 and 7. */
import { expect, faultOf } from "../expect.js";
import { withCredits } from "./account.js";
import type { Clause } from "./bed.js";
import { spendsAtOnce } from "./shared-credits.js";
import { alone } from "./shared-steps.js";

export function spendingClauses(clause: Clause): void {
  clause("clause 5: concurrent spends never grant more than was there", alone(spendsAtOnce));

  clause("clause 5: a cost above the balance takes nothing", async (store) => {
    const { spend } = await withCredits(store, 5);
    expect(await spend(6)).toEqual({ ok: false, remaining: 5 });
    expect(await spend(5)).toEqual({ ok: true, remaining: 0 });
    expect(await spend(1)).toEqual({ ok: false, remaining: 0 });
  });

  clause("clause 5: a cost that is no integer from 0 to 2^53 - 1 is refused and changes nothing", async (store) => {
    const { spend } = await withCredits(store, 5);
    for (const cost of [-1, NaN, Infinity, -Infinity, 1.5, 2 ** 53, undefined, null, "1"]) {
      const fault = await faultOf(() => spend(cost as number));
      expect((fault as Error | undefined)?.name, String(cost)).toBe("RangeError");
    }
    expect(await spend(1)).toEqual({ ok: true, remaining: 4 });
  });

  clause("clause 6: a cost of 0 changes nothing and counts due refills", async (store) => {
    const { spend, read } = await withCredits(store, 0, { amount: 10, period: 100 });
    expect(await spend(0, 100)).toEqual({ ok: true, remaining: 0 });
    expect(await spend(0, 103)).toEqual({ ok: true, remaining: 30 });
    expect(await spend(0, 100)).toEqual({ ok: true, remaining: 0 });
    expect(await read(102)).toMatchObject({ remaining: 20, period: 102, reserved: 0 });
  });

  clause("clause 7: what was prepared under another calendar changes nothing, whoever asks", async (store) => {
    const daily = (count: number) => 32_000_000_000 + count;
    const monthly = (count: number) => 15_000_000_000 + count;
    const { spend, draw, read, change } = await withCredits(store, 10, { amount: 5, period: daily(20_000) });
    for (const period of [0, 20_000, monthly(680), monthly(20_000), 31_000_020_000]) {
      for (const cost of [0, 1, 100]) expect(await spend(cost, period)).toMatchObject({ ok: false, stale: true });
      if (store.powers.leases) expect(await draw("a", 1, 0, { period })).toMatchObject({ drawn: 0, stale: true });
      expect(await read(period)).toMatchObject({ remaining: 10, period: daily(20_000), reserved: 0 });
      expect(await change({ period, add: 7 })).toBe("conflict");
    }
    expect(await spend(1, daily(20_001))).toEqual({ ok: true, remaining: 14 });
    // Setting a balance does not require a calendar.
    const calendar = { period: monthly(680), refill: { amount: 2, period: monthly(680) } };
    expect(await change({ remaining: 3, ...calendar })).toEqual([{ remaining: 3, reserved: 0, added: -11 }]);
    expect(await spend(1, daily(20_001))).toMatchObject({ ok: false, stale: true });
    expect(await spend(1, monthly(681))).toEqual({ ok: true, remaining: 4 });
  });

  clause(
    "clause 7: at most 400 daily and 24 monthly boundaries are refilled at once, and the rest is reported once",
    async (store) => {
      for (const [n, calendar, most] of [
        [1, 32_000_000_000, 400],
        [2, 7_000_000_000, 24],
      ] as const) {
        const [{ spend }, { draw }] = [
          await withCredits(store, 10, { amount: 1, period: calendar }, n),
          await withCredits(store, 10, { amount: 1, period: calendar }, n + 10),
        ];
        const later = calendar + most + 3;
        expect(await spend(0, later)).toEqual({ ok: true, remaining: 10 + most });
        expect(await spend(1, later)).toEqual({ ok: true, remaining: 9 + most, forfeited: 3 });
        expect(await spend(1, later + 1)).toEqual({ ok: true, remaining: 9 + most });
        if (!store.powers.leases) continue;
        const drawn = await draw("a", 1, 0, { step: 1, size: 1, period: later });
        expect(drawn).toMatchObject({ drawn: 1, forfeited: 3, remaining: 9 + most });
      }
    },
  );

  clause("clause 7: periods only move forward, balances stop at 2^53 - 1", async (store) => {
    const { spend, read } = await withCredits(store, 0, { amount: 10, period: 100 });
    const most = Number.MAX_SAFE_INTEGER;
    const huge = await withCredits(store, most - 5, { amount: most }, 2);
    expect(await spend(1, 102)).toEqual({ ok: true, remaining: 19 });
    expect(await spend(1, 90)).toEqual({ ok: true, remaining: 18 });
    expect(await read(90)).toMatchObject({ remaining: 18, period: 102, reserved: 0 });
    expect(await spend(1, 102)).toEqual({ ok: true, remaining: 17 });
    expect(await spend(1, 103)).toEqual({ ok: true, remaining: 26 });
    expect(await huge.spend(1, 20_000)).toEqual({ ok: true, remaining: most - 1 });
  });
}
