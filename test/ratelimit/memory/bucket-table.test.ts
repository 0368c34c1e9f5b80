import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { NONE } from "../../../src/lib/fingerprint-index.js";
import { MAX_UNITS } from "../../../src/lib/fingerprint.js";
import { hintFor } from "../../../src/ratelimit/memory/bucket-hint.js";
import { BucketTable, type Newcomer } from "../../../src/ratelimit/memory/bucket-table.js";
import { type Bucket, charge, type Rate, toRate } from "../../../src/ratelimit/memory/bucket.js";
import { runs } from "../../runs.js";

const START = 1_700_000_000_000;
const HOUR = 3_600_000;
const TEN = toRate(10, HOUR);
/** No row is taken from. */
const IDLE = new Map<number, { pending: number }>();

/** So many buckets to come, the first `adHoc` of them of ad hoc limits. */
const newcomers = (count: number, adHoc = 0, workspaceId = ""): Newcomer[] =>
  Array.from({ length: count }, (_, i) => ({ workspaceId, isAdHoc: i < adHoc }));

const rowOf = (table: BucketTable, bucket: string): number =>
  table.find({ bucket, limit: 10, duration: HOUR, cost: 1 });
const has = (table: BucketTable, name: string): boolean => rowOf(table, name) !== NONE;

/** Puts in a bucket with so many of its tokens used. @returns its row */
function put(
  table: BucketTable,
  name: string,
  used: number,
  pair: Rate = TEN,
  isAdHoc = false,
  workspaceId = "",
): number {
  const bucket: Bucket = { at: START, rate: pair, used: 0, next: undefined };
  if (used > 0) charge(bucket, pair, used, START);
  expect(rowOf(table, name)).toBe(NONE);
  table.add(table.fingerprint, bucket, { workspaceId, isAdHoc }, START);
  return rowOf(table, name);
}

