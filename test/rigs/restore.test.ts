import { describe, expect, it } from "vitest";
import { runRestores } from "./restore.js";

describe("restore --force, killed before each call of the file system", () => {
  it("leaves the old database with its log, or the restored one", async () => {
    const report = await runRestores(false);
    expect(report.problems).toEqual([]);
    expect(report.kills).toBeGreaterThan(10);
    expect(Math.min(report.before, report.restored)).toBeGreaterThan(0);
  });

  it("over a backup beside the log of another: what is left is restored or still refused, never a mixture", async () => {
    const report = await runRestores(true);
    expect(report).toMatchObject({ problems: [], before: 0 });
    expect(Math.min(report.refused, report.restored)).toBeGreaterThan(0);
  });

  it("control: a restore that moves the log first is found out", async () => {
    expect((await runRestores(false, "moves the log first")).problems.length).toBeGreaterThan(0);
  });
});
