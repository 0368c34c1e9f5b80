/** Loads on a real server: all of one is there, or nothing, and nothing else uses the tables meanwhile. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ExportedPage } from "../../../src/stores/codec/exported-rows.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { beginLoad, type PostgresLoad } from "../../../src/stores/postgres/load.js";
import { noPostgres, startPostgres, type TestPostgres } from "../../servers/postgres.js";
import { api, keyRow } from "../../../src/testing/store/rows.js";

const SECRET = "of the source";
const TOTALS = { credited: 100, refilled: 0, adjusted: 0, spent: 0, reserved: 0, forfeited: 0, expired: 0 };
const ACCOUNT = {
  unlimited: false,
  remaining: 100,
  amount: 0,
  period: 0,
  generation: 0,
  rollover: null,
  rollovers: 0,
  returnable: 0,
  ...TOTALS,
};
const KEYS: ExportedPage = {
  kind: "keys",
  rows: [{ number: 1, sharedAccount: undefined, row: keyRow(1, { version: 1, hasCredits: true }), account: ACCOUNT }],
};
const PAGES: readonly ExportedPage[] = [
  { kind: "apis", rows: [api({ version: 1 })] },
  KEYS,
  { kind: "idempotency", rows: [{ id: "once", workspace_id: "ws_1", body: "b", expires: 1_000 }] },
  {
    kind: "audit",
    rows: [
      {
        ...{ number: 1, time: "2026-01-01T00:00:00.000Z", workspace_id: "ws_1", actor_kind: "program", actor: null },
        ...{ operation: "createApi", ids: ["api_1"], fields: [], count: 1 },
      },
    ],
  },
  { kind: "tag_sets", rows: [{ number: 7, workspace_id: "ws_1", tags: "[]", day: 1 }] },
];

/** Less than the five seconds that a load waits by default. */
const TIMEOUT = 600;

describe.skipIf(noPostgres !== undefined)("beginLoad", () => {
  let server: TestPostgres;
  let address: string;
  let pool: pg.Pool;
  let schemas = 0;
  const endings: (() => unknown)[] = [];
  beforeAll(async () => {
    server = await startPostgres();
    address = await server.newDatabase();
    pool = new pg.Pool({ connectionString: address, max: 6 });
    pool.on("error", () => undefined);
  });
  afterEach(async () => {
    for (const end of endings.splice(0)) await end();
  });
  afterAll(async () => {
    await pool?.end();
    await server?.close();
  });

  async function newTables() {
    const schema = `load_${++schemas}`;
    const store = postgresStore(pool, { schema });
    await store.setUp();
    await store.close();
    return schema;
  }
  async function connected(): Promise<pg.Client> {
    const connection = new pg.Client({ connectionString: address });
    connection.on("error", () => undefined);
    endings.push(() => connection.end());
    await connection.connect();
    return connection;
  }
  const begin = async (schema: string, connection?: pg.Client) =>
    beginLoad(connection ?? (await connected()), SECRET, { schema, timeout: TIMEOUT });
  /** Rows of each table that a load fills, as others see them. */
  async function rowsIn(schema: string): Promise<unknown> {
    const tables = ["entities", "keys", "accounts", "idempotency", "idempotency_counts", "audit", "tag_sets"];
    const counts = tables.map((table) => `(SELECT count(*)::int FROM ${schema}.${table}) AS ${table}`);
    return (await pool.query(`SELECT ${counts.join(", ")}`)).rows[0] as unknown;
  }
  const NOTHING = { entities: 0, keys: 0, accounts: 0, idempotency: 0, idempotency_counts: 0, audit: 0, tag_sets: 0 };
  const ALL = { entities: 1, keys: 1, accounts: 1, idempotency: 1, idempotency_counts: 1, audit: 1, tag_sets: 1 };

  it("fills every table at once: nobody sees a row before the end", async () => {
    const schema = await newTables();
    const load = await begin(schema);
    for (const page of PAGES) await load.write(page);
    expect(await load.counts()).toEqual({
      ...{ apis: 1, keys: 1, idempotency: 1, audit: 1, tag_sets: 1, alerts: 0 },
      ...{ subjects: 0, outcomes_hour: 0, outcomes_day: 0, credit_days: 0 },
    });
    expect(await rowsIn(schema)).toEqual(NOTHING);
    await load.finish();
    await load.cancel();
    expect(await rowsIn(schema)).toEqual(ALL);
    const { rows } = await pool.query(`SELECT nextval('${schema}.key_numbers')::int AS n, idempotency_secret AS secret
      FROM ${schema}.meta`);
    expect(rows).toEqual([{ n: 8, secret: SECRET }]);
  });

  it.each([
    ["is cancelled", (load: PostgresLoad) => load.cancel()],
    ["loses its connection", (_load: PostgresLoad, connection: pg.Client) => connection.end()],
  ])("leaves nothing where it %s, and another load begins", async (_what, stop) => {
    const schema = await newTables();
    const connection = await connected();
    const load = await begin(schema, connection);
    for (const page of PAGES) await load.write(page);
    await stop(load, connection);
    const next = await begin(schema);
    expect(await rowsIn(schema)).toEqual(NOTHING);
    for (const page of PAGES) await next.write(page);
    await next.finish();
    expect(await rowsIn(schema)).toEqual(ALL);
  });

  it("of two at once refuses the later one, whether the first goes on or has finished", async () => {
    const schema = await newTables();
    const load = await begin(schema);
    await expect(begin(schema)).rejects.toMatchObject({
      code: "CONFLICT",
      detail: expect.stringContaining("writes to the target") as string,
    });
    const waiting = begin(schema);
    await load.write(KEYS);
    await load.finish();
    await expect(waiting).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(begin(schema)).rejects.toMatchObject({
      code: "CONFLICT",
      detail: expect.stringContaining("was copied to the target before") as string,
    });
  });

  it("a node that is served from the tables writes nothing until the load has ended", async () => {
    const schema = await newTables();
    const load = await begin(schema);
    const node = postgresStore(pool, { schema, timeout: 1_000 });
    endings.push(() => node.close());
    await expect(node.write([{ table: "apis", row: api() }])).rejects.toMatchObject({ code: "STORE_BUSY" });
    for (const page of PAGES) await load.write(page);
    await load.finish();
    await node.pollChanges("anew");
    expect(await node.readMany("apis", ["api_1"])).toMatchObject([{ version: 1 }]);
  });

  it.each([
    ["entities", "(kind, id, workspace_id, version, deleted, body) VALUES ('roles', 'r', 'ws_1', 1, false, '{}')"],
    ["accounts", "VALUES (7, true, 0, 0, 0, 0)"],
    ["idempotency_counts", "VALUES ('ws_1', 0)"],
    ["tag_sets", "(number, workspace_id, tags, day) VALUES (1, 'ws_1', '[]', 1)"],
    // Whatever is left of a store that was used and emptied.
    ["changes", "(what) VALUES ('all')"],
  ])("refuses tables of which %s holds a row", async (table, row) => {
    const schema = await newTables();
    await pool.query(`INSERT INTO ${schema}.${table} ${row}`);
    await expect(begin(schema)).rejects.toMatchObject({
      code: "CONFLICT",
      detail: expect.stringContaining("holds rows already") as string,
    });
  });
});
