import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPostgres, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { runChanges } from "./postgres-changes.js";

describe.skipIf(noPostgres !== undefined)("the change log on PostgreSQL", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.close());

  it("tells whatever is committed within the bound; a reader by sequence loses some", async () => {
    const report = await runChanges(server, 1_500);
    console.log(report);
    expect(report).toMatchObject({ lost: 0, invented: 0 });
    expect(report.max).toBeLessThanOrEqual(2_000);
    expect(report.rolledBack).toBeGreaterThan(50);
    // The control: it sees 8 before 7 is committed, and never 7.
    expect(report.lostBySequence).toBeGreaterThan(0);
  });
});
