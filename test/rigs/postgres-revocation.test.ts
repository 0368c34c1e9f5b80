import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPgbouncer, noPostgres, startPgbouncer, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { runRemoteRevocations, runStops } from "./postgres-revocation.js";

/** Of so many the 99th percentile is the longest but one. */
const REVOCATIONS = 100;
/** Each takes half a second, until the next poll; `npm run rigs -- postgres-revocation` has more. */
const POLLED = 6;

describe.skipIf(noPostgres !== undefined)("a revocation by another node on one PostgreSQL server", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.close());

  it("is known within 50 ms where the node listens", { timeout: 120_000 }, async () => {
    const report = await runRemoteRevocations(server, REVOCATIONS, "alive");
    console.log(report);
    expect(report.p99).toBeLessThanOrEqual(50);
    expect(report.max).toBeLessThanOrEqual(2_000);
  });

  it("is known within 600 ms where the listener was killed", { timeout: 300_000 }, async () => {
    const report = await runRemoteRevocations(server, POLLED, "killed");
    console.log(report);
    expect(report.p99).toBeLessThanOrEqual(600);
    expect(report.max).toBeLessThanOrEqual(2_000);
  });

  it.skipIf(noPgbouncer !== undefined)("is known within 600 ms through pgbouncer", { timeout: 300_000 }, async () => {
    const through = await startPgbouncer(server);
    try {
      const report = await runRemoteRevocations(server, POLLED, { through });
      console.log(report);
      expect(report.p99).toBeLessThanOrEqual(600);
      expect(report.max).toBeLessThanOrEqual(2_000);
    } finally {
      await through.close();
    }
  });

  it("control: a node that polls every second and a half, and whose listener was killed, is found out", async () => {
    // The second change comes just after the poll that told of the first.
    const { p99 } = await runRemoteRevocations(server, 2, "killed", { bound: 10_000, poll: 1_500 });
    expect(p99).toBeGreaterThan(600);
  });

  it("is known to the first verification of a node that was stopped for 3 s", { timeout: 120_000 }, async () => {
    const report = await runStops(server, 5);
    console.log(report);
    expect(report.passed).toBe(0);
    expect(report.judged).toBeGreaterThan(100);
  });

  it("control: a node that was stopped for less than the bound trusts what it remembers", async () => {
    // On a busy host it may be stopped for longer than asked.
    for (let attempt = 1; (await runStops(server, 1, { stoppedMs: 1_100 })).passed === 0; attempt++)
      expect(attempt).toBeLessThan(4);
  });
});
