import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPostgresServer, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { IN_FLIGHT, runCrashes, runFailover, runKilledProcess, runNetworkFaults } from "./postgres-faults.js";

describe.skipIf(noPostgresServer !== undefined)("PostgreSQL, stopped and cut off under load", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.close());

  it("crashes of the server: no acknowledged deduction is lost", { timeout: 200_000 }, async () => {
    const report = await runCrashes(server, 4);
    console.log(report);
    expect(report).toMatchObject({ lost: 0, leaks: [] });
    expect(report.extra).toBeLessThanOrEqual(IN_FLIGHT);
    expect(report.grantsAfter).toBeLessThanOrEqual(1_000);
    expect(report.acknowledged).toBeGreaterThan(500);
    expect(report.kinds["STORE_UNAVAILABLE"]).toBeGreaterThan(0);
  });

  it("control: what is acknowledged before it is on the disk is lost", { timeout: 200_000 }, async () => {
    for (let attempt = 1; ; attempt++) {
      const { lost } = await runCrashes(server, 1, { durability: "process" });
      if (lost > 0) return;
      expect(attempt).toBeLessThan(4);
    }
  });

  it("one process of the server killed: numbers of transactions are used again, and hide no change", async () => {
    for (let attempt = 1; ; attempt++) {
      const report = await runKilledProcess(server);
      console.log(report);
      expect(report).toMatchObject({ codes: ["DISABLED", "DISABLED", "DISABLED"], resets: 1 });
      if (report.usedAgain > 10) return;
      expect(attempt).toBeLessThan(5);
    }
  });

  it("a network that cuts, refuses, delays, stalls and loses", { timeout: 200_000 }, async () => {
    const report = await runNetworkFaults(server, { timeout: 600, lasting: 1_500 });
    console.log(JSON.stringify(report, null, 1));
    expect(report).toMatchObject({ lost: 0, leaks: [] });
    for (const [fault, { slowest, grantsAfter, hostDelay }] of Object.entries(report.faults)) {
      expect(slowest, fault).toBeLessThanOrEqual(report.timeout + 250 + hostDelay);
      expect(grantsAfter, fault).toBeLessThanOrEqual(2 * report.timeout + hostDelay);
    }
    // Each was said to be of unknown outcome.
    expect(report.extra).toBeLessThanOrEqual(report.kinds["STORE_UNAVAILABLE"] ?? 0);
  });

  it("control: without a deadline calls wait for as long as the network does", { timeout: 200_000 }, async () => {
    const { faults } = await runNetworkFaults(server, { timeout: 3_000, faults: ["stall"] });
    expect(faults["stall"]!.slowest).toBeGreaterThan(2_400);
  });

  it("a synchronous standby takes over: no acknowledged deduction is lost", { timeout: 200_000 }, async () => {
    const report = await runFailover(true);
    console.log(report);
    expect(report).toMatchObject({ lost: 0, leaks: [] });
    expect(report.acknowledged).toBeGreaterThan(100);
    expect(report.resets).toBeGreaterThan(0);
  });

  it(
    "an asynchronous standby takes over: what it had not got is lost, and caches are dropped",
    { timeout: 200_000 },
    async () => {
      for (let attempt = 1; ; attempt++) {
        const report = await runFailover(false);
        console.log(report);
        expect(report.leaks).toEqual([]);
        expect(report.resets).toBeGreaterThan(0);
        expect(report.grantsAfter).toBeLessThanOrEqual(1_000);
        // The control of the one before. A disk that stalls just then has nothing to lose.
        if (report.lost > 0) return;
        expect(attempt).toBeLessThan(4);
      }
    },
  );
});
