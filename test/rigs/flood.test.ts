import { describe, expect, it } from "vitest";
import { runFlood } from "./flood.js";

describe("a flood of random keys", () => {
  it("pushes no key out that is in use, found by tags or by digests", async () => {
    for (const by of ["tag", "digest"] as const) {
      const { hot, missed } = await runFlood(40_000, { by });
      expect(hot).toBe(5_000);
      expect(missed).toBe(0);
    }
  });

  it("control: a cache smaller than the keys in use is found out", async () => {
    const { hot, missed } = await runFlood(8_000, { size: 100 });
    expect(missed).toBeGreaterThan(hot / 2);
  });
});
