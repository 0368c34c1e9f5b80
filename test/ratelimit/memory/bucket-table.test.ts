import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LimitCheck } from "../../../src/contracts/limiter.js";
import { BucketTable } from "../../../src/ratelimit/memory/bucket-table.js";
import { type Bucket, charge, type Rate, toRate } from "../../../src/ratelimit/memory/bucket.js";
import { type KeptCheck, newPlace, PLACE } from "../../../src/ratelimit/memory/bucket-rows.js";
import { makeSpace as makeSpaceIn } from "../../../src/ratelimit/memory/taking.js";
import { runs } from "../../runs.js";

const START = 1_700_000_000_000;
const HOUR = 3_600_000;
const TEN = toRate(10, HOUR);

const newBucket = (rate: Rate): Bucket => ({ at: START, rate, used: 0, next: undefined });
const checkOf = (bucket: string) => ({ bucket, limit: 10, duration: HOUR, cost: 1 });
const newcomer = (name: string, isAdHoc = false, workspaceId = ""): LimitCheck => ({
  ...checkOf(name),
  workspaceId,
  isAdHoc,
});

/** So many buckets to come, the first `adHoc` of them of ad hoc limits. */
const newcomers = (count: number, adHoc = 0, workspaceId = ""): LimitCheck[] =>
  Array.from({ length: count }, (_, i) => newcomer(`new ${i}`, i < adHoc, workspaceId));

/** Makes space for a call that takes of none of the buckets that are there. */
const makeSpace = (table: BucketTable, coming: readonly LimitCheck[], now = START): boolean =>
  makeSpaceIn(table, coming, { isPending: () => false, now }) !== undefined;

const find = (table: BucketTable, name: string): number | undefined => table.find(checkOf(name));
const has = (table: BucketTable, name: string): boolean => find(table, name) !== undefined;

/** Puts in a bucket with so many of its tokens used. @returns its row */
function put(
  table: BucketTable,
  name: string,
  used: number,
  rate: Rate = TEN,
  isAdHoc = false,
  workspaceId = "",
): number {
  const bucket = newBucket(rate);
  if (used > 0) charge(bucket, { rate, configured: undefined, cost: used }, START);
  expect(has(table, name)).toBe(false);
  table.add(newcomer(name, isAdHoc, workspaceId), bucket, START);
  return find(table, name)!;
}

