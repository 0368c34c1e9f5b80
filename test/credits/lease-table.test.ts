import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { KeyRef } from "../../src/contracts/store.js";
import { LeaseTable } from "../../src/credits/lease-table.js";
import { NONE } from "../../src/lib/fingerprint-index.js";

const MOST = Number.MAX_SAFE_INTEGER;

/** A book with one lease. */
function held(ref: KeyRef, credits: number, beyond = 0, generation = 1): { book: LeaseTable; entry: number } {
  const book = new LeaseTable(10);
  const entry = book.add(ref);
  book.deposit(entry, generation, credits, beyond);
  return { book, entry };
}

describe("LeaseBook: taking", () => {
  it("takes what is in hand and answers what is left, in hand and beyond", () => {
    const { book, entry } = held(7, 10, 90);
    expect(book.take(entry, 7, 1, 4)).toBe(96);
    expect(book.take(entry, 7, 1, 0)).toBe(96);
    expect(book.take(entry, 7, 1, 7)).toBe(NONE);
    expect(book.take(entry, 7, 1, 6)).toBe(90);
    expect(book.withdraw(entry)).toBe(0);
  });

  it.each([-1, NaN, -Infinity, Infinity])("a cost of %s takes nothing and gives nothing", (cost) => {
    const { book, entry } = held(7, 10);
    expect(book.take(entry, 7, 1, cost)).toBe(NONE);
    expect(book.withdraw(entry)).toBe(10);
  });

  it("what is taken out cannot be spent, and still counts as left", () => {
    const { book, entry } = held(7, 10, 90);
    expect([book.withdraw(entry), book.withdraw(entry)]).toEqual([10, 0]);
    expect(book.take(entry, 7, 1, 1)).toBe(NONE);
    expect(book.take(entry, 7, 1, 0)).toBe(100);
    expect(book.deposit(entry, 1, 12, 80)).toBe(92);
    expect(book.take(entry, 7, 1, 12)).toBe(80);
  });

  it("port clause 14: credits of an older generation are void; those of a newer one are not", () => {
    const { book, entry } = held(7, 10, 0, 3);
    expect(book.take(entry, 7, 4, 1)).toBe(NONE);
    expect(book.take(entry, 7, 2, 1)).toBe(9);
    book.deposit(entry, 5, 2, 40);
    expect(book.take(entry, 7, 5, 1)).toBe(41);
    expect(book.take(entry, 7, 5, 2)).toBe(NONE);
  });

  it("port clause 3: credits to 2^53 − 1 are exact", () => {
    const { book, entry } = held(7, MOST - 1, 1);
    expect(book.take(entry, 7, 1, 1)).toBe(MOST - 1);
    expect(book.take(entry, 7, 1, MOST - 2)).toBe(1);
    const other = held(7, 0, 0, MOST - 1);
    expect(other.book.take(other.entry, 7, MOST, 0)).toBe(NONE);
  });

  it.each([
    ["numbers", 7, 8],
    ["texts", "seven", "eight"],
    ["a number and a text", 7, "7"],
    ["fractions", 0.5, 1.5],
  ])("nothing is taken at the place of another key's lease: %s", (_what, one, two) => {
    const { book, entry } = held(one, 10);
    expect(book.take(entry, two, 1, 1)).toBe(NONE);
    book.remove(entry);
    expect(book.take(entry, one, 1, 1)).toBe(NONE);
    expect(book.add(two)).toBe(entry);
    book.deposit(entry, 1, 5, 0);
    expect(book.take(entry, one, 1, 1)).toBe(NONE);
    expect(book.take(entry, two, 1, 1)).toBe(4);
  });

  it("an empty book, and a place beyond its end, hold nothing", () => {
    const book = new LeaseTable(3);
    expect(book.capacity).toBe(3);
    for (const entry of [0, 2, 3, 1_000]) for (const ref of [0, 1, "k"]) expect(book.take(entry, ref, 0, 0)).toBe(NONE);
  });
});

describe("LeaseBook: refs", () => {
  it("a lease is found by any kind of ref, and by no other", () => {
    const refs: KeyRef[] = [
      0,
      1,
      -1,
      2 ** 31,
      2 ** 32 - 1,
      2 ** 32,
      2 ** 32 + 1,
      MOST,
      -MOST,
      0.5,
      2 ** 60,
      Infinity,
      "",
      "0",
      "1",
      "__proto__",
      "Ł",
    ];
    const book = new LeaseTable(100);
    for (const [i, ref] of refs.entries()) {
      expect(book.find(ref), String(ref)).toBe(NONE);
      book.deposit(book.add(ref), 1, i, 0);
    }
    for (const [i, ref] of refs.entries()) {
      const entry = book.find(ref);
      expect(book.ref(entry)).toBe(ref);
      expect(book.take(entry, ref, 1, 0), String(ref)).toBe(i);
    }
    expect(book.find(-0)).toBe(book.find(0));
    for (const ref of refs) book.remove(book.find(ref));
    expect(book.count).toBe(0);
    for (const ref of refs) expect(book.find(ref)).toBe(NONE);
  });

  it("a new lease has nothing of the one that was in its place", () => {
    const { book, entry } = held("a", 10, 90, 4);
    book.remove(entry);
    expect(book.add(1)).toBe(entry);
    expect([book.withdraw(entry), book.generation(entry), book.ref(entry)]).toEqual([0, 0, 1]);
    expect(book.take(entry, 1, 0, 0)).toBe(0);
  });
});

