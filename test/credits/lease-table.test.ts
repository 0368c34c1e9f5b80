import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { KeyRef } from "../../src/contracts/store.js";
import { LeaseTable, NO_GENERATION } from "../../src/credits/lease-table.js";
import { NONE } from "../../src/lib/fingerprint-index.js";

const MOST = Number.MAX_SAFE_INTEGER;

/** A book with one lease. */
function held(ref: KeyRef, credits: number, beyond = 0, generation = 1): { book: LeaseTable; entry: number } {
  const book = new LeaseTable(10);
  const entry = book.add(ref, 1);
  book.deposit(entry, credits);
  book.refresh(entry, generation, beyond);
  return { book, entry };
}

describe("LeaseTable: taking", () => {
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
    book.deposit(entry, 12);
    book.refresh(entry, 1, 80);
    expect(book.take(entry, 7, 1, 12)).toBe(80);
  });

  it("port clause 14: credits of an older generation are void; those of a newer one are not", () => {
    const { book, entry } = held(7, 10, 0, 3);
    expect(book.take(entry, 7, 4, 1)).toBe(NONE);
    expect(book.take(entry, 7, 2, 1)).toBe(9);
    expect(book.withdraw(entry)).toBe(9);
    book.deposit(entry, 2);
    book.refresh(entry, 5, 40);
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
    expect(book.add(two, 2)).toBe(entry);
    book.deposit(entry, 5);
    book.refresh(entry, 1, 0);
    expect(book.take(entry, one, 1, 1)).toBe(NONE);
    expect(book.take(entry, two, 1, 1)).toBe(4);
  });

  it("an empty book, and a place beyond its end, hold nothing", () => {
    const book = new LeaseTable(3);
    expect(book.capacity).toBe(3);
    for (const entry of [0, 2, 3, 1_000]) for (const ref of [0, 1, "k"]) expect(book.take(entry, ref, 0, 0)).toBe(NONE);
  });
});

describe("LeaseTable: refs", () => {
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
      const entry = book.add(ref, i + 1);
      book.deposit(entry, i);
      book.refresh(entry, 1, 0);
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
    for (const begin of ["add", "restart"] as const) {
      const { book, entry } = held(1, 10, 90, 4);
      book.take(entry, 1, 4, 3);
      if (begin === "restart") book.restart(entry, 2);
      else {
        book.remove(entry);
        expect(book.add(1, 2)).toBe(entry);
      }
      expect([book.inHand(entry), book.generation(entry), book.ref(entry)]).toEqual([0, NO_GENERATION, 1]);
      expect([book.id(entry), book.spent(entry), book.markIdle(entry)]).toEqual([2, 0, false]);
      // A lease that has drawn nothing is older than any balance.
      expect(book.take(entry, 1, 0, 0)).toBe(NONE);
      expect(book.take(entry, 1, NO_GENERATION, 0)).toBe(0);
    }
  });
});

