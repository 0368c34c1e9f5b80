/** What a lock or a standby that does not respond costs: the calls that need it, and nothing else. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { KeyRef } from "../../../src/contracts/store.js";
import { postgresStore, type PostgresStoreOptions } from "../../../src/stores/postgres/index.js";
import { noPostgresServer, startPostgres, type TestPostgres } from "../../servers/postgres.js";
import { api, insert, keyRow, refOf } from "../../../src/testing/store/rows.js";

const isSkipped = noPostgresServer !== undefined;
const BOUNDS = { maxRecords: 1_000, maxPerWorkspace: 1_000 };
const KEYS = 3;

let server: TestPostgres;
let endings: (() => unknown)[] = [];
beforeAll(async () => {
  // Without autovacuum nothing but the tests takes transaction ids.
  if (!isSkipped) server = await startPostgres(["autovacuum = off"]);
});
afterEach(async () => {
  for (const ending of endings.toReversed()) await ending();
  endings = [];
});
afterAll(() => server?.close());

/** A store with three keys of 10 credits each, and the connection of somebody else. */
async function open(options: PostgresStoreOptions = {}) {
  const url = await server.newDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  pool.on("error", () => undefined);
  endings.push(() => pool.end());
  const statements: string[] = [];
  pool.on("connect", (connection) => {
    const query = connection.query.bind(connection) as (given: { text?: string }) => Promise<unknown>;
    connection.query = ((given: { text?: string }) => {
      statements.push(given.text ?? "");
      return query(given);
    }) as never;
  });
  const store = postgresStore(pool, options);
  endings.push(() => store.close());
  await store.setUp();
  await store.write([{ table: "apis", row: api() }]);
  const refs: KeyRef[] = [];
  for (let n = 1; n <= KEYS; n++) {
    await insert(store, keyRow(n, { hasCredits: true }), { remaining: 10, amount: 0, period: 0 });
    refs.push(await refOf(store, `digest-${n}`));
  }
  const other = new pg.Client({ connectionString: url, application_name: "somebody else" });
  await other.connect();
  endings.push(() => other.end());
  const balances = async () => {
    const queries = refs.map((_, i) => ({ keyId: keyRow(i + 1).id, period: 0 }));
    return (await store.readBalances(queries, 0)).map((balance) => balance?.remaining);
  };
  let ids = 0;
  const once = (ref: KeyRef | undefined, cost: number, id = `id_${++ids}`, body = "b") =>
    store.spendOnce(ref, 0, {
      ...{ cost, now: 0 },
      once: { record: { workspaceId: "ws_1", id, body, until: 1_000 }, bounds: BOUNDS },
    });
  const draw = (ref: KeyRef, cost = 1) =>
    store.drawCredits(ref, { holder: "h", spent: 0, cost, step: 0, size: 1, period: 0, now: 0, until: 1_000 });
  return { url, store, refs, other, balances, once, draw, statements };
}
type Opened = Awaited<ReturnType<typeof open>>;

const KINDS: readonly [name: string, call: (opened: Opened, ref: KeyRef) => unknown, left: number][] = [
  ["spends", ({ store }, ref) => store.spendCredits(ref, 1, 0, 0), 9],
  ["idempotent spends", ({ once }, ref) => once(ref, 1), 9],
  ["draws", ({ draw }, ref) => draw(ref), 8],
  ["returns", ({ store }, ref) => store.returnCredits(ref, { holder: "h", spent: 0 }), 10],
];

