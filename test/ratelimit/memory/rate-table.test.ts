import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Rate, toRate } from "../../../src/ratelimit/memory/bucket.js";
import { RATE_WIDTH, RateTable } from "../../../src/ratelimit/memory/rate-table.js";
import { runs } from "../../runs.js";

const MAX = Number.MAX_SAFE_INTEGER;

describe("PairTable: like a map that counts", () => {
  it("one number a pair while it is used, whatever came and went before", () => {
    const size = fc.oneof(
      fc.nat(6),
      fc.integer({ min: 0, max: MAX }),
      fc.constantFrom(2 ** 32, 2 ** 40, 3 * 2 ** 32, MAX),
    );
    const pair = fc.tuple(size, size).map(([limit, duration]) => toRate(limit, duration));
    const step = fc.record({ pair, again: fc.option(fc.nat()), release: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const table = new RateTable();
        /** A number for each use. */
        const uses: { id: number; pair: Rate }[] = [];
        for (const { pair, again, release } of steps) {
          if (release && uses.length > 0) table.release(uses.splice((again ?? 0) % uses.length, 1)[0]!.id);
          else {
            const wanted = again !== null && uses.length > 0 ? uses[again % uses.length]!.pair : pair;
            uses.push({ id: table.acquire(wanted), pair: wanted });
          }
          for (const { id, pair } of uses) expect(table.read(id)).toEqual(pair);
          const named = new Map(uses.map(({ id, pair }) => [`${pair.limit} ${pair.duration}`, id]));
          expect(table.count).toBe(named.size);
          expect(new Set(named.values()).size).toBe(named.size);
          for (const { id, pair } of uses) expect(named.get(`${pair.limit} ${pair.duration}`)).toBe(id);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  it("frees the number of a pair that nothing uses, and gives it to the next", () => {
    const table = new RateTable();
    const [one, other] = [toRate(10, 1_000), toRate(11, 1_000)];
    const id = table.acquire(one);
    expect(table.acquire(one)).toBe(id);
    table.release(id);
    expect([table.count, table.is(id, one), table.is(id, other)]).toEqual([1, true, false]);
    table.release(id);
    expect(table.count).toBe(0);
    expect(table.acquire(other)).toBe(id);
    expect([table.is(id, one), table.is(id, other), table.is(0, toRate(0, 0))]).toEqual([false, true, false]);
  });

  it("one of many rates that is freed takes no other with it", () => {
    const table = new RateTable();
    const rates = Array.from({ length: 240 }, (_, i) => toRate((i + 1) ** 2, 1_000));
    const ids = rates.map((rate) => table.acquire(rate));
    for (let i = 0; i < 240; i += 3) table.release(ids[i]!);
    for (let i = 0; i < 240; i++) if (i % 3 !== 0) expect(table.acquire(rates[i]!)).toBe(ids[i]);
    expect(table.count).toBe(160);
  });

  it.each([
    ["limits", (i: number): [number, number] => [i, 1_000]],
    ["limits in steps of 2^16", (i: number): [number, number] => [i * 2 ** 16, 1_000]],
    ["limits in steps of 2^32", (i: number): [number, number] => [i * 2 ** 32, 1_000]],
    ["limits in steps of 2^45", (i: number): [number, number] => [i * 2 ** 45, 1_000]],
    ["durations", (i: number): [number, number] => [1_000, i]],
    ["durations in steps of 2^16", (i: number): [number, number] => [1_000, i * 2 ** 16]],
    ["durations in steps of 2^32", (i: number): [number, number] => [1_000, i * 2 ** 32]],
    ["durations in steps of 2^45", (i: number): [number, number] => [1_000, i * 2 ** 45]],
  ])("rates that differ in their %s do not share a few hashes", (_, sizeOf) => {
    const COUNT = 240;
    /** How many hashes the rates of a table have: each has a list, and 0 ends it. */
    const hashes = (): number => {
      const table = new RateTable();
      let count = 0;
      const ids = Array.from({ length: COUNT }, (_, i) => table.acquire(toRate(...sizeOf(i + 1))));
      for (const id of ids) if (table.rows[id * RATE_WIDTH + RATE_WIDTH - 2] === 0) count++;
      return count;
    };
    // The factors are random, and one table in a few has bad ones for such steps; 30 in turn have not.
    expect(Math.max(...Array.from({ length: 30 }, hashes))).toBeGreaterThan(COUNT / 3);
  });
});
