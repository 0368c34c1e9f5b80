/** In a database where others may create operators and functions, none of theirs runs. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { type PostgresClient, postgresStore } from "../../../src/stores/postgres/index.js";
import { reconcile } from "../../../src/stores/postgres/reconcile.js";
import { beginLoad } from "../../../src/stores/postgres/load.js";
import { keyRow as loadedRow, api } from "../../../src/testing/store/rows.js";
import { noPostgres, startPostgres, type TestPostgres } from "../../servers/postgres.js";
import { sharedStoreSuite, storeSuite } from "../suite.js";
import { plantStrangers } from "./strangers.js";
import { openerOf } from "./support.js";

/** What stands before a parenthesis in SQL and is no function that a schema could hold. */
const KEYWORDS = new Set([
  ..."and any array as audit accounts case changes coalesce entities exists extract filter from g i greatest idempotency join".split(
    " ",
  ),
  ..."all materialized lateral idempotency_counts in keys least not nullif on or over select then values when where conflict leases".split(
    " ",
  ),
]);

describe.skipIf(noPostgres !== undefined)("postgres beside strangers", () => {
  let server: TestPostgres;
  let url: string;
  let pool: pg.Pool;
  let client: PostgresClient;
  let ran: () => Promise<unknown[]>;
  let opener: ReturnType<typeof openerOf>;
  /** Every statement that was sent. */
  const texts = new Set<string>();
  beforeAll(async () => {
    server = await startPostgres();
    url = await server.newDatabase();
    ran = await plantStrangers(server, url);
    pool = new pg.Pool({ connectionString: url, max: 6 });
    pool.on("error", () => undefined);
    client = {
      query(text, values) {
        texts.add(text);
        return pool.query(text, values);
      },
      // Said to the channel by the store itself.
      listen: () => () => undefined,
    };
    opener = openerOf(
      () => client,
      (sql) => pool.query(sql),
    );
  }, 180_000);
  afterAll(async () => {
    await pool.end();
    await server.close();
  });

  /** Functions of a schema that a caller's search_path has a part in. */
  const openFunctions = async (schema: string) => {
    const found = await server.sql(
      `SELECT proname FROM pg_proc WHERE pronamespace = '${schema}'::regnamespace AND prosqlbody IS NULL
         AND ('search_path=pg_catalog, pg_temp' = ANY (proconfig)) IS NOT TRUE`,
      new URL(url).pathname.slice(1),
    );
    return found.map(({ proname }) => proname);
  };

  it("what is planted would run: an operator whose types fit better than those of PostgreSQL", async () => {
    await pool.query("BEGIN; SELECT 1::double precision / 2; ROLLBACK");
    expect(await ran()).toEqual(["rolled back"]);
    await server.sql("ALTER SEQUENCE public.times_ran RESTART", new URL(url).pathname.slice(1));
    expect(await ran()).toEqual([]);
  });

  it("none runs while the tables are made, or brought to this version; the session keeps its search_path", async () => {
    const one = new pg.Client({ connectionString: url });
    await one.connect();
    const store = postgresStore({ query: (text, values) => one.query(text, values) }, { schema: "set_up" });
    await store.setUp();
    expect(await openFunctions("set_up")).toEqual([]);
    const made = await one.query<{ f: string }>(
      `SELECT oid::regprocedure::text AS f FROM pg_proc WHERE pronamespace = 'set_up'::regnamespace AND proconfig IS NOT NULL`,
    );
    for (const { f } of made.rows) await one.query(`ALTER FUNCTION ${f} RESET ALL`);
    expect(await openFunctions("set_up")).toHaveLength(made.rows.length);
    await store.setUp();
    expect(await openFunctions("set_up")).toEqual([]);
    expect((await one.query("SHOW search_path")).rows).toEqual([{ search_path: '"$user", public' }]);
    await store.close();
    await one.end();
    expect(await ran()).toEqual([]);
  });

  it("none runs while a file is loaded, and the server examined", async () => {
    const store = postgresStore(client, { schema: "loaded" });
    await store.setUp();
    const one = new pg.Client({ connectionString: url });
    await one.connect();
    const connection: PostgresClient = {
      query(text, values) {
        texts.add(text);
        return one.query(text, values);
      },
    };
    const load = await beginLoad(connection, "secret", { schema: "loaded" });
    const totals = { credited: 100, refilled: 0, adjusted: 0, spent: 0, reserved: 0, forfeited: 0, expired: 0 };
    const account = {
      unlimited: false,
      remaining: 100,
      amount: 0,
      period: 0,
      generation: 0,
      rollover: null,
      rollovers: 0,
      returnable: 0,
      ...totals,
    };
    const entry = { workspace_id: "ws_1", actor_kind: "program", actor: null, operation: "createApi" };
    const once = {
      kind: "idempotency",
      rows: [{ id: "once", workspace_id: "ws_1", body: "b", expires: 1_000 }],
    } as const;
    const audit = {
      kind: "audit",
      rows: [{ number: 1, time: "2026-01-01T00:00:00.000Z", ...entry, ids: ["api_1"], fields: [], count: 1 }],
    } as const;
    const row = loadedRow(1, { version: 1, hasCredits: true, expires: 1_800_000_000_000 });
    await load.write({ kind: "apis", rows: [api({ version: 1 })] });
    await load.write({ kind: "keys", rows: [{ number: 1, sharedAccount: undefined, row, account }] });
    await load.write(once);
    await load.write(audit);
    for (const page of [once, audit]) expect(await load.readShared(page)).toHaveLength(1);
    expect(await load.counts()).toMatchObject({ keys: 1, idempotency: 1, audit: 1 });
    await load.finish();
    await load.cancel();
    await one.end();
    expect((await store.status()).schemaVersion).toBeGreaterThan(0);
    await pool.query("SELECT loaded.prune_v1('1 hour')");
    const { rows } = await pool.query<object>("SELECT * FROM loaded.key_overview");
    expect(rows).toMatchObject([{ key_id: row.id, credits: "100" }]);
    await pool.query("INSERT INTO loaded.leases VALUES (1, 'node', 0, 0, 5, 0, true)");
    const { credits, idempotency } = await reconcile(client, "loaded", () => undefined);
    expect([credits, idempotency]).toMatchObject([
      { accounts: 1, broken: 0 },
      { accounts: 1, broken: 0 },
    ]);
    await store.close();
    expect(await ran()).toEqual([]);
  });

  it("none runs while the first root key, roles and credits of a month are made", async () => {
    const [store] = await opener.open(1);
    const keyring = createKeyring(store!);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const refill = { interval: "monthly", amount: 5, refillDay: 31 } as const;
    const { keyId } = await keyring.createKey({
      apiId,
      credits: { remaining: 3, refill },
      roles: [],
      permissions: ["p"],
    });
    expect((await keyring.getKey({ keyId })).credits).toMatchObject({ remaining: 3 });
    await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    await pool.query(`SELECT * FROM ${opener.schemaOf(store!)}.key_overview`);
    await store!.close();
    expect(await ran()).toEqual([]);
  });

  describe("through all that a store does", () => {
    storeSuite("postgres beside strangers", async () => (await opener.open(1))[0]!);
    sharedStoreSuite("postgres beside strangers, two nodes", async () => (await opener.open(2)) as [never, never]);

    it("none has run, and every function was named with its schema", async () => {
      expect(await ran()).toEqual([]);
      const sent = [...texts].filter((text) => !text.startsWith("DO "));
      expect(sent.length).toBeGreaterThan(25);
      const called = sent.flatMap((text) =>
        [...text.matchAll(/(?<![.\w"$'])([a-z_]+)\s*\(/gi)].map(([, name]) => name!),
      );
      expect([...new Set(called)].filter((name) => !KEYWORDS.has(name.toLowerCase()))).toEqual([]);
    });
  });
});
