/** Credits that are reserved and settled later: clause 27. */
import type { Store } from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import { UNTIL, withCredits, withCreditsOf } from "./account.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { identity, insert, keyRow, readBalance } from "./rows.js";
import { removeRow, type SharedClause, type SharedStore } from "./shared-steps.js";

const HOUR = 3_600_000;
const MAX_OPEN = 1_000;

async function expectRangeError(call: () => unknown): Promise<void> {
  expect((await faultOf(call)) instanceof RangeError, "a RangeError").toBe(true);
}

const ended = (reason: string) => ({ settled: false, reason });

export function reservationsClauses(all: Clause): void {
  const clause = withPower(all, "reservations", (store: Store) => store);

  clause(
    "clause 27: a reservation takes its cost, and settled keeps a part and returns the rest, once",
    async (store) => {
      const { reserve, settle, spend, read } = await withCredits(store, 100);
      expect(await reserve("a", 40)).toEqual({ ok: true, remaining: 60 });
      expect(await reserve("b", 61)).toEqual({ ok: false, remaining: 60 });
      expect(await reserve("c", 60)).toEqual({ ok: true, remaining: 0 });
      expect(await spend(1)).toEqual({ ok: false, remaining: 0 });
      expect(await read()).toMatchObject({ remaining: 0, reserved: 100 });
      expect(await settle("a", 15)).toEqual({ settled: true });
      for (const spent of [15, 0, 40]) expect(await settle("a", spent)).toEqual(ended("settled"));
      expect(await settle("c", 0)).toEqual({ settled: true });
      expect(await settle("b", 0)).toEqual(ended("unknown"));
      expect(await spend(0)).toEqual({ ok: true, remaining: 85 });
      const { totals, ...left } = (await read())!;
      expect(left).toMatchObject({ remaining: 85, reserved: 0 });
      if (totals !== undefined) expect(totals).toMatchObject({ credited: 100, spent: 15, forfeited: 0 });
    },
  );

  clause("clause 27: more than was reserved is not kept, and it stays open", async (store) => {
    const { reserve, settle, read } = await withCredits(store, 100);
    await reserve("a", 40);
    expect(await settle("a", 41)).toEqual(ended("exceeds"));
    expect(await read()).toMatchObject({ remaining: 60, reserved: 40 });
    expect(await settle("a", 40)).toEqual({ settled: true });
    expect(await read()).toMatchObject({ remaining: 60, reserved: 0 });
  });

  clause("clause 27: one that was not settled returns before the next spend, however that ends", async (store) => {
    const { reserve, settle, spend, read } = await withCredits(store, 100);
    await reserve("a", 70);
    await reserve("b", 20, 0, 2 * UNTIL);
    expect(await spend(0, 0, UNTIL - 1)).toEqual({ ok: true, remaining: 10 });
    expect(await spend(0, 0, UNTIL)).toEqual({ ok: true, remaining: 80 });
    expect(await read(0, UNTIL)).toMatchObject({ remaining: 80, reserved: 20 });
    expect(await spend(80, 0, UNTIL)).toEqual({ ok: true, remaining: 0 });
    expect(await spend(1, 0, UNTIL)).toEqual({ ok: false, remaining: 0 });
    expect(await settle("a", 70, UNTIL)).toEqual(ended("expired"));
    expect(await spend(1, 0, 2 * UNTIL)).toEqual({ ok: true, remaining: 19 });
    const { totals, ...left } = (await read(0, 2 * UNTIL))!;
    expect(left).toMatchObject({ remaining: 19, reserved: 0 });
    if (totals !== undefined) expect(totals).toMatchObject({ spent: 81, forfeited: 0 });
  });

  clause("clause 27: a settlement from `until` on takes nothing, though nobody spent since", async (store) => {
    const { reserve, settle, read } = await withCredits(store, 100);
    for (const id of ["a", "b"]) await reserve(id, 40);
    expect(await settle("a", 40, UNTIL - 1)).toEqual({ settled: true });
    for (let i = 0; i < 2; i++) expect(await settle("b", 40, UNTIL)).toEqual(ended("expired"));
    expect(await read(0, UNTIL)).toMatchObject({ remaining: 60, reserved: 0 });
  });

  clause("clause 27: an increment and a decrement change a balance that has what expired", async (store) => {
    const { reserve, change, read } = await withCredits(store, 100);
    await reserve("a", 40);
    expect(await change({ add: -70, now: UNTIL - 1 })).toHaveLength(1);
    expect(await read()).toMatchObject({ remaining: 0, reserved: 40 });
    expect(await change({ add: -30, now: UNTIL })).toHaveLength(1);
    expect(await read(0, UNTIL)).toMatchObject({ remaining: 10, reserved: 0 });
  });

  clause("clause 27: setting the balance voids it, also to unlimited", async (store) => {
    const { reserve, settle, change, read } = await withCredits(store, 100);
    await reserve("a", 40);
    expect(await change({ remaining: 50 })).toHaveLength(1);
    expect(await read()).toMatchObject({ remaining: 50, reserved: 0 });
    expect(await settle("a", 40)).toEqual(ended("voided"));
    await reserve("b", 50);
    expect(await change({ remaining: null })).toHaveLength(1);
    expect(await settle("b", 1)).toEqual(ended("voided"));
    expect(await change({ remaining: 7 })).toHaveLength(1);
    const { totals, ...left } = (await read(0, UNTIL))!;
    expect(left).toMatchObject({ remaining: 7, reserved: 0 });
    if (totals !== undefined) expect(totals).toMatchObject({ spent: 0, forfeited: 90 });
  });

  clause("clause 27: how one ended is known until an hour after its time-out", async (store) => {
    const { reserve, settle } = await withCredits(store, 100);
    await reserve("a", 10);
    await settle("a", 10);
    expect(await settle("a", 10, UNTIL + HOUR - 1)).toEqual(ended("settled"));
    // Each new reservation forgets some that are over.
    for (let i = 0; i < 10; i++) await reserve(`later-${i}`, 1, UNTIL + HOUR, UNTIL + 2 * HOUR);
    expect(await settle("a", 10, UNTIL + HOUR)).toEqual(ended("unknown"));
    expect(await settle("later-9", 1, UNTIL + HOUR)).toEqual({ settled: true });
  });

  clause("clause 27: an account has at most 1,000 that are open, and one under an id", async (store) => {
    const { reserve, settle, read } = await withCredits(store, 2 * MAX_OPEN);
    for (let i = 0; i < MAX_OPEN; i++) await reserve(String(i), 1);
    expect(await reserve("more", 1)).toEqual({ ok: false, remaining: MAX_OPEN, refused: "full" });
    expect(await reserve("more", MAX_OPEN + 1)).toEqual({ ok: false, remaining: MAX_OPEN });
    expect(await settle("0", 1)).toEqual({ settled: true });
    expect(await reserve("1", 1)).toEqual({ ok: false, remaining: MAX_OPEN, refused: "open" });
    expect(await reserve("more", 1)).toEqual({ ok: true, remaining: MAX_OPEN - 1 });
    expect(await read()).toMatchObject({ remaining: MAX_OPEN - 1, reserved: MAX_OPEN });
    // All but one have expired: that is no bound any more.
    expect(await reserve("other", 1, UNTIL, 2 * UNTIL)).toEqual({ ok: true, remaining: 2 * MAX_OPEN - 2 });
    expect(await settle("other", 0, UNTIL)).toEqual({ settled: true });
    expect(await read(0, UNTIL)).toMatchObject({ remaining: 2 * MAX_OPEN - 1, reserved: 0 });
  });

  clause(
    "clause 27: unlimited, of no credits, of another calendar or of a key that is gone it reserves nothing",
    async (store) => {
      const { ref, reserve, settle, change, read } = await withCredits(store, 100);
      expect(await reserve("none", 0)).toEqual({ ok: true, remaining: 100 });
      const late = { cost: 1, now: 0, reservation: { id: "res_stale", until: UNTIL } };
      expect(await store.reserveCredits(ref, 32_000_000_001, late)).toMatchObject({ ok: false, stale: true });
      expect(await change({ remaining: null })).toHaveLength(1);
      expect(await reserve("free", 5)).toEqual({ ok: true, remaining: null });
      for (const id of ["none", "stale", "free"]) expect(await settle(id, 0)).toEqual(ended("unknown"));
      expect((await read())?.reserved).toBe(0);
      await removeRow(store, "keys", keyRow(1).id);
      expect(await reserve("gone", 5)).toBeUndefined();
      expect(await settle("gone", 0)).toEqual(ended("unknown"));
    },
  );

  clause("clause 27: an id or a number that is none is a RangeError, and nothing is changed", async (store) => {
    const { ref, spend } = await withCredits(store, 100);
    const reserve = (cost: number, wrong = {}) =>
      store.reserveCredits(ref, 0, { cost, now: 0, reservation: { id: "res_a", until: UNTIL, ...wrong } });
    for (const wrong of [{ id: "node.1" }, { id: "res_" }, { id: "res_a b" }, { until: NaN }])
      await expectRangeError(() => reserve(1, wrong));
    for (const cost of [-1, NaN, 1.5]) await expectRangeError(() => reserve(cost));
    for (const wrong of [{ id: "node.1" }, { spent: -1 }, { spent: NaN }, { now: NaN }])
      await expectRangeError(() => store.settleCredits(ref, { ...{ id: "res_a", spent: 1, now: 0 }, ...wrong }));
    expect(await spend(0)).toEqual({ ok: true, remaining: 100 });
  });

  clause("clause 27: of concurrent settlements of one reservation one is made", async (store) => {
    const { reserve, settle, read } = await withCredits(store, 100);
    await reserve("a", 40);
    const all = await Promise.all(Array.from({ length: 20 }, (_, spent) => settle("a", spent)));
    const made = all.flatMap(({ settled }, spent) => (settled ? [spent] : []));
    expect(made).toHaveLength(1);
    expect(await read()).toMatchObject({ remaining: 100 - made[0]!, reserved: 0 });
  });

  clause("clause 27: an identity's credits are reserved as a key's are", async (store) => {
    const row = identity("plan", { hasCredits: true, generation: 1 });
    await store.write([{ table: "identities", row, credits: { period: 0, remaining: 100 } }]);
    await insert(store, keyRow(1, { identityId: row.id }));
    const { ref } = (await store.findKey("digest-1"))!.account!;
    const reservation = { id: "res_a", until: UNTIL };
    expect(await store.reserveCredits(ref, 0, { cost: 60, now: 0, reservation })).toEqual({ ok: true, remaining: 40 });
    const query = { identityId: row.id, period: 0 };
    expect((await store.readBalances([query], 0))[0]).toMatchObject({ remaining: 40, reserved: 60 });
    expect(await store.settleCredits(ref, { id: "res_a", spent: 25, now: 0 })).toEqual({ settled: true });
    expect((await store.readBalances([query], 0))[0]).toMatchObject({ remaining: 75, reserved: 0 });
  });

  clause("clause 27: beside leases it counts alone, and neither takes the other's", async (store) => {
    if (!store.powers.leases) return;
    const { ref, reserve, settle } = await withCredits(store, 100);
    const lease = { holder: "node", spent: 0, cost: 5, step: 5, size: 5, period: 0, now: 0, until: UNTIL };
    await store.drawCredits(ref, lease);
    await reserve("a", 50);
    expect(await store.drawCredits(ref, { ...lease, spent: 5 })).toMatchObject({ drawn: 5 });
    await store.returnCredits(ref, { holder: "node", spent: 7 });
    expect(await settle("a", 20)).toEqual({ settled: true });
    expect(await readBalance(store, keyRow(1).id, 0, 0)).toMatchObject({ remaining: 73, reserved: 0 });
  });

  clause("clause 27: with an idempotency key a repeat reserves nothing again", async (store) => {
    if (!store.powers.idempotency) return;
    const { ref, settle, read } = await withCredits(store, 100);
    const bounds = { maxRecords: 10, maxPerWorkspace: 10 };
    const once = (reservation: string, cost = 40, now = 0) => {
      const record = { workspaceId: "ws_1", id: "once", body: "body", until: 10 };
      const once = { record: { ...record, reservation: { id: reservation, until: UNTIL } }, bounds };
      return store.spendOnce(ref, 0, { cost, now, once });
    };
    expect(await once("res_a", 101)).toEqual({ outcome: "done", spend: { ok: false, remaining: 100 } });
    expect(await once("res_a")).toEqual({ outcome: "done", spend: { ok: true, remaining: 60 } });
    expect(await once("res_a")).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 60 } });
    expect(await read()).toMatchObject({ remaining: 60, reserved: 40 });
    // The record is over, and the reservation is not.
    const refused = { ok: false, remaining: 60, refused: "open" };
    expect(await once("res_a", 40, 10)).toEqual({ outcome: "done", spend: refused });
    expect(await settle("a", 40)).toEqual({ settled: true });
    expect(await store.findOnce("once", 10)).toBeUndefined();
  });
}

export function sharedReservationsClauses(all: SharedClause): void {
  const clause = withPower(all, "reservations", ({ here }: SharedStore) => here);

  clause("clause 27: what one handle reserves another settles, by the same ref", async (shared) => {
    const [one, other] = await withCreditsOf(shared, 100);
    expect(other.ref).toBe(one.ref);
    await one.reserve("a", 40);
    expect(await other.settle("a", 30)).toEqual({ settled: true });
    expect(await one.settle("a", 30)).toEqual(ended("settled"));
    expect(await one.spend(0)).toEqual({ ok: true, remaining: 70 });
  });

  clause("clause 27: what one handle left returns to a spend of the other", async (shared) => {
    const [one, other] = await withCreditsOf(shared, 100);
    await one.reserve("a", 90);
    expect(await other.spend(20, 0, UNTIL - 1)).toEqual({ ok: false, remaining: 10 });
    expect(await other.spend(20, 0, UNTIL)).toEqual({ ok: true, remaining: 80 });
    expect(await one.settle("a", 90, UNTIL)).toEqual(ended("expired"));
    expect(await one.spend(0, 0, UNTIL)).toEqual({ ok: true, remaining: 80 });
  });
}