describe("bucketTable: at the bound", () => {
  it("ruling C6: makes no space while there is some", () => {
    const table = new BucketTable(3);
    put(table, "full", 0);
    expect(makeSpace(table, newcomers(2))).toBe(true);
    expect(table.held(false)).toBe(1);
  });

  it("ruling C6: a full bucket gives way first, then the least used; one that refuses never does", () => {
    const table = new BucketTable(5);
    const uses = { refusing: 10, half: 5, little: 1, much: 9 };
    for (const [name, used] of Object.entries(uses)) put(table, name, used);
    put(table, "full", 0);
    const gone: string[] = [];
    for (const count of [1, 2, 3, 4]) {
      expect(makeSpace(table, newcomers(count))).toBe(true);
      for (const name of ["full", ...Object.keys(uses)]) if (!has(table, name) && !gone.includes(name)) gone.push(name);
    }
    expect(gone).toEqual(["full", "little", "half", "much"]);
    expect(makeSpace(table, newcomers(5))).toBe(false);
    expect(has(table, "refusing")).toBe(true);
  });

  it("ruling C6: one call displaces as many as it needs, or none", () => {
    const table = new BucketTable(4);
    for (const [name, used] of Object.entries({ a: 1, b: 2, c: 10, d: 10 })) put(table, name, used);
    expect(makeSpace(table, newcomers(3))).toBe(false);
    expect(makeSpace(table, newcomers(9))).toBe(false);
    expect(table.held(false)).toBe(4);
    expect(makeSpace(table, newcomers(2))).toBe(true);
    expect([has(table, "a"), has(table, "b")]).toEqual([false, false]);
  });

  it("clause 1: a bucket of the call under way never gives way, full or not", () => {
    const table = new BucketTable(2);
    put(table, "used", 5);
    const pending = put(table, "pending", 1);
    const isPending = (row: number) => row === pending;
    expect(makeSpaceIn(table, newcomers(1), { isPending, now: START })).toBe(0);
    expect([has(table, "pending"), has(table, "used")]).toEqual([true, false]);
    // One that is only looked at may give way.
    put(table, "refusing", 10);
    expect(makeSpaceIn(table, newcomers(1), { isPending, now: START })).toBeUndefined();
    expect(makeSpace(table, newcomers(1))).toBe(true);
    expect([has(table, "pending"), has(table, "refusing")]).toEqual([false, true]);
  });

  it("clause 8: ad hoc limits have half of the space, and beyond it only they give way for one more", () => {
    const table = new BucketTable(8);
    const names = ["a", "b", "c", "d"];
    names.forEach((name, i) => put(table, name, i === 0 ? 3 : 10, TEN, true));
    put(table, "own", 1);
    expect(makeSpace(table, newcomers(2, 2))).toBe(false);
    expect(makeSpace(table, newcomers(1, 1))).toBe(true);
    expect([has(table, "own"), ...names.map((name) => has(table, name))]).toEqual([true, false, true, true, true]);
    put(table, "e", 3, TEN, true);
    expect(makeSpace(table, newcomers(1, 1))).toBe(true);
    put(table, "g", 10, TEN, true);
    expect(makeSpace(table, newcomers(1, 1))).toBe(false);
    // Space for the others is left.
    expect(makeSpace(table, newcomers(3))).toBe(true);
    expect(table.held(false)).toBe(5);
    // Those that went are not counted on.
    table.clear();
    put(table, "f", 10, TEN, true);
    expect(makeSpace(table, newcomers(4, 3))).toBe(true);
  });

  it("clause 8: what a newcomer evicts counts for those after it in the same call, by its kind", () => {
    const filled = (bound: number, own: readonly number[], adHoc: readonly number[]): BucketTable => {
      const table = new BucketTable(bound);
      own.forEach((used, i) => put(table, `own ${i}`, used));
      adHoc.forEach((used, i) => put(table, `ad hoc ${i}`, used, TEN, true));
      return table;
    };
    const OWN = newcomer("own");
    const AD_HOC = newcomer("ad hoc", true);
    // The half of ad hoc limits is full, the table is not: one of theirs goes for the first, and none for the others.
    const halfFull = filled(8, [], [1, 1, 1, 1]);
    expect(makeSpace(halfFull, [AD_HOC, OWN, OWN, OWN, OWN])).toBe(true);
    expect(halfFull.held(false)).toBe(3);
    // The first evicts another limit, which makes no space among the ad hoc ones for the second.
    const oneLeft = filled(4, [1, 1, 1], [10]);
    expect(makeSpace(oneLeft, [AD_HOC, AD_HOC])).toBe(false);
    expect(oneLeft.held(false)).toBe(4);
    // The first evicts an ad hoc limit, whose space the second gets: any other gives way to it.
    const loose = filled(4, [5, 5], [1, 10]);
    expect(makeSpace(loose, [OWN, AD_HOC])).toBe(true);
    expect(["own 0", "own 1", "ad hoc 0", "ad hoc 1"].map((name) => has(loose, name))).toEqual([
      false,
      true,
      false,
      true,
    ]);
  });

  it("ruling C6: looks at few buckets each time, but comes round to all", () => {
    const tries = [0, 40, 80, 120, 160, 199].map((loose) => {
      const table = new BucketTable(200);
      for (let i = 0; i < 200; i++) put(table, `${i}`, i === loose ? 9 : 10);
      let count = 1;
      while (count < 100 && !makeSpace(table, newcomers(1))) count++;
      expect(has(table, `${loose}`)).toBe(false);
      return count;
    });
    expect(Math.max(...tries)).toBeGreaterThan(3);
    expect(Math.max(...tries)).toBeLessThanOrEqual(7);
  });

  it("an empty table has no bucket to give way", () => {
    expect(makeSpace(new BucketTable(2), newcomers(3))).toBe(false);
  });
});

