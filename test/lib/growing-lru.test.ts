import fc from "fast-check";
import { LRUCache } from "lru-cache";
import { describe, expect, it } from "vitest";
import { GrowingLru } from "../../src/lib/growing-lru.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { memoryStore } from "../../src/stores/memory.js";

describe("GrowingLru", () => {
  it("holds what lru-cache holds, whatever is done with it (property)", () => {
    const key = fc.integer({ min: 0, max: 300 }).map(String);
    const step = fc.oneof(
      { weight: 800, arbitrary: fc.tuple(fc.constant("set" as const), key) },
      { weight: 400, arbitrary: fc.tuple(fc.constant("get" as const), key) },
      { weight: 100, arbitrary: fc.tuple(fc.constant("delete" as const), key) },
      { weight: 1, arbitrary: fc.tuple(fc.constant("clear" as const), key) },
    );
    fc.assert(
      fc.property(fc.constantFrom(1, 31, 33, 200), fc.array(step, { maxLength: 2_000 }), (max, steps) => {
        const [ours, theirs] = [new GrowingLru<{ n: number }>({ max }), new LRUCache<string, { n: number }>({ max })];
        steps.forEach(([what, name], n) => {
          if (what === "clear") [ours, theirs].forEach((cache) => cache.clear());
          else if (what === "set") [ours, theirs].forEach((cache) => void cache.set(name, { n }));
          else expect(ours[what](name)).toEqual(theirs[what](name));
        });
        for (let n = 0; n <= 300; n++) expect(ours.get(String(n))).toEqual(theirs.get(String(n)));
      }),
      { numRuns: 40 },
    );
  });

  it("keeps a bound on the sizes, and the times of what is in it, while it grows", async () => {
    const sized = new GrowingLru<{ n: number }>({ max: 1_000, maxSize: 100, sizeCalculation: () => 1 });
    for (let n = 0; n < 1_000; n++) sized.set(String(n), { n });
    expect([sized.get("899"), sized.get("900")?.n]).toEqual([undefined, 900]);
    let now = 1_000;
    const timed = new GrowingLru<true>({ max: 1_000, ttl: 100, ttlResolution: 0, perf: { now: () => now } });
    timed.set("first", true);
    now += 60;
    for (let n = 0; n < 900; n++) timed.set(String(n), true);
    expect(timed.get("first")).toBe(true);
    now += 60;
    expect([timed.get("first"), timed.get("899")]).toEqual([undefined, true]);
  });
});

describe("T9, T10: verifiers take little before they are used", () => {
  it("changes that concern all keys cost next to nothing where nothing was kept since the last", async () => {
    const store = memoryStore();
    let tell: (change: "all" | "created") => void = () => undefined;
    const verifier = createVerifier({
      ...store,
      subscribe(listener) {
        tell = listener;
        return () => undefined;
      },
    });
    const times = Array.from({ length: 5 }, () => {
      const began = performance.now();
      for (let i = 0; i < 2_000; i++) tell(i % 2 === 0 ? "all" : "created");
      return performance.now() - began;
    });
    // Each took 100 µs: 200 ms in all. A busy machine makes some of the five times long, not all.
    expect(Math.min(...times)).toBeLessThan(60);
    await verifier.close();
  });

  it("making one takes less than 200 kB", () => {
    const store = memoryStore();
    const made = [createVerifier(store)];
    const before = process.memoryUsage();
    for (let i = 0; i < 100; i++) made.push(createVerifier(store));
    const after = process.memoryUsage();
    const bytes = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
    expect(bytes / 100).toBeLessThan(200_000);
    expect(made).toHaveLength(101);
  });
});
