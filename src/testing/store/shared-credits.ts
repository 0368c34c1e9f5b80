/** Credits that two handles spend, draw and return: clauses 5, 7, 13 and 14. */
import type { Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { balance, insert, keyRow, readBalance, readRow, refOf } from "./rows.js";
import { withPower } from "./powers.js";
import type { SharedClause, SharedStore } from "./shared-steps.js";

const ID = keyRow(1).id;

/** Inserts a key with credits, and finds it through both handles: a handle's `KeyRef` is its own. */
async function withCredits({ here, there }: SharedStore, remaining: number, over = {}) {
  await insert(here, keyRow(1, { hasCredits: true }), balance(remaining, over));
  await there.pollChanges("anew");
  const asker = async (store: Store) => {
    const ref = await refOf(store, "digest-1");
    return {
      spend: (cost: number, period = 0, now = 0) => store.spendCredits(ref, cost, period, now),
      draw: (holder: string, cost: number, now = 0) =>
        store.drawCredits(ref, { holder, spent: 0, cost, step: 10, size: 40, period: 0, now, until: now + 1_000 }),
      end: (holder: string, spent = 0) => store.returnCredits(ref, { holder, spent }),
      read: (period = 0, now = 0) => readBalance(store, ID, period, now),
      set: async (credits: number, generation: number) => {
        const row = (await readRow(store, "keys", ID))!;
        return store.write([
          { table: "keys", row: { ...row, generation }, credits: { period: 0, remaining: credits } },
        ]);
      },
    };
  };
  return [await asker(here), await asker(there)] as const;
}

export function sharedCreditsClauses(clause: SharedClause): void {
  clause("clause 5: concurrent spends through both handles never grant more than was there", async (shared) => {
    const askers = await withCredits(shared, 300);
    const spends = Array.from({ length: 1_000 }, (_, n) => askers[n % 2 === 0 ? 0 : 1].spend(1));
    const granted = (await Promise.all(spends)).filter((answer) => answer?.ok);
    expect(granted).toHaveLength(300);
    expect(new Set(granted.map((answer) => answer?.remaining)).size).toBe(300);
    for (const { read } of askers) expect((await read())?.remaining).toBe(0);
  });

  clause("clause 5: a spend of one handle is seen by the next of the other", async (shared) => {
    const [one, other] = await withCredits(shared, 10);
    expect(await one.spend(4)).toEqual({ ok: true, remaining: 6 });
    expect(await other.spend(7)).toEqual({ ok: false, remaining: 6 });
    expect(await other.spend(5)).toEqual({ ok: true, remaining: 1 });
    expect(await one.spend(0)).toEqual({ ok: true, remaining: 1 });
    expect(await one.spend(2)).toEqual({ ok: false, remaining: 1 });
  });

  clause("clause 7: a refill is given once, though both handles count it", async (shared) => {
    const askers = await withCredits(shared, 0, { amount: 10, period: 100 });
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => askers[n % 2 === 0 ? 0 : 1].spend(1, 102)));
    expect(answers.filter((answer) => answer?.ok)).toHaveLength(20);
    expect(await askers[1].spend(1, 101)).toEqual({ ok: false, remaining: 0 });
    for (const { read } of askers) expect((await read(102))?.remaining).toBe(0);
  });

  clause("clause 13: a balance that one handle sets is what the other spends from", async (shared) => {
    const [one, other] = await withCredits(shared, 10);
    expect(await other.spend(1)).toEqual({ ok: true, remaining: 9 });
    expect(await one.set(3, 1)).toEqual([{ remaining: 3, reserved: 0, added: -6 }]);
    expect(await other.spend(4)).toEqual({ ok: false, remaining: 3 });
    expect(await other.spend(3)).toEqual({ ok: true, remaining: 0 });
  });

  clause(
    "clause 13: a change that saw fewer refills than the other handle has counted since is refused",
    async (shared) => {
      const [one, other] = await withCredits(shared, 0, { amount: 10, period: 100 });
      const { period } = (await one.read(101))!;
      expect(await other.spend(1, 102)).toEqual({ ok: true, remaining: 19 });
      const row = (await readRow(shared.here, "keys", ID))!;
      const credits = { period: 101, refillsCounted: period, refill: { amount: 1, period: 7 } };
      expect(await shared.here.write([{ table: "keys", row, credits }])).toBe("conflict");
      expect((await one.read(102))?.remaining).toBe(19);
    },
  );

  const lease = withPower(clause, "leases", ({ here }) => here);
  const reserve = withPower(clause, "reserves", ({ here }) => here);

  lease(
    "clause 14: draws through both handles never hand out more than was there, and what is given back returns",
    async (shared) => {
      const [one, other] = await withCredits(shared, 200);
      const held = { a: 0, b: 0 };
      for (let round = 0; round < 30; round++) {
        const [ours, theirs] = await Promise.all([one.draw("a", 1), other.draw("b", 1)]);
        held.a += ours?.drawn ?? 0;
        held.b += theirs?.drawn ?? 0;
        const { remaining, reserved } = (await (round % 2 === 0 ? one : other).read())!;
        expect(remaining! + reserved, `after round ${round}`).toBe(200);
        expect(held.a + held.b).toBeLessThanOrEqual(reserved);
      }
      expect((await one.spend(200))?.ok).toBe(false);
      await Promise.all([one.end("a", 7), other.end("b")]);
      for (const { read } of [one, other])
        expect(await read()).toMatchObject({ remaining: 193, period: 0, reserved: 0 });
    },
  );

  reserve(
    "clause 14: the reserve of a holder that vanished comes back through the other handle once it expires",
    async (shared) => {
      const [one, other] = await withCredits(shared, 1_000);
      const lost = (await one.draw("dead", 1))!.drawn;
      const left = (await other.read(0, 999))!;
      expect(left.reserved).toBeGreaterThan(lost);
      expect(left.remaining! + left.reserved).toBe(1_000);
      const all = 1_000 - lost;
      expect(await other.spend(all, 0, 999)).toEqual({ ok: false, remaining: left.remaining });
      expect(await other.spend(all, 0, 1_000)).toEqual({ ok: true, remaining: 0 });
      expect((await one.draw("late", 1, 1_000))?.drawn).toBe(0);
      expect(await one.read(0, 1_000)).toMatchObject({ remaining: 0, period: 0, reserved: 0 });
    },
  );

  lease("clause 14: a balance that one handle sets voids what the other has drawn", async (shared) => {
    const [one, other] = await withCredits(shared, 100);
    const { drawn } = (await other.draw("b", 1))!;
    const { remaining } = (await one.read())!;
    expect(await one.set(50, 1)).toEqual([{ remaining: 50, reserved: drawn, added: 50 - remaining! }]);
    expect(await other.draw("b", 1)).toMatchObject({ drawn: 0, generation: 1 });
    for (const { read } of [one, other])
      expect(await read()).toMatchObject({ remaining: 50, period: 0, reserved: drawn });
    await other.end("b");
    for (const { read } of [one, other]) expect(await read()).toMatchObject({ remaining: 50, period: 0, reserved: 0 });
    expect(await other.draw("c", 1)).toMatchObject({ generation: 1 });
  });
}
