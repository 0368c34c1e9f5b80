/** Credits that two handles spend, draw and return, or one of them alone: clauses 5, 7, 13 and 14. */
import { expect } from "../expect.js";
import { withCreditsOf } from "./account.js";
import { keyRow, readRow } from "./rows.js";
import { withPower } from "./powers.js";
import type { SharedClause, SharedStore } from "./shared-steps.js";

/** Concurrent spends never grant more than was there. */
export async function spendsAtOnce(shared: SharedStore): Promise<void> {
  const accounts = await withCreditsOf(shared, 300);
  const spends = Array.from({ length: 1_000 }, (_, n) => accounts[n % 2 === 0 ? 0 : 1].spend(1));
  const granted = (await Promise.all(spends)).filter((answer) => answer?.ok);
  expect(granted).toHaveLength(300);
  expect(new Set(granted.map((answer) => answer?.remaining)).size).toBe(300);
  for (const { left } of accounts) expect(await left()).toBe(0);
}

/** A change of a balance that has counted further than its maker saw is refused whole. */
export async function refusesOutdated(shared: SharedStore): Promise<void> {
  const [one, other] = await withCreditsOf(shared, 0, { amount: 10, period: 100 });
  const { period } = (await one.read(101))!;
  const { id } = keyRow(1);
  const change = async (refillsCounted: number) => {
    const row = (await readRow(shared.here, "keys", id))!;
    const credits = { period: 101, refillsCounted, refill: { amount: 1, period: 7 } };
    return shared.here.write([{ table: "keys", row: { ...row, name: "changed" }, credits }]);
  };
  expect(await other.spend(1, 102)).toEqual({ ok: true, remaining: 19 });
  expect(await change(period)).toBe("conflict");
  expect((await readRow(shared.here, "keys", id))?.name).toBeUndefined();
  expect(await one.read()).toMatchObject({ remaining: 19, period: 102, reserved: 0 });
  expect(await change(102)).toEqual([{ remaining: 19, reserved: 0, added: 0 }]);
  expect(await other.read()).toMatchObject({ remaining: 19, period: 7, reserved: 0 });
}

/** Draws never hand out more than was there, and what is given back returns. */
export async function drawsWhatIsThere(shared: SharedStore): Promise<void> {
  const [one, other] = await withCreditsOf(shared, 200);
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
  await one.end("a", 7);
  await other.end("stranger", 5);
  for (const { read } of [one, other]) expect(await read()).toMatchObject({ remaining: 193, period: 0, reserved: 0 });
  expect((await one.draw("c", 194))?.drawn).toBe(0);
}

/** The reserve of a holder that vanished comes back once it expires: to reads, and to spends of any cost. */
export async function expiredReserveReturns(shared: SharedStore): Promise<void> {
  const [one, other] = await withCreditsOf(shared, 1_000);
  const { drawn } = (await one.draw("dead", 1, 0, { step: 250, size: 1_000 }))!;
  const before = (await other.read(0, 999))!;
  expect(before.reserved).toBeGreaterThan(drawn);
  expect(before.remaining! + before.reserved).toBe(1_000);
  const all = 1_000 - drawn;
  expect(await other.spend(all, 0, 999)).toEqual({ ok: false, remaining: before.remaining });
  expect(await other.spend(0, 0, 1_000)).toEqual({ ok: true, remaining: all });
  expect(await other.read(0, 1_000)).toMatchObject({ remaining: all, period: 0, reserved: 0 });
  expect(await other.spend(all, 0, 1_000)).toEqual({ ok: true, remaining: 0 });
  expect((await one.draw("late", 1, 1_000))?.drawn).toBe(0);
  expect(await one.read(0, 1_000)).toMatchObject({ remaining: 0, period: 0, reserved: 0 });
  expect(await other.spend(1, 0, 2_000)).toEqual({ ok: false, remaining: 0 });
  // A node that was only slow ends its lease: what it did not spend comes back, once.
  for (let i = 0; i < 2; i++) await one.end("dead", 1);
  expect(await other.left(0, 2_000)).toBe(drawn - 1);
}

/** Setting the balance voids what was drawn before. */
export async function setVoidsLeases(shared: SharedStore): Promise<void> {
  const [one, other] = await withCreditsOf(shared, 100);
  const { drawn } = (await other.draw("b", 1))!;
  const left = (await one.left())!;
  expect(await one.change({ remaining: 50 })).toEqual([{ remaining: 50, reserved: drawn, added: 50 - left }]);
  expect(await other.draw("b", 1)).toMatchObject({ drawn: 0, generation: 1 });
  for (const { read } of [one, other])
    expect(await read()).toMatchObject({ remaining: 50, period: 0, reserved: drawn });
  await other.end("b", 1);
  for (const { read } of [one, other]) expect(await read()).toMatchObject({ remaining: 50, period: 0, reserved: 0 });
  expect(await other.draw("c", 1)).toMatchObject({ generation: 1 });
  expect((await shared.here.findKey("digest-1"))?.generation).toBe(1);
}

export function sharedCreditsClauses(clause: SharedClause): void {
  clause("clause 5: concurrent spends through both handles never grant more than was there", spendsAtOnce);

  clause("clause 5: a spend of one handle is seen by the next of the other", async (shared) => {
    const [one, other] = await withCreditsOf(shared, 10);
    expect(await one.spend(4)).toEqual({ ok: true, remaining: 6 });
    expect(await other.spend(7)).toEqual({ ok: false, remaining: 6 });
    expect(await other.spend(5)).toEqual({ ok: true, remaining: 1 });
    expect(await one.spend(0)).toEqual({ ok: true, remaining: 1 });
    expect(await one.spend(2)).toEqual({ ok: false, remaining: 1 });
  });

  clause("clause 7: a refill is given once, though both handles count it", async (shared) => {
    const accounts = await withCreditsOf(shared, 0, { amount: 10, period: 100 });
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => accounts[n % 2 === 0 ? 0 : 1].spend(1, 102)),
    );
    expect(answers.filter((answer) => answer?.ok)).toHaveLength(20);
    expect(await accounts[1].spend(1, 101)).toEqual({ ok: false, remaining: 0 });
    for (const { left } of accounts) expect(await left(102)).toBe(0);
  });

  clause("clause 13: a balance that one handle sets is what the other spends from", async (shared) => {
    const [one, other] = await withCreditsOf(shared, 10);
    expect(await other.spend(1)).toEqual({ ok: true, remaining: 9 });
    expect(await one.change({ remaining: 3 })).toEqual([{ remaining: 3, reserved: 0, added: -6 }]);
    expect(await other.spend(4)).toEqual({ ok: false, remaining: 3 });
    expect(await other.spend(3)).toEqual({ ok: true, remaining: 0 });
  });

  clause(
    "clause 13: a change that saw fewer refills than the other handle has counted since is refused",
    refusesOutdated,
  );

  const lease = withPower(clause, "leases", ({ here }) => here);
  const reserve = withPower(clause, "reserves", ({ here }) => here);

  lease(
    "clause 14: draws through both handles never hand out more than was there, and what is given back returns",
    drawsWhatIsThere,
  );

  reserve(
    "clause 14: the reserve of a holder that vanished comes back through the other handle once it expires",
    expiredReserveReturns,
  );

  lease("clause 14: a balance that one handle sets voids what the other has drawn", setVoidsLeases);
}
