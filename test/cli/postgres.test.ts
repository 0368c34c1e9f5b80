/**
 * The command line with a real PostgreSQL: a file is moved there, served by two processes, and examined; no output
 * holds the password.
 */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { createKeyring, createRatelimits, createVerifier } from "../../src/index.js";
import { postgresStore } from "../../src/stores/postgres/index.js";
import { SCHEMA_VERSION } from "../../src/stores/postgres/schema.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { noPgbouncer, noPostgres, startPgbouncer, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { folder, run, serve } from "./support.js";

const FOLDER = folder();

describe.skipIf(noPostgres !== undefined)("the command line with PostgreSQL", () => {
  let server: TestPostgres;
  const outputs: string[] = [];
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(() => server.close());
  afterEach(() => {
    for (const file of ["keystile.root-key"]) rmSync(file, { force: true });
    for (const output of outputs.splice(0)) expect(output).not.toContain(server.password);
  });
  const ran = async (...argv: string[]) => {
    const result = await run(argv);
    outputs.push(result.stdout, result.stderr);
    return result;
  };
  const post = async (url: string, rootKey: string, path: string, body: object) => {
    const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
    const response = await fetch(`${url}/v2/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as { data: Record<string, never> } };
  };

  it(
    "copies a file, which two servers then serve: a key that one revokes is refused by the other",
    { timeout: 60_000 },
    async () => {
      const file = join(FOLDER, "keys.db");
      const store = sqliteStore(file);
      const keyring = createKeyring(store, { workspaceId: "ws_default" });
      const { apiId } = await keyring.createApi({ name: "docs" });
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
      const { key: rootKey } = await keyring.createRootKey({
        permissions: ["api.*.verify_key", "api.*.update_key", "api.*.read_key"],
      });
      const verifier = createVerifier(store);
      expect((await verifier.verify({ key })).credits).toBe(99);
      await verifier.close();
      await store.close();

      const address = await server.newDatabase();
      const copied = await ran("copy", "--from", `sqlite:${file}`, "--to", address, "--output", "json");
      expect(copied).toMatchObject({ code: 0, stderr: "" });
      expect(JSON.parse(copied.stdout)).toMatchObject({ isSame: true, kinds: { keys: { rows: 1, isSame: true } } });
      expect((await ran("copy", "--from", file, "--to", address)).code).toBe(1);

      const nodes = [
        await serve(undefined, ["--store", address, "--port", "0"]),
        await serve(undefined, ["--port", "0"], { env: { KEYSTILE_STORE: address } }),
      ];
      const [one, other] = nodes as [(typeof nodes)[0], (typeof nodes)[0]];
      const verify = async ({ url }: { url: string }) =>
        (await post(url, rootKey, "keys.verifyKey", { key })).body.data;
      expect(await verify(one)).toMatchObject({ valid: true, credits: 98 });
      expect(await verify(other)).toMatchObject({ valid: true, credits: 97 });
      expect((await post(one.url, rootKey, "keys.updateKey", { keyId, enabled: false })).status).toBe(200);
      expect(await verify(one)).toMatchObject({ code: "DISABLED" });
      // Within the bound, whether or not a notification came.
      await new Promise((resolve) => setTimeout(resolve, 2_100));
      expect(await verify(other)).toMatchObject({ code: "DISABLED" });
      for (const node of nodes) {
        const { code, stdout, stderr } = await node.stop();
        expect(code).toBe(0);
        outputs.push(stdout, stderr);
      }
    },
  );

  it(
    "copies as a role that makes no tables: with UPDATE on the sequences; without it the copy says so and ends",
    { timeout: 60_000 },
    async () => {
      const file = join(FOLDER, "as-app.db");
      const store = sqliteStore(file);
      const { apiId } = await createKeyring(store).createApi({ name: "docs" });
      await createKeyring(store).createKey({ apiId });
      await store.close();
      const address = await server.newDatabase();
      const database = new URL(address).pathname.slice(1);
      await server.sql((await ran("schema", "postgres")).stdout, database);
      await server.sql(
        `CREATE ROLE copier LOGIN PASSWORD 'copier';
         GRANT USAGE ON SCHEMA keystile TO copier;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA keystile TO copier;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA keystile TO copier`,
        database,
      );
      const to = Object.assign(new URL(address), { username: "copier", password: "copier" }).href;
      expect(await ran("copy", "--from", file, "--to", to)).toMatchObject({
        code: 3,
        stdout: "",
        stderr: expect.stringContaining("GRANT UPDATE ON ALL SEQUENCES"),
      });
      // Of what failed no connection is left.
      const sessions = "SELECT 1 FROM pg_stat_activity WHERE usename = 'copier'";
      await vi.waitFor(async () => expect(await server.sql(sessions, database)).toEqual([]), 20_000);
      await server.sql("GRANT UPDATE ON ALL SEQUENCES IN SCHEMA keystile TO copier", database);
      expect(await ran("copy", "--from", file, "--to", to)).toMatchObject({ code: 0, stderr: "" });
    },
  );

  it("makes tables, an API and a root key at the first start, once", { timeout: 60_000 }, async () => {
    const address = await server.newDatabase();
    const first = await serve(undefined, ["--store", address, "--port", "0"]);
    expect(existsSync("keystile.root-key")).toBe(true);
    expect((await post(first.url, first.rootKey, "keys.createKey", { apiId: first.apiId })).status).toBe(200);
    const { stdout } = await first.stop();
    outputs.push(stdout);
    const second = await serve(undefined, ["--store", address, "--port", "0"]);
    expect(second.banner).not.toContain("root key");
    await second.stop();
  });

  it("serves the tables of the schema that --schema names", { timeout: 60_000 }, async () => {
    const address = await server.newDatabase();
    const pool = new pg.Pool({ connectionString: address });
    await pool.query((await ran("schema", "postgres", "--schema", "keys_2")).stdout);
    const { url, rootKey, apiId, stop } = await serve(undefined, [
      ...["--store", address, "--schema", "keys_2", "--port", "0"],
    ]);
    expect((await post(url, rootKey, "keys.createKey", { apiId })).status).toBe(200);
    await stop();
    const { rows } = await pool.query(
      "SELECT (SELECT count(*)::int FROM keys_2.keys) AS keys, to_regnamespace('keystile') AS other",
    );
    await pool.end();
    expect(rows).toEqual([{ keys: 1, other: null }]);
  });

  it("makes and lists root keys, APIs, keys and the rest with --store, in the schema that --schema names", async () => {
    const address = await server.newDatabase();
    const place = ["--store", address, "--schema", "keys_2"];
    expect(await ran("root-keys", "list", ...place)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("npx keystile schema postgres"),
    });
    const pool = new pg.Pool({ connectionString: address });
    const store = postgresStore(pool, { schema: "keys_2" });
    await store.setUp();
    const done = async (...argv: string[]) => {
      const { code, stdout, stderr } = await ran(...argv, ...place);
      expect([argv, code, stderr]).toEqual([argv, 0, expect.not.stringContaining("error")]);
      return stdout;
    };
    const apiId = (await done("apis", "create", "docs")).trim();
    expect(await done("apis", "list")).toContain(apiId);
    const [keyId = "", key = ""] = (await done("keys", "create", "--api-id", apiId, "--credits", "3")).split("\n");
    expect(await done("keys", "list", "--state", "active")).toContain(keyId);
    expect(JSON.parse(await done("keys", "get", keyId, "--output", "json"))).toMatchObject({ keyId, apiId });
    const [rootKeyId = ""] = (await done("root-keys", "create", "--all")).split("\n");
    expect(await done("root-keys", "list")).toContain(rootKeyId);
    expect(await done("migrations", "create", "--algorithm", "sha256", "--id", "mig_1")).toBe("mig_1\n");
    const hash = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    const keys = JSON.stringify([{ hash }]);
    const imported = await done("import", "--migration-id", "mig_1", "--api-id", apiId, "--keys", keys);
    expect(JSON.parse(imported)).toEqual({ migrated: 1, failed: 0 });
    const verifier = createVerifier(store, { analytics: true });
    expect(await verifier.verify({ key })).toMatchObject({ valid: true, credits: 2 });
    await verifier.close();
    expect(await done("analytics")).toContain("VALID");
    expect(await done("keys", "disable", keyId)).toBe(`disabled ${keyId}\n`);
    expect(await done("root-keys", "revoke", rootKeyId)).toBe(`revoked ${rootKeyId}\n`);
    await createRatelimits(store).createNamespace({ name: "mail" });
    expect(await done("namespaces", "list")).toContain("mail");
    await store.close();
    await pool.end();
    expect(await ran("keys", "list", "--store", address, "--db", "keys.db")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("takes one of: --db FILE, --store ADDRESS"),
    });
  });

  it("refuses what it cannot serve, by its reason", async () => {
    const address = await server.newDatabase();
    const refusals: readonly (readonly [string[], number, string])[] = [
      [["--store", address, "--limiter", "file"], 2, "--limiter file: there is no database file"],
      [["--store", "mysql://x"], 2, "must be an address such as postgres://"],
      [["--durability", "replicated"], 2, "for --store"],
      [["--store", address, "--durability", "replicated"], 3, "no synchronous standby"],
      [["--store", `postgres://x:${server.password}@127.0.0.1:1/none`], 3, "cannot be reached"],
    ];
    for (const [flags, code, text] of refusals) {
      const result = await ran("serve", "--port", "0", ...flags);
      expect(result.stderr, flags[0]).toContain(text);
      expect(result.code, flags[0]).toBe(code);
    }
  });

  it("prints a script that makes the tables, and doctor finds what it is about", { timeout: 60_000 }, async () => {
    const address = await server.newDatabase();
    expect((await ran("doctor", "--store", address)).stdout).toContain(
      "there are no tables; run: npx keystile schema postgres",
    );
    const { stdout: script } = await ran("schema", "postgres");
    const pool = new pg.Pool({ connectionString: address });
    for (let i = 0; i < 2; i++) await pool.query(script);
    await pool.end();
    const examined = await ran("doctor", "--store", address, "--output", "json");
    // The servers of the tests sync nothing.
    expect(examined.code).toBe(1);
    const { checks } = JSON.parse(examined.stdout) as { checks: { level: string; check: string; text: string }[] };
    expect(Object.fromEntries(checks.map(({ check, level }) => [check, level]))).toEqual({
      server: "ok",
      primary: "ok",
      schema: "ok",
      durability: "fail",
      clock: "ok",
      pooler: "ok",
    });
    const name = new URL(address).pathname.slice(1);
    await server.sql("UPDATE keystile.meta SET version = 0", name);
    for (const command of ["doctor", "serve"]) {
      const { stdout, stderr } = await ran(command, "--store", address);
      expect(stdout + stderr, command).toContain("keystile schema postgres | psql …");
    }
    await server.sql(`UPDATE keystile.meta SET version = ${SCHEMA_VERSION}`, name);
    // What was found before something fails is told all the same.
    await server.sql(
      "CREATE ROLE looker LOGIN PASSWORD 'looker'; GRANT USAGE ON SCHEMA keystile TO looker; GRANT SELECT ON keystile.meta TO looker",
      name,
    );
    const asLooker = Object.assign(new URL(address), { username: "looker", password: "looker" }).href;
    const { stdout } = await ran("doctor", "--store", asLooker);
    expect(stdout).toMatch(/ok +schema[^]*fail +server +the role of the connection lacks a right/);
    expect((await ran("schema", "mysql")).code).toBe(2);
    const proved = await ran("doctor", "--store", address, "--reconcile");
    expect([proved.code, proved.stdout]).toEqual([
      1,
      expect.stringMatching(/ok +credits +0 accounts add up\nok +idem/),
    ]);
    await server.sql("INSERT INTO keystile.accounts VALUES (7, true, 0, 0, 0, 0)", name);
    await server.sql("INSERT INTO keystile.idempotency_counts VALUES ('ws_1', 3)", name);
    const wrong = await run(["doctor", "--store", address, "--reconcile", "--output", "json"], { isTTY: true });
    expect([wrong.code, wrong.stderr]).toEqual([1, "\r1 accounts\n"]);
    expect((JSON.parse(wrong.stdout) as { checks: object[] }).checks.slice(-2)).toEqual([
      { level: "fail", check: "credits", text: "number 7: an account without a key, an identity or a grant" },
      { level: "fail", check: "idempotency", text: "ws_1: 0 idempotency records, counted as 3" },
    ]);
    expect(await ran("root-keys", "list", "--db", address)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("take its address as --store"),
    });
    expect((await ran("doctor")).code).toBe(2);
    expect((await ran("doctor", "--store", `postgres://x:${server.password}@127.0.0.1:1/none`)).stdout).toContain(
      "cannot be reached",
    );
  });

  it.skipIf(noPgbouncer !== undefined)("doctor tells a pooler in transaction mode", { timeout: 60_000 }, async () => {
    const pooler = await startPgbouncer(server);
    try {
      const address = await server.newDatabase();
      await ran("doctor", "--store", address);
      const { stdout: script } = await ran("schema", "postgres");
      const pool = new pg.Pool({ connectionString: address });
      await pool.query(script);
      await pool.end();
      const { stdout } = await ran("doctor", "--store", pooler.through(address));
      expect(stdout).toMatch(/warn +pooler/);
    } finally {
      await pooler.close();
    }
  });
});
