import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planQuery } from "../../src/analytics/query.js";
import { readInTurns, readRows } from "../../src/analytics/rows.js";
import { KeystileError } from "../../src/contracts/errors.js";
import { type OutcomeQuery, type OutcomeRow, OUTCOMES } from "../../src/contracts/outcomes.js";
import { runs } from "../runs.js";

const DAY = 86_400_000;
/** The first day of counts: below it a time would be taken for one in seconds. */
const FIRST = 20_000;
const counts = OUTCOMES.map((_, i) => (i === 0 ? 1 : 0));

/** A store with so many counts on each day, each of a key of its own, and what was asked of it. */
function storeOf(sizes: readonly number[]) {
  const asked: OutcomeQuery[] = [];
  return {
    asked,
    readOutcomes(query: OutcomeQuery): OutcomeRow[] {
      asked.push(query);
      const { of, at } = query.part ?? { of: 1, at: 0 };
      const first = Math.max(0, query.from / DAY - FIRST);
      const found = sizes.slice(first, Math.max(0, query.to / DAY - FIRST)).flatMap((size, day) =>
        Array.from({ length: size }, (_, n) => n)
          .filter((n) => n % of === at)
          .map((n) => ({ keyId: `${first + day}-${n}`, counts, spent: 0, rows: 1 })),
      );
      if (found.length > query.maxRows) throw new KeystileError("ANALYTICS_TOO_LARGE", "too many");
      return found;
    },
  };
}
const query = (days: number, maxRows: number, from = 0): OutcomeQuery => ({
  ...{
    level: "day",
    workspaceId: "ws_1",
    by: ["keyId"],
    from: (FIRST + from) * DAY,
    to: (FIRST + days) * DAY,
    maxRows,
  },
});
const plan = (days: number) => planQuery({ by: ["keyId"], from: FIRST * DAY, to: (FIRST + days) * DAY, limit: 10 });

/** Counts turns of the event loop until it is asked for them, which are as many on a machine of any speed. */
function countTurns(): () => number {
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  return () => (clearImmediate(next), turns);
}

describe("counts are read in turns", () => {
  it("each once, whatever the parts, and never more than allowed", async () => {
    const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 9_000 })), {
      minLength: 1,
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: -30, max: 3 }), async (given, from) => {
        const store = storeOf(given);
        const total = given.slice(Math.max(0, from)).reduce((sum, size) => sum + size, 0);
        const read = async (maxRows: number) => {
          const ids: string[] = [];
          for await (const found of readInTurns(store, query(given.length, maxRows, from)))
            for (const { keyId } of found) ids.push(keyId as string);
          return ids;
        };
        const ids = await read(total);
        expect([ids.length, new Set(ids).size]).toEqual([total, total]);
        if (total === 0) return;
        await expect(read(total - 1)).rejects.toMatchObject({ code: "ANALYTICS_TOO_LARGE" });
      }),
      { numRuns: runs(40) },
    );
  });

  it("with others' turns in between: of many periods few at a time", async () => {
    const store = storeOf(Array.from({ length: 200 }, () => 1_000));
    const turns = countTurns();
    const rows = await readRows(store, "ws_1", { maxRows: 200_000 }, plan(200));
    expect(rows).toHaveLength(200_000);
    expect(store.asked.filter(({ maxRows }) => maxRows > 2_500)).toEqual([]);
    expect(turns()).toBeGreaterThan(20);
  });

  it("with others' turns in between: of one period with many keys a part at a time, and in order", async () => {
    const store = storeOf([3, 50_000, 7]);
    const turns = countTurns();
    const rows = await readRows(store, "ws_1", { maxRows: 60_000 }, plan(3));
    const ids = rows.map(({ keyId }) => keyId);
    expect(ids).toHaveLength(50_010);
    expect(ids).toEqual([...ids].sort());
    expect(Math.max(...store.asked.map(({ part }) => part?.of ?? 1))).toBe(32);
    expect(turns()).toBeGreaterThan(20);
  });

  it("until the time is over, and no longer than an answer may be", async () => {
    const sizes = Array.from({ length: 50 }, () => 100);
    const late = storeOf(sizes);
    const bounds = { maxRows: 10_000, until: performance.now() - 1 };
    await expect(readRows(late, "ws_1", bounds, plan(50))).rejects.toMatchObject({ code: "ANALYTICS_TOO_LARGE" });
    expect(late.asked).toEqual([]);
    const most = async (maxGroups: number) =>
      readRows(storeOf(sizes), "ws_1", { maxRows: 10_000, maxGroups }, plan(50));
    expect(await most(5_000)).toHaveLength(5_000);
    await expect(most(4_999)).rejects.toMatchObject({ code: "ANALYTICS_TOO_LARGE", status: 422 });
  });

  it("an error of the store is its own", async () => {
    const failing = { readOutcomes: () => Promise.reject(new KeystileError("STORE_BUSY", "busy")) };
    await expect(readRows(failing, "ws_1", { maxRows: 1 }, plan(1))).rejects.toMatchObject({ code: "STORE_BUSY" });
  });
});