describe("bucketTable: at the bound", () => {
  it("ruling C6: makes no space while there is some", () => {
    const table = new BucketTable(3);
    put(table, "full", 0);
    expect(table.makeSpace(newcomers(2), IDLE, START)).toBe(true);
    expect(table.count).toBe(1);
  });

  it("ruling C6: a full bucket gives way first, then the least used; one that refuses never does", () => {
    const table = new BucketTable(5);
    const uses = { refusing: 10, half: 5, little: 1, much: 9 };
    for (const [name, used] of Object.entries(uses)) put(table, name, used);
    put(table, "full", 0);
    const gone: string[] = [];
    for (const count of [1, 2, 3, 4]) {
      expect(table.makeSpace(newcomers(count), IDLE, START)).toBe(true);
      for (const name of ["full", ...Object.keys(uses)]) if (!has(table, name) && !gone.includes(name)) gone.push(name);
    }
    expect(gone).toEqual(["full", "little", "half", "much"]);
    expect(table.makeSpace(newcomers(5), IDLE, START)).toBe(false);
    expect(has(table, "refusing")).toBe(true);
  });

  it("ruling C6: one call displaces as many as it needs, or none", () => {
    const table = new BucketTable(4);
    for (const [name, used] of Object.entries({ a: 1, b: 2, c: 10, d: 10 })) put(table, name, used);
    expect(table.makeSpace(newcomers(3), IDLE, START)).toBe(false);
    expect(table.makeSpace(newcomers(9), IDLE, START)).toBe(false);
    expect(table.count).toBe(4);
    expect(table.makeSpace(newcomers(2), IDLE, START)).toBe(true);
    expect([has(table, "a"), has(table, "b")]).toEqual([false, false]);
  });

  it("clause 1: a bucket of the call under way never gives way, full or not", () => {
    const table = new BucketTable(2);
    put(table, "used", 5);
    const row = put(table, "pending", 1);
    expect(table.makeSpace(newcomers(1), new Map([[row, { pending: 1 }]]), START)).toBe(true);
    expect([has(table, "pending"), has(table, "used")]).toEqual([true, false]);
    // One that is only looked at may give way.
    put(table, "refusing", 10);
    expect(table.makeSpace(newcomers(1), new Map([[row, { pending: 1 }]]), START)).toBe(false);
    expect(table.makeSpace(newcomers(1), new Map([[row, { pending: 0 }]]), START)).toBe(true);
    expect([has(table, "pending"), has(table, "refusing")]).toEqual([false, true]);
  });

  it("clause 8: ad hoc limits have half of the space, and beyond it only they give way for one more", () => {
    const table = new BucketTable(8);
    const names = ["a", "b", "c", "d"];
    names.forEach((name, i) => put(table, name, i === 0 ? 3 : 10, TEN, true));
    put(table, "own", 1);
    expect(table.makeSpace(newcomers(2, 2), IDLE, START)).toBe(false);
    expect(table.makeSpace(newcomers(1, 1), IDLE, START)).toBe(true);
    expect([has(table, "own"), ...names.map((name) => has(table, name))]).toEqual([true, false, true, true, true]);
    put(table, "e", 3, TEN, true);
    expect(table.makeSpace(newcomers(1, 1), IDLE, START)).toBe(true);
    put(table, "g", 10, TEN, true);
    expect(table.makeSpace(newcomers(1, 1), IDLE, START)).toBe(false);
    // Space for the others is left.
    expect(table.makeSpace(newcomers(3), IDLE, START)).toBe(true);
    expect(table.count).toBe(5);
    // Those that went are not counted on.
    table.clear();
    put(table, "f", 10, TEN, true);
    expect(table.makeSpace(newcomers(4, 3), IDLE, START)).toBe(true);
  });

  it("clause 8: what a newcomer evicts counts for those after it in the same call, by its kind", () => {
    const filled = (bound: number, own: readonly number[], adHoc: readonly number[]): BucketTable => {
      const table = new BucketTable(bound);
      own.forEach((used, i) => put(table, `own ${i}`, used));
      adHoc.forEach((used, i) => put(table, `ad hoc ${i}`, used, TEN, true));
      return table;
    };
    const OWN = { workspaceId: "", isAdHoc: false };
    const AD_HOC = { workspaceId: "", isAdHoc: true };
    // The half of ad hoc limits is full, the table is not: one of theirs goes for the first, and none for the others.
    const halfFull = filled(8, [], [1, 1, 1, 1]);
    expect(halfFull.makeSpace([AD_HOC, OWN, OWN, OWN, OWN], IDLE, START)).toBe(true);
    expect(halfFull.count).toBe(3);
    // The first evicts another limit, which makes no space among the ad hoc ones for the second.
    const oneLeft = filled(4, [1, 1, 1], [10]);
    expect(oneLeft.makeSpace([AD_HOC, AD_HOC], IDLE, START)).toBe(false);
    expect(oneLeft.count).toBe(4);
    // The first evicts an ad hoc limit, whose space the second gets: any other gives way to it.
    const loose = filled(4, [5, 5], [1, 10]);
    expect(loose.makeSpace([OWN, AD_HOC], IDLE, START)).toBe(true);
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
      while (count < 100 && !table.makeSpace(newcomers(1), IDLE, START)) count++;
      expect(has(table, `${loose}`)).toBe(false);
      return count;
    });
    expect(Math.max(...tries)).toBeGreaterThan(3);
    expect(Math.max(...tries)).toBeLessThanOrEqual(7);
  });

  it("an empty table has no bucket to give way", () => {
    expect(new BucketTable(2).makeSpace(newcomers(3), IDLE, START)).toBe(false);
  });
});

