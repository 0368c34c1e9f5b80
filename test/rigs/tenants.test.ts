import { describe, expect, it } from "vitest";
import { PLANTED_TURN_MS, runTenants } from "./tenants.js";

/** Sixteen of the worst requests at once, on a machine that does other things besides; one alone takes a tenth. */
const MOST_TURN_MS = 1_000;

describe("tenants: the worst requests of some refuse and slow down nobody else", () => {
  it("every answer is bounded, nothing fails, nothing grows, and nothing of the others is refused", async () => {
    const report = await runTenants(1);
    expect(report).toMatchObject({ faults: 0, refused: 0, permissionsLeft: 0 });
    expect(report.calls).toBeGreaterThan(50);
    expect(report.longestAnswer).toBeLessThanOrEqual(4 * 1_048_576);
    expect(report.slowestTurnMs, report.slowestAttack).toBeLessThan(MOST_TURN_MS);
  });

  it("control: without shares of the limiter's memory the others are refused", async () => {
    expect((await runTenants(1, "no share")).refused).toBeGreaterThan(0);
  });

  it("control: a turn that is too long is seen", async () => {
    expect((await runTenants(1, "a long turn")).slowestTurnMs).toBeGreaterThanOrEqual(PLANTED_TURN_MS);
  });
});
