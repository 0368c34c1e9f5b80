import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createInternTable } from "../../src/cache/intern-table.js";

describe("createInternTable", () => {
  it("answers what its obvious twin, a Map of counts, answers; numbers of objects no longer used are given again", () => {
    const objects = Array.from({ length: 6 }, (_, i) => ({ i }));
    const step = fc.record({ act: fc.constantFrom("take", "take", "release", "clear"), pick: fc.nat(5) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
        const numbered = createInternTable<{ i: number }>(3);
        const twin = new Map<object, { number: number; uses: number }>();
        for (const { act, pick } of steps) {
          const object = objects[pick]!;
          const known = twin.get(object);
          if (act === "clear" && pick === 0) {
            numbered.clear();
            twin.clear();
          } else if (act === "take") {
            const number = numbered.take(object);
            if (known !== undefined) {
              expect(number).toBe(known.number);
              known.uses++;
            } else if (twin.size === 4) expect(number).toBeUndefined();
            else {
              expect([...twin.values()].map((one) => one.number)).not.toContain(number);
              expect(number).toBeLessThanOrEqual(3);
              twin.set(object, { number: number!, uses: 1 });
            }
          } else if (act === "release" && known !== undefined) {
            numbered.release(known.number);
            if (--known.uses === 0) twin.delete(object);
          }
          for (const [one, { number }] of twin) expect(numbered.get(number)).toBe(one);
        }
      }),
    );
  });
});
