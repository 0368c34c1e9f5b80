/** What counting leaves in the tables of PostgreSQL, beyond what a store shows of it. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type OutcomeFlush, OUTCOMES } from "../../../src/contracts/outcomes.js";
import type { Store } from "../../../src/contracts/store.js";
import { type PostgresStore, postgresStore } from "../../../src/stores/postgres/index.js";
import { FORGOTTEN_KEYS, REFUSED_KEYS } from "../../../src/stores/outcome-entries.js";
import { balance, insert, keyRow, refOf, WS } from "../../../src/testing/store/rows.js";
import { noPostgres, startPostgres, type TestPostgres, wait } from "../../servers/postgres.js";
import { withApi } from "../sqlite/support.js";
import { pglite } from "./support.js";

const { open, server, schemaOf } = pglite();
const DAY = 86_400_000;
const NOON = 19_676 * DAY;

/** Counts of one key with each of these tags, made at a time. */
const flushOf = (seq: number, tags: readonly string[], minute = NOON): OutcomeFlush => {
  const of = { minute, workspaceId: WS, apiId: "api_1", keyId: keyRow(1).id, externalId: "" };
  const cells = tags.map((tag) => ({ ...of, tags: [tag], counts: OUTCOMES.map(() => 1), spent: 0 }));
  return { source: "one", seq, at: minute, maxTagSets: 100, cells };
};
const tagsIn = async (store: Store, level: "hour" | "day"): Promise<unknown[]> => {
  const query = { level, workspaceId: WS, from: NOON, to: NOON + DAY, by: ["tags"], maxRows: 100 } as const;
  return (await store.readOutcomes(query)).map(({ tags }) => tags?.[0]).sort();
};

