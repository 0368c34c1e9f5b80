import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { noPostgres, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { runAlerts } from "./alerts.js";
import { openNode } from "./postgres-support.js";

const exact = { lost: 0, twice: 0 };

describe("alerts of four processes", () => {
  it("SQLite: each crossing is raised and delivered once", async () => {
    const report = await runAlerts(3, 4, undefined, sqliteStore);
    console.log(report);
    expect(report).toEqual({ crossings: 36, deaths: 0, deliveries: 36, ...exact });
  });

  it("SQLite: processes that die around deliveries lose none, and raise none twice", async () => {
    const report = await runAlerts(2, 4, undefined, sqliteStore, { diesAt: 15 });
    console.log(report);
    expect(report).toMatchObject(exact);
    expect(report.deaths).toBeGreaterThan(0);
  }, 150_000);

  it("control: what is raised anew comes twice", async () => {
    const { twice } = await runAlerts(1, 4, undefined, sqliteStore, { forgets: true });
    expect(twice).toBeGreaterThan(0);
  });
});

describe.skipIf(noPostgres !== undefined)("alerts of four processes on a PostgreSQL server", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.close());

  const open = (url: string): Store => {
    const { store, close } = openNode(url);
    return { ...store, close };
  };
  const newDatabase = async (): Promise<string> => {
    const url = await server.newDatabase();
    const { store, close } = openNode(url);
    await store.setUp();
    await close();
    return url;
  };

  it("each crossing is raised and delivered once", async () => {
    const report = await runAlerts(3, 4, await newDatabase(), open);
    console.log(report);
    expect(report).toEqual({ crossings: 36, deaths: 0, deliveries: 36, ...exact });
  });

  it("processes that die around deliveries lose none, and raise none twice", async () => {
    const report = await runAlerts(2, 4, await newDatabase(), open, { diesAt: 15 });
    console.log(report);
    expect(report).toMatchObject(exact);
    expect(report.deaths).toBeGreaterThan(0);
  }, 150_000);
});
