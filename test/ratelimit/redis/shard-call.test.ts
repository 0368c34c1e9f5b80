/** How long calls with many limits take to put together. */
import { describe, expect, it } from "vitest";
import { createShardCalls, toWords } from "../../../src/ratelimit/redis/shard-call.js";
import { check } from "./support.js";

describe("createShardCalls", () => {
  const toShardCalls = createShardCalls("keystile:");
  const milliseconds = (run: () => unknown): number => {
    const began = performance.now();
    run();
    return performance.now() - began;
  };
  const fastest = (run: () => unknown): number => Math.min(...Array.from({ length: 5 }, () => milliseconds(run)));

  it.each([
    ["of one shard", undefined],
    ["of a shard each", "each"],
  ])("sixteen times as many limits %s take nowhere near 256 times as long", (_, kind) => {
    const checks = Array.from({ length: 4_000 }, (_each, n) =>
      check({ bucket: `key_1 ${"x".repeat(100)}${n}`, ...(kind === undefined ? {} : { shard: `${kind}${n}` }) }),
    );
    const some = checks.slice(0, 250);
    fastest(() => toShardCalls(some));
    // A busy host makes one measurement long; all of them only what is slow itself.
    const ratios = Array.from(
      { length: 12 },
      () => fastest(() => toShardCalls(checks)) / fastest(() => toShardCalls(some)),
    );
    expect(Math.min(...ratios)).toBeLessThan(64);
  });

  it("checks of one bucket share its key, few or many", () => {
    for (const length of [3, 8, 9, 40]) {
      const [call] = toShardCalls(Array.from({ length }, (_, n) => check({ bucket: `key_1 ${n % 2}` })));
      expect(call!.keys).toEqual(["keystile:{key_1}:key_1 0", "keystile:{key_1}:key_1 1"]);
      expect(toWords(["EVAL", "script"], call!, { header: "take" }).at(-1)).toBe(
        Array.from({ length }, (_, n) => `${(n % 2) + 1} `).join(""),
      );
    }
  });
});
