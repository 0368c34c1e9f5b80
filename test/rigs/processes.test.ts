import { describe, expect, it } from "vitest";
import { runProcesses } from "./processes.js";

const CREDITS = 20_000;

describe("processes on one SQLite file", () => {
  it.each([1, 8])(
    "exact: 4 processes with 20,000 credits of %i keys grant exactly 20,000, and no lock shows",
    async (keys) => {
      for (let attempt = 1; ; attempt++) {
        const report = await runProcesses(4, CREDITS, { keys });
        expect(report).toMatchObject({ granted: CREDITS, balance: 0, errors: [] });
        // One that was first and took all shows nothing.
        if (report.perProcess.filter((granted) => granted > 0).length > 1) return;
        expect(attempt).toBeLessThan(5);
      }
    },
  );

  it("leased: 4 nodes never grant more, and after their close all was granted or came back", async () => {
    const { granted, balance, errors } = await runProcesses(4, CREDITS, { credits: { mode: "leased", size: 400 } });
    expect(errors).toEqual([]);
    expect(granted).toBeLessThanOrEqual(CREDITS);
    expect(granted + balance).toBe(CREDITS);
    expect(granted).toBeGreaterThan(CREDITS / 2);
  });

  it("control: processes that read a balance and then write it are granted more", async () => {
    const { granted } = await runProcesses(4, 2_000, { readsThenWrites: true });
    expect(granted).toBeGreaterThan(2_000);
  });
});