describe("bucketTable: workspaces", () => {
  const fill = (table: BucketTable, workspaceId: string, count: number, used: number, isAdHoc = false): void => {
    for (let i = 0; i < count; i++) {
      expect(table.makeSpace(newcomers(1, isAdHoc ? 1 : 0, workspaceId), IDLE, START)).toBe(true);
      put(table, `${workspaceId} ${isAdHoc} ${i}`, used, TEN, isAdHoc, workspaceId);
    }
  };
  const held = (table: BucketTable, workspaceId: string, isAdHoc = false): number =>
    Array.from({ length: 200 }, (_, i) => has(table, `${workspaceId} ${isAdHoc} ${i}`)).filter(Boolean).length;

  it("ruling C9: a newcomer below its share displaces a bucket of the largest holder, even one that refuses", () => {
    const table = new BucketTable(12);
    fill(table, "greedy", 12, 10);
    expect(table.makeSpace(newcomers(1, 0, "greedy"), IDLE, START)).toBe(false);
    expect([table.bucketsDisplaced, table.newcomersRefused]).toEqual([0, 1]);
    fill(table, "other", 6, 10);
    expect([held(table, "greedy"), held(table, "other"), table.bucketsDisplaced]).toEqual([6, 6, 6]);
    // At its share, it evicts of its own, which all refuse.
    expect(table.makeSpace(newcomers(1, 0, "other"), IDLE, START)).toBe(false);
    fill(table, "third", 4, 10);
    expect(["greedy", "other", "third"].map((one) => held(table, one))).toEqual([4, 4, 4]);
  });

  it("ruling C9: the first call of a workspace takes no more than its share, or nothing", () => {
    const table = new BucketTable(12);
    fill(table, "greedy", 12, 10);
    expect(table.makeSpace(newcomers(7, 0, "other"), IDLE, START)).toBe(false);
    expect([held(table, "greedy"), table.bucketsDisplaced]).toEqual([12, 0]);
    expect(table.makeSpace(newcomers(6, 0, "other"), IDLE, START)).toBe(true);
    expect([held(table, "greedy"), table.bucketsDisplaced]).toEqual([6, 6]);
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
    expect(table.bucketsDisplaced).toBe(0);
  });

  it("ruling C9: the half of ad hoc limits is shared likewise, and holds no other limits up", () => {
    const table = new BucketTable(16);
    fill(table, "greedy", 8, 10, true);
    fill(table, "other", 4, 10, true);
    expect([held(table, "greedy", true), held(table, "other", true)]).toEqual([4, 4]);
    expect(table.makeSpace(newcomers(1, 1, "other"), IDLE, START)).toBe(false);
    fill(table, "other", 8, 10);
    expect(table.count).toBe(16);
  });

  it("more workspaces than buckets: each is let in, and one gives way", () => {
    const table = new BucketTable(4);
    for (let i = 0; i < 100; i++) fill(table, `ws${i}`, 1, 10);
    expect([table.count, table.bucketsDisplaced, table.newcomersRefused]).toEqual([4, 96, 0]);
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
          const isFull = table.count === 10;
          const isLetIn = table.makeSpace(newcomers(1, isAdHoc ? 1 : 0, workspaceId), IDLE, START);
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
        expect(table.count).toBeLessThanOrEqual(10);
      }),
      { numRuns: runs(200) },
    );
  });
});

describe("bucketTable: sweeping", () => {
  it("ruling C6: drops full buckets a few at a time, and keeps the others", () => {
    const table = new BucketTable(1_000);
    for (let i = 0; i < 300; i++) put(table, `${i}`, 1 + (i % 2));
    const sizes = Array.from({ length: 12 }, () => (table.sweep(START + HOUR / 10), table.count));
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
        /**
         * Name → what its bucket should read as. The walk drops some: those are found by no name, and are counted out.
         */
        const twin = new Map<string, Bucket>();
        let now = START;
        steps.forEach((one, i) => {
          if (one.kind === "add" && table.makeSpace(newcomers(1), IDLE, now)) {
            const row = put(table, `${i}`, one.used);
            if (row !== NONE) twin.set(`${i}`, table.rows.read(row));
          }
          if (one.kind === "space") table.makeSpace(newcomers(one.count), IDLE, now);
          if (one.kind === "sweep") table.sweep((now += one.wait));
          for (const name of twin.keys()) if (!has(table, name)) twin.delete(name);
          expect(twin.size).toBe(table.count);
          expect(table.count).toBeLessThanOrEqual(12);
          for (const [name, bucket] of twin) expect(table.rows.read(rowOf(table, name))).toEqual(bucket);
          expect(new Set([...twin.keys()].map((name) => rowOf(table, name))).size).toBe(twin.size);
        });
        table.clear();
        expect([table.count, table.rows.rateCount]).toEqual([0, 0]);
        expect([...twin.keys()].some((name) => has(table, name))).toBe(false);
      }),
      { numRuns: runs(300) },
    );
  });
});

describe("bucketTable: pairs", () => {
  it("ruling C6: a flood of buckets, each with a pair of its own, keeps no more pairs than buckets", () => {
    const table = new BucketTable(100);
    for (let i = 0; i < 5_000; i++) {
      expect(table.makeSpace(newcomers(1), IDLE, START)).toBe(true);
      put(table, `${i}`, 1, toRate(10 + i, HOUR));
      expect(table.rows.rateCount).toBe(table.count);
    }
    expect(table.count).toBe(100);
    expect(table.rows.capacity).toBe(100);
    for (let i = 0; i < 100; i++) table.sweep(START + HOUR);
    expect([table.count, table.rows.rateCount]).toEqual([0, 0]);
  });
});

