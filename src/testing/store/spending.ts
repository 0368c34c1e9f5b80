/** Spending and refills: clauses 5, 6 and 7. */
import { expect, faultOf } from "../expect.js";
import type { Clause } from "./bed.js";
import { accountWith, balance, insert, keyRow, readBalance, readRow, refOf } from "./rows.js";

export function spendingClauses(clause: Clause): void {
  clause("clause 5: concurrent spends never grant more than was there", async (store) => {
    const ref = await accountWith(store, 500);
    const answers = await Promise.all(Array.from({ length: 2_000 }, () => store.spendCredits(ref, 1, 0, 0)));
    expect(answers.filter((answer) => answer?.ok)).toHaveLength(500);
    expect((await readBalance(store, "key_000001", 0, 0))?.remaining).toBe(0);
    expect(new Set(answers.filter((answer) => answer?.ok).map((answer) => answer?.remaining)).size).toBe(500);
  });

  clause("clause 5: a cost above the balance takes nothing", async (store) => {
    const ref = await accountWith(store, 5);
    expect(await store.spendCredits(ref, 6, 0, 0)).toEqual({ ok: false, remaining: 5 });
    expect(await store.spendCredits(ref, 5, 0, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await store.spendCredits(ref, 1, 0, 0)).toEqual({ ok: false, remaining: 0 });
  });

  clause("clause 5: a cost that is no integer from 0 to 2^53 - 1 is refused and changes nothing", async (store) => {
    const ref = await accountWith(store, 5);
    for (const cost of [-1, NaN, Infinity, -Infinity, 1.5, 2 ** 53, undefined, null, "1"]) {
      const fault = await faultOf(() => store.spendCredits(ref, cost as number, 0, 0));
      expect((fault as Error | undefined)?.name, String(cost)).toBe("RangeError");
    }
    expect(await store.spendCredits(ref, 1, 0, 0)).toEqual({ ok: true, remaining: 4 });
  });

  clause("clause 6: a cost of 0 changes nothing and counts due refills", async (store) => {
    const ref = await accountWith(store, 0, { amount: 10, period: 100 });
    expect(await store.spendCredits(ref, 0, 100, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await store.spendCredits(ref, 0, 103, 0)).toEqual({ ok: true, remaining: 30 });
    expect(await store.spendCredits(ref, 0, 100, 0)).toEqual({ ok: true, remaining: 0 });
    expect(await readBalance(store, "key_000001", 102, 0)).toMatchObject({ remaining: 20, period: 102, reserved: 0 });
  });

  clause("clause 7: what was prepared under another calendar changes nothing, whoever asks", async (store) => {
    const daily = (count: number) => 32_000_000_000 + count;
    const monthly = (count: number) => 15_000_000_000 + count;
    const ref = await accountWith(store, 10, { amount: 5, period: daily(20_000) });
    const request = { holder: "a", spent: 0, cost: 1, step: 5, size: 10, now: 0, until: 1000 };
    for (const period of [0, 20_000, monthly(680), monthly(20_000), 31_000_020_000]) {
      for (const cost of [0, 1, 100])
        expect(await store.spendCredits(ref, cost, period, 0)).toMatchObject({ ok: false, stale: true });
      if (store.powers.leases)
        expect(await store.drawCredits(ref, { ...request, period })).toMatchObject({ drawn: 0, stale: true });
      expect(await readBalance(store, "key_000001", period, 0)).toMatchObject({
        remaining: 10,
        period: daily(20_000),
        reserved: 0,
      });
      const row = (await readRow(store, "keys", "key_000001"))!;
      expect(await store.write([{ table: "keys", row, credits: { period, add: 7 } }])).toBe("conflict");
    }
    expect(await store.spendCredits(ref, 1, daily(20_001), 0)).toEqual({ ok: true, remaining: 14 });
    // Setting a balance does not require a calendar.
    const row = (await readRow(store, "keys", "key_000001"))!;
    const credits = { period: monthly(680), remaining: 3, refill: { amount: 2, period: monthly(680) } };
    expect(await store.write([{ table: "keys", row: { ...row, generation: 1 }, credits }])).toEqual([
      { remaining: 3, reserved: 0, added: -11 },
    ]);
    expect(await store.spendCredits(ref, 1, daily(20_001), 0)).toMatchObject({ ok: false, stale: true });
    expect(await store.spendCredits(ref, 1, monthly(681), 0)).toEqual({ ok: true, remaining: 4 });
  });

  clause(
    "clause 7: at most 400 daily and 24 monthly boundaries are refilled at once, and the rest is reported once",
    async (store) => {
      const request = { holder: "a", spent: 0, cost: 1, step: 1, size: 1, now: 0, until: 1000 };
      for (const [n, calendar, most] of [
        [1, 32_000_000_000, 400],
        [2, 7_000_000_000, 24],
      ] as const) {
        for (const id of [n, n + 10])
          await insert(store, keyRow(id, { hasCredits: true }), balance(10, { amount: 1, period: calendar }));
        const ref = await refOf(store, `digest-${n}`);
        const later = calendar + most + 3;
        expect(await store.spendCredits(ref, 0, later, 0)).toEqual({ ok: true, remaining: 10 + most });
        expect(await store.spendCredits(ref, 1, later, 0)).toEqual({ ok: true, remaining: 9 + most, forfeited: 3 });
        expect(await store.spendCredits(ref, 1, later + 1, 0)).toEqual({ ok: true, remaining: 9 + most });
        if (!store.powers.leases) continue;
        const drawn = await store.drawCredits(await refOf(store, `digest-${n + 10}`), { ...request, period: later });
        expect(drawn).toMatchObject({ drawn: 1, forfeited: 3, remaining: 9 + most });
      }
    },
  );

  clause("clause 7: periods only move forward, balances stop at 2^53 - 1", async (store) => {
    await insert(store, keyRow(1, { hasCredits: true }), balance(0, { amount: 10, period: 100 }));
    await insert(
      store,
      keyRow(2, { hasCredits: true }),
      balance(Number.MAX_SAFE_INTEGER - 5, { amount: Number.MAX_SAFE_INTEGER, period: 0 }),
    );
    const ref = await refOf(store, "digest-1");
    expect(await store.spendCredits(ref, 1, 102, 0)).toEqual({ ok: true, remaining: 19 });
    expect(await store.spendCredits(ref, 1, 90, 0)).toEqual({ ok: true, remaining: 18 });
    expect(await readBalance(store, "key_000001", 90, 0)).toMatchObject({ remaining: 18, period: 102, reserved: 0 });
    expect(await store.spendCredits(ref, 1, 102, 0)).toEqual({ ok: true, remaining: 17 });
    expect(await store.spendCredits(ref, 1, 103, 0)).toEqual({ ok: true, remaining: 26 });
    const huge = await refOf(store, "digest-2");
    expect(await store.spendCredits(huge, 1, 20_000, 0)).toEqual({
      ok: true,
      remaining: Number.MAX_SAFE_INTEGER - 1,
    });
  });
}