describe("bucketTable: workspaces", () => {
  const fill = (table: BucketTable, workspaceId: string, count: number, used: number, isAdHoc = false): void => {
    for (let i = 0; i < count; i++) {
      expect(makeSpace(table, newcomers(1, isAdHoc ? 1 : 0, workspaceId))).toBe(true);
      put(table, `${workspaceId} ${isAdHoc} ${i}`, used, TEN, isAdHoc, workspaceId);
    }
  };
  const held = (table: BucketTable, workspaceId: string, isAdHoc = false): number =>
    Array.from({ length: 200 }, (_, i) => has(table, `${workspaceId} ${isAdHoc} ${i}`)).filter(Boolean).length;

  it("ruling C9: a newcomer below its share displaces a bucket of the largest holder, even one that refuses", () => {
    const table = new BucketTable(12);
    fill(table, "greedy", 12, 10);
    expect(makeSpace(table, newcomers(1, 0, "greedy"))).toBe(false);
    expect([table.counters.bucketsDisplaced, table.counters.newcomersRefused]).toEqual([0, 1]);
    fill(table, "other", 6, 10);
    expect([held(table, "greedy"), held(table, "other"), table.counters.bucketsDisplaced]).toEqual([6, 6, 6]);
    // At its share, it evicts of its own, which all refuse.
    expect(makeSpace(table, newcomers(1, 0, "other"))).toBe(false);
    fill(table, "third", 4, 10);
    expect(["greedy", "other", "third"].map((one) => held(table, one))).toEqual([4, 4, 4]);
  });

  it("ruling C9: the first call of a workspace takes no more than its share, or nothing", () => {
    const table = new BucketTable(12);
    fill(table, "greedy", 12, 10);
    expect(makeSpace(table, newcomers(7, 0, "other"))).toBe(false);
    expect([held(table, "greedy"), table.counters.bucketsDisplaced]).toEqual([12, 0]);
    expect(makeSpace(table, newcomers(6, 0, "other"))).toBe(true);
    expect([held(table, "greedy"), table.counters.bucketsDisplaced]).toEqual([6, 6]);
  });

  it("ruling C9: the fullest bucket of the largest holder goes first, and nothing of the others", () => {
    const table = new BucketTable(8);
    fill(table, "small", 1, 0);
    fill(table, "greedy", 5, 10);
    put(table, "little", 1, TEN, false, "greedy");
    put(table, "half", 5, TEN, false, "greedy");
    fill(table, "new", 2, 10);
    expect([held(table, "small"), held(table, "greedy"), has(table, "little"), has(table, "half")]).toEqual([
      1,
      5,
      false,
      false,
    ]);
    expect(table.counters.bucketsDisplaced).toBe(0);
  });

  it("ruling C9: the half of ad hoc limits is shared likewise, and holds no other limits up", () => {
    const table = new BucketTable(16);
    fill(table, "greedy", 8, 10, true);
    fill(table, "other", 4, 10, true);
    expect([held(table, "greedy", true), held(table, "other", true)]).toEqual([4, 4]);
    expect(makeSpace(table, newcomers(1, 1, "other"))).toBe(false);
    fill(table, "other", 8, 10);
    expect(table.held(false)).toBe(16);
  });

  it("more workspaces than buckets: each is let in, and one gives way", () => {
    const table = new BucketTable(4);
    for (let i = 0; i < 100; i++) fill(table, `ws${i}`, 1, 10);
    expect([table.held(false), table.counters.bucketsDisplaced, table.counters.newcomersRefused]).toEqual([4, 96, 0]);
  });

  it("holds what a plain count of every workspace holds, whatever comes and goes", () => {
    const step = fc.record({
      workspaceId: fc.constantFrom("a", "b", "c"),
      isAdHoc: fc.boolean(),
      used: fc.integer({ min: 0, max: 10 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const table = new BucketTable(10);
        const made: { name: string; workspaceId: string }[] = [];
        steps.forEach(({ workspaceId, isAdHoc, used }, i) => {
          const count = (of: string): number =>
            made.filter(({ name, workspaceId }) => workspaceId === of && has(table, name)).length;
          const before = new Map(["a", "b", "c"].map((one) => [one, count(one)]));
          const own = before.get(workspaceId)!;
          const holders = [...before.values()].filter((had) => had > 0).length + (own === 0 ? 1 : 0);
          const isFull = table.held(false) === 10;
          const isLetIn = makeSpace(table, newcomers(1, isAdHoc ? 1 : 0, workspaceId));
          const loser = [...before].find(([one, had]) => count(one) < had)?.[0];
          if (isFull && !isAdHoc) {
            const isBelow = own < Math.floor(10 / holders);
            expect([isLetIn || !isBelow, loser === undefined || isBelow || loser === workspaceId]).toEqual([
              true,
              true,
            ]);
            if (isBelow) expect(before.get(loser!)).toBe(Math.max(...before.values()));
          }
          if (!isLetIn) return;
          put(table, `${i}`, used, TEN, isAdHoc, workspaceId);
          made.push({ name: `${i}`, workspaceId });
        });
        expect(table.held(false)).toBeLessThanOrEqual(10);
      }),
      { numRuns: runs(200) },
    );
  });
});

describe("bucketTable: sweeping", () => {
  it("ruling C6: drops full buckets a few at a time, and keeps the others", () => {
    const table = new BucketTable(1_000);
    for (let i = 0; i < 300; i++) put(table, `${i}`, 1 + (i % 2));
    const sizes = Array.from({ length: 12 }, () => (table.sweep(START + HOUR / 10), table.held(false)));
    expect(sizes[0]).toBeGreaterThan(250);
    expect(sizes.at(-1)).toBe(150);
    for (let i = 0; i < 300; i++) expect(has(table, `${i}`)).toBe(i % 2 === 1);
  });

  it("a full bucket is dropped once nothing was taken for a minute", () => {
    const table = new BucketTable(10);
    put(table, "full", 1, toRate(10, 1_000));
    put(table, "used", 1);
    table.sweep(START + 59_999);
    expect(has(table, "full")).toBe(true);
    table.sweep(START + 60_000);
    expect([has(table, "full"), has(table, "used")]).toEqual([false, true]);
  });

  it("finds each bucket by its name whatever was dropped before", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("add" as const), used: fc.integer({ min: 0, max: 10 }) }),
      fc.record({ kind: fc.constant("space" as const), count: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ kind: fc.constant("sweep" as const), wait: fc.integer({ min: 0, max: HOUR / 5 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const table = new BucketTable(12);
        /** What is used, by name. The walk drops some: those are found by no name, and are counted out. */
        const reference = new Map<string, number>();
        let now = START;
        steps.forEach((one, i) => {
          if (one.kind === "add" && makeSpace(table, newcomers(1), now)) {
            put(table, `${i}`, one.used);
            reference.set(`${i}`, one.used * TEN.unitsPerToken);
          }
          if (one.kind === "space") makeSpace(table, newcomers(one.count), now);
          if (one.kind === "sweep") table.sweep((now += one.wait));
          const rows = new Set<number>();
          for (const [name, used] of reference) {
            const row = find(table, name);
            if (row === undefined) {
              reference.delete(name);
              continue;
            }
            rows.add(row);
            expect(table.read(row).used).toBe(used);
          }
          expect(rows.size).toBe(reference.size);
          expect(reference.size).toBe(table.held(false));
          expect(table.held(false)).toBeLessThanOrEqual(12);
        });
        table.clear();
        expect(table.held(false)).toBe(0);
        expect([...reference.keys()].some((name) => has(table, name))).toBe(false);
      }),
      { numRuns: runs(300) },
    );
  });

  it("goes on after what it visited last was dropped, and when all is gone", () => {
    const table = new BucketTable(10);
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 10; i++) put(table, `${round} ${i}`, 0);
      table.sweep(START + HOUR);
      expect(table.held(false)).toBe(0);
      table.sweep(START + HOUR);
    }
  });
});

