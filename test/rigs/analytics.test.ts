import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { postgresStore } from "../../src/stores/postgres/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { noPostgres, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { runCounting } from "./analytics.js";

describe("counts of processes that are killed", () => {
  it("SQLite: none twice, and a kill loses no more than an interval; credits add up", async () => {
    const report = await runCounting(9, 3, undefined, sqliteStore);
    console.log(report);
    expect(report).toMatchObject({ twice: 0, lost: 0, unbalanced: 0 });
    expect(report.counted).toBeGreaterThan(report.answered / 3);
  });

  it("control: flushes without ids are counted twice", async () => {
    const { twice } = await runCounting(3, 3, undefined, sqliteStore, { seed: 2, forgetsIds: true });
    expect(twice).toBeGreaterThan(0);
  });
});

describe.skipIf(noPostgres !== undefined)("counts of killed processes on a PostgreSQL server", () => {
  let server: TestPostgres;
  let pool: pg.Pool;
  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: server.url, max: 4 });
    const store = postgresStore(pool);
    await store.setUp();
    await store.close();
  });
  afterAll(async () => {
    await pool.end();
    await server.close();
  });

  it("none twice, and a kill loses no more than an interval; credits add up", async () => {
    const report = await runCounting(9, 3, server.url, () => postgresStore(pool));
    console.log(report);
    expect(report).toMatchObject({ twice: 0, lost: 0, unbalanced: 0 });
    expect(report.counted).toBeGreaterThan(report.answered / 3);
  });
});
