/** Loads that overtake each other, on a real server: a load writes only until another one has begun. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ExportedPage } from "../../../src/stores/codec/exported-rows.js";
import { type PostgresClient, postgresStore } from "../../../src/stores/postgres/index.js";
import { beginLoad } from "../../../src/stores/postgres/load.js";
import { noPostgres, startPostgres, type TestPostgres, wait } from "../../servers/postgres.js";
import { api, keyRow } from "../../../src/testing/store/rows.js";

const SECRET = "of the source";
const TOTALS = { credited: 100, refilled: 0, adjusted: 0, spent: 0, reserved: 0, forfeited: 0 };
const ACCOUNT = { unlimited: false, remaining: 100, amount: 0, period: 0, generation: 0, ...TOTALS };
const KEYS: ExportedPage = {
  kind: "keys",
  rows: [{ number: 1, sharedAccount: undefined, row: keyRow(1, { version: 1, hasCredits: true }), account: ACCOUNT }],
};
const PAGES: readonly ExportedPage[] = [
  { kind: "apis", rows: [api({ version: 1 })] },
  KEYS,
  { kind: "idempotency", rows: [{ workspaceId: "ws_1", id: "once", body: "b", until: 1_000 }] },
  {
    kind: "audit",
    rows: [
      {
        ...{ number: 1, time: "2026-01-01T00:00:00.000Z", workspaceId: "ws_1", actorKind: "program", actor: null },
        ...{ operation: "createApi", ids: ["api_1"], fields: [], count: 1 },
      },
    ],
  },
  { kind: "tag_sets", rows: [{ number: 7, workspace_id: "ws_1", tags: "[]", day: 1 }] },
];
const OVERTAKEN = { code: "CONFLICT", detail: expect.stringContaining("begun again") as string };

/** Commits what a test that failed still holds. */
const held: (() => void)[] = [];

/** A client that sends the statement which matches in a transaction of its own, and commits it once it is told to. */
function holding(pool: pg.Pool, statement: RegExp) {
  let commit!: () => void;
  const told = new Promise<void>((resolve) => (commit = resolve));
  held.push(commit);
  let sent!: () => void;
  const isSent = new Promise<void>((resolve) => (sent = resolve));
  const client: PostgresClient = {
    async query(text, values) {
      if (!statement.test(text)) return pool.query(text, values);
      const connection = await pool.connect();
      try {
        await connection.query("BEGIN");
        const result = await connection.query(text, values);
        sent();
        await told;
        await connection.query("COMMIT");
        return result;
      } finally {
        connection.release();
      }
    },
  };
  return { client, isSent, commit };
}