describe("bucketTable: places", () => {
  const keep = (bucket: string): KeptCheck => ({ ...checkOf(bucket), [PLACE]: newPlace() });
  const SIZE = { limit: 10, duration: HOUR };

  it("a check that is kept knows its bucket from then on, and tokens are taken there", () => {
    const table = new BucketTable(10);
    const check = keep("a");
    expect(table.find(check)).toBe(undefined);
    expect(check[PLACE]).toEqual(newPlace());
    put(table, "other", 1);
    const row = put(table, "a", 1);
    expect(table.rows.takeOne(check[PLACE], SIZE, START)).toBeUndefined();
    expect(table.find(check)).toBe(row);
    expect(table.rows.takeOne(check[PLACE], SIZE, START)).toMatchObject({ exceeded: false, remaining: 8 });
    expect(table.find({ ...check })).toBe(row);
    expect(table.find({ ...check, bucket: "b" })).toBe(undefined);
    expect(table.find({ ...check, bucket: "other" })).toBe(find(table, "other"));
  });

  it("a bucket that was dropped is not found, and nothing is taken of the one that came after it in its row", () => {
    const table = new BucketTable(1);
    const check = keep("a");
    const row = put(table, "a", 1);
    table.find(check);
    const old = { ...check[PLACE] };
    makeSpace(table, newcomers(1));
    expect(table.find(check)).toBe(undefined);
    expect(table.rows.takeOne(old, SIZE, START)).toBeUndefined();
    expect(put(table, "b", 1)).toBe(row);
    expect(table.find(check)).toBe(undefined);
    expect(table.rows.takeOne(old, SIZE, START)).toBeUndefined();
    makeSpace(table, newcomers(1));
    expect(put(table, "a", 3)).toBe(row);
    expect(table.rows.takeOne(old, SIZE, START)).toBeUndefined();
    expect(table.find(check)).toBe(row);
    expect(table.rows.takeOne(check[PLACE], SIZE, START)).toMatchObject({ remaining: 6 });
  });

  it("a bucket in another table, or in this one before it was cleared, is not found in it", () => {
    const tables = [new BucketTable(10), new BucketTable(10)] as const;
    for (const table of tables) put(table, "a", 1);
    put(tables[1], "b", 1);
    const check = keep("b");
    tables[1].find(check);
    expect(tables[0].find(check)).toBe(undefined);
    expect(tables[0].rows.takeOne(check[PLACE], SIZE, START)).toBeUndefined();
    expect(tables[1].rows.takeOne(check[PLACE], SIZE, START)).toMatchObject({ remaining: 8 });
    tables[1].clear();
    expect(tables[1].find(check)).toBe(undefined);
    expect(tables[1].rows.takeOne(check[PLACE], SIZE, START)).toBeUndefined();
  });

  it("nothing is written to a check that is not kept", () => {
    const table = new BucketTable(10);
    const row = put(table, "a", 1);
    const check = Object.freeze(checkOf("a"));
    expect(table.find(check)).toBe(row);
    expect(Reflect.ownKeys(check)).toEqual(["bucket", "limit", "duration", "cost"]);
  });

  it("a name that is too long, or no text, is a RangeError", () => {
    const table = new BucketTable(10);
    expect(has(table, "n".repeat(2_048))).toBe(false);
    for (const wrong of ["n".repeat(2_049), undefined, 5])
      expect(() => has(table, wrong as string)).toThrow(
        new RangeError("bucket must be a text of at most 2048 UTF-16 units"),
      );
  });
});
