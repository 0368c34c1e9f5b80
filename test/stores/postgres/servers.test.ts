/**
 * The PostgreSQL store on a real server: each client, a pooler, set-up by many at once, and servers that it must
 * refuse.
 */
import { execFile } from "node:child_process";
import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { cachedStore } from "../../cache/cached-store.js";
import type { Store } from "../../../src/contracts/store.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { type PostgresClient, postgresStore, type PostgresStoreOptions } from "../../../src/stores/postgres/index.js";
import { SCHEMA_VERSION, scriptOf, setUpScript, STEPS } from "../../../src/stores/postgres/schema.js";
import { encodeKeyRow } from "../../../src/stores/postgres/keys.js";
import { EXPIRED_PER_WRITE } from "../../../src/stores/spend-once.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { createCanaries } from "../../rigs/postgres-support.js";
import { buildWorker, nextMessage, startWorker } from "../../rigs/workers.js";
import {
  noPgbouncer,
  noPostgres,
  noPostgresServer,
  startPgbouncer,
  startPostgres,
  type TestPooler,
  type TestPostgres,
  wait,
} from "../../servers/postgres.js";
import { keyRow, sharedStoreSuite, storeSuite } from "../suite.js";
import { openerOf } from "./support.js";

const INT8 = pg.types.builtins.INT8;
/** What programs set for `bigint` columns. */
const PARSERS: Readonly<Record<string, (text: string) => unknown>> = { text: String, number: Number, BigInt };

let server: TestPostgres;
const endings: (() => Promise<unknown>)[] = [];

/** A client as a program would make it, ended after the tests. */
function poolOf(url: string, parser: keyof typeof PARSERS = "text", options: pg.PoolConfig = {}): pg.Pool {
  const parse = PARSERS[parser]!;
  const types = {
    getTypeParser: (oid: Parameters<typeof pg.types.getTypeParser>[0]) =>
      oid === INT8 ? parse : pg.types.getTypeParser(oid),
  };
  const pool = new pg.Pool({ connectionString: url, types, max: 6, ...options });
  pool.on("error", () => undefined);
  endings.push(() => pool.end());
  return pool;
}

function postgresJs(url: string, parser: keyof typeof PARSERS = "text", options: object = {}): PostgresClient {
  const types = { bigint: { to: INT8, from: [INT8], serialize: String, parse: PARSERS[parser]! } };
  const sql = postgres(url, { types, max: 6, onnotice: () => undefined, ...options } as object);
  endings.push(() => sql.end({ timeout: 1 }));
  return {
    query: (text, values) => sql.unsafe(text, values, { prepare: true }),
    listen: (channel, onNotify) => sql.listen(channel, onNotify),
  };
}

const isSkipped = noPostgres !== undefined;
beforeAll(async () => {
  if (!isSkipped) server = await startPostgres();
});
afterAll(async () => {
  await Promise.all(endings.map((end) => end()));
  await server?.close();
});

/** The suites of all stores, with two clients, as two nodes have them. */
function suites(
  title: string,
  client: (url: string) => PostgresClient,
  options: PostgresStoreOptions = {},
  through: (store: Store) => Store = (store) => store,
): void {
  let made: Promise<readonly PostgresClient[]> | undefined;
  const clients = () =>
    (made ??= server.newDatabase().then((url) => {
      const first = client(url);
      return [first, client(url)];
    }));
  let opener: ReturnType<typeof openerOf> | undefined;
  const open = async (handles: number) => {
    const all = await clients();
    opener ??= openerOf(
      (i) => all[i]!,
      async (sql) => {
        for (const one of sql.split(";").filter(Boolean)) await all[0]!.query(one, []);
      },
    );
    return (await opener.open(handles, options)).map((store) => through(store));
  };
  storeSuite(`postgres, ${title}`, async () => (await open(1))[0]!);
  sharedStoreSuite(`postgres, ${title}, two nodes`, async () => (await open(2)) as [never, never]);
}

/**
 * Each client, each way to read `bigint`, each way to reach the server, in as few runs of all suites as have them all.
 * `pg` that reads it as text, as it does by default, is that of `strangers.test.ts`.
 */
