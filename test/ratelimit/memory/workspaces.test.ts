/** Whose buckets they are, and in which order they are walked, compared with plain lists. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Ring, type RowRings, Workspaces } from "../../../src/ratelimit/memory/workspaces.js";
import { runs } from "../../runs.js";

const WORKSPACES = ["a", "b", "c", "d"];
/** A row and whose it is. */
interface Owned {
  readonly row: number;
  readonly workspaceId: string;
  readonly isAdHoc: boolean;
}

/** Plain lists by row. */
function plainRings(): RowRings {
  const rings: [ring: number, index: number][] = [];
  return {
    ringOf: (row) => rings[row]![0],
    indexOf: (row) => rings[row]![1],
    setRing: (row, ring, index) => void (rings[row] = [ring, index]),
  };
}

/** Compares all that is said with the list of buckets. */
function expectHeld(workspaces: Workspaces, held: readonly Owned[]): void {
  for (const id of WORKSPACES) {
    const own = held.filter(({ workspaceId }) => workspaceId === id);
    const workspace = workspaces.find(id);
    expect(workspace === undefined).toBe(own.length === 0);
    if (workspace === undefined) continue;
    const adHoc = own.filter(({ isAdHoc }) => isAdHoc);
    expect([workspaces.all.countOf(workspace), workspaces.adHoc.countOf(workspace)]).toEqual([
      own.length,
      adHoc.length,
    ]);
    for (const [ring, expected] of [
      [workspace.lasting, own.filter((one) => !adHoc.includes(one))],
      [workspace.adHoc, adHoc],
    ] as const) {
      const walked = Array.from({ length: ring.size }, () => ring.next());
      expect(new Set(walked)).toEqual(new Set(expected.map(({ row }) => row)));
      expect(walked).toHaveLength(expected.length);
    }
  }
  for (const { row, isAdHoc } of held) expect(workspaces.isAdHoc(row)).toBe(isAdHoc);
  const holders = new Set(held.map(({ workspaceId }) => workspaceId));
  const heldAdHoc = held.filter(({ isAdHoc }) => isAdHoc).length;
  expect([workspaces.all.total, workspaces.all.holders, workspaces.adHoc.total]).toEqual([
    held.length,
    holders.size,
    heldAdHoc,
  ]);
}

describe("Workspaces: like a list of buckets", () => {
  it("one round of a walk meets each bucket of a workspace and a kind once, whatever came and went", () => {
    const step = fc.record({ workspaceId: fc.constantFrom(...WORKSPACES), isAdHoc: fc.boolean(), gone: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const workspaces = new Workspaces(plainRings());
        const held: Owned[] = [];
        let row = 0;
        for (const { workspaceId, isAdHoc, gone } of steps) {
          if (gone === 0 && held.length > 0) {
            const [bucket] = held.splice(held.length >> 1, 1);
            workspaces.remove(bucket!.row);
          } else {
            held.push({ row, workspaceId, isAdHoc });
            workspaces.add(row++, workspaceId, isAdHoc);
          }
          expectHeld(workspaces, held);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  it("a workspace that holds nothing any more is forgotten", () => {
    const workspaces = new Workspaces(plainRings());
    workspaces.add(0, "a", false);
    workspaces.add(1, "a", true);
    workspaces.remove(0);
    expect(workspaces.find("a")).toBeDefined();
    workspaces.remove(1);
    expect([workspaces.find("a"), workspaces.all.largest()]).toEqual([undefined, undefined]);
  });
});

describe("Ring: a walk", () => {
  it("goes on from where it stopped, and meets what came meanwhile before it starts again", () => {
    const ring = new Ring(0, plainRings());
    for (const row of [1, 2, 3]) ring.add(row);
    const walk = (steps: number): number[] => Array.from({ length: steps }, () => ring.next());
    expect(walk(2)).toEqual([1, 2]);
    ring.add(4);
    expect(walk(4)).toEqual([3, 4, 1, 2]);
    ring.remove(1);
    expect(walk(3).sort()).toEqual([2, 3, 4]);
  });
});
