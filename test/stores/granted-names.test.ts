/** The names of a key's grants: sorted lists, merged in steps. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { inSteps } from "../../src/lib/slices.js";
import { grantedNames, mergeSorted, partsOf } from "../../src/stores/granted-names.js";
import { sortUnique } from "../../src/stores/key-record.js";

const noPause = () => undefined;

describe("mergeSorted", () => {
  it("is the sorted set of all items (property)", () => {
    const lists = fc.array(
      fc.array(fc.string({ maxLength: 2 })).map((list) => sortUnique([...list])),
      { maxLength: 9 },
    );
    fc.assert(
      fc.property(lists, (given) => {
        const value = inSteps(mergeSorted(given, noPause));
        expect(value).toEqual([...new Set(given.flat())].sort());
        expect(Object.isFrozen(value)).toBe(true);
      }),
    );
  });
});

describe("grantedNames", () => {
  it("has names of roles sorted, each once, and permissions of both", () => {
    const part = (...permissions: string[]) => ({ permissions, isWhole: true });
    const roles = [
      { name: "z", ...part("b", "c") },
      { name: "a", ...part() },
      { name: "z", ...part("b", "c") },
    ];
    const names = inSteps(grantedNames([part("a", "c")], roles, noPause));
    expect(names).toEqual({ permissions: ["a", "b", "c"], roles: ["a", "z"] });
    expect(inSteps(grantedNames([], [], noPause))).toEqual({ permissions: [], roles: [] });
  });
});

it("partsOf: at most 1,000 in a part, in order", () => {
  const ids = Array.from({ length: 2_001 }, (_, i) => `p${i}`);
  expect(partsOf(ids).map(({ length }) => length)).toEqual([1_000, 1_000, 1]);
  expect(partsOf(ids).flat()).toEqual(ids);
  expect(partsOf([])).toEqual([]);
});