describe.skipIf(isSkipped)("postgres on a real server", () => {
  suites("postgres.js, int8 as BigInt", (url) => postgresJs(url, "BigInt"));
  const throughCache = { durability: "process" } as const;
  suites(
    "pg, int8 as number, process-durable, each node through its cache",
    (url) => poolOf(url, "number"),
    throughCache,
    cachedStore,
  );
  describe.skipIf(noPgbouncer !== undefined)("through a pooler", () => {
    let pooler: TestPooler;
    beforeAll(async () => {
      pooler = await startPgbouncer(server);
    });
    suites("pg, int8 as BigInt, through pgbouncer in transaction mode", (url) => poolOf(pooler.through(url), "BigInt"));
    afterAll(async () => pooler.close());
  });
});

/** A store on an empty database, with its tables. */
async function newStore(url: string, client: PostgresClient = poolOf(url)) {
  const store = postgresStore(client);
  await store.setUp();
  endings.unshift(async () => store.close());
  return store;
}

describe.skipIf(isSkipped)("postgres: statements and connections", () => {
  it("every call of the port is one statement, and those of one turn share it", async () => {
    const pool = poolOf(await server.newDatabase());
    const texts: string[] = [];
    const client: PostgresClient = {
      query(text, values) {
        // The doorbell rings after the call, and old changes are removed now and then.
        if (!/pg_notify|prune_v1/.test(text)) texts.push(text);
        return pool.query(text, values);
      },
    };
    const store = await newStore("", client);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "counted" });
    const row = (i: number, more: object = {}) => ({ ...keyRow(i, { apiId, hasCredits: true }), ...more });
    const balance = { remaining: 1_000, amount: 0, period: 0 };
    const counts: Record<string, number> = {};
    const count = async <T>(name: string, work: () => T | Promise<T>): Promise<T> => {
      const before = texts.length;
      const result = await work();
      counts[name] = texts.length - before;
      return result;
    };
    const many = <T>(work: (i: number) => T) => Promise.all(Array.from({ length: 50 }, (_, i) => work(i)));
    const newKeys = Array.from({ length: 50 }, (_, i) => ({ row: row(i), balance }));
    await count("insertKeys", () => store.insertKeys(newKeys));
    const { digest: _, ...pending } = row(60, { foreignDigest: "f", migrationId: "m" });
    await store.insertKeys([{ row: pending, balance }]);
    // What keys refer to is loaded once.
    const { ref, keyId } = (await store.findKey(keyRow(0).digest!))!;
    const refs = await many(async (i) => (await store.findKey(keyRow(i).digest!))!.ref);
    const draw = { holder: "h", spent: 0, cost: 1, step: 10, size: 10, period: 0, now: 0, until: 1_000 };
    const record = { workspaceId: "ws_1", id: "r", body: "b", until: 1_000 };
    await count("pollChanges", () => store.pollChanges("anew"));
    await count("findKey", () => store.findKey(keyRow(0).digest!));
    await count("findKey × 50", () => many((i) => store.findKey(keyRow(i).digest!)));
    await count("findKeys", () => store.findKeys([keyRow(0).digest!, keyRow(1).digest!]));
    await count("findRootKey", () => store.findRootKey("none"));
    const found = await count("findForeignKey", () => store.findForeignKey("m", "f"));
    await count("adoptDigest", () => store.adoptDigest(found!.ref, "native"));
    await count("spendCredits", () => store.spendCredits(ref, 1, 0, 0));
    await count("spendCredits × 50", () => many((i) => store.spendCredits(refs[i]!, 1, 0, 0)));
    const once = { record, bounds: { maxRecords: 10, maxPerWorkspace: 10 } };
    await count("spendOnce", () => store.spendOnce(ref, 0, { cost: 1, now: 0, once }));
    await count("findOnce", () => store.findOnce("r", 0));
    await count("drawCredits", () => store.drawCredits(ref, draw));
    await count("drawCredits × 50", () => many((i) => store.drawCredits(refs[i]!, { ...draw, holder: `${i}` })));
    await count("returnCredits × 50", () => many((i) => store.returnCredits(refs[i]!, { holder: `${i}`, spent: 1 })));
    await count("readBalances", () => store.readBalances([{ keyId, period: 0 }], 0));
    await count("readSecret", () => store.readSecret("idempotency"));
    await count("recordUses", () => store.recordUses([{ keyId, usedAt: 1 }]));
    const [read] = await count("readMany", () => store.readMany("keys", [keyId]));
    await count("readNames", () => store.readNames("roles", "ws_1", ["a", "b"]));
    await count("list", () => store.list("keys", { workspaceId: "ws_1", limit: 10 }));
    await count("write", () => store.write([{ table: "keys", row: { ...read!, enabled: false } }]));
    expect(Object.entries(counts).filter(([, statements]) => statements !== 1)).toEqual([]);
    expect(Object.keys(counts)).toHaveLength(22);
  });

  it.skipIf(noPgbouncer !== undefined)(
    "through pgbouncer in transaction mode: falls back to unnamed statements, and notices that nothing is heard",
    async () => {
      const url = await server.newDatabase();
      const pooler = await startPgbouncer(server);
      try {
        const errors: string[] = [];
        const pool = poolOf(pooler.through(url), "text", { max: 8 });
        pool.on("connect", (connection) => {
          const query = connection.query.bind(connection) as (...given: unknown[]) => Promise<unknown>;
          connection.query = ((...given: unknown[]) =>
            query(...given).catch((error: unknown) => {
              errors.push((error as { code: string }).code);
              throw error;
            })) as never;
        });
        const store = await newStore(url, pool);
        const elsewhere = await newStore(url);
        const keyring = createKeyring(elsewhere);
        const { apiId } = await keyring.createApi({ name: "pooled" });
        const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
        const verifier = createVerifier(store);
        const calls = Array.from({ length: 40 }, async () => {
          for (let i = 0; i < 20; i++) {
            expect((await verifier.verify({ key, credits: { cost: 1 } })).code).toBe("VALID");
            await wait(1);
          }
        });
        await Promise.all(calls);
        expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(200);
        await Promise.all(
          Array.from({ length: 20 }, async () => {
            expect(await store.readBalances([{ keyId, period: 0 }], 0)).toMatchObject([{ remaining: 200 }]);
          }),
        );
        // Named statements were tried, and given up, without a call that failed.
        expect(errors.length).toBeGreaterThan(0);
        expect(errors.filter((code) => code !== "26000" && code !== "42P05")).toEqual([]);
        const failed = errors.length;
        // By then the probe of the listener has waited for its own ring.
        await wait(2_500);
        expect((await store.status()).isListening).toBe(false);
        expect((await elsewhere.status()).isListening).toBe(true);
        await verifier.verify({ key, credits: { cost: 0 } });
        await keyring.updateKey({ keyId, enabled: false });
        const changed = performance.now();
        for (;;) {
          const called = performance.now();
          if ((await verifier.verify({ key, credits: { cost: 0 } })).code === "DISABLED") break;
          expect(called - changed).toBeLessThan(2_000);
          await wait(5);
        }
        expect(errors.length).toBe(failed);
        await verifier.close();
      } finally {
        await pooler.close();
      }
    },
  );

  it("ten processes that set up an empty database at once, 8 times: no error", async () => {
    const worker = await buildWorker("set-up-postgres");
    const children = Array.from({ length: 10 }, () => startWorker(worker, {}));
    await Promise.all(children.map(nextMessage));
    for (let round = 0; round < 8; round++) {
      const url = await server.newDatabase();
      const words = children.map(nextMessage);
      for (const child of children) child.send(url);
      expect(await Promise.all(words)).toEqual(children.map(() => ({ done: true })));
    }
    for (const child of children) child.disconnect();
  });

  it("a role that may not create anything runs", async () => {
    const url = await server.newDatabase();
    const owner = await newStore(url);
    await owner.status();
    const database = new URL(url).pathname.slice(1);
    await server.sql(
      `CREATE ROLE app LOGIN PASSWORD 'app';
       REVOKE CREATE ON SCHEMA public FROM PUBLIC;
       GRANT USAGE ON SCHEMA keystile TO app;
       GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA keystile TO app;
       GRANT USAGE ON ALL SEQUENCES IN SCHEMA keystile TO app`,
      database,
    );
    const asApp = Object.assign(new URL(url), { username: "app", password: "app" }).href;
    const store = postgresStore(poolOf(asApp));
    endings.unshift(async () => store.close());
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "app" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 5 }, permissions: ["p"] });
    const verifier = createVerifier(store, { credits: { mode: "leased" } });
    expect(await verifier.verify({ key, permissions: "p" })).toMatchObject({ code: "VALID", credits: 4 });
    await verifier.close();
    await keyring.deleteKey({ keyId, permanent: true });
    await expect(postgresStore(poolOf(asApp), { schema: "other" }).setUp()).rejects.toMatchObject({
      code: "STORE_FAILED",
    });
    // The tables are there: nothing is to be made.
    await store.setUp();
  });

  it("steps follow the first schema, each once, in new tables and in those that are there", async () => {
    // One more than this version knows.
    const names = Array.from({ length: STEPS.length + 1 }, (_, i) => `later_${i}`);
    const steps = names.map((name) => (s: string) => `CREATE TABLE ${s}.${name} (); `);
    const database = new URL(await server.newDatabase()).pathname.slice(1);
    const version = async (schema: string) => (await server.sql(`SELECT version FROM ${schema}.meta`, database))[0];
    await server.sql(scriptOf("old", []), database);
    const first = SCHEMA_VERSION - STEPS.length;
    expect(await version("old")).toEqual({ version: first });
    for (const schema of ["old", "old", "new"]) await server.sql(scriptOf(schema, steps), database);
    for (const schema of ["old", "new"]) {
      expect(await version(schema)).toEqual({ version: SCHEMA_VERSION + 1 });
      await server.sql(`SELECT FROM ${names.map((name) => `${schema}.${name}`).join(", ")}`, database);
    }
    const failing = [...steps, () => "SELECT 1 / 0;"];
    await expect(server.sql(scriptOf("old", failing), database)).rejects.toThrow("division by zero");
    expect(await version("old")).toEqual({ version: SCHEMA_VERSION + 1 });
    await expect(server.sql(setUpScript("old"), database)).rejects.toThrow(`of version ${SCHEMA_VERSION + 1}`);
  });

  it.each([1, 3, 99])("tables of version %i, which this one does not know, are refused", async (version) => {
    const url = await server.newDatabase();
    await newStore(url);
    await server.sql(`UPDATE keystile.meta SET version = ${version}`, new URL(url).pathname.slice(1));
    const store = postgresStore(poolOf(url));
    await expect(store.setUp()).rejects.toMatchObject({ code: "STORE_SCHEMA_NEWER" });
    await expect(store.findKey("d")).rejects.toMatchObject({
      code: version > SCHEMA_VERSION ? "STORE_SCHEMA_NEWER" : "STORE_INVALID",
    });
    await store.close();
  });

  it("a spend that waits behind a stalled one keeps its own deadline", async () => {
    const url = await server.newDatabase();
    const pool = poolOf(url);
    await newStore(url, pool);
    const store = postgresStore(pool, { timeout: 800 });
    endings.unshift(async () => store.close());
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "stalled" });
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
    const [row] = await server.sql("SELECT digest FROM keystile.keys", new URL(url).pathname.slice(1));
    const { ref } = (await store.findKey(row!["digest"] as string))!;
    const locks = await pool.connect();
    endings.unshift(async () => locks.release(true));
    await locks.query("BEGIN");
    await locks.query("SELECT * FROM keystile.accounts FOR UPDATE");
    const spend = async () => {
      const began = performance.now();
      const error = await Promise.resolve(store.spendCredits(ref, 1, 0, 0)).catch((failure: unknown) => failure);
      expect(error).toMatchObject({ code: "STORE_BUSY" });
      expect(error).not.toHaveProperty("outcomeUnknown", true);
      return performance.now() - began;
    };
    const first = spend();
    await wait(400);
    const waited = await Promise.all([first, spend()]);
    for (const ms of waited) expect(ms).toBeLessThan(1_050);
    await locks.query("COMMIT");
    await wait(200);
    const [balance] = await store.readBalances([{ keyId, period: 0 }], 0);
    expect(balance?.remaining).toBe(10);
  });

  it("a call over several accounts that waits behind a top-up is paid by it", async () => {
    const url = await server.newDatabase();
    const pool = poolOf(url);
    const store = await newStore(url, pool);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "topped up" });
    await keyring.createIdentity({ externalId: "ann", credits: { remaining: 1 } });
    await keyring.grantCredits({ identity: "ann", grantId: "last", amount: 10, priority: 200 });
    const { key } = await keyring.createKey({ apiId, externalId: "ann" });
    const verifier = createVerifier(store);
    await verifier.verify({ key, credits: { cost: 0 } });
    const other = await pool.connect();
    endings.unshift(async () => other.release(true));
    await other.query("BEGIN");
    await other.query(
      "UPDATE keystile.accounts SET remaining = remaining + 5, adjusted = adjusted + 5 WHERE remaining = 1",
    );
    const call = verifier.verify({ key, credits: { cost: 4 } });
    await wait(200);
    await other.query("COMMIT");
    // One credit was there when it began, and it takes four.
    expect(await call).toMatchObject({ code: "VALID", credits: 12 });
    const { accounts } = await keyring.getBalance({ identity: "ann" });
    expect(accounts.map(({ remaining }) => remaining)).toEqual([2, 10]);
    await verifier.close();
  });

  it("two rerolls of one key at once wait for each other in no circle", async () => {
    const url = await server.newDatabase();
    const store = await newStore(url);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "rerolled" });
    await store.insertKeys([{ row: keyRow(0, { apiId }) }]);
    const [old] = await store.readMany("keys", [keyRow(0).id]);
    const write = (row: object) =>
      [
        "SELECT keystile.write_key_v1($1)",
        [JSON.stringify({ table: "keys", row: encodeKeyRow({ row: row as typeof old & object }) })],
      ] as const;
    const more = { apiId, accountId: old!.id, rerolledFrom: old!.id };
    const pool = poolOf(url);
    const [first, second] = [await pool.connect(), await pool.connect()];
    for (const [n, one] of [first, second].entries()) {
      await one.query("BEGIN");
      const [sql, values] = write(keyRow(n + 1, more));
      await one.query(sql, [...values]);
    }
    // Nobody lets go of the key meanwhile: it is refused at once or not at all.
    await first.query("SET lock_timeout = '1s'");
    const [sql, values] = write({ ...old, rerolledTo: keyRow(1).id });
    await first.query(sql, [...values]);
    const waiting = second.query(sql, [...values]).catch((error: unknown) => error);
    await first.query("COMMIT");
    // The key is another one now.
    expect(await waiting).toMatchObject({ code: "KS001" });
    await second.query("ROLLBACK");
    for (const one of [first, second]) one.release();
  });

  it("a transaction that runs for hours loses no change, and resets no node", async () => {
    const url = await server.newDatabase();
    const database = new URL(url).pathname.slice(1);
    const store = await newStore(url);
    const other = await newStore(url);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "long" });
    const long = await poolOf(url).connect();
    await long.query("BEGIN");
    await long.query("INSERT INTO keystile.changes (at, what) VALUES (now() - interval '3 hours', '=late')");
    await store.insertKeys([0, 1, 2].map((n) => ({ row: keyRow(n, { apiId }) })));
    await other.pollChanges("anew");
    const told: unknown[] = [];
    other.subscribe((change) => told.push(change));
    await server.sql(
      "UPDATE keystile.changes SET at = now() - interval '2 hours'; SELECT keystile.prune_v1('1 hour')",
      database,
    );
    for (let i = 0; i < 3; i++) await other.pollChanges("anew");
    await store.insertKeys([{ row: keyRow(3, { apiId }) }]);
    await other.pollChanges("anew");
    expect(told).toEqual([{ digest: "digest-3" }]);
    await long.query("COMMIT");
    long.release();
    await other.pollChanges("anew");
    expect(told).toEqual([{ digest: "digest-3" }, { digest: "late" }]);
    // Pruned once it is over: nodes that have polled since need no reset.
    await server.sql("SELECT keystile.prune_v1('1 hour')", database);
    const [left] = await server.sql("SELECT count(*)::int AS n FROM keystile.changes", database);
    expect(left).toEqual({ n: 1 });
    await other.pollChanges("anew");
    expect((await other.status()).resets).toBe(0);
  });

  it("calls with idempotency keys that clear away what expired do not wait for each other in a circle", async () => {
    const url = await server.newDatabase();
    const pool = poolOf(url);
    let statements = 0;
    const client: PostgresClient = {
      query(text, values) {
        if (text.includes("once_group_v1")) statements++;
        return pool.query(text, values);
      },
    };
    const store = await newStore(url, client);
    let ids = 0;
    const call = (workspaceId: string, now: number) =>
      store.spendOnce(undefined, 0, {
        ...{ cost: 0, now },
        once: {
          record: { workspaceId, id: `id_${ids++}`, body: "b", until: now + 10 },
          bounds: { maxRecords: 1_000, maxPerWorkspace: 100 },
        },
      });
    // As many as one call clears away, so that the next ones are left for the other.
    for (const workspaceId of ["ws_a", "ws_b"])
      for (let n = 0; n < EXPIRED_PER_WRITE; n++) await call(workspaceId, workspaceId === "ws_a" ? 0 : 1);
    await server.sql(
      `CREATE FUNCTION keystile.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$;
       CREATE TRIGGER slow AFTER UPDATE ON keystile.idempotency_counts FOR EACH ROW EXECUTE FUNCTION keystile.slow()`,
      new URL(url).pathname.slice(1),
    );
    statements = 0;
    const results = await Promise.all([call("ws_b", 100), wait(50).then(() => call("ws_a", 100))]);
    expect(results.map(({ outcome }) => outcome)).toEqual(["done", "done"]);
    // The server ends one of two that deadlock, and its store sends it again.
    expect(statements).toBe(2);
  });

  it("a listener that is lost while it is tried out is replaced by one, which ends with the store", async () => {
    const url = await server.newDatabase();
    const pool = poolOf(url);
    let isCut = false;
    pool.on("connect", (connection) => {
      const query = connection.query.bind(connection) as (...given: unknown[]) => Promise<unknown>;
      connection.query = (async (...given: unknown[]) => {
        const { text = "", values = [] } = given[0] as { text?: string; values?: string[] };
        if (text.includes("pg_notify") && values[1]?.startsWith("probe ") === true && !isCut) {
          isCut = true;
          await server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
          await wait(100);
        }
        return query(...given);
      }) as never;
    });
    const store = await newStore(url, pool);
    await store.pollChanges("anew");
    await vi.waitFor(async () => expect((await store.status()).isListening).toBe(true), 20_000);
    // Longer than the first attempt goes on for.
    await wait(3_000);
    expect((await store.status()).isListening).toBe(true);
    await store.close();
    await vi.waitFor(() => expect(pool.totalCount - pool.idleCount).toBe(0), 5_000);
  });

  it("no error shows a password, a digest or a key", async () => {
    const url = await server.newDatabase();
    const database = new URL(url).pathname.slice(1);
    const store = await newStore(url);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "canaries" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
    const verifier = createVerifier(store);
    const [row] = await server.sql("SELECT digest FROM keystile.keys", database);
    const wrong = Object.assign(new URL(url), { password: "wrong-password" }).href;
    const canaries = createCanaries([server.password, "wrong-password", key, row!["digest"] as string, "taken-digest"]);
    const meets = async (code: string, work: () => unknown) => {
      const error = await Promise.resolve(work()).then(
        () => undefined,
        (failure: unknown) => failure,
      );
      canaries.add(error);
      expect((error as { code?: string } | undefined)?.code).toBe(code);
    };
    await meets("STORE_FAILED", () => postgresStore(poolOf(wrong)).findKey("d"));
    // The server tells the whole row in the details of what it says.
    await server.sql("ALTER TABLE keystile.accounts ADD CHECK (remaining > 9)", database);
    await meets("STORE_INVALID", () => verifier.verify({ key }));
    await server.sql("ALTER TABLE keystile.keys ADD CHECK (name <> 'bad')", database);
    const bad = { row: { ...keyRow(7, { apiId, name: "bad" }), digest: "taken-digest" } };
    await meets("STORE_INVALID", () => store.insertKeys([bad]));
    await meets("NOT_FOUND", () => store.insertKeys([{ row: { ...bad.row, apiId: "api_none" } }]));
    await server.sql("DROP FUNCTION keystile.spend_v1, keystile.write_v1", database);
    await meets("STORE_INVALID", () => verifier.verify({ key }));
    await meets("STORE_INVALID", () => keyring.updateKey({ keyId, name: "new" }));
    await server.sql("ALTER TABLE keystile.keys RENAME TO other", database);
    await meets("STORE_INVALID", () => store.findKey("taken-digest"));
    expect([...canaries.leaks]).toEqual([]);
    // The control: the client's own errors do show them.
    const pool = poolOf(url);
    const refused = pool.query("INSERT INTO keystile.accounts SELECT * FROM keystile.accounts");
    const theirs = createCanaries(["already exists"]);
    await refused.catch((error: unknown) => theirs.add(error));
    expect(theirs.leaks.size).toBe(1);
  });

  it("an empty database is refused, and says what to run", async () => {
    const store = postgresStore(poolOf(await server.newDatabase()));
    await expect(store.findKey("d")).rejects.toMatchObject({ code: "STORE_INVALID", message: /setUp/ });
    await store.close();
  });

  it("a database of another encoding is refused at setUp, which says which one is needed; nothing is made", async () => {
    const url = await server.newDatabase("ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    const pool = poolOf(url);
    const store = postgresStore(pool);
    await expect(store.setUp()).rejects.toMatchObject({
      code: "STORE_FAILED",
      message: expect.stringContaining("ENCODING 'UTF8' TEMPLATE template0"),
    });
    await expect(pool.query(setUpScript("keystile"))).rejects.toMatchObject({
      code: "KS011",
      message: expect.stringContaining("LATIN1"),
    });
    expect((await pool.query("SELECT to_regnamespace('keystile') AS made")).rows).toEqual([{ made: null }]);
    await store.close();
  });

  it("a store that is not closed lets the program end, where its pool does", async () => {
    const url = await server.newDatabase();
    await newStore(url);
    const code = `
      import pg from "pg";
      import { createVerifier } from "./src/index.ts";
      import { postgresStore } from "./src/stores/postgres/index.ts";
      const pool = new pg.Pool({ connectionString: ${JSON.stringify(url)}, allowExitOnIdle: true, idleTimeoutMillis: 0 });
      const verifier = createVerifier(postgresStore(pool));
      console.log((await verifier.verify({ key: "sk_unknown" })).code);`;
    const ended = await new Promise<{ readonly stdout: string; readonly isKilled: boolean }>((resolve) => {
      const flags = ["--import", "tsx", "--input-type=module", "-e", code];
      // It ends by itself, or never.
      execFile(process.execPath, flags, { timeout: 60_000 }, (error, stdout) =>
        resolve({ stdout, isKilled: error?.killed === true }),
      );
    });
    expect(ended).toEqual({ stdout: "NOT_FOUND\n", isKilled: false });
  });

  it.skipIf(noPostgresServer !== undefined)("a replica is refused with the reason", async () => {
    const primary = await startPostgres();
    const standby = await primary.standby("replica");
    const store = postgresStore(poolOf(standby.url));
    try {
      await newStore(primary.url);
      for (const deadline = performance.now() + 10_000; ;) {
        const [row] = await standby.sql("SELECT to_regclass('keystile.meta')::text AS meta");
        if (row!["meta"] !== null) break;
        expect(performance.now()).toBeLessThan(deadline);
        await wait(20);
      }
      const refusal = { code: "STORE_READ_ONLY", message: expect.stringContaining("read replica") };
      await expect(store.findKey("d")).rejects.toMatchObject(refusal);
      await expect(store.pollChanges("anew")).rejects.toMatchObject(refusal);
      expect((await store.status()).isReplica).toBe(true);
      await expect(store.setUp()).rejects.toMatchObject({ code: "STORE_READ_ONLY" });
      await store.close();
    } finally {
      await standby.close();
      await primary.close();
    }
  });
});
