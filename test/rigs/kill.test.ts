import { describe, expect, it } from "vitest";
import { IN_FLIGHT, KEYS, runKills } from "./kill.js";
import { buildWriter } from "./workers.js";

describe("kill -9 at random moments", () => {
  it("exact: no acknowledged deduction is lost, and at most the calls in flight are deducted without an answer (A145)", async () => {
    const report = await runKills(12, { acknowledged: 1_000 });
    expect(report).toMatchObject({ lost: 0, problems: [] });
    expect(report.unanswered).toBeLessThanOrEqual(IN_FLIGHT);
    expect(report.acknowledged).toBeGreaterThan(1_000);
  });

  it("exact, process-durable: the same, for the system lives on", async () => {
    const report = await runKills(4, { seed: 2, durability: "process" });
    expect(report).toMatchObject({ lost: 0, problems: [] });
    expect(report.unanswered).toBeLessThanOrEqual(IN_FLIGHT);
  });

  it("exact, with a writer thread: the same", async () => {
    const report = await runKills(6, { acknowledged: 500, seed: 5, writer: await buildWriter() });
    expect(report).toMatchObject({ lost: 0, problems: [] });
    expect(report.unanswered).toBeLessThanOrEqual(IN_FLIGHT);
    expect(report.acknowledged).toBeGreaterThan(500);
  });

  it("leased: no acknowledged deduction is lost, and a kill strands at most the lease of each key", async () => {
    const size = 100;
    // So long that nothing comes back while the rig runs.
    const report = await runKills(12, { seed: 4, credits: { mode: "leased", size, ttl: 3_600_000 } });
    expect(report).toMatchObject({ lost: 0, problems: [] });
    expect(report.unanswered).toBeLessThanOrEqual(KEYS * size);
  });

  it("control: a store that acknowledges before its commit is found out", async () => {
    const { lost } = await runKills(4, { seed: 3, fault: "acknowledges early" });
    expect(lost).toBeGreaterThan(0);
  });
});
