/** What is wrong with accounts, leases and counts is found, one discrepancy after the other, and nothing else. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { reconcile } from "../../../src/stores/postgres/reconcile.js";
import { noPostgres, startPostgres, type TestPostgres } from "../../servers/postgres.js";

describe.skipIf(noPostgres !== undefined)("postgres: reconcile", () => {
  let server: TestPostgres;
  let pool: pg.Pool;
  let ids: { readonly limited: string; readonly unlimited: string };
  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: await server.newDatabase(), max: 4 });
    const store = postgresStore(pool);
    await store.setUp();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    // Free-form data that `json` cannot read, and that looks like what is asked for.
    const meta = { limited: true, note: String.raw`\u0000 "limited":true \ud800`, name: "\u0001" };
    const limited = await keyring.createKey({ apiId, meta, credits: { remaining: 100 } });
    const unlimited = await keyring.createKey({ apiId, meta });
    const { rows } = await pool.query<{ n: string }>("SELECT number AS n FROM keystile.keys WHERE id = $1", [
      limited.keyId,
    ]);
    const n = Number(rows[0]!.n);
    for (const id of ["a", "b"]) {
      const record = { id, workspaceId: "ws_default", body: "b", until: 9e12 };
      await store.spendOnce(n, 0, { cost: 1, now: 0, once: { record, bounds: { maxRecords: 9, maxPerWorkspace: 9 } } });
    }
    for (const holder of ["one", "two"])
      await store.drawCredits(n, { holder, cost: 5, step: 5, size: 20, spent: 0, period: 0, now: 0, until: 10 });
    // One is forfeited by the next draw.
    await store.drawCredits(n, { holder: "two", cost: 5, step: 5, size: 20, spent: 3, period: 0, now: 20, until: 30 });
    await store.close();
    ids = { limited: limited.keyId, unlimited: unlimited.keyId };
    // A statement that plants something runs without the constraints that refuse it.
    await pool.query("ALTER TABLE keystile.accounts DROP CONSTRAINT adds_up, DROP CONSTRAINT in_bounds");
    await pool.query("ALTER TABLE keystile.leases DROP CONSTRAINT leases_account_fkey");
  }, 60_000);
  afterAll(async () => {
    await pool.end();
    await server.close();
  });

  /** What is found after a statement, which is undone. */
  async function findAfter(sql: string) {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      await client.query(sql);
      const inside = { query: (text: string, values: unknown[]) => client.query(text, values) };
      return await reconcile(inside, "keystile", () => undefined);
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  }
  const set = (what: string) => `UPDATE keystile.accounts SET ${what}`;
  const of = (which: () => string, problem: string) => () => [{ keyId: which(), problem }];
  const limited = (problem: string) => of(() => ids.limited, problem);

  it("finds nothing where nothing is wrong, in slices or not", async () => {
    const seen: number[] = [];
    expect(await reconcile(pool, "keystile", (n) => seen.push(n))).toEqual({
      credits: { accounts: 1, broken: 0, named: [] },
      idempotency: { accounts: 1, broken: 0, named: [] },
    });
    expect(seen).toEqual([1]);
    const { credits } = await findAfter(
      `INSERT INTO keystile.keys (number, id, workspace_id, api_id, version, draws, deleted, grants, body, start, enabled, created_at)
         SELECT 1000 + n, 'key_' || n, 'ws_1', 'api_1', 1, false, false, '', '{"limited":true}', '', true, now() FROM generate_series(1, 12000) n;
       INSERT INTO keystile.accounts SELECT 1000 + n, false, 0, 0, 0, 0 FROM generate_series(1, 12000) n;
       INSERT INTO keystile.leases SELECT 1000 + n / 2, n::text, 0, 0, 9, 0, true FROM generate_series(2, 12000) n;
       UPDATE keystile.accounts SET credited = 1 WHERE number IN (1001, 6001, 6002, 13000)`,
    );
    expect(credits).toMatchObject({ accounts: 12_001, broken: 4 });
    expect(credits.named.map(({ keyId }) => keyId)).toEqual(["key_1", "key_5001", "key_5002", "key_12000"]);
  });

  const planted: readonly (readonly [title: string, sql: string, found: () => object[]])[] = [
    [
      "totals that do not add up",
      set("spent = spent + 1"),
      limited(
        "credited 100 + refilled 0 + adjusted 0 is not spent 6 + remaining 83 + reserved 7 + forfeited 5 + expired 0",
      ),
    ],
    [
      "an amount below 0",
      set("remaining = remaining + 200, forfeited = forfeited - 200"),
      limited("an amount is below 0"),
    ],
    [
      "an amount that is not exact",
      set("credited = 9007199254740992, spent = 9007199254740992 - 95"),
      limited("an amount is above 2^53 - 1"),
    ],
    [
      "totals beyond what bigint adds",
      set("credited = 9223372036854775807, spent = 9223372036854775807"),
      limited(
        "credited 9223372036854775807 + refilled 0 + adjusted 0 is not spent 9223372036854775807 + remaining 83 + reserved 7 + forfeited 5 + expired 0",
      ),
    ],
    [
      "leases that hold other than what is reserved",
      "UPDATE keystile.leases SET held = held + 1 WHERE holder = 'two'",
      limited("reserved 7, and its leases hold 8"),
    ],
    ["a lease that is gone", "DELETE FROM keystile.leases", limited("reserved 7, and its leases hold 0")],
    ["a balance without a limit", set("unlimited = true"), limited("unlimited, and has a balance")],
    [
      "a key that its account takes for unlimited",
      set("unlimited = true, spent = spent + remaining, remaining = 0"),
      limited("the key and its account differ about whether it is unlimited"),
    ],
    [
      "an account of a key that has no credits",
      "INSERT INTO keystile.accounts SELECT number, false, 0, 0, 0, 0 FROM keystile.keys WHERE account IS NULL ON CONFLICT DO NOTHING",
      of(() => ids.unlimited, "the key and its account differ about whether it is unlimited"),
    ],
    [
      "an account without a key",
      "INSERT INTO keystile.accounts VALUES (900, true, 0, 0, 0, 0)",
      of(() => "number 900", "an account without a key, an identity or a grant"),
    ],
    [
      "an identity that its account takes for unlimited",
      `INSERT INTO keystile.entities (kind, id, workspace_id, name, version, deleted, body, account)
         VALUES ('identities', 'id_ada', 'ws_1', 'ada', 1, false, '{"ratelimits":[],"hasCredits":true}', 902);
       INSERT INTO keystile.accounts VALUES (902, true, 0, 0, 0, 0)`,
      of(() => "id_ada", "the identity and its account differ about whether it is unlimited"),
    ],
    [
      "credits of an identity without an account",
      `INSERT INTO keystile.entities (kind, id, workspace_id, name, version, deleted, body)
         VALUES ('identities', 'id_ada', 'ws_1', 'ada', 1, false, '{"ratelimits":[],"hasCredits":true}')`,
      of(() => "id_ada", "it has credits, and no account"),
    ],
    [
      "a lease without an account",
      "INSERT INTO keystile.leases VALUES (901, 'gone', 0, 0, 4, 0, false)",
      of(() => "number 901", "a lease of 4 without an account"),
    ],
    [
      "credits without an account",
      "DELETE FROM keystile.leases; DELETE FROM keystile.accounts",
      limited("it has credits, and no account"),
    ],
  ];
  for (const [title, sql, found] of planted)
    it(`finds ${title}`, async () => {
      expect(await findAfter(sql)).toMatchObject({ credits: { named: found() }, idempotency: { broken: 0 } });
    });

  const counts: readonly (readonly [title: string, sql: string, id: string, problem: string])[] = [
    [
      "a count that is too high",
      "UPDATE keystile.idempotency_counts SET records = 3",
      "ws_default",
      "2 idempotency records, counted as 3",
    ],
    [
      "records without a count",
      "DELETE FROM keystile.idempotency_counts",
      "ws_default",
      "2 idempotency records, counted as 0",
    ],
    [
      "a count without records",
      "INSERT INTO keystile.idempotency_counts VALUES ('ws_2', 1)",
      "ws_2",
      "0 idempotency records, counted as 1",
    ],
  ];
  for (const [title, sql, keyId, problem] of counts)
    it(`finds ${title}`, async () => {
      expect(await findAfter(sql)).toMatchObject({
        credits: { broken: 0 },
        idempotency: { named: [{ keyId, problem }] },
      });
    });

  it("an account that several keys share has a key while one of them is there, and a count of nothing is none", async () => {
    const found = await findAfter(
      `UPDATE keystile.keys SET account = (SELECT number FROM keystile.keys WHERE id = '${ids.limited}') WHERE id = '${ids.unlimited}';
       DELETE FROM keystile.keys WHERE id = '${ids.limited}'; INSERT INTO keystile.idempotency_counts VALUES ('ws_2', 0)`,
    );
    expect(found).toMatchObject({ credits: { broken: 0 }, idempotency: { accounts: 2, broken: 0 } });
  });

  it("takes no lock that another statement waits for, and each statement is bounded by rows", async () => {
    const sent: string[] = [];
    const client = {
      query: (text: string, values: unknown[]) => {
        sent.push(text);
        return pool.query(text, values);
      },
    };
    await reconcile(client, "keystile", () => undefined);
    expect(sent).toHaveLength(10);
    for (const text of sent) expect(text).toMatch(/LIMIT (1|2000)\b/);
    expect(sent.join()).not.toMatch(/\bFOR (UPDATE|SHARE|NO KEY|KEY)\b|INSERT|UPDATE|DELETE/);
  });
});
