/** Whose rows they are, and in which order they are walked, compared with plain lists. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NO_ROW, NO_WORKSPACE, WorkspaceRows } from "../../../src/ratelimit/memory/workspace-rows.js";
import { runs } from "../../runs.js";

const ROWS = 40;
const WORKSPACES = ["a", "b", "c", "d"];
const KINDS = [false, true];

/** By workspace and kind: the rows from where the next walk starts, in its order. */
type Rings = Map<string, number[]>;
const nameOf = (workspaceId: string, isAdHoc: boolean): string => `${workspaceId} ${isAdHoc}`;

/** Compares all that the table says with the plain lists. */
function expectRings(rows: WorkspaceRows, rings: Rings): void {
  const numbers: number[] = [];
  let [held, heldAdHoc] = [0, 0];
  for (const id of WORKSPACES) {
    const [own, adHoc] = KINDS.map((isAdHoc) => rings.get(nameOf(id, isAdHoc)) ?? []) as [number[], number[]];
    const workspace = rows.numberOf(id);
    expect(workspace === NO_WORKSPACE).toBe(own.length + adHoc.length === 0);
    if (workspace === NO_WORKSPACE) continue;
    numbers.push(workspace);
    expect([rows.all.countOf(workspace), rows.adHoc.countOf(workspace)]).toEqual([
      own.length + adHoc.length,
      adHoc.length,
    ]);
    for (const [isAdHoc, expected] of [
      [false, own],
      [true, adHoc],
    ] as const) {
      const walked: number[] = [];
      let row = rows.handOf(workspace, isAdHoc);
      expect(row === NO_ROW).toBe(expected.length === 0);
      for (; walked.length < expected.length; row = rows.after(row)) walked.push(row);
      expect(walked).toEqual(expected);
      // A walk ends where it began.
      if (expected.length > 0) expect(row).toBe(expected[0]);
      for (const one of expected) expect(rows.isAdHoc(one)).toBe(isAdHoc);
    }
    held += own.length + adHoc.length;
    heldAdHoc += adHoc.length;
  }
  expect(new Set(numbers).size).toBe(numbers.length);
  for (const number of numbers) expect(number).toBeLessThan(WORKSPACES.length);
  expect([rows.all.total, rows.all.holders, rows.adHoc.total]).toEqual([held, numbers.length, heldAdHoc]);
}

describe("WorkspaceRows: like lists of rows", () => {
  it("walks the rows of each workspace and kind in turn, the newest last, whatever comes and goes", () => {
    const step = fc.record({
      row: fc.nat(ROWS - 1),
      workspaceId: fc.constantFrom(...WORKSPACES),
      isAdHoc: fc.boolean(),
      isWalked: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const rows = new WorkspaceRows(8);
        rows.widen(ROWS);
        const rings: Rings = new Map();
        const ringOfRow = new Map<number, string>();
        for (const { row, workspaceId, isAdHoc, isWalked } of steps) {
          const name = ringOfRow.get(row);
          if (name === undefined) {
            const joined = nameOf(workspaceId, isAdHoc);
            rows.add(row, workspaceId, isAdHoc);
            ringOfRow.set(row, joined);
            rings.set(joined, [...(rings.get(joined) ?? []), row]);
          } else {
            const ring = rings.get(name)!;
            const at = ring.indexOf(row);
            if (isWalked) {
              rows.stopAt(row);
              rings.set(name, [...ring.slice(at), ...ring.slice(0, at)]);
            } else {
              rows.remove(row);
              ringOfRow.delete(row);
              rings.set(name, [...ring.slice(0, at), ...ring.slice(at + 1)]);
            }
          }
          expectRings(rows, rings);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  it("keeps its rows when it grows, and says of no other that somebody holds it", () => {
    const rows = new WorkspaceRows(3);
    const walk = (): number[] => {
      const workspace = rows.numberOf("a");
      const first = rows.handOf(workspace, false);
      return [first, rows.after(first), rows.after(rows.after(first))];
    };
    for (const row of [2, 0, 1]) rows.add(row, "a", false);
    expect(walk()).toEqual([2, 0, 1]);
    rows.widen(100);
    expect(walk()).toEqual([2, 0, 1]);
    rows.add(99, "b", true);
    expect([rows.isAdHoc(99), rows.isAdHoc(0), rows.isAdHoc(50)]).toEqual([true, false, false]);
    expect([rows.numberOf("c"), rows.handOf(rows.numberOf("a"), true), rows.handOf(NO_WORKSPACE, false)]).toEqual([
      NO_WORKSPACE,
      NO_ROW,
      NO_ROW,
    ]);
  });
});
