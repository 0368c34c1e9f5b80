/** The way back from tables of a later keystile, as the script that an administrator runs. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KeyRow } from "../../../src/contracts/store.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { downgradeScript, SCHEMA_VERSION, scriptOf, type Step, STEPS } from "../../../src/stores/postgres/schema.js";
import { LIST_DELETED } from "../../../src/stores/postgres/search.js";
import { api } from "../../../src/testing/store/rows.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { NEWER_FIELDS, NEWER_OF_IDENTITIES } from "../newer-fields.js";
import { keyRow } from "../suite.js";
import { noPostgres, startPostgres, type TestPostgres } from "../../servers/postgres.js";

const LATER: readonly Step[] = [
  {
    up: (s) => `CREATE TABLE ${s}.later (a integer NOT NULL);`,
    down: (s) => `DROP TABLE ${s}.later;`,
    refuses: { "later rows": (s) => `SELECT count(*) FROM ${s}.later` },
  },
  {
    up: () => "SELECT 1",
    down: () => "SELECT 1",
    refuses: { "keys with hours": (s) => `SELECT count(*) FROM ${s}.keys WHERE body::json ->> 'hours' IS NOT NULL` },
  },
];
const ALL = [...STEPS, ...LATER];
const SCRIPT = downgradeScript("keystile", SCHEMA_VERSION, ALL);

describe("downgradeScript", () => {
  it("there is none to before 0.1.0, nor for what is no name of a schema", () => {
    expect(() => downgradeScript("keystile", 4)).toThrow(new RangeError("there is no way back from version 6"));
    expect(() => downgradeScript("my schema", SCHEMA_VERSION)).toThrow(TypeError);
  });

  it("every step behind one with a way back has one too", () => {
    const first = STEPS.findIndex((step) => typeof step !== "function");
    expect(STEPS.slice(first).filter((step) => typeof step === "function")).toEqual([]);
  });
});

describe.skipIf(noPostgres !== undefined)("downgradeScript: on a server", () => {
  let server: TestPostgres;
  let pool: pg.Pool;
  let key: string;
  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: await server.newDatabase(), max: 4 });
    await pool.query(scriptOf("keystile", ALL));
    await pool.query(`UPDATE keystile.meta SET version = ${SCHEMA_VERSION}`);
    const store = postgresStore(pool);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    ({ key } = await keyring.createKey({ apiId, credits: { remaining: 100 } }));
    await store.close();
    await pool.query(`UPDATE keystile.meta SET version = ${SCHEMA_VERSION + 2}`);
  }, 60_000);
  afterAll(async () => {
    await pool.end();
    await server.close();
  });

  const version = async () =>
    (await pool.query<{ version: number }>("SELECT version FROM keystile.meta")).rows[0]?.version;

  it("refuses, and changes nothing, while there are rows that the version before would lose or misread", async () => {
    await pool.query("UPDATE keystile.keys SET body = jsonb_set(body::jsonb, '{hours}', '1')::text");
    await expect(pool.query(SCRIPT)).rejects.toMatchObject({
      code: "KS010",
      message: `there are 1 keys with hours, which version ${SCHEMA_VERSION + 1} does not know`,
    });
    await pool.query("UPDATE keystile.keys SET body = (body::jsonb - 'hours')::text");
    await pool.query("INSERT INTO keystile.later VALUES (1)");
    await expect(pool.query(SCRIPT)).rejects.toMatchObject({ code: "KS010" });
    expect(await version()).toBe(SCHEMA_VERSION + 2);
    await pool.query("DELETE FROM keystile.later");
  });

  it("this keystile works on what it leaves, and the later one upgrades it again", async () => {
    for (let again = 0; again < 2; again++) await pool.query(SCRIPT);
    expect(await version()).toBe(SCHEMA_VERSION);
    const store = postgresStore(pool);
    const verifier = createVerifier(store);
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 99 });
    await verifier.close();
    await store.close();
    await pool.query(scriptOf("keystile", ALL));
    expect(await version()).toBe(SCHEMA_VERSION + 2);
  });

  /** The earliest version that there is a way back to. */
  const first = SCHEMA_VERSION - STEPS.length + STEPS.findIndex((step) => typeof step !== "function");

  it.each(NEWER_FIELDS)("a key with %s is not taken back to before there was the field", async (name, row) => {
    await pool.query(SCRIPT);
    const store = postgresStore(pool);
    await store.write([{ table: "apis", row: api() }]);
    await store.insertKeys([{ row }]);
    await store.close();
    const has = async (): Promise<boolean> => {
      const text = "SELECT body::jsonb ? $1 AS has FROM keystile.keys WHERE id = $2";
      return (await pool.query<{ has: boolean }>(text, [name, row.id])).rows[0]!.has;
    };
    const before = await has();
    const refused = await pool.query(downgradeScript("keystile", first, ALL)).then(
      () => undefined,
      (error: unknown) => (error as { code?: unknown }).code,
    );
    expect([before, refused ?? (await has())]).toEqual([true, refused === undefined ? false : "KS010"]);
    await pool.query(scriptOf("keystile", STEPS));
    await pool.query("DELETE FROM keystile.keys WHERE id = $1", [row.id]);
    await pool.query("DELETE FROM keystile.entities");
    await pool.query(scriptOf("keystile", ALL));
  });

  it.each(NEWER_OF_IDENTITIES)(
    "an identity with %s is not taken back to before there was the field",
    async (_, row) => {
      await pool.query(SCRIPT);
      const store = postgresStore(pool);
      await store.write([{ table: "identities", row }]);
      await store.close();
      const script = downgradeScript("keystile", first, ALL);
      await expect(pool.query(script)).rejects.toMatchObject({ code: "KS010" });
      await pool.query("DELETE FROM keystile.entities WHERE kind = 'identities'");
      await pool.query(script);
      expect(await version()).toBe(first);
      await pool.query(scriptOf("keystile", ALL));
    },
  );

  it("who deleted keys, and when, is not known before it was recorded, and their rows are as they were else", async () => {
    const meta = {
      deletedAt: 1,
      a: "\u0000",
      n: 1e21,
      ["__proto__"]: [{ deleted: true, deletedAt: 2, deletedBy: "x" }],
    };
    const [plain, bare] = [1, 2].map((n) => keyRow(n, { meta, deleted: true, rerolledTo: "key_9" })) as [
      KeyRow,
      KeyRow,
    ];
    await pool.query(SCRIPT);
    const store = postgresStore(pool);
    await store.write([{ table: "apis", row: api() }]);
    const deletedBy = 'a"\\} b","deletedAt":7}';
    await store.insertKeys([{ row: { ...plain, deletedAt: -5, deletedBy } }, { row: { ...bare, deletedAt: 5 } }]);
    await store.close();
    const before = SCHEMA_VERSION - STEPS.length + STEPS.indexOf(LIST_DELETED);
    await pool.query(downgradeScript("keystile", before, ALL));
    await pool.query(scriptOf("keystile", STEPS));
    const again = postgresStore(pool);
    const rows = [plain, bare].map((row) => ({ ...row, version: 1 }));
    expect(await again.readMany("keys", [plain.id, bare.id])).toEqual(rows);
    await again.close();
    await pool.query("DELETE FROM keystile.keys WHERE deleted");
    await pool.query(scriptOf("keystile", ALL));
  });

  it("each step that has a way back, back and forth: the tables are those of before", async () => {
    const shape = async () => {
      const { rows } = await pool.query(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'keystile' ORDER BY 1, 2",
      );
      return JSON.stringify(rows);
    };
    const before = SCHEMA_VERSION - STEPS.length;
    const shapes = [await shape()];
    const first = ALL.findIndex((step) => typeof step !== "function");
    for (let steps = ALL.length - 1; steps >= first; steps--) {
      await pool.query(downgradeScript("keystile", before + steps, ALL));
      shapes.unshift(await shape());
    }
    expect(new Set(shapes).size).toBeGreaterThan(1);
    for (const [done, expected] of shapes.entries()) {
      await pool.query(scriptOf("keystile", ALL.slice(0, first + done)));
      expect(await shape()).toBe(expected);
    }
  });
});
