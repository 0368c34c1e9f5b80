import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClockHand } from "../../src/lib/clock-hand.js";

describe("ClockHand", () => {
  it("gives each entry one turn a round, also while the table grows and shrinks", () => {
    const hand = new ClockHand();
    const turns = (count: number, entries: number) => Array.from({ length: count }, () => hand.next(entries));
    expect(turns(4, 3)).toEqual([0, 1, 2, 0]);
    expect(turns(4, 5)).toEqual([1, 2, 3, 4]);
    expect(turns(2, 2)).toEqual([0, 1]);
    hand.reset();
    expect(hand.next(9)).toBe(0);
  });

  it("second chance: what was used since its last turn stays, and the others go in turn", () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }), (uses) => {
        const hand = new ClockHand();
        const used = [...uses];
        const mayStay = (entry: number) => {
          const stays = used[entry] === true;
          used[entry] = false;
          return stays;
        };
        const first = uses.indexOf(false);
        expect(hand.nextUnused(uses.length, mayStay)).toBe(Math.max(first, 0));
        // Those that the hand passed have had their chance, and the rest keep theirs.
        expect(used.slice(first + 1)).toEqual(first < 0 ? used : uses.slice(first + 1));
      }),
    );
  });
});
