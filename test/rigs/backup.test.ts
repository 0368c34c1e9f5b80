import { describe, expect, it } from "vitest";
import { runBackups } from "./backup.js";

describe("backups under two busy writers", () => {
  it("each is whole, adds up, has what was acknowledged before it began, and restores without a credit twice", async () => {
    const report = await runBackups(4);
    expect(report).toMatchObject({ lost: 0, invented: 0, problems: [] });
    expect(report.acknowledged).toBeGreaterThan(1_000);
    expect(report.forfeited).toBeGreaterThan(0);
  });

  it("control: cp of the file alone is found out", async () => {
    const { lost, problems } = await runBackups(4, "cp");
    expect(lost + problems.length).toBeGreaterThan(0);
  });

  it("control: a copy that keeps the leases is found out", async () => {
    const { problems } = await runBackups(2, "VACUUM INTO alone");
    expect(problems).toContain("a lease is left");
  });
});