describe("LeaseTable: turns", () => {
  it("at the bound who came first has its turn first, and a newcomer waits a whole round", () => {
    const book = new LeaseTable(3);
    for (const ref of [10, 11, 12]) book.add(ref, ref);
    const gone = [13, 14, 15, 16, 17].map((newcomer) => {
      const entry = book.next();
      const ref = book.ref(entry);
      book.remove(entry);
      book.add(newcomer, newcomer);
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

/** A lease in the reference implementation. */
interface Reference {
  id: number;
  inHand: number;
  /** In hand as well, and not to be taken. */
  aside: number;
  upstream: number;
  generation: number;
  spent: number;
  used: boolean;
}

describe("LeaseTable: against a Map of objects", () => {
  const ref = fc.oneof(
    fc.nat({ max: 40 }),
    fc.nat({ max: 40 }).map((n) => (n - 20) * 2 ** 40),
    fc.nat({ max: 40 }).map((n) => `key_${n}`),
  );
  const step = fc.record({
    kind: fc.nat({ max: 16 }),
    ref,
    amount: fc.nat({ max: 20 }),
    generation: fc.nat({ max: 3 }),
  });

  it("any history: the same leases with the same numbers, wherever a target remembers one", () => {
    const seen = { taken: 0, refused: 0 };
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: "max" }), fc.integer({ min: 1, max: 80 }), (steps, bound) => {
        const book = new LeaseTable(bound);
        const references = new Map<KeyRef, Reference>();
        /** Where each lease was found last, as targets remember it. */
        const places = new Map<KeyRef, number>();
        let lastId = 0;
        const begun = () => ({
          id: ++lastId,
          inHand: 0,
          aside: 0,
          upstream: 0,
          generation: NO_GENERATION,
          spent: 0,
          used: true,
        });
        for (const { kind, ref, amount, generation } of steps) {
          const entry = book.find(ref);
          const lease = references.get(ref);
          expect(entry !== NONE).toBe(lease !== undefined);
          if (lease === undefined) {
            expect(book.take(places.get(ref) ?? 0, ref, NO_GENERATION, 0)).toBe(NONE);
            if (kind < 2 || references.size >= bound) continue;
            const added = { ...begun(), inHand: amount, upstream: 100, generation };
            const place = book.add(ref, added.id);
            book.deposit(place, amount);
            book.refresh(place, generation, 100);
            places.set(ref, place);
            references.set(ref, added);
          } else if (kind === 0) {
            book.remove(entry);
            references.delete(ref);
          } else if (kind === 1) {
            expect(book.withdraw(entry)).toBe(lease.inHand + lease.aside);
            book.deposit(entry, amount);
            book.refresh(entry, generation, 50);
            Object.assign(lease, { inHand: amount, aside: 0, upstream: 50, generation });
          } else if (kind === 2) {
            expect(book.markIdle(entry)).toBe(!lease.used);
            lease.used = false;
          } else if (kind === 3) {
            book.restart(entry, lastId + 1);
            Object.assign(lease, begun());
          } else if (kind === 4) {
            // A draw that fails.
            const taken = book.withdraw(entry);
            lease.inHand += lease.aside;
            lease.aside = 0;
            expect([taken, book.inHand(entry)]).toEqual([lease.inHand, 0]);
            expect(book.take(entry, ref, NO_GENERATION, 0)).toBe(lease.inHand + lease.upstream);
            lease.used = true;
            book.restore(entry, taken);
          } else if (kind === 5) {
            expect(book.inHand(entry)).toBe(lease.inHand + lease.aside);
          } else if (kind === 6) {
            const all = lease.inHand + lease.aside;
            const aside = Math.min(all, amount);
            book.setAside(entry, aside);
            Object.assign(lease, { inHand: all - aside, aside });
          } else if (kind === 7) {
            expect(book.useSpare(entry)).toBe(lease.aside > 0);
            Object.assign(lease, { inHand: lease.inHand + lease.aside, aside: 0 });
          } else if (kind === 8) {
            // A draw of another call that ends while something is aside.
            book.refresh(entry, generation, 70);
            Object.assign(lease, { upstream: 70, generation });
          } else {
            const may = lease.inHand >= amount && lease.generation >= generation;
            if (may) Object.assign(lease, { inHand: lease.inHand - amount, spent: lease.spent + amount, used: true });
            const left = may ? lease.inHand + lease.aside + lease.upstream : NONE;
            expect(book.take(places.get(ref)!, ref, generation, amount)).toBe(left);
            seen[may ? "taken" : "refused"]++;
          }
        }
        expect(book.count).toBe(references.size);
        const entries = Array.from({ length: book.capacity }, (_, entry) => entry).filter((entry) => book.has(entry));
        expect(new Set(entries.map((entry) => book.ref(entry)))).toEqual(new Set(references.keys()));
        for (const entry of entries) {
          const { id, inHand, aside, generation, spent } = references.get(book.ref(entry))!;
          expect([book.id(entry), book.inHand(entry), book.generation(entry), book.spent(entry)]).toEqual([
            id,
            inHand + aside,
            generation,
            spent,
          ]);
        }
      }),
      { numRuns: 200 },
    );
    expect(Math.min(seen.taken, seen.refused)).toBeGreaterThan(300);
  });
});

describe("LeaseTable: steps", () => {
  it("a key's step outlasts its lease, and is not the next key's; tables that grow keep it and what is aside", () => {
    const book = new LeaseTable(1_000);
    const entry = book.add(7, 1);
    expect(book.step(entry)).toBe(0);
    book.noteStep(entry, 1_000_000_000);
    book.restart(entry, 2);
    book.deposit(entry, 10);
    book.setAside(entry, 4);
    for (let ref = 1_000; ref < 1_900; ref++) book.add(ref, ref);
    expect([book.step(entry), book.inHand(entry), book.withdraw(entry)]).toEqual([1_000_000_000, 10, 10]);
    book.setAside(entry, 0);
    book.remove(entry);
    const other = book.add(8, 3);
    expect([other, book.step(other), book.inHand(other)]).toEqual([entry, 0, 0]);
  });
});

describe("LeaseTable: memory", () => {
  it("grows only when all its places are taken, and no further than its bound", () => {
    const book = new LeaseTable(45);
    const capacities = new Set<number>();
    for (let ref = 1; ref <= 45; ref++) {
      book.add(ref, ref);
      capacities.add(book.capacity);
      expect(book.capacity).toBe(ref <= 32 ? 32 : ref <= 40 ? 40 : 45);
    }
    book.remove(book.find(7));
    book.add(46, 46);
    expect([book.count, book.capacity]).toEqual([45, 45]);
  });
});

describe("LeaseTable: where memory is short", () => {
  it("a lease that finds no space is not there, and those that come later are kept", () => {
    const book = new LeaseTable(1_000);
    const { capacity } = book;
    for (let ref = 1; ref <= capacity; ref++) book.add(ref, ref);
    const Short = new Proxy(Float64Array, {
      construct: () => {
        throw new RangeError("Array buffer allocation failed");
      },
    });
    vi.stubGlobal("Float64Array", Short);
    expect(() => book.add(5_000, 5_000)).toThrow(RangeError);
    vi.unstubAllGlobals();
    expect([book.find(5_000), book.count]).toEqual([NONE, capacity]);
    for (const ref of [6_000, 5_000]) {
      const entry = book.add(ref, ref);
      book.deposit(entry, 10);
      book.refresh(entry, 1, 0);
      expect(book.take(entry, ref, 1, 4)).toBe(6);
    }
  });
});
