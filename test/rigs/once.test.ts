import { describe, expect, it } from "vitest";
import { runOnce } from "./once.js";

describe("repeats after kill −9", () => {
  it("each idempotency key has taken one credit, whenever its call was cut off", async () => {
    const report = await runOnce(12);
    expect(report).toMatchObject({ kills: 12, refused: 0 });
    expect(report.acknowledged).toBeGreaterThan(100);
    expect(report.taken).toBe(report.calls);
  }, 120_000);

  it("control: a record that is written after its spend is found out", async () => {
    const { taken, calls } = await runOnce(12, { fault: "records apart" });
    expect(taken).toBeGreaterThan(calls);
  }, 120_000);
});
