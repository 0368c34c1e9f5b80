/** The suites that keystile ships, with node:test as their runner. */
import { execFile } from "node:child_process";
import { describe, expect, it } from "vitest";
import { ROOT } from "../structure/source.js";

describe("suites: with node:test, as a stranger runs them", () => {
  const run = (fault: string) =>
    new Promise<{ code: unknown; report: string }>((resolve) => {
      const args = ["--import", "tsx", "--test", "--test-reporter=tap", "test/testing/programs/node-test.ts"];
      const env = { ...process.env, TEST_FAULT: fault };
      execFile(process.execPath, args, { cwd: ROOT, env, maxBuffer: 16 << 20 }, (error, report) =>
        resolve({ code: error?.code ?? 0, report }),
      );
    });

  it("a right store and a right limiter pass, and a wrong store fails, by its clause", async () => {
    const [right, wrong] = await Promise.all([run(""), run("overwrites")]);
    expect(right.report).toMatch(/# fail 0\b/);
    expect(right.code).toBe(0);
    expect(wrong.report).toMatch(/not ok \d+ - clause 13: a write is all or nothing/);
    expect(wrong.code).toBe(1);
  });
});
