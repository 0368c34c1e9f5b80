import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OTHER, type OutcomeCell, OUTCOMES } from "../../src/contracts/outcomes.js";
import { type Counted, OutcomeMeter, ROW_BYTES, textOf } from "../../src/verify/outcome-meter.js";
import { runs } from "../runs.js";

const key = (n: number, over: Partial<Counted> = {}): Counted => ({
  cell: -1,
  workspaceId: "ws_1",
  apiId: "api_1",
  keyId: `key_${n}`,
  ...over,
});
const MINUTE = 60_000;
const BYTES_OF_A = 128 + 2;
const total = (cells: readonly OutcomeCell[]) =>
  cells.reduce((sum, { counts }) => sum + counts.reduce((all, count) => all + count, 0), 0);
const idOf = ({ minute, workspaceId, apiId, keyId, externalId, tags }: OutcomeCell) =>
  JSON.stringify([minute, workspaceId, apiId, keyId, externalId, tags]);

describe("OutcomeMeter", () => {
  it("counts by key, minute, outcome and set of tags, whatever the order of the tags", () => {
    const meter = new OutcomeMeter({ bytes: 100 * ROW_BYTES, tagSets: 10 });
    const one = key(1, { identity: { externalId: "owner" }, account: 7 });
    meter.count(one, { code: "VALID", spent: 3 }, { now: 0, tags: [] });
    meter.count(one, { code: "VALID", spent: 2 }, { now: MINUTE - 1, tags: [] });
    meter.count(one, { code: "RATE_LIMITED", spent: 0 }, { now: MINUTE, tags: [] });
    for (const tags of [["b", "a"], ["a", "b"], ["b", "a", "b"], ["ab"]])
      meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags });
    const cell = (minute: number, tags: readonly string[], valid: number, limited: number, spent: number) => ({
      ...{ minute, workspaceId: "ws_1", apiId: "api_1", keyId: "key_1", externalId: "owner", account: 7, tags },
      ...{ counts: OUTCOMES.map((code) => (code === "VALID" ? valid : code === "RATE_LIMITED" ? limited : 0)), spent },
    });
    const cells = [...meter.cells()].sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
    expect(cells).toEqual(
      [cell(0, [], 2, 0, 5), cell(0, ["a", "b"], 3, 0, 0), cell(0, ["ab"], 1, 0, 0), cell(MINUTE, [], 0, 1, 0)].sort(
        (a, b) => (idOf(a) < idOf(b) ? -1 : 1),
      ),
    );
    expect(meter.aggregated).toBe(0);
  });

  it("a place in a table that was put aside counts for nothing", () => {
    const keys = Array.from({ length: 50 }, (_, n) => key(n));
    const bounds = { bytes: 100 * ROW_BYTES, tagSets: 10 };
    for (const order of [keys, [...keys].reverse(), keys.slice(20)]) {
      const meter = new OutcomeMeter(bounds);
      for (const one of order) meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags: [] });
      expect([...meter.cells()].map(({ keyId }) => keyId)).toEqual(order.map(({ keyId }) => keyId));
    }
  });

  it("a flood of keys, tags and APIs stays within its bounds, and every call is counted", () => {
    const meter = new OutcomeMeter({ bytes: 200 * ROW_BYTES, tagSets: 20 });
    for (let i = 0; i < 10_000; i++)
      meter.count(
        key(i, { apiId: `api_${i % 3_000}`, workspaceId: `ws_${i % 2_000}` }),
        { code: "VALID", spent: 1 },
        { now: 0, tags: [`t${i}`] },
      );
    const cells = [...meter.cells()];
    expect(meter.size).toBeLessThanOrEqual(200 + 1_000);
    expect(total(cells)).toBe(10_000);
    expect(cells.reduce((sum, { spent }) => sum + spent, 0)).toBe(10_000);
    expect(meter.aggregated).toBeGreaterThan(9_000);
    expect(cells.some(({ keyId, tags }) => keyId === OTHER && tags[0] === OTHER)).toBe(true);
  });

  it("a key takes a row for each set of tags, and for none; beyond the bound its calls are those of its API", () => {
    const meter = new OutcomeMeter({ bytes: 2 * ROW_BYTES + BYTES_OF_A, tagSets: 10 });
    const [one, two] = [key(1), key(2)];
    meter.count(one, { code: "VALID", spent: 1 }, { now: 0, tags: [] });
    meter.count(one, { code: "VALID", spent: 1 }, { now: 0, tags: [] });
    expect(meter.size).toBe(1);
    meter.count(two, { code: "VALID", spent: 0 }, { now: 0, tags: ["a"] });
    expect([meter.size, meter.aggregated, meter.bytes]).toEqual([2, 0, 2 * ROW_BYTES + BYTES_OF_A]);
    meter.count(one, { code: "VALID", spent: 5 }, { now: 0, tags: ["a"] });
    meter.count(key(3), { code: "EXPIRED", spent: 0 }, { now: 0, tags: [] });
    expect([meter.size, meter.aggregated]).toEqual([3, 2]);
    meter.count(two, { code: "VALID", spent: 0 }, { now: 0, tags: ["a"] });
    expect(meter.aggregated).toBe(2);
    expect(
      [...meter.cells()].map(({ keyId, apiId, externalId, tags, spent }) => [keyId, apiId, externalId, tags, spent]),
    ).toEqual([
      ["key_1", "api_1", "", [], 2],
      ["key_2", "api_1", "", ["a"], 0],
      [OTHER, "api_1", OTHER, [OTHER], 5],
    ]);
  });

  it("the row that was counted last is found first, whatever its tags, and each is found again", () => {
    const meter = new OutcomeMeter({ bytes: 100 * ROW_BYTES, tagSets: 10 });
    const one = key(1);
    for (const tags of [["a"], ["a"], [], ["b"], ["a"], []]) {
      meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags });
      const { tags: last } = [...meter.cells()][one.cell]!;
      expect(last).toEqual(tags);
    }
    expect([...meter.cells()].map(({ tags, counts }) => [tags, counts[0]])).toEqual([
      [["a"], 3],
      [[], 2],
      [["b"], 1],
    ]);
  });

  it("a workspace that is alone has all of the memory; who comes later has a part, which the first one pays for", () => {
    const rows = 64;
    const meter = new OutcomeMeter({ bytes: rows * ROW_BYTES, tagSets: 10 });
    const flood = Array.from({ length: rows + 10 }, (_, n) => key(n, { workspaceId: "flood" }));
    for (const one of flood) meter.count(one, { code: "VALID", spent: 1 }, { now: 0, tags: [] });
    expect([meter.size, meter.aggregated]).toEqual([rows + 1, 10]);
    const rowsOf = (workspaceId: string) =>
      [...meter.cells()].filter((one) => one.workspaceId === workspaceId && one.keyId !== OTHER).length;
    for (const [i, workspaceId] of ["a", "b", "c", "d", "e"].entries()) {
      const quiet = Array.from({ length: 8 }, (_, n) => key(n, { workspaceId }));
      for (const one of [...quiet, ...quiet]) meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags: [] });
      for (const one of flood) meter.count(one, { code: "VALID", spent: 1 }, { now: 0, tags: [] });
      // None of the calls of those below their part is an other.
      expect(rowsOf(workspaceId)).toBe(8);
      expect(rowsOf("flood")).toBe([32, 32, 32, 32, 8][i]);
      expect([...meter.cells()].filter((one) => one.workspaceId === workspaceId && one.counts[0] !== 2)).toEqual([]);
    }
    const cells = [...meter.cells()];
    expect(total(cells)).toBe(6 * flood.length + 5 * 16);
    expect(cells.reduce((sum, { spent }) => sum + spent, 0)).toBe(6 * flood.length);
    expect(total(cells.filter(({ keyId }) => keyId === OTHER))).toBe(meter.aggregated);
    expect(meter.bytes).toBeLessThanOrEqual(rows * ROW_BYTES);
    // Rows that have moved are found again.
    const { size } = meter;
    for (const one of flood.slice(0, 8)) meter.count(one, { code: "VALID", spent: 1 }, { now: 0, tags: [] });
    expect(meter.size).toBe(size);
  });

  it("texts of tags are booked by their length, and those of a workspace above its part give way to a quiet one", () => {
    const bytes = 1_000_000;
    const meter = new OutcomeMeter({ bytes, tagSets: 10_000 });
    const long = (n: number) =>
      Array.from({ length: 20 }, (_, i) => `${String(i).padStart(2, "0")} ${n} `.padEnd(500, "\u4e00"));
    const flood = key(1, { workspaceId: "flood" });
    for (let n = 0; n < 200; n++) meter.count(flood, { code: "VALID", spent: 0 }, { now: 0, tags: long(n) });
    expect(meter.setsOf("flood").length).toBe(Math.floor(bytes / (ROW_BYTES + 128 + 2 * textOf(long(0)).length)));
    expect(meter.aggregated).toBe(200 - meter.setsOf("flood").length);
    const quiet = key(2, { workspaceId: "quiet" });
    for (let n = 0; n < 20; n++) meter.count(quiet, { code: "VALID", spent: 0 }, { now: 0, tags: long(n) });
    expect(meter.setsOf("quiet")).toHaveLength(20);
    expect(meter.setsOf("flood").length).toBeLessThanOrEqual(25);
    expect(meter.bytes).toBeLessThanOrEqual(bytes);
    for (let n = 0; n < 200; n++) meter.count(flood, { code: "VALID", spent: 0 }, { now: 0, tags: long(n) });
    const cells = [...meter.cells()];
    expect(total(cells)).toBe(420);
    const quietSets = cells.filter(({ workspaceId }) => workspaceId === "quiet").map(({ tags }) => textOf(tags));
    expect(quietSets).toEqual(Array.from({ length: 20 }, (_, n) => textOf(long(n))));
  });

  it("each order in which a set of tags is sent is booked, as long as there is memory, and is one set", () => {
    const text = 2 * textOf(["a", "b", "c"]).length + 128;
    const meter = new OutcomeMeter({ bytes: ROW_BYTES + 3 * text, tagSets: 10 });
    const orders = ["abc", "bca", "cab", "cba", "acb", "bca"].map((order) => [...order]);
    const one = key(1);
    const booked = orders.map((tags) => {
      meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags });
      return (meter.bytes - ROW_BYTES) / text;
    });
    expect([booked, meter.setsOf("ws_1").length, meter.size, meter.aggregated]).toEqual([[1, 2, 3, 3, 3, 3], 1, 1, 0]);
  });

  it("a set of tags that is not admitted is that of others, under the key, and counted as such", () => {
    const asked: string[] = [];
    const admits = (workspaceId: string, set: string) => (asked.push(`${workspaceId} ${set}`), set !== "no");
    const meter = new OutcomeMeter({ bytes: 100 * ROW_BYTES, tagSets: 10, admits });
    for (const tags of [["yes"], ["yes"], ["no"], []])
      meter.count(key(1), { code: "VALID", spent: 0 }, { now: 0, tags });
    expect(asked).toEqual(["ws_1 yes", "ws_1 no"]);
    expect([...meter.cells()].map(({ tags, keyId }) => [tags[0], keyId])).toContainEqual([OTHER, "key_1"]);
    expect(meter.aggregated).toBe(1);
  });

  it("others have a row for each of 500 APIs, then for each of 499 workspaces, and one for all the rest, for as long as its minute lasts", () => {
    const meter = new OutcomeMeter({ bytes: 1 * ROW_BYTES, tagSets: 10 });
    meter.count(key(0), { code: "VALID", spent: 0 }, { now: 0, tags: [] });
    const apis = Array.from({ length: 2_000 }, (_, n) => key(n, { apiId: `api_${n}`, workspaceId: `ws_${n}` }));
    for (const one of [...apis, ...apis]) meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags: [] });
    expect([meter.size, meter.aggregated]).toEqual([1_001, 4_000]);
    const [, ...others] = [...meter.cells()].map(({ workspaceId, apiId, counts }) => [workspaceId, apiId, counts[0]]);
    expect(others.slice(0, 500)).toEqual(apis.slice(0, 500).map(({ workspaceId, apiId }) => [workspaceId, apiId, 2]));
    expect(others.slice(500, 999)).toEqual(apis.slice(500, 999).map(({ workspaceId }) => [workspaceId, OTHER, 2]));
    expect(others.slice(999)).toEqual([[OTHER, OTHER, 2_002]]);
    // There is no row for another minute either.
    meter.count(apis[0]!, { code: "VALID", spent: 0 }, { now: MINUTE, tags: [] });
    expect(meter.size).toBe(1_001);
    expect([...meter.cells()].at(-1)).toMatchObject({
      minute: 0,
      counts: [2_003, 0, 0, 0, 0, 0, 0, 0].slice(0, OUTCOMES.length),
    });
  });

  it("finds the rows of sets of tags again, however often the table grew", () => {
    const meter = new OutcomeMeter({ bytes: 10_000 * ROW_BYTES, tagSets: 10_000 });
    const keys = Array.from({ length: 40 }, (_, n) => key(n));
    for (let again = 0; again < 2; again++)
      for (const one of keys)
        for (let n = 0; n < 30; n++) meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags: [`t${n}`] });
    expect(meter.size).toBe(40 * 30);
    const cells = [...meter.cells()];
    expect(cells).toHaveLength(40 * 30);
    expect(cells.every(({ counts }) => counts[0] === 2)).toBe(true);
  });

  it("sets of tags beyond the bound of a workspace are others, under the key", () => {
    const meter = new OutcomeMeter({ bytes: 1_000 * ROW_BYTES, tagSets: 5 });
    const one = key(1);
    for (let i = 0; i < 100; i++) meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags: [`t${i}`] });
    const cells = [...meter.cells()];
    expect(cells.map(({ tags }) => tags[0])).toEqual(["t0", "t1", "t2", "t3", "t4", OTHER]);
    expect(cells.every(({ keyId }) => keyId === "key_1")).toBe(true);
    expect(total(cells)).toBe(100);
  });

  it("a set of tags is one in each order and with repeats, and stays one where no more are kept", () => {
    const meter = new OutcomeMeter({ bytes: 1_000 * ROW_BYTES, tagSets: 4 });
    const one = key(1);
    // Each order that was met takes a place: the sorted one, and two others.
    const orders = [
      ["a", "b"],
      ["b", "a"],
      ["b", "a", "b"],
    ];
    for (let again = 0; again < 2; again++)
      for (const tags of orders) meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags });
    for (const tags of [["c"], ["d"], ["d"], ["c"], ...orders])
      meter.count(one, { code: "VALID", spent: 0 }, { now: 0, tags });
    expect([...meter.cells()].map(({ tags, counts }) => [tags, counts[0]])).toEqual([
      [["a", "b"], 9],
      [["c"], 2],
      [[OTHER], 2],
    ]);
  });

  it("counts as a map of texts does", () => {
    const call = fc.record({
      n: fc.nat(5),
      code: fc.constantFrom(...OUTCOMES),
      minute: fc.nat(2),
      tags: fc.uniqueArray(fc.constantFrom("a", "b", "c"), { maxLength: 3 }),
      spent: fc.nat(9),
    });
    fc.assert(
      fc.property(fc.array(call, { maxLength: 200 }), (calls) => {
        const meter = new OutcomeMeter({ bytes: 10_000 * ROW_BYTES, tagSets: 100 });
        const keys = Array.from({ length: 6 }, (_, n) => key(n));
        const naive = new Map<string, number>();
        const add = (id: string, by: number) => void (by > 0 && naive.set(id, (naive.get(id) ?? 0) + by));
        for (const { n, code, minute, tags, spent } of calls) {
          meter.count(keys[n]!, { code, spent }, { now: minute * MINUTE, tags });
          const id = JSON.stringify([minute * MINUTE, `key_${n}`, [...tags].sort()]);
          add(`${id} ${code}`, 1);
          add(`${id} spent`, spent);
        }
        const counted = new Map<string, number>();
        for (const { minute, keyId, tags, counts, spent } of meter.cells()) {
          const id = JSON.stringify([minute, keyId, tags]);
          // A clock that goes back and forth makes a key several rows of one minute.
          const put = (of: string, by: number) => void (by > 0 && counted.set(of, (counted.get(of) ?? 0) + by));
          for (const [i, count] of counts.entries()) put(`${id} ${OUTCOMES[i]}`, count);
          put(`${id} spent`, spent);
        }
        expect(counted).toEqual(naive);
      }),
      { numRuns: runs(200) },
    );
  });
});