describe("LeaseBook: turns", () => {
  it("at the bound who came first has its turn first, and a newcomer waits a whole round", () => {
    const book = new LeaseTable(3);
    for (const ref of [10, 11, 12]) book.add(ref);
    const gone = [13, 14, 15, 16, 17].map((newcomer) => {
      const entry = book.next();
      const ref = book.ref(entry);
      book.remove(entry);
      book.add(newcomer);
      return ref;
    });
    expect(gone).toEqual([10, 11, 12, 13, 14]);
  });

  it("a lease rests when it was not used since it was last asked; a free place does not", () => {
    const { book, entry } = held(7, 10);
    expect([book.markIdle(entry), book.markIdle(entry), book.markIdle(entry)]).toEqual([false, true, true]);
    book.take(entry, 7, 1, 1);
    expect([book.markIdle(entry), book.markIdle(entry)]).toEqual([false, true]);
    book.take(entry, 7, 1, 100);
    expect(book.markIdle(entry)).toBe(true);
    book.remove(entry);
    expect(book.markIdle(entry)).toBe(false);
    expect(book.has(entry)).toBe(false);
  });
});

/** The obvious twin of a lease. */
interface Twin {
  inHand: number;
  beyond: number;
  generation: number;
  used: boolean;
}

describe("LeaseBook: against a Map of objects", () => {
  const ref = fc.oneof(
    fc.nat({ max: 40 }),
    fc.nat({ max: 40 }).map((n) => (n - 20) * 2 ** 40),
    fc.nat({ max: 40 }).map((n) => `key_${n}`),
  );
  const step = fc.record({
    kind: fc.nat({ max: 9 }),
    ref,
    amount: fc.nat({ max: 20 }),
    generation: fc.nat({ max: 3 }),
  });

  it("any history: the same leases with the same credits, wherever an account remembers one", () => {
    const seen = { taken: 0, refused: 0 };
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: "max" }), fc.integer({ min: 1, max: 80 }), (steps, bound) => {
        const book = new LeaseTable(bound);
        const twins = new Map<KeyRef, Twin>();
        /** Where each lease was found last, as accounts remember it. */
        const places = new Map<KeyRef, number>();
        for (const { kind, ref, amount, generation } of steps) {
          const entry = book.find(ref);
          const twin = twins.get(ref);
          expect(entry !== NONE).toBe(twin !== undefined);
          if (twin === undefined) {
            expect(book.take(places.get(ref) ?? 0, ref, generation, 0)).toBe(NONE);
            if (kind < 2 || twins.size >= bound) continue;
            const begun = book.add(ref);
            book.deposit(begun, generation, amount, 100);
            places.set(ref, begun);
            twins.set(ref, { inHand: amount, beyond: 100, generation, used: true });
          } else if (kind === 0) {
            book.remove(entry);
            twins.delete(ref);
          } else if (kind === 1) {
            expect(book.withdraw(entry)).toBe(twin.inHand);
            expect(book.take(entry, ref, 0, 0)).toBe(twin.inHand + twin.beyond);
            expect(book.deposit(entry, generation, amount, 50)).toBe(amount + 50);
            Object.assign(twin, { inHand: amount, beyond: 50, generation, used: true });
          } else if (kind === 2) {
            expect(book.markIdle(entry)).toBe(!twin.used);
            twin.used = false;
          } else {
            const may = twin.inHand >= amount && twin.generation >= generation;
            if (may) Object.assign(twin, { inHand: twin.inHand - amount, used: true });
            expect(book.take(places.get(ref)!, ref, generation, amount)).toBe(may ? twin.inHand + twin.beyond : NONE);
            seen[may ? "taken" : "refused"]++;
          }
        }
        expect(book.count).toBe(twins.size);
        const entries = Array.from({ length: book.capacity }, (_, entry) => entry).filter((entry) => book.has(entry));
        expect(new Set(entries.map((entry) => book.ref(entry)))).toEqual(new Set(twins.keys()));
        for (const entry of entries) {
          const { inHand, generation } = twins.get(book.ref(entry))!;
          expect([book.withdraw(entry), book.generation(entry)]).toEqual([inHand, generation]);
        }
      }),
      { numRuns: 200 },
    );
    expect(Math.min(seen.taken, seen.refused)).toBeGreaterThan(1_000);
  });
});

describe("LeaseBook: where memory is short", () => {
  it("a lease that finds no room is not there, and those that come later are kept", () => {
    const book = new LeaseTable(1_000);
    const { capacity } = book;
    for (let ref = 1; ref <= capacity; ref++) book.add(ref);
    const Short = new Proxy(Float64Array, {
      construct: () => {
        throw new RangeError("Array buffer allocation failed");
      },
    });
    vi.stubGlobal("Float64Array", Short);
    expect(() => book.add(5_000)).toThrow(RangeError);
    vi.unstubAllGlobals();
    expect([book.find(5_000), book.count]).toEqual([NONE, capacity]);
    for (const ref of [6_000, 5_000]) {
      const entry = book.add(ref);
      book.deposit(entry, 1, 10, 0);
      expect(book.take(entry, ref, 1, 4)).toBe(6);
    }
  });
});
