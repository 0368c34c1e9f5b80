import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { charge, toPair } from "../../src/limiters/bucket.js";
import { type BucketTable, bucketTable, type NamedBucket, newBucket, NOWHERE } from "../../src/limiters/table.js";

const START = 1_700_000_000_000;
const HOUR = 3_600_000;
const pair = toPair(10, HOUR);

/** Puts in a bucket with so many of its 10 tokens used. */
function put(table: BucketTable, name: string, used: number): NamedBucket {
  const bucket = newBucket(name, pair, START);
  if (used > 0) charge(bucket, pair, used, START);
  table.add(bucket, START);
  return bucket;
}

describe("bucketTable: at the bound", () => {
  it("ruling C6: makes no room while there is some", () => {
    const table = bucketTable(3);
    put(table, "full", 0);
    expect(table.makeRoom(2, START)).toBe(true);
    expect(table.size()).toBe(1);
  });

  it("ruling C6: a full bucket gives way first, then the least used; one that refuses never does", () => {
    const table = bucketTable(5);
    const uses = { refusing: 10, half: 5, little: 1, much: 9 };
    for (const [name, used] of Object.entries(uses)) put(table, name, used);
    put(table, "full", 0);
    const gone: string[] = [];
    for (const count of [1, 2, 3, 4]) {
      expect(table.makeRoom(count, START)).toBe(true);
      for (const name of ["full", ...Object.keys(uses)]) if (table.get(name) === undefined && !gone.includes(name)) gone.push(name);
    }
    expect(gone).toEqual(["full", "little", "half", "much"]);
    expect(table.makeRoom(5, START)).toBe(false);
    expect(table.get("refusing")).toMatchObject({ slot: 0 });
  });

  it("ruling C6: one call displaces as many as it needs, or none", () => {
    const table = bucketTable(4);
    for (const [name, used] of Object.entries({ a: 1, b: 2, c: 10, d: 10 })) put(table, name, used);
    expect(table.makeRoom(3, START)).toBe(false);
    expect(table.makeRoom(9, START)).toBe(false);
    expect(table.size()).toBe(4);
    expect(table.makeRoom(2, START)).toBe(true);
    expect([table.get("a"), table.get("b")]).toEqual([undefined, undefined]);
  });

  it("clause 1: a bucket of the call under way never gives way, full or not", () => {
    const table = bucketTable(2);
    put(table, "used", 5);
    const pending = put(table, "pending", 1);
    pending.pending = 1;
    expect(table.makeRoom(1, START)).toBe(true);
    expect(table.get("pending")).toBe(pending);
    expect(table.get("used")).toBeUndefined();
    table.sweep(START + HOUR);
    expect(table.get("pending")).toBe(pending);
    pending.pending = 0;
    table.sweep(START + HOUR);
    expect(table.get("pending")).toBeUndefined();
    expect(pending.slot).toBe(NOWHERE);
  });

  it("ruling C6: looks at few buckets each time, but comes round to all", () => {
    const tries = [0, 40, 80, 120, 160, 199].map((loose) => {
      const table = bucketTable(200);
      for (let i = 0; i < 200; i++) put(table, `${i}`, i === loose ? 9 : 10);
      let count = 1;
      while (count < 100 && !table.makeRoom(1, START)) count++;
      expect(table.get(`${loose}`)).toBeUndefined();
      return count;
    });
    expect(Math.max(...tries)).toBeGreaterThan(3);
    expect(Math.max(...tries)).toBeLessThanOrEqual(7);
  });

  it("an empty table has no bucket to give way", () => {
    expect(bucketTable(2).makeRoom(3, START)).toBe(false);
  });
});

describe("bucketTable: sweeping", () => {
  it("ruling C6: drops full buckets a few at a time, and keeps the others", () => {
    const table = bucketTable(1_000);
    for (let i = 0; i < 300; i++) put(table, `${i}`, 1 + (i % 2));
    const sizes = Array.from({ length: 12 }, () => (table.sweep(START + HOUR / 10), table.size()));
    expect(sizes[0]).toBeGreaterThan(250);
    expect(sizes.at(-1)).toBe(150);
    for (let i = 0; i < 300; i++) expect(table.get(`${i}`) === undefined).toBe(i % 2 === 0);
  });

  it("finds each bucket by its name whatever was dropped before", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("add" as const), used: fc.integer({ min: 0, max: 10 }) }),
      fc.record({ kind: fc.constant("room" as const), count: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ kind: fc.constant("sweep" as const), wait: fc.integer({ min: 0, max: HOUR / 5 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const table = bucketTable(12);
        const all: NamedBucket[] = [];
        let now = START;
        steps.forEach((one, i) => {
          if (one.kind === "add" && table.makeRoom(1, now)) all.push(put(table, `${i}`, one.used));
          if (one.kind === "room") table.makeRoom(one.count, now);
          if (one.kind === "sweep") table.sweep((now += one.wait));
          const held = all.filter(({ slot }) => slot !== NOWHERE);
          expect(held.length).toBe(table.size());
          expect(table.size()).toBeLessThanOrEqual(12);
          expect(new Set(held.map(({ slot }) => slot)).size).toBe(held.length);
          for (const bucket of all) expect(table.get(bucket.name)).toBe(bucket.slot === NOWHERE ? undefined : bucket);
        });
        table.clear();
        expect(table.size()).toBe(0);
        expect(all.every(({ name }) => table.get(name) === undefined)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