describe.skipIf(isSkipped)("postgres: a locked account", () => {
  it.each(KINDS)("%s: stops its own calls, and no others of the same group", async (_, call, left) => {
    const opened = await open({ timeout: 2_000 });
    const { refs, other, draw, balances, statements } = opened;
    // What is returned, and what a draw adds to.
    if (left !== 9) for (const ref of refs) await draw(ref);
    const before = await balances();
    await other.query("BEGIN");
    await other.query("SELECT 1 FROM keystile.accounts ORDER BY number LIMIT 1 FOR UPDATE");
    statements.length = 0;
    const settled: string[] = [];
    const calls = refs.map(async (ref, i) => {
      const code = await Promise.resolve(call(opened, ref)).then(
        () => "granted",
        (error: unknown) => (error as { code: string }).code,
      );
      settled.push(`${i} ${code}`);
    });
    await Promise.all(calls);
    expect(settled.toSorted()).toEqual(["0 STORE_BUSY", "1 granted", "2 granted"]);
    expect(settled.at(-1)).toBe("0 STORE_BUSY");
    // In one group at first.
    expect(statements[0]).toContain("group_v1");
    await other.query("ROLLBACK");
    expect(await balances()).toEqual([before[0], left, left]);
    await call(opened, refs[0]!);
    expect(await balances()).toEqual([left, left, left]);
  });

  it("which is free in time is granted once", async () => {
    const { store, refs, other, balances, once } = await open({ timeout: 10_000 });
    await other.query("BEGIN");
    await other.query("SELECT 1 FROM keystile.accounts ORDER BY number LIMIT 1 FOR UPDATE");
    const calls = [
      store.spendCredits(refs[0]!, 1, 0, 0),
      once(refs[0], 1),
      once(refs[0], 1, "one"),
      once(refs[0], 1, "one"),
    ];
    // Once both have met the lock.
    await store.spendCredits(refs[1]!, 1, 0, 0);
    await once(refs[1], 1);
    await other.query("ROLLBACK");
    expect(await Promise.all(calls)).toMatchObject([
      { ok: true },
      { outcome: "done" },
      { outcome: "done", spend: { ok: true } },
      { outcome: "repeated" },
    ]);
    expect(await balances()).toEqual([7, 8, 10]);
  });

  it("a spend alone is decided by what another session left, however long it waited for the lock", async () => {
    const { store, refs, other, balances } = await open({ timeout: 10_000 });
    for (const [i, left] of [1, 0].entries()) {
      await other.query("BEGIN");
      await other.query(
        `UPDATE keystile.accounts SET remaining = ${left}, spent = ${10 - left} WHERE number = ${String(refs[i])}`,
      );
      const spend = store.spendCredits(refs[i]!, 1, 0, 0);
      const waiting =
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE%accounts%'";
      await vi.waitFor(async () => expect((await server.sql(waiting)).length).toBe(1), 20_000);
      await other.query("COMMIT");
      expect(await spend).toEqual({ ok: left > 0, remaining: 0 });
    }
    expect(await balances()).toEqual([0, 0, 10]);
  });

  it("a spend alone is on the disk before it is answered, whatever the server's default, unless the option says less", async () => {
    const { store, refs, other, url } = await open();
    await other.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`);
    const modes: unknown[] = [];
    for (const durability of ["power", "process"] as const) {
      const pool = new pg.Pool({ connectionString: url, max: 2 });
      endings.push(() => pool.end());
      const node = postgresStore(pool, { durability });
      endings.push(() => node.close());
      // As the transaction has it when it commits.
      await other.query(`CREATE OR REPLACE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_notify('noted', current_setting('synchronous_commit')); RETURN NULL; END $$`);
      await other.query("DROP TRIGGER IF EXISTS noted ON keystile.accounts");
      await other.query(`CREATE CONSTRAINT TRIGGER noted AFTER UPDATE ON keystile.accounts
        INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION noted()`);
      await other.query("LISTEN noted");
      const noted = new Promise((resolve) => other.once("notification", ({ payload }) => resolve(payload)));
      expect((await node.spendCredits(refs[0]!, 1, 0, 0))?.ok).toBe(true);
      modes.push(await noted);
    }
    expect(modes).toEqual(["local", "off"]);
    expect(await store.spendCredits(refs[0]!, 1, 0, 0)).toEqual({ ok: true, remaining: 7 });
  });

  it("a call with an idempotency key makes no multixact: of those a server has four billion", async () => {
    const { refs, other, once } = await open();
    const next = async () => {
      await other.query("CHECKPOINT");
      return (await other.query("SELECT next_multixact_id::text AS n FROM pg_control_checkpoint()")).rows[0] as unknown;
    };
    const before = await next();
    for (let i = 0; i < 5; i++) await once(refs[0], 1);
    expect(await next()).toEqual(before);
  });

  it("calls of another workspace under a count that somebody holds go on", async () => {
    const { store, refs, other, once } = await open({ timeout: 2_000 });
    await once(refs[0], 1);
    await other.query("BEGIN");
    await other.query("SELECT 1 FROM keystile.idempotency_counts FOR UPDATE");
    const record = { workspaceId: "ws_2", id: "other", body: "b", until: 1_000 };
    const [held, free] = await Promise.allSettled([
      once(refs[0], 1),
      store.spendOnce(refs[1], 0, { cost: 1, now: 0, once: { record, bounds: BOUNDS } }),
    ]);
    expect(held).toMatchObject({ reason: { code: "STORE_BUSY" } });
    expect(free).toMatchObject({ value: { outcome: "done", spend: { ok: true } } });
  });
});

describe.skipIf(isSkipped)("postgres: what takes nothing", () => {
  it("writes nothing: costs of 0, refusals, repetitions and mismatches", async () => {
    const { store, refs, once, url } = await open();
    await once(refs[0], 1, "known");
    const reader = new pg.Pool({ connectionString: url, max: 2 });
    endings.push(() => reader.end());
    // Does not listen: a notification takes a transaction id.
    const quiet = postgresStore({ query: (text, values) => reader.query(text, values) });
    endings.push(() => quiet.close());
    const record = { workspaceId: "ws_1", id: "known", body: "b", until: 1_000 };
    const spendOnce = (ref: KeyRef, cost: number, more: object) =>
      quiet.spendOnce(ref, 0, { cost, now: 0, once: { record: { ...record, ...more }, bounds: BOUNDS } });
    await quiet.readBalances([], 0);
    const next = async () =>
      (await reader.query<{ xid: string }>("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xid")).rows[0]!.xid;
    const before = await next();
    const results = [
      await quiet.spendCredits(refs[0]!, 0, 0, 0),
      await quiet.spendCredits(refs[0]!, 11, 0, 0),
      await spendOnce(refs[0]!, 1, {}),
      await spendOnce(refs[0]!, 1, { body: "another" }),
      await spendOnce(refs[0]!, 11, { id: "new" }),
    ];
    expect(await next()).toBe(before);
    expect(results).toEqual([
      { ok: true, remaining: 9 },
      { ok: false, remaining: 9 },
      { outcome: "repeated", spend: { ok: true, remaining: 9 } },
      { outcome: "mismatch" },
      { outcome: "done", spend: { ok: false, remaining: 9 } },
    ]);
    // Such a call does write.
    await quiet.spendCredits(refs[0]!, 1, 0, 0);
    expect(await next()).not.toBe(before);
    expect(await store.findOnce("new", 0)).toBeUndefined();
  });
});

describe.skipIf(isSkipped)("postgres: a standby that does not respond", () => {
  const standby = async (names: string) => {
    await server.sql(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await server.sql("SELECT pg_reload_conf()");
  };

  it("keeps maxWrites statements and no more; further writes fail at once, reads go on, and all recover", async () => {
    const { store, refs, other } = await open({ timeout: 1_000, maxWrites: 2 });
    const waiting = async () => {
      const { rows } = await other.query<{ n: number }>(
        "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()",
      );
      return rows[0]!.n;
    };
    const write = (n: number) =>
      Promise.resolve(store.insertKeys([{ row: keyRow(n) }])).then(
        () => "written",
        (error: unknown) => error as { outcomeUnknown?: boolean },
      );
    endings.push(() => standby(""));
    await standby("gone");
    await vi.waitFor(async () => expect(await write(10 + Math.floor(Math.random() * 1e6))).not.toBe("written"), 20_000);
    for (let n = 1; n < 3; n++) await write(20 + n);
    await vi.waitFor(async () => expect(await waiting()).toBe(2), 20_000);
    for (let n = 1; n < 20; n++) {
      const refused = await write(100 + n);
      expect(refused).toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(refused).not.toHaveProperty("outcomeUnknown", true);
      expect(await store.findKey("digest-1")).toBeDefined();
    }
    expect(await waiting()).toBe(2);
    await standby("");
    await vi.waitFor(async () => expect((await store.spendCredits(refs[0]!, 1, 0, 0))?.ok).toBe(true), 20_000);
    expect(await waiting()).toBe(0);
  });
});