describe("bucketTable: size", () => {
  it("takes memory as buckets come: twice as many rows each time, and never more than its bound", () => {
    const table = new BucketTable(200);
    const capacities = Array.from({ length: 200 }, (_, i) => (put(table, `${i}`, 1), table.rows.capacity));
    expect(capacities).toEqual(capacities.map((_, i) => (i < 32 ? 32 : i < 64 ? 64 : i < 128 ? 128 : 200)));
  });
});

describe("bucketTable: places", () => {
  const remembering = (bucket: string) => ({ bucket, limit: 10, duration: HOUR, cost: 1, hint: hintFor(bucket) });

  it("a check remembers its bucket, and its name is not read again", () => {
    const table = new BucketTable(10);
    const check = remembering("a");
    expect(table.find(check)).toBe(NONE);
    expect(check.hint).toMatchObject({ workspaceId: "", row: -1, h0: 0, h1: 0 });
    const row = put(table, "a", 1);
    expect(table.find(check)).toBe(row);
    expect(check.hint.row).toBe(row);
    const unnamed = { ...check.hint, bucket: null as never };
    expect(table.findAt(unnamed)).toBe(row);
    expect(table.find({ ...check, bucket: "b" })).toBe(NONE);
    table.clear();
    expect(table.find(check)).toBe(NONE);
    expect(() => table.findAt(unnamed)).toThrow(TypeError);
  });

  it("a place that another bucket has taken since is not taken for the old one", () => {
    const table = new BucketTable(1);
    const check = remembering("a");
    const row = put(table, "a", 1);
    table.find(check);
    table.makeSpace(newcomers(1), IDLE, START);
    expect(table.find(check)).toBe(NONE);
    expect(put(table, "b", 1)).toBe(row);
    expect(table.find(check)).toBe(NONE);
    table.makeSpace(newcomers(1), IDLE, START);
    expect(put(table, "a", 1)).toBe(row);
    expect(table.find(check)).toBe(row);
  });

  it("a place in another table, or of nobody, is not trusted", () => {
    const tables = [new BucketTable(100), new BucketTable(100)];
    for (const table of tables) for (let i = 0; i < 100; i++) put(table, `${table === tables[0] ? i : 99 - i}`, 1);
    for (let i = 0; i < 100; i++) {
      const check = remembering(`${i}`);
      for (const table of [...tables, ...tables]) expect(table.find(check)).toBe(rowOf(table, `${i}`));
    }
    for (const row of [0, 1, 99, 100, 1e9, -1, -2, 0.5, NaN, Infinity, 2 ** 31])
      expect(tables[0]!.findAt({ ...hintFor("7"), row })).toBe(rowOf(tables[0]!, "7"));
  });

  it("nothing is written to a check without a place", () => {
    const table = new BucketTable(10);
    const row = put(table, "a", 1);
    expect(table.find(Object.freeze({ bucket: "a", limit: 10, duration: HOUR, cost: 1 }))).toBe(row);
  });

  it("a name too long for a tag is a RangeError", () => {
    const table = new BucketTable(10);
    expect(has(table, "n".repeat(MAX_UNITS))).toBe(false);
    expect(() => has(table, "n".repeat(MAX_UNITS + 1))).toThrow(
      new RangeError("bucket must be a text of at most 2048 UTF-16 units"),
    );
  });
});

describe("bucketTable: where memory is short", () => {
  it("a bucket that finds no space is not there, and those that come later are kept", () => {
    const table = new BucketTable(1_000);
    const { capacity } = table.rows;
    for (let n = 0; n < capacity; n++) put(table, `bucket ${n}`, 1);
    vi.spyOn(table.rows, "widen").mockImplementationOnce(() => {
      throw new RangeError("Array buffer allocation failed");
    });
    expect(() => put(table, "one more", 10)).toThrow(RangeError);
    expect(has(table, "one more")).toBe(false);
    for (const name of ["another", "one more"])
      expect(table.rows.read(put(table, name, 10)).used).toBe(10 * TEN.unitsPerToken);
    expect(table.count).toBe(capacity + 2);
  });
});
