import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createReadAhead } from "../../../src/keyring/import/migrate-keys.js";

async function* late(items: Iterable<number>): AsyncGenerator<number> {
  for (const item of items) {
    await new Promise(setImmediate);
    yield item;
  }
}

describe("createReadAhead", () => {
  it("hands out what the source has, in its order, whenever reading was begun (property)", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat()),
        fc.infiniteStream(fc.nat(2)),
        fc.boolean(),
        async (items, starts, isLate) => {
          const reading = createReadAhead(isLate ? late(items) : items, (one) => one * 2);
          const seen: number[] = [];
          for (let one = await reading.next(); one !== undefined; one = await reading.next()) {
            seen.push(one);
            for (let times = starts.next().value as number; times > 0; times--) reading.start();
          }
          expect(seen).toEqual(items.map((one) => one * 2));
          await reading.close();
        },
      ),
    );
  });

  it("reads one ahead and no more", async () => {
    let read = 0;
    const reading = createReadAhead(
      (function* () {
        for (;;) yield ++read;
      })(),
      (one) => one,
    );
    expect(await reading.next()).toBe(1);
    for (let i = 0; i < 3; i++) {
      reading.start();
      await new Promise(setImmediate);
    }
    expect(read).toBe(2);
    expect(await reading.next()).toBe(2);
    expect(read).toBe(2);
  });

  it("throws in its turn what was thrown ahead, and to nobody if nobody asks", async () => {
    const broken = () => {
      throw new Error("broken");
    };
    const reading = createReadAhead([1], broken);
    reading.start();
    await new Promise(setImmediate);
    await expect(reading.next()).rejects.toThrow("broken");
    const unasked = createReadAhead([1], broken);
    unasked.start();
    await unasked.close();
  });

  it("close closes the source, waits while it does, and keeps its faults to itself", async () => {
    let closed = false;
    async function* source() {
      try {
        yield 1;
        yield 2;
      } finally {
        await new Promise(setImmediate);
        closed = true;
        throw new Error("closing failed");
      }
    }
    const reading = createReadAhead(source(), (one) => one);
    await reading.next();
    await reading.close();
    expect(closed).toBe(true);
    await createReadAhead(
      { [Symbol.iterator]: () => ({ next: () => ({ done: true, value: 0 }) }) },
      (one) => one,
    ).close();
  });
});
