import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPostgresServer, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { runTerminations } from "./postgres-terminations.js";

describe.skipIf(noPostgresServer !== undefined)("PostgreSQL ends sessions, fresh ones too", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.close());

  it.each(["a program", "serve"] as const)("%s goes on", { timeout: 100_000 }, async (of) => {
    const report = await runTerminations(server, of, { sessions: 50 });
    console.log(report);
    expect(report.hasEnded).toBe(false);
    expect(report.fresh).toBeGreaterThanOrEqual(50);
    expect(report.failed).toBeGreaterThan(0);
  });

  it("control: a listener that is added a microtask later is too late", { timeout: 100_000 }, async () => {
    const report = await runTerminations(server, "a program", { sessions: 50, isLate: true });
    console.log(report);
    expect(report.hasEnded).toBe(true);
  });
});