it("pruneOutcomes: the totals of an account that is nobody's stay until its last subject is removed, in slices of one", async () => {
  const store = await withApi((await open(1))[0]!);
  await insert(store, keyRow(1, { hasCredits: true }), balance(100));
  const account = await refOf(store, "digest-1");
  const cells = ["a", "b", "c"].map((externalId) => ({
    ...{ minute: NOON, workspaceId: WS, apiId: "api_1", keyId: keyRow(1).id, account, externalId, tags: [] },
    ...{ counts: OUTCOMES.map(() => 1), spent: 0 },
  }));
  await store.countOutcomes({ source: "one", seq: 1, at: NOON, maxTagSets: 100, cells });
  const entry = { time: NOON, workspaceId: WS, actorKind: "program", operation: "deleteKey", ids: [], fields: [] };
  await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }], [{ ...entry, count: 1 }]);
  for (const level of ["hour", "day"] as const)
    for (let slices = 0; slices < 100; slices++)
      if ((await store.pruneOutcomes(level, NOON + 900 * DAY, 1)) === 0) break;
  const left = async (table: string) =>
    (await server.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${schemaOf(store)}.${table}`)).rows[0]!.n;
  for (const table of ["subjects", "credit_days", "outcomes_day", "tag_sets", "flushes"])
    expect(await left(table), table).toBe(0);
  await store.close();
});

it("pruneOutcomes: keys and tags that counts of the other level name stay, and those that the rest of a slice names", async () => {
  const store = await withApi((await open(1))[0]!);
  const later = NOON + 100 * DAY;
  await store.countOutcomes(flushOf(1, ["a", "b", "c"]));
  for (let i = 0; i < 2; i++) await store.pruneOutcomes("day", later, 100);
  expect(await tagsIn(store, "day")).toEqual([]);
  expect(await tagsIn(store, "hour")).toEqual(["a", "b", "c"]);
  await store.countOutcomes({ ...flushOf(1, ["a", "b", "c"]), source: "another" });
  await store.pruneOutcomes("hour", later, 100);
  // Of the rows of the key and those of its workspace, two go.
  await store.pruneOutcomes("day", later, 2);
  expect(await tagsIn(store, "day")).not.toEqual([]);
  await store.close();
});

/** Each row of an account's totals: the day on which it began. */
const daysOf = async (query: (sql: string) => Promise<{ rows: { day: unknown }[] }>, schema: string) =>
  (await query(`SELECT day FROM ${schema}.credit_days ORDER BY seq`)).rows.map(({ day }) => Number(day));

it("countOutcomes: with 10,001 keys refused, those of the workspace that has most are forgotten", async () => {
  const store = await withApi((await open(1))[0]!);
  const table = `${schemaOf(store)}.refusals`;
  await server.query(`INSERT INTO ${table} (key_id, workspace_id, time, refusals)
    SELECT 'key_' || g, 'ws_many', g, jsonb_build_array(jsonb_build_object('time', g)) FROM generate_series(1, ${REFUSED_KEYS}) g`);
  const { cells, ...flush } = flushOf(1, ["a"]);
  const refusals = [{ time: 1, code: "DISABLED", cost: 1 }] as const;
  await store.countOutcomes({ ...flush, cells: cells.map((cell) => ({ ...cell, refusals })) });
  const left = `SELECT workspace_id AS ws, count(*)::int AS n, min(time)::int AS oldest FROM ${table} GROUP BY 1 ORDER BY 1`;
  expect((await server.query(left)).rows).toEqual([
    { ws: WS, n: 1, oldest: 1 },
    { ws: "ws_many", n: REFUSED_KEYS - FORGOTTEN_KEYS, oldest: FORGOTTEN_KEYS + 1 },
  ]);
  await store.close();
});

describe.skipIf(noPostgres !== undefined)("counts beside another session, on a server", () => {
  let server: TestPostgres;
  let pool: pg.Pool;
  let store: PostgresStore;
  let other: pg.PoolClient;
  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: await server.newDatabase(), max: 4 });
    store = postgresStore(pool);
    await store.setUp();
    other = await pool.connect();
  }, 60_000);
  afterAll(async () => {
    other.release();
    await store.close();
    await pool.end();
    await server.close();
  });
  const lockAwaited = async (): Promise<void> => {
    const waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while ((await pool.query(waits)).rowCount === 0) await wait(5);
  };
  /** What a call of the store results in while another session has locked rows. */
  const beside = async <T>(lock: string, act: () => T | Promise<T>): Promise<T> => {
    await other.query(`BEGIN; ${lock}`);
    try {
      return await act();
    } finally {
      await other.query("ROLLBACK");
    }
  };

  it("a count does not wait for one that names the same keys and tags", async () => {
    await store.countOutcomes(flushOf(1, ["a"]));
    const lock = "SELECT 1 FROM keystile.subjects FOR UPDATE; SELECT 1 FROM keystile.tag_sets FOR UPDATE";
    expect(await beside(lock, () => store.countOutcomes(flushOf(2, ["a"])))).toMatchObject({ outcome: "counted" });
  });

  it("pruneOutcomes does not wait for rows that are being counted: it removes the others", async () => {
    await store.countOutcomes(flushOf(3, ["b", "c"]));
    const { rowCount } = await pool.query("SELECT 1 FROM keystile.outcomes_hour");
    const lock = "SELECT 1 FROM keystile.outcomes_hour LIMIT 1 FOR UPDATE";
    expect(await beside(lock, () => store.pruneOutcomes("hour", NOON + 9 * DAY, 100))).toBe(rowCount! - 1);
  });

  it("two sessions that begin a day of one account make a row each", async () => {
    await withApi(store);
    await insert(store, keyRow(1, { hasCredits: true }), balance(100));
    const account = await refOf(store, "digest-1");
    const { cells, ...flush } = flushOf(1, ["a"], NOON + 2 * DAY);
    await other.query(`SELECT keystile.keep_totals_v1(ARRAY[${account}], ${NOON / DAY})`);
    await other.query(`BEGIN; SELECT keystile.keep_totals_v1(ARRAY[${account}], ${NOON / DAY + 1})`);
    const counting = store.countOutcomes({
      ...flush,
      source: "totals",
      cells: cells.map((cell) => ({ ...cell, account })),
    });
    await lockAwaited();
    await other.query("COMMIT");
    expect(await counting).toMatchObject({ outcome: "counted" });
    expect(await daysOf((sql) => pool.query(sql), "keystile")).toEqual([0, 1, 2].map((day) => NOON / DAY + day));
  });

  it.each([
    ["subjects", 4],
    ["tag_sets", 5],
  ])("a node whose clock is behind makes none of the %s look older", async (table, seq) => {
    const day = NOON / DAY + 9;
    await other.query(`BEGIN; UPDATE keystile.${table} SET day = ${day}`);
    const counting = store.countOutcomes(flushOf(seq, ["a"], NOON + seq * DAY));
    await lockAwaited();
    await other.query("COMMIT");
    expect(await counting).toMatchObject({ outcome: "counted" });
    const { rows } = await pool.query<{ day: string }>(`SELECT DISTINCT day FROM keystile.${table}`);
    expect(rows.map((row) => Number(row.day))).toEqual([day]);
  });
});
