import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { FairPool, STRANGERS } from "../../../src/http/admission/fair-pool.js";
import { runs } from "../../runs.js";

const wish = (amount: number, own = 0, part = 1) => ({ amount, own, part });
const LONG = 60_000;

describe("FairPool", () => {
  it("an account may hold as much as it leaves free, and one that holds nothing else gets what is free", async () => {
    const pool = new FairPool(100);
    expect(pool.take("a", wish(50), LONG)).toBeUndefined();
    expect(pool.take("b", wish(25), LONG)).toBeUndefined();
    const waiting = pool.take("a", wish(1), 10);
    await expect(waiting).rejects.toMatchObject({ code: "OVERLOADED", status: 503 });
    expect(pool.take("c", wish(25), LONG)).toBeUndefined();
    await expect(pool.take("d", wish(1), 10)).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(pool.held).toBe(100);
  });

  it("what a holder has already does not count against it while its account has nothing else", () => {
    const pool = new FairPool(100);
    expect(pool.take("a", wish(60), LONG)).toBeUndefined();
    expect(pool.take("a", wish(40, 60), LONG)).toBeUndefined();
    expect(pool.held).toBe(100);
  });

  it("bodies leave more than their part, so that what follows them fits", async () => {
    const pool = new FairPool(300);
    expect(pool.take("a", wish(10, 0, 0.5), LONG)).toBeUndefined();
    expect(pool.take("a", wish(80, 0, 0.5), LONG)).toBeUndefined();
    await expect(pool.take("a", wish(30, 0, 0.5), 10)).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(pool.take("a", wish(30), LONG)).toBeUndefined();
  });

  it("strangers wait beyond a sixteenth, and whoever has a workspace does not wait for them", async () => {
    const pool = new FairPool(160);
    expect(pool.take(STRANGERS, wish(10), LONG)).toBeUndefined();
    await expect(pool.take(STRANGERS, wish(1), 10)).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(pool.take("a", wish(70), LONG)).toBeUndefined();
  });

  it("is over its share: an account beyond what it leaves free, strangers beyond a sixteenth", () => {
    const pool = new FairPool(160);
    const isOver = (account: string, amount: number) => {
      pool.record(account, amount);
      return pool.isOver(account);
    };
    expect([isOver("a", 80), isOver("a", 1)]).toEqual([false, true]);
    pool.give("a", 81);
    expect([isOver(STRANGERS, 10), isOver(STRANGERS, 1)]).toEqual([false, true]);
    expect(isOver("a", 74)).toBe(false);
  });

  it("the reserve is there for accounts that hold at most 1/256 of it, and for nobody else", async () => {
    const pool = new FairPool(4_096, { reserve: 512 });
    await expect(pool.take("a", wish(3_585), 10)).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(pool.take("a", wish(3_584), LONG)).toBeUndefined();
    for (let i = 0; i < 256; i++) expect(pool.take(`small${i}`, wish(2), LONG)).toBeUndefined();
    await expect(pool.take("small0", wish(1), 10)).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(pool.held).toBe(4_096);
  });

  it("what moves to another account is free at no moment", async () => {
    const pool = new FairPool(10);
    pool.record("a", 10);
    const waiting = pool.take("c", wish(1), 10);
    pool.move("a", "b", 10);
    await expect(waiting).rejects.toMatchObject({ code: "OVERLOADED" });
    expect([pool.held, pool.isOver("a"), pool.isOver("b")]).toEqual([10, false, true]);
  });

  it("of one account 1,024 wait; more are refused at once, and those of others wait all the same", async () => {
    const pool = new FairPool(10);
    pool.record("x", 10);
    const waiting = Array.from({ length: 1_024 }, () => Promise.resolve(pool.take("a", wish(1), LONG)));
    // Most of them wait for ever.
    for (const one of waiting) one.catch(() => {});
    await expect(pool.take("a", wish(1), LONG)).rejects.toMatchObject({ code: "OVERLOADED" });
    const other = pool.take("b", wish(1), LONG);
    pool.give("x", 2);
    await Promise.all([waiting[0], other]);
  });

  it("what is given back goes to one of each account in turn, in order within it", async () => {
    const pool = new FairPool(4);
    pool.record("x", 4);
    const served: string[] = [];
    const asked = ["a1", "a2", "a3", "b1", "c1"].map((name) =>
      Promise.resolve(pool.take(name[0]!, wish(1), LONG)).then(() => served.push(name)),
    );
    for (let i = 0; i < 4; i++) {
      pool.give("x", 1);
      await Promise.resolve();
    }
    await vi.waitFor(() => expect(served.length).toBeGreaterThanOrEqual(3), 20_000);
    expect(served.slice(0, 3).sort()).toEqual(["a1", "b1", "c1"]);
    for (const name of ["a", "b", "c"]) pool.give(name, 1);
    for (let i = 0; i < 2; i++) {
      await vi.waitFor(() => expect(served.length).toBeGreaterThanOrEqual(4 + i), 20_000);
      pool.give("a", 1);
    }
    await Promise.all(asked);
    expect(served.filter((name) => name.startsWith("a"))).toEqual(["a1", "a2", "a3"]);
  });

  it("one that waited too long takes nothing, and those behind it are served", async () => {
    const pool = new FairPool(10);
    pool.record("x", 5);
    const tooMuch = pool.take("a", wish(9), 10);
    const behind = pool.take("a", wish(1), LONG);
    await expect(tooMuch).rejects.toMatchObject({ code: "OVERLOADED" });
    await behind;
    expect(pool.held).toBe(6);
  });

  it("never grants more than there is, whatever the order, and all is free in the end (property)", async () => {
    const step = fc.tuple(fc.constantFrom("a", "b", "c", STRANGERS), fc.integer({ min: 0, max: 60 }), fc.boolean());
    const holds = fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.constantFrom(0, 32),
      async (steps, reserve) => {
        const pool = new FairPool(100, { reserve });
        const held: [string, number][] = [];
        const waits: Promise<unknown>[] = [];
        for (const [account, amount, gives] of steps) {
          if (gives && held.length > 0) pool.give(...held.shift()!);
          const taken = pool.take(account, wish(amount), 1);
          if (taken === undefined) held.push([account, amount]);
          else
            waits.push(
              taken.then(
                () => held.push([account, amount]),
                () => undefined,
              ),
            );
          expect(pool.held).toBeLessThanOrEqual(100);
          await Promise.resolve();
        }
        await Promise.all(waits);
        for (const one of held) pool.give(...one);
        expect(pool.held).toBe(0);
      },
    );
    // Each waits for deadlines: many wait at once.
    await Promise.all(Array.from({ length: 20 }, () => fc.assert(holds, { numRuns: Math.ceil(runs(200) / 20) })));
  });

  it("control: without fairness one account takes all", () => {
    const pool = new FairPool(100, { isFair: false });
    expect(pool.take("a", wish(60), LONG)).toBeUndefined();
    expect(pool.take("a", wish(40), LONG)).toBeUndefined();
  });
});
