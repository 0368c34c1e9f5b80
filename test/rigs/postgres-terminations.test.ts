import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPostgresServer, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { runTerminations } from "./postgres-terminations.js";

describe.skipIf(noPostgresServer !== undefined)("PostgreSQL ends sessions, fresh ones too", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.close());

  it.each([
    ["a program", 3],
    ["serve", 1],
  ] as const)("%s goes on", { timeout: 200_000 }, async (of, runs) => {
    const report = await runTerminations(server, of, { runs, seconds: 5 });
    console.log(report);
    expect(report.exits).toBe(0);
    expect(report.failed).toBeGreaterThan(0);
  });

  it("control: a listener that is added a microtask later is too late", { timeout: 200_000 }, async () => {
    for (let attempt = 1; attempt < 10; attempt++) {
      const { exits } = await runTerminations(server, "a program", { runs: 1, seconds: 15, isLate: true });
      if (exits > 0) return;
    }
    expect.unreachable("no listener was too late");
  });
});
