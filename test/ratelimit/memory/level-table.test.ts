/** The levels of buckets beyond their first: kept as given while the table grows, and freed rows are used again. */
import { describe, expect, it } from "vitest";
import { type Level, toRate } from "../../../src/ratelimit/memory/bucket.js";
import { LevelTable, NO_LEVEL } from "../../../src/ratelimit/memory/level-table.js";
import { RateTable } from "../../../src/ratelimit/memory/rate-table.js";

const RATES = [toRate(1, 1_000), toRate(10, 60_000), toRate(7, 7_000)];

describe("LevelTable", () => {
  it("holds lists of any length, also beyond its first rows", () => {
    const rates = new RateTable();
    const table = new LevelTable(rates);
    const list = (length: number, of: number): Level | undefined => {
      let first: Level | undefined;
      for (let i = 0; i < length; i++) first = { rate: RATES[(of + i) % 3]!, used: of * 10 + i, next: first };
      return first;
    };
    const rows = Array.from({ length: 40 }, (_, of) => table.add(list(of % 4, of)));
    expect(rows.filter((_, of) => of % 4 === 0)).toEqual(Array.from({ length: 10 }, () => NO_LEVEL));
    expect(table.count).toBe(60);
    rows.forEach((row, of) => expect(table.read(row)).toEqual(list(of % 4, of)));
    rows.forEach((row, of) => {
      if (of % 2 === 1) table.remove(row);
    });
    expect(table.count).toBe(20);
    const again = Array.from({ length: 20 }, (_, i) => table.add(list(2, 100 + i)));
    expect(new Set([...rows.filter((row, of) => of % 2 === 0 && row !== NO_LEVEL), ...again]).size).toBe(30);
    // All in the 40 rows that the lists before them have left.
    expect(Math.max(...again)).toBeLessThanOrEqual(60);
    again.forEach((row, i) => expect(table.read(row)).toEqual(list(2, 100 + i)));
    rows.forEach((row, of) => {
      if (of % 2 === 0) expect(table.read(row)).toEqual(list(of % 4, of));
    });
  });
});
