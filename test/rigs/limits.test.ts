import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { limiterSuite } from "../ratelimit/suite.js";
import { limitersOnFiles } from "../stores/sqlite/limits/support.js";
import { noRedis, startRedis, type TestRedis } from "../servers/redis.js";
import { runLimits, runRedisLimits } from "./limits.js";

const LIMIT = 1_000;

limiterSuite("SQLite, two handles of one file in turn", limitersOnFiles(2));

describe("processes that share rate limits in a file", () => {
  it("4 processes with clocks 80 ms apart are granted exactly the limit and what refills", async () => {
    for (let attempt = 1; ; attempt++) {
      const report = await runLimits(LIMIT);
      expect(report.errors).toEqual([]);
      expect(report.granted).toBeGreaterThanOrEqual(LIMIT);
      expect(report.granted).toBeLessThanOrEqual(report.most);
      // One that was first and took all shows nothing.
      if (report.perProcess.filter((granted) => granted > 0).length > 1) return;
      expect(attempt).toBeLessThan(5);
    }
  });

  it("one that is killed and started again finds what was taken, and loses at most the calls in flight", async () => {
    const report = await runLimits(LIMIT, { kills: 20 });
    expect(report.errors).toEqual([]);
    expect(report.perProcess[0]).toBeGreaterThanOrEqual(20);
    expect(report.granted).toBeLessThanOrEqual(report.most);
    expect(report.granted).toBeGreaterThanOrEqual(LIMIT - report.untold);
  });

  it("control: processes that read a bucket and then take from it are granted more", async () => {
    const report = await runLimits(200, { readsThenTakes: true });
    expect(report.granted).toBeGreaterThan(report.most);
  });
});

describe.skipIf(noRedis !== undefined)("processes that share rate limits in Redis", () => {
  let redis: TestRedis;
  beforeEach(async () => {
    redis = await startRedis();
    await redis.cli("flushall");
  });
  afterEach(() => redis.close());

  it("4 processes are granted exactly the limit and what refills", async () => {
    const report = await runRedisLimits(redis.url, LIMIT);
    expect(report.errors).toEqual([]);
    expect(report.granted).toBeGreaterThanOrEqual(LIMIT);
    expect(report.granted).toBeLessThanOrEqual(report.most);
    expect(report.perProcess.filter((granted) => granted > 0).length).toBeGreaterThan(1);
  });

  it("control: processes that get a count and then set it are granted more", async () => {
    const report = await runRedisLimits(redis.url, LIMIT, true);
    expect(report.granted).toBeGreaterThan(report.most);
  });
});
