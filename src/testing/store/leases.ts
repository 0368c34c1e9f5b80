/** Draws, returns and reserves: clause 14. */
import { expect } from "../expect.js";
import type { Store } from "../../contracts/store.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { keyRow, balance, insert, refOf, readBalance, readRow } from "./rows.js";

export function leasesClauses(all: Clause): void {
  const clause = withPower(all, "leases", (store: Store) => store);
  const reserve = withPower(all, "reserves", (store: Store) => store);

  reserve(
    "clause 14: an expired reserve comes back to an exact spend that would be refused without it, and to reads",
    async (withApi) => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(1_000));
      const ref = await refOf(store, "digest-1");
      const request = { holder: "dead", cost: 1, step: 250, size: 1_000, period: 0, now: 0, until: 1_000 };
      const drawn = (await store.drawCredits(ref, request))!.drawn;
      const left = (await readBalance(store, "key_000001", 0, 999))!;
      expect(left.reserved).toBeGreaterThan(0);
      expect(left.remaining! + left.reserved + drawn).toBe(1_000);
      const all = left.remaining! + left.reserved;
      expect(await store.spendCredits(ref, all, 0, 999)).toEqual({ ok: false, remaining: left.remaining });
      expect(await store.spendCredits(ref, 0, 0, 1_000)).toEqual({ ok: true, remaining: all });
      expect(await readBalance(store, "key_000001", 0, 1_000)).toEqual({ remaining: all, period: 0, reserved: 0 });
      expect(await store.spendCredits(ref, all, 0, 1_000)).toEqual({ ok: true, remaining: 0 });
      expect(await store.spendCredits(ref, 1, 0, 2_000)).toEqual({ ok: false, remaining: 0 });
      // A late return of the dead holder affects no other holder: its reserve is gone, its available credits come back.
      await store.returnCredits(ref, "dead", 0, drawn);
      expect((await readBalance(store, "key_000001", 0, 2_000))?.remaining).toBe(drawn);
    },
  );

  clause("clause 14: draws never hand out more than was there, and what is given back returns", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { hasCredits: true }), balance(100));
    const ref = await refOf(store, "digest-1");
    const ask = (holder: string, cost: number, now = 0) =>
      store.drawCredits(ref, { holder, cost, step: 10, size: 40, period: 0, now, until: now + 1000 });
    let held = 0;
    for (let i = 0; i < 50; i++) held += (await ask(i % 2 ? "a" : "b", 1))?.drawn ?? 0;
    expect(held).toBeLessThanOrEqual(100);
    expect((await readBalance(store, "key_000001", 0, 0))!.remaining! + held).toBeLessThanOrEqual(100);
    await store.returnCredits(ref, "a", 0, held);
    await store.returnCredits(ref, "b", 0, 0);
    expect((await readBalance(store, "key_000001", 0, 0))?.remaining).toBe(100);
    expect((await ask("c", 101))?.drawn).toBe(0);
  });

  clause("clause 14: an unlimited key gives whatever is asked, a key that is gone nothing", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1));
    const row = (await readRow(store, "keys", "key_000001"))!;
    await store.write([{ table: "keys", row, credits: { period: 0, remaining: null } }]);
    const ref = await refOf(store, "digest-1");
    const request = { holder: "a", cost: 7, step: 10, size: 40, period: 0, now: 0, until: 1000 };
    expect(await store.drawCredits(ref, request)).toEqual({ drawn: 7, generation: 1, remaining: null });
    await store.write([{ table: "keys", remove: "key_000001", version: 2 }]);
    expect(await store.drawCredits(ref, request)).toBeUndefined();
    await store.returnCredits(ref, "a", 1, 5);
  });

  reserve("clause 14: the reserve of a holder that vanished comes back once it expires", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { hasCredits: true }), balance(100));
    const ref = await refOf(store, "digest-1");
    const ask = (holder: string, cost: number, now: number) =>
      store.drawCredits(ref, { holder, cost, step: 5, size: 25, period: 0, now, until: now + 1000 });
    const lost = (await ask("crashed", 1, 0))!.drawn;
    const before = (await readBalance(store, "key_000001", 0, 0))!.remaining!;
    expect(before + lost).toBeLessThan(100);
    expect((await ask("other", before + 1, 999))!.drawn).toBe(0);
    expect((await ask("other", before + 1, 1000))!.drawn).toBe(before + 1);
    expect((await ask("other", 100 - lost - before - 1, 1001))!.drawn).toBe(100 - lost - before - 1);
    expect((await ask("other", 1, 5000))!.drawn).toBe(0);
  });

  clause("clause 14: a set balance voids older leases", async (withApi) => {
    const store = await withApi();
    await insert(store, keyRow(1, { hasCredits: true }), balance(100));
    const ref = await refOf(store, "digest-1");
    const request = { holder: "a", cost: 1, step: 10, size: 40, period: 0, now: 0, until: 1000 };
    const drawn = (await store.drawCredits(ref, request))!;
    const row = (await readRow(store, "keys", "key_000001"))!;
    await store.write([{ table: "keys", row: { ...row, generation: 1 }, credits: { period: 0, remaining: 50 } }]);
    expect((await readBalance(store, "key_000001", 0, 0))?.remaining).toBe(50);
    await store.returnCredits(ref, "a", drawn.generation, drawn.drawn);
    expect((await readBalance(store, "key_000001", 0, 0))?.remaining).toBe(50);
    expect((await store.drawCredits(ref, request))!.generation).toBe(1);
    expect((await store.findKey("digest-1"))?.generation).toBe(1);
  });
}