describe.skipIf(noPostgres !== undefined)("beginLoad", () => {
  let server: TestPostgres;
  let pool: pg.Pool;
  let schemas = 0;
  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: await server.newDatabase(), max: 6 });
    pool.on("error", () => undefined);
  });
  afterEach(() => {
    for (const commit of held.splice(0)) commit();
  });
  afterAll(async () => {
    await pool?.end();
    await server?.close();
  });

  async function newTables(schema = `load_${++schemas}`) {
    const store = postgresStore(pool, { schema });
    await store.setUp();
    await store.close();
    return { schema };
  }
  /** What is in each table that a load fills, and the number that the next key gets. */
  async function contents(schema: string): Promise<unknown> {
    const rowsOf = (table: string, condition = "true") =>
      `(SELECT coalesce(json_agg(t ORDER BY t::text), '[]') FROM ${schema}.${table} t WHERE ${condition}) AS ${table}`;
    const { rows } = await pool.query(
      `SELECT ${rowsOf("entities", "kind <> 'copy'")}, ${rowsOf("keys")}, ${rowsOf("accounts")}, ${rowsOf("idempotency")},
         ${rowsOf("audit")}, pg_sequence_last_value('${schema}.key_numbers')::text AS number`,
    );
    return rows[0];
  }
  const NOTHING = { entities: [], keys: [], accounts: [], idempotency: [], audit: [], number: null };
  /** Waits until as many sessions of the database wait for a row that another one holds. */
  async function waiting(sessions: number): Promise<void> {
    const text = `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    for (const deadline = performance.now() + 3_000; ; await wait(5)) {
      if (((await pool.query(text)).rows as { n: number }[])[0]!.n === sessions) return;
      if (performance.now() > deadline) throw new Error("no session waits");
    }
  }

  it("fills every table while no other load begins", async () => {
    const { schema } = await newTables();
    const load = await beginLoad(pool, SECRET, { schema });
    // The same page again does no harm.
    for (const page of [...PAGES, ...PAGES]) await load.write(page);
    expect(await load.counts()).toEqual({
      ...{ apis: 1, keys: 1, idempotency: 1, audit: 1, tag_sets: 1, alerts: 0 },
      ...{ subjects: 0, outcomes_hour: 0, outcomes_day: 0, credit_days: 0 },
    });
    await load.finish();
  });

  it.each(PAGES.map((page) => [page.kind, page] as const))(
    "writes no page of %s after another load has begun",
    async (_kind, page) => {
      const { schema } = await newTables();
      const overtaken = await beginLoad(pool, SECRET, { schema });
      await beginLoad(pool, SECRET, { schema });
      await expect(overtaken.write(page)).rejects.toMatchObject(OVERTAKEN);
      expect(await contents(schema)).toEqual(NOTHING);
    },
  );

  it.each(PAGES.map((page) => [page.kind, page] as const))(
    "writes no page of %s after another load has finished",
    async (_kind, page) => {
      const { schema } = await newTables();
      const overtaken = await beginLoad(pool, SECRET, { schema });
      const load = await beginLoad(pool, SECRET, { schema });
      await load.write(KEYS);
      await load.finish();
      await pool.query(`UPDATE ${schema}.accounts SET remaining = 0, spent = 100`);
      const before = await contents(schema);
      await expect(overtaken.write(page)).rejects.toMatchObject(OVERTAKEN);
      expect(await contents(schema)).toEqual(before);
    },
  );

  it("writes the account of no key after another load has begun between the two statements of a page", async () => {
    const { schema } = await newTables();
    const between: PostgresClient = {
      async query(text, values) {
        if (/INSERT INTO \S+accounts/.test(text)) await beginLoad(pool, SECRET, { schema });
        return pool.query(text, values);
      },
    };
    const overtaken = await beginLoad(between, SECRET, { schema });
    await expect(overtaken.write(KEYS)).rejects.toMatchObject(OVERTAKEN);
    expect(await contents(schema)).toEqual(NOTHING);
  });

  it("writes no page after it has finished", async () => {
    const { schema } = await newTables();
    const load = await beginLoad(pool, SECRET, { schema });
    await load.finish();
    await expect(load.write(KEYS)).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await contents(schema)).toEqual({ ...NOTHING, number: "1" });
  });

  it("writes no page, and does not finish, after its tables were dropped and another load has begun", async () => {
    const { schema } = await newTables();
    const overtaken = await beginLoad(pool, SECRET, { schema });
    await pool.query(`DROP SCHEMA ${schema} CASCADE`);
    await newTables(schema);
    await beginLoad(pool, SECRET, { schema });
    await expect(overtaken.write(KEYS)).rejects.toMatchObject(OVERTAKEN);
    await expect(overtaken.finish()).rejects.toMatchObject(OVERTAKEN);
    expect(await contents(schema)).toEqual(NOTHING);
  });

  it.each(PAGES.map((page) => [page.kind, page] as const))(
    "writes no page of %s that waited while another load began",
    async (_kind, page) => {
      const { schema } = await newTables();
      const overtaken = await beginLoad(pool, SECRET, { schema });
      const { client, isSent, commit } = holding(pool, /UPDATE \S+entities SET version = version \+ 1/);
      const beginning = beginLoad(client, SECRET, { schema });
      await isSent;
      const writing = overtaken.write(page);
      writing.catch(() => undefined);
      await waiting(1);
      commit();
      await beginning;
      await expect(writing).rejects.toMatchObject(OVERTAKEN);
      expect(await contents(schema)).toEqual(NOTHING);
    },
  );

  it("writes no page that waited while its load was about to finish", async () => {
    const { schema } = await newTables();
    const { client, isSent, commit } = holding(pool, /^UPDATE \S+entities SET body/);
    const load = await beginLoad(client, SECRET, { schema });
    const finishing = load.finish();
    await isSent;
    const writing = load.write(KEYS);
    writing.catch(() => undefined);
    await waiting(1);
    commit();
    await finishing;
    await expect(writing).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await contents(schema)).toEqual({ ...NOTHING, number: "1" });
  });

  it("removes a page that another load committed while this one waited to begin", async () => {
    const { schema } = await newTables();
    const { client, isSent, commit } = holding(pool, /INSERT INTO \S+keys/);
    const overtaken = await beginLoad(client, SECRET, { schema });
    const writing = overtaken.write(KEYS);
    writing.catch(() => undefined);
    await isSent;
    const beginning = beginLoad(pool, SECRET, { schema });
    await waiting(1);
    commit();
    const load = await beginning;
    // The keys were written before the other load began; their accounts were not, or were removed as well.
    await writing.catch((error: unknown) => expect(error).toMatchObject(OVERTAKEN));
    expect(await contents(schema)).toEqual(NOTHING);
    await load.write(KEYS);
    await load.finish();
  });

  it("begins again after one that ended before it had removed what was there", async () => {
    const { schema } = await newTables();
    const first = await beginLoad(pool, SECRET, { schema });
    await first.write(KEYS);
    const failing: PostgresClient = {
      query: (text, values) =>
        /DELETE FROM/.test(text)
          ? Promise.reject(Object.assign(new Error("refused"), { code: "42501" }))
          : pool.query(text, values),
    };
    await expect(beginLoad(failing, SECRET, { schema })).rejects.toMatchObject({ code: "STORE_FAILED" });
    await expect(first.write(KEYS)).rejects.toMatchObject(OVERTAKEN);
    const load = await beginLoad(pool, SECRET, { schema });
    expect(await contents(schema)).toEqual(NOTHING);
    await load.finish();
  });
});
