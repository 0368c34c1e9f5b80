import { inspect as show } from "node:util";
import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../../src/access/authenticate.js";
import type { Spend } from "../../../src/contracts/store.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { toStoreError } from "../../../src/stores/sqlite/connection/errors.js";
import type { Handle } from "../../../src/stores/sqlite/connection/handle.js";
import { SCHEMA_VERSION } from "../../../src/stores/sqlite/connection/schema.js";
import { createTransact } from "../../../src/stores/sqlite/connection/transaction.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { runs } from "../../runs.js";
import { keyRow } from "../suite.js";
import {
  addKeys,
  api,
  change,
  codeOf,
  foreignHandle,
  inspect,
  nextTurn,
  quietCounters,
  refOf,
  temporaryPaths,
  totalIn,
  withApi,
} from "./support.js";

const path = temporaryPaths();
const DRAW = { holder: "h", spent: 0, cost: 1, step: 5, size: 40, period: 0, now: 0, until: 1 };

describe("sqliteStore: a database that cannot be written", () => {
  it("hostile A185: opened for reading only, checks answer and spends are STORE_READ_ONLY", async () => {
    const place = path();
    const writer = await withApi(sqliteStore(place));
    await addKeys(writer, 1);
    const store = sqliteStore(place, { readonly: true });
    const ref = await refOf(store, "digest-1");
    expect(await store.spendCredits(ref, 0, 0, 0)).toEqual({ ok: true, remaining: 100 });
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(100);
    expect(await store.list("keys", { workspaceId: "ws_1", limit: 5 })).toHaveLength(1);
    expect(await codeOf(() => store.spendCredits(ref, 1, 0, 0))).toBe("STORE_READ_ONLY");
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(2) }]))).toBe("STORE_READ_ONLY");
    expect(await codeOf(() => change(store, "key_000001", { enabled: false }))).toBe("STORE_READ_ONLY");
    expect(await codeOf(() => store.adoptDigest(ref, "d"))).toBe("STORE_READ_ONLY");
    await change(writer, "key_000001", { name: "seen" });
    await store.pollChanges();
    expect((await store.findKey("digest-1"))?.name).toBe("seen");
    expect(store.health().ok).toBe(true);
    await Promise.all([store.close(), writer.close()]);
  });

  it("hostile A185: a handle with query_only set", async () => {
    const place = path();
    const first = await withApi(sqliteStore(place));
    await addKeys(first, 1);
    await first.close();
    const db = new Database(place);
    db.pragma("query_only = ON");
    const store = sqliteStore(db);
    const ref = await refOf(store, "digest-1");
    expect(await codeOf(() => store.spendCredits(ref, 1, 0, 0))).toBe("STORE_READ_ONLY");
    expect(await store.spendCredits(ref, 0, 0, 0)).toEqual({ ok: true, remaining: 100 });
    db.close();
  });

  it("without tables there is nothing to read: STORE_READ_ONLY at once", async () => {
    const place = path();
    inspect(place, (db) => db.pragma("user_version = 1"));
    expect(await codeOf(() => sqliteStore(place, { readonly: true }))).toBe("STORE_READ_ONLY");
    expect(() => sqliteStore(place, { readonly: true })).toThrow(/no keystile tables.*open it once for writing/);
  });

  it("hostile A143: on a full disk nothing acknowledged is lost, and it recovers", async () => {
    const place = path();
    const db = new Database(place);
    const store = await withApi(sqliteStore(db));
    const [ref] = await addKeys(store, 1, 1_000);
    db.pragma(`max_page_count = ${Number(db.pragma("page_count", { simple: true })) + 4}`);
    let stored = 1;
    const fill = async () => {
      for (;;) stored += (await store.insertKeys([{ row: keyRow(++n, { meta: { text: "x".repeat(2_000) } }) }])).length;
    };
    let n = 1;
    expect(await codeOf(fill)).toBe("STORE_FULL");
    // A new row of a balance that is there needs no space; a lease of another holder may.
    expect(await store.spendCredits(ref!, 1, 0, 0)).toEqual({ ok: true, remaining: 999 });
    expect(db.prepare("SELECT count(*) FROM keystile_keys").pluck().get()).toBe(stored);
    expect(db.inTransaction).toBe(false);
    db.pragma("max_page_count = 1000000");
    expect(await store.insertKeys([{ row: keyRow(n + 1) }])).toEqual([true]);
    db.close();
  });
});

describe("sqliteStore: a statement that fails", () => {
  const IO = Object.assign(new Error("disk I/O error"), { code: "ERR_SQLITE_ERROR", errcode: 1034 });

  it("a commit that fails is an error, and nothing of the transaction stays", () => {
    const db = new Database(":memory:");
    db.exec("CREATE TABLE a (x PRIMARY KEY); CREATE TABLE b (x REFERENCES a DEFERRABLE INITIALLY DEFERRED)");
    const transact = createTransact(db);
    const fail = () =>
      transact(() => {
        db.exec("INSERT INTO b VALUES (1)");
        return true;
      });
    expect(fail).toThrow(/FOREIGN KEY/);
    expect(db.inTransaction).toBe(false);
    expect(db.prepare("SELECT count(*) FROM b").pluck().get()).toBe(0);
  });

  it("a commit that meets a lock leaves nothing of it in what is known: of a group, and of an administrator's write", async () => {
    const place = path();
    let locked = 0;
    const handle = foreignHandle(new Database(place), (sql) => {
      if (sql === "COMMIT" && locked-- > 0)
        throw Object.assign(new Error("cannot commit"), { code: "ERR_SQLITE_ERROR", errcode: 5 });
    });
    const store = await withApi(sqliteStore(handle));
    const refs = await addKeys(store, 4, 20);
    const other = sqliteStore(place);
    const group = () => Promise.all(refs.map((ref) => store.spendCredits(ref, 1, 0, 0)));
    await group();
    expect(await other.spendCredits(refs[0]!, 0, 0, 0)).toEqual({ ok: true, remaining: 19 });
    locked = 1;
    expect(await group()).toEqual(Array(4).fill({ ok: true, remaining: 18 }));
    expect(await other.spendCredits(refs[0]!, 0, 0, 0)).toEqual({ ok: true, remaining: 18 });
    locked = 1;
    const row = (await store.readMany("keys", ["key_000001"]))[0]!;
    expect(await store.write([{ table: "keys", row, credits: { period: 0, remaining: 500 } }])).toEqual([
      { remaining: 500, reserved: 0, added: 482 },
    ]);
    for (const one of [store, other]) {
      expect((await one.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(500);
      expect((await one.readBalances([{ keyId: "key_000002", period: 0 }], 0))[0]?.remaining).toBe(18);
    }
    expect(inspect(place, totalIn)).toBe(500 + 3 * 18);
    await other.close();
    await store.close();
  });

  it("a commit that fails rejects the whole group, which is rolled back", async () => {
    const db = new Database(path());
    let broken = false;
    const handle = foreignHandle(db, (sql) => {
      if (broken && sql === "COMMIT") throw IO;
    });
    const store = await withApi(sqliteStore(handle));
    const refs = await addKeys(store, 3);
    broken = true;
    const answers = await Promise.allSettled(
      Array.from({ length: 30 }, (_, i) => store.spendCredits(refs[i % 3]!, 1, 0, 0)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(30).fill("rejected"));
    for (const answer of answers) expect(answer).toMatchObject({ reason: { code: "STORE_FAILED", cause: IO } });
    expect(totalIn(db)).toBe(300);
    broken = false;
    expect(await store.spendCredits(refs[0]!, 1, 0, 0)).toEqual({ ok: true, remaining: 99 });
    expect(totalIn(db)).toBe(299);
    db.close();
  });

  it("property: whatever statement fails, what was acknowledged was taken, and no more", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 60 }),
        fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 5 }),
        async (period, turns) => {
          const db = new Database(":memory:");
          let calls = -Infinity;
          const handle = foreignHandle(db, () => {
            if (++calls % period === 0) throw IO;
          });
          const store = await withApi(sqliteStore(handle));
          const refs = await addKeys(store, 8, 10);
          calls = 0;
          let acknowledged = 0;
          for (const inFlight of turns) {
            const answers = await Promise.allSettled(
              Array.from({ length: inFlight }, async (_, i) => store.spendCredits(refs[i % 8]!, 1, 0, 0)),
            );
            for (const answer of answers) {
              if (answer.status === "fulfilled" && answer.value?.ok === true) acknowledged++;
              if (answer.status === "rejected") expect((answer.reason as { code: string }).code).toBe("STORE_FAILED");
            }
            if (db.inTransaction) throw new Error("a transaction was left open");
          }
          expect(totalIn(db)).toBe(80 - acknowledged);
          db.close();
        },
      ),
      { numRuns: runs(100) },
    );
  });

  it("clause 13: a removal that fails is an error, not a conflict", async () => {
    const db = new Database(":memory:");
    let broken = false;
    const handle = foreignHandle(db, (sql) => {
      if (broken && sql.startsWith("DELETE FROM keystile_apis")) throw IO;
    });
    const store = await withApi(sqliteStore(handle));
    broken = true;
    expect(await codeOf(() => store.write([{ table: "apis", remove: "api_1", version: 1 }]))).toBe("STORE_FAILED");
    expect((await store.readMany("apis", ["api_1"]))[0]).toBeDefined();
    db.close();
  });

  it("clause 13: a write whose log fails is rolled back, and what was read inside it is forgotten", async () => {
    const db = new Database(path());
    let broken = false;
    const handle = foreignHandle(db, (sql) => {
      if (broken && sql.startsWith("INSERT INTO keystile_changes")) throw IO;
    });
    const store = await withApi(sqliteStore(handle));
    broken = true;
    const both = [
      { table: "apis", row: api({ id: "api_2", name: "lost" }) },
      { table: "keys", row: keyRow(1, { apiId: "api_2" }) },
    ] as const;
    expect(await codeOf(() => store.write(both))).toBe("STORE_FAILED");
    broken = false;
    // Takes the number that the lost one had.
    await store.write([{ table: "apis", row: api({ id: "api_3", name: "kept" }) }]);
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(1, { apiId: "api_2" }) }]))).toBe("NOT_FOUND");
    expect(await store.list("keys", { workspaceId: "ws_1", limit: 5 })).toEqual([]);
    db.close();
  });

  it("hostile A045: no error shows a key, a hash or a parameter", async () => {
    const db = new Database(path());
    let broken = false;
    const handle = foreignHandle(db, () => {
      if (broken) throw IO;
    });
    const store = await withApi(sqliteStore(handle));
    const [ref] = await addKeys(store, 1);
    broken = true;
    const secret = "canary-9f3b";
    const calls = [
      () => store.findKey(secret),
      () => store.findForeignKey("m", secret),
      () => store.adoptDigest(ref!, secret),
      () => store.insertKeys([{ row: keyRow(2, { digest: secret, hash: secret, foreignDigest: secret }) }]),
      () => store.write([{ table: "keys", row: keyRow(2, { digest: secret }) }]),
      () => store.readMany("keys", [secret]),
      () => store.pollChanges(),
    ];
    for (const call of calls) {
      try {
        await call();
        throw new Error("it did not fail");
      } catch (error) {
        expect(show(error, { depth: 9 }), String(call)).not.toContain("canary");
        expect((error as { code: string }).code).toBe("STORE_FAILED");
      }
    }
    db.close();
  });
});

describe("toStoreError", () => {
  const better = (code: string) => Object.assign(new Error("text"), { code });
  const node = (errcode: number) => Object.assign(new Error("text"), { code: "ERR_SQLITE_ERROR", errcode });
  it.each([
    [better("SQLITE_BUSY_SNAPSHOT"), "STORE_BUSY"],
    [better("SQLITE_LOCKED"), "STORE_BUSY"],
    [better("SQLITE_PROTOCOL"), "STORE_BUSY"],
    [better("SQLITE_READONLY_DBMOVED"), "STORE_READ_ONLY"],
    [better("SQLITE_FULL"), "STORE_FULL"],
    [better("SQLITE_CORRUPT_INDEX"), "STORE_INVALID"],
    [better("SQLITE_NOTADB"), "STORE_INVALID"],
    [better("SQLITE_IOERR_FSYNC"), "STORE_FAILED"],
    [better("SQLITE_CONSTRAINT_CHECK"), "STORE_FAILED"],
    [better("ENOENT"), "STORE_FAILED"],
    [node(5), "STORE_BUSY"],
    [node(517), "STORE_BUSY"],
    [node(1032), "STORE_READ_ONLY"],
    [node(13), "STORE_FULL"],
    [node(1034), "STORE_FAILED"],
    [null, "STORE_FAILED"],
    ["text", "STORE_FAILED"],
  ])("%s is %s with its cause", (cause, code) => {
    expect(toStoreError(cause)).toMatchObject({ code, cause });
  });
});

describe("sqliteStore: a file that another connection holds", () => {
  it("a group waits for the lock without failing, and what arrives meanwhile joins it", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    const [ref] = await addKeys(store, 1);
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    let settled = 0;
    const spend = () => (store.spendCredits(ref!, 1, 0, 0) as Promise<Spend>).finally(() => settled++);
    const inserted = store.insertKeys([{ row: keyRow(2) }]);
    const first = spend();
    await nextTurn();
    await nextTurn();
    const second = spend();
    await nextTurn();
    expect(settled).toBe(0);
    other.exec("COMMIT");
    other.close();
    expect(await Promise.all([first, second])).toEqual([
      { ok: true, remaining: 99 },
      { ok: true, remaining: 98 },
    ]);
    expect(await inserted).toEqual([true]);
    await store.close();
  });

  it("held for longer than busyTimeout: STORE_BUSY, and nothing was changed", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place, { busyTimeout: 30 }));
    const [ref] = await addKeys(store, 1);
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    const codes = await Promise.all([
      codeOf(() => store.spendCredits(ref!, 1, 0, 0)),
      codeOf(() => store.insertKeys([{ row: keyRow(2) }])),
      codeOf(() => change(store, "key_000001", { enabled: false })),
    ]);
    expect(codes).toEqual(["STORE_BUSY", "STORE_BUSY", "STORE_BUSY"]);
    other.exec("ROLLBACK");
    other.close();
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(100);
    expect(await store.findKey("digest-2")).toBeUndefined();
    await store.close();
  });

  it("without the option a lock is waited for two seconds", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    const began = performance.now();
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(1) }]))).toBe("STORE_BUSY");
    const waited = performance.now() - began;
    expect(waited).toBeGreaterThanOrEqual(1_990);
    // Space for a machine that is busy with other tests.
    expect(waited).toBeLessThan(10_000);
    other.close();
    await store.close();
  });

  it("close while a group waits: it is answered first", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place, { busyTimeout: 0 }));
    const [ref] = await addKeys(store, 1);
    const other = new Database(place);
    other.exec("BEGIN IMMEDIATE");
    const spent = codeOf(() => store.spendCredits(ref!, 1, 0, 0));
    await store.close();
    expect(await spent).toBe("STORE_BUSY");
    other.close();
  });

  it("opening waits as well, and gives up with STORE_BUSY", async () => {
    const place = path();
    const other = new Database(place);
    other.pragma("journal_mode = WAL");
    other.exec("BEGIN IMMEDIATE; PRAGMA user_version = 1");
    expect(await codeOf(() => sqliteStore(place, { busyTimeout: 20 }))).toBe("STORE_BUSY");
    other.exec("COMMIT");
    other.close();
    void sqliteStore(place, { busyTimeout: 0 }).close();
  });

  it("a find that meets a lock is answered later", async () => {
    const db = new Database(":memory:");
    let busy = 0;
    const handle = foreignHandle(db, () => {
      if (busy-- > 0) throw Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 261 });
    });
    const store = await withApi(sqliteStore(handle));
    await addKeys(store, 1);
    busy = 2;
    const found = store.findKey("digest-1");
    expect(found).toBeInstanceOf(Promise);
    expect((await found)?.keyId).toBe("key_000001");
    busy = 1;
    const late = store.findKey("digest-1");
    await store.close();
    expect(await codeOf(() => late)).toBe("STORE_CLOSED");
  });
});

describe("sqliteStore: a file that another tool has changed", () => {
  it.each([
    ["{}"],
    ["[]"],
    ["5"],
    ["null"],
    ['{"start":1,"createdAt":0}'],
    ['{"start":"sk","createdAt":0,"expires":"never"}'],
    ['{"start":"sk","createdAt":0,"expires":1e400}'],
    ['{"start":"sk","createdAt":0,"disabled":1}'],
    ['{"start":"sk","createdAt":0,"disabled":"true"}'],
    ['{"start":"sk","createdAt":0,"limited":1}'],
    ['{"start":"sk","createdAt":0,"generation":"1"}'],
    ['{"start":"sk","createdAt":0,"meta":"x"}'],
    ['{"start":"sk","createdAt":0,"ratelimits":{}}'],
    ['{"start":"sk","createdAt":0,"ratelimits":[null]}'],
    [
      '{"start":"sk","createdAt":0,"ratelimits":[{"id":"rl_1","name":"n","limit":-5,"duration":1000,"autoApply":true}]}',
    ],
    [
      '{"start":"sk","createdAt":0,"ratelimits":[{"id":"rl_1","name":"n","limit":"5","duration":1000,"autoApply":true}]}',
    ],
    ['{"start":"sk","createdAt":0,"ipAllowlist":"192.0.2.1"}'],
    ['{"start":"sk","createdAt":0,"refill":{"interval":"weekly","amount":5}}'],
    ['{"start":"sk","createdAt":0,"refill":{"interval":"daily","amount":-5}}'],
    ['{"start":"sk","createdAt":0,"refill":{"interval":"monthly","amount":5}}'],
    ['{"start":"sk","createdAt":0,"refill":{"interval":"monthly","amount":5,"refillDay":0}}'],
    ['{"start":"sk","createdAt":0,"refill":{"interval":"monthly","amount":5,"refillDay":32}}'],
    ['{"start":"sk","createdAt":0,"expires":8640000000000001}'],
    [`{"start":"sk","createdAt":0,"meta":${'{"a":'.repeat(9_000)}1${"}".repeat(9_000)}}`],
    [
      `{"start":"sk","createdAt":0,"ratelimits":[{"id":"rl_1","name":"${"n".repeat(3_000)}","limit":5,"duration":1000,"autoApply":true}]}`,
    ],
    ['{"start":"sk","createdAt":0'],
    // Of a later version: a restriction, for all that this one knows.
    ['{"start":"sk","createdAt":0,"hours":{"from":8,"to":17}}'],
  ])("A035: a key whose row says %.200s is refused, not let in without what the row lacks", async (body) => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    await addKeys(store, 2);
    inspect(place, (db) => {
      // The indexes would refuse what is not JSON.
      db.exec("DROP INDEX keystile_keys_expires; DROP INDEX keystile_keys_ending");
      db.prepare("UPDATE keystile_keys SET body = ? WHERE id = 'key_000001'").run(body);
    });
    // The finds before share a read transaction until the turn ends.
    await new Promise(setImmediate);
    expect(await codeOf(() => store.findKey("digest-1"))).toBe("STORE_INVALID");
    expect(await codeOf(() => store.readMany("keys", ["key_000001"]))).toBe("STORE_INVALID");
    expect((await store.findKey("digest-2"))?.keyId).toBe("key_000002");
    await store.close();
  });

  it.each([
    [
      "root_keys",
      '{"start":"x","permissions":["api.*.verify_key"],"enabled":true,"createdAt":1,"expires":"2020-01-01"}',
    ],
    ["root_keys", '{"start":"x","permissions":["api.*.verify_key"],"enabled":"false","createdAt":1}'],
    ["root_keys", "{}"],
    ["apis", '{"name":"a","enabled":"no","ipAllowlist":[],"deleted":false,"createdAt":1}'],
    ["apis", '{"name":"a","enabled":true,"deleted":false,"createdAt":1}'],
    ["apis", "{}"],
    ["workspaces", '{"enabled":"false"}'],
    ["workspaces", "null"],
  ])("A035: a row of %s that says %s lets nobody in", async (table, body) => {
    const place = path();
    const made = sqliteStore(place);
    const keyring = createKeyring(made);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId });
    const { key: root } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    await keyring.updateWorkspace({ enabled: true });
    await made.close();
    inspect(place, (db) => void db.prepare(`UPDATE keystile_${table} SET body = ?`).run(body));
    const store = sqliteStore(place);
    const { authenticate } = createAuthenticator(store);
    const call =
      table === "root_keys" ? () => authenticate(`Bearer ${root}`) : () => createVerifier(store).verify({ key });
    expect(await codeOf(call)).toBe("STORE_INVALID");
    await store.close();
  });

  it.each([
    ["overrides", "{}"],
    ["overrides", '{"identifier":"user_1","limit":0,"duration":60000}'],
    ["overrides", '{"namespaceId":"x","identifier":"user_1","limit":"0","duration":60000}'],
    ["overrides", '{"namespaceId":"x","identifier":"user_1","limit":0}'],
    ["namespaces", '{"createdAt":1,"wildcards":["user_*"]}'],
    ["namespaces", '{"createdAt":1,"wildcards":{}}'],
  ])(
    "A035: a row of %s that says %s is refused, and the limit of the request does not take its place",
    async (...row) => {
      const [table, body] = row;
      const place = path();
      const made = sqliteStore(place);
      const asked = { namespace: "email", identifier: "user_1", limit: 100, duration: 60_000 };
      for (const identifier of ["user_1", "user_*"])
        await createRatelimits(made).setOverride({ ...asked, identifier, limit: 0 });
      await made.close();
      inspect(place, (db) => void db.prepare(`UPDATE keystile_${table} SET body = ?`).run(body));
      const store = sqliteStore(place);
      expect(await codeOf(() => createRatelimits(store).limit(asked))).toBe("STORE_INVALID");
      await store.close();
    },
  );

  it("A035: an identity with what this version does not know lets none of its keys in", async () => {
    const place = path();
    const made = sqliteStore(place);
    const keyring = createKeyring(made);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId, externalId: "user_1" });
    await made.close();
    inspect(place, (db) => {
      db.prepare("UPDATE keystile_identities SET body = json_set(body, '$.suspended', json('true'))").run();
    });
    const store = sqliteStore(place);
    await expect(createVerifier(store).verify({ key })).rejects.toMatchObject({
      code: "STORE_INVALID",
      message: expect.stringContaining('"suspended", which this version does not know') as string,
    });
    await store.close();
  });

  it.each(["identities", "roles"])(
    "A035: a row of %s whose name another tool took away is refused, and its limits with it",
    async (table) => {
      const place = path();
      const made = sqliteStore(place);
      const keyring = createKeyring(made);
      const { apiId } = await keyring.createApi({ name: "documents" });
      await keyring.createRole({ name: "reader" });
      const ratelimits = [{ name: "requests", limit: 1, duration: 60_000, autoApply: true }];
      await keyring.createIdentity({ externalId: "user_1", ratelimits });
      const { key, keyId } = await keyring.createKey({ apiId, externalId: "user_1", roles: ["reader"] });
      await made.close();
      inspect(place, (db) => void db.prepare(`UPDATE keystile_${table} SET name = NULL`).run());
      const store = sqliteStore(place);
      expect(await codeOf(() => createVerifier(store).verify({ key, permissions: "a" }))).toBe("STORE_INVALID");
      expect(await codeOf(() => createKeyring(store).getKey({ keyId }))).toBe("STORE_INVALID");
      await store.close();
    },
  );

  it.each(["null", "{}", "[5,6]", '["perm_1","role_1"]', '[["perm_1"]]', "[[1],[]]"])(
    "A035: grants that say %s let nothing in",
    async (grants) => {
      const place = path();
      const store = await withApi(sqliteStore(place));
      await addKeys(store, 1);
      await new Promise(setImmediate);
      inspect(place, (db) => void db.prepare("UPDATE keystile_keys SET grants = ?").run(grants));
      expect(await codeOf(() => store.findKey("digest-1"))).toBe("STORE_INVALID");
      await store.close();
    },
  );

  it.each([
    ["better-sqlite3", (db: Database.Database) => db],
    ["better-sqlite3 that answers bigints", (db: Database.Database) => db.defaultSafeIntegers()],
    ["node:sqlite", (db: Database.Database) => foreignHandle(db)],
  ])(
    "hostile A035: a balance past 2^53 − 1 is refused, never rounded, and harms no other key (%s)",
    async (_, handleOf) => {
      const place = path();
      const store = await withApi(sqliteStore(handleOf(new Database(place))));
      const refs = await addKeys(store, 2);
      const set = (column: string, value: string) =>
        inspect(place, (db) => {
          db.pragma("ignore_check_constraints = ON");
          db.exec(`UPDATE keystile_accounts SET ${column} = ${value} WHERE number = ${refs[0]!}`);
        });
      for (const [column, value] of [
        ["remaining", "9007199254740993"],
        ["remaining", "9223372036854775807"],
        ["remaining", "-1"],
        ["amount", "9007199254740992"],
        ["period", "9223372036854775807"],
      ] as const) {
        set(column, value);
        const answers = await Promise.allSettled([0, 1, 0].map((i) => store.spendCredits(refs[i]!, 1, 5, 0)));
        expect(answers.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected"]);
        expect(answers[0]).toMatchObject({ reason: { code: "STORE_INVALID" } });
        expect(await codeOf(() => store.spendCredits(refs[0]!, 0, 5, 0))).toBe("STORE_INVALID");
        expect(await codeOf(() => store.readBalances([{ keyId: "key_000001", period: 5 }], 0))).toBe("STORE_INVALID");
        expect(await codeOf(() => store.drawCredits(refs[0]!, DRAW))).toBe("STORE_INVALID");
        set(column, "0");
      }
      expect((await store.readBalances([{ keyId: "key_000002", period: 0 }], 0))[0]?.remaining).toBe(95);
      await store.drawCredits(refs[1]!, DRAW);
      inspect(place, (db) => {
        db.pragma("ignore_check_constraints = ON");
        db.exec("UPDATE keystile_leases SET reserved = 9007199254740993");
      });
      expect(await codeOf(() => store.drawCredits(refs[1]!, DRAW))).toBe("STORE_INVALID");
      expect(await codeOf(() => store.returnCredits(refs[1]!, { holder: "h", spent: 0 }))).toBe("STORE_INVALID");
      await store.close();
    },
  );

  it("hostile A161: 2^53 − 1 and refills stay whole numbers", async () => {
    const store = await withApi(sqliteStore(":memory:"));
    const [ref] = await addKeys(store, 1, Number.MAX_SAFE_INTEGER - 1, { amount: Number.MAX_SAFE_INTEGER });
    expect(await store.spendCredits(ref!, 1, 9, 0)).toEqual({ ok: true, remaining: Number.MAX_SAFE_INTEGER - 1 });
    expect(await store.spendCredits(ref!, Number.MAX_SAFE_INTEGER - 1, 9, 0)).toEqual({ ok: true, remaining: 0 });
    await store.close();
  });

  it("tables that are missing are a typed error, and the file is let go", async () => {
    const place = path();
    await sqliteStore(place).close();
    inspect(place, (db) => db.exec("DROP TABLE keystile_leases"));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
    inspect(place, (db) => expect(db.pragma("journal_mode = DELETE", { simple: true })).toBe("delete"));
  });

  it("a key whose API is gone from the file is a typed error, not a key without bounds", async () => {
    const place = path();
    const first = await withApi(sqliteStore(place));
    await addKeys(first, 1);
    await first.close();
    inspect(place, (db) => {
      db.pragma("foreign_keys = OFF");
      db.exec("DELETE FROM keystile_apis");
    });
    const store = sqliteStore(place);
    expect(await codeOf(() => store.findKey("digest-1"))).toBe("STORE_INVALID");
    await store.close();
  });

  it("hostile A187: health sees a file that was deleted, replaced, or changed in its settings", async () => {
    const { rmSync, renameSync, copyFileSync } = await import("node:fs");
    const place = path();
    const db = new Database(place);
    const store = sqliteStore(db);
    expect(store.health()).toEqual({
      ok: true,
      problems: [],
      warnings: [],
      counters: quietCounters(place),
      journalMode: "wal",
      synchronous: "full",
      schemaVersion: SCHEMA_VERSION,
    });
    copyFileSync(place, `${place}.new`);
    rmSync(place);
    expect(store.health()).toMatchObject({ ok: false, problems: ["the database file was deleted while it is in use"] });
    renameSync(`${place}.new`, place);
    expect(store.health().problems).toEqual(["the database file was replaced while it is in use"]);
    db.pragma("synchronous = OFF");
    db.pragma("foreign_keys = OFF");
    expect(store.health().problems).toHaveLength(3);
    db.close();
  });

  it("health of a database in memory as node:sqlite tells of it, and of a level that SQLite does not have", () => {
    const db = new Database(":memory:");
    const plain = foreignHandle(db);
    const handle: Handle = {
      ...plain,
      prepare(sql) {
        const statement = plain.prepare(sql);
        if (sql.includes("pragma_database_list")) return { ...statement, get: () => ({ file: null }) };
        return sql === "PRAGMA synchronous" ? { ...statement, get: () => ({ synchronous: 4 }) } : statement;
      },
    };
    expect(sqliteStore(handle).health()).toMatchObject({ ok: true, journalMode: "memory", synchronous: "off" });
    db.close();
  });

  it("a row that cannot be read is STORE_INVALID, and its text goes no further", async () => {
    const db = new Database(path());
    const store = await withApi(sqliteStore(db));
    await addKeys(store, 1);
    db.exec("DROP INDEX keystile_keys_expires; DROP INDEX keystile_keys_ending");
    db.exec(`UPDATE keystile_keys SET body = '{"hash":"secret'`);
    expect(await codeOf(() => store.findKey("digest-1"))).toBe("STORE_INVALID");
    const error = await (async () => store.findKey("digest-1"))().catch((thrown: unknown) => thrown);
    expect(show(error, { depth: 9 })).not.toContain("secret");
    db.close();
  });

  it("health of a file of another journal, of newer tables", () => {
    const place = path();
    const db = new Database(place);
    const store = sqliteStore(foreignHandle(db));
    db.exec(`UPDATE keystile_schema SET version = ${SCHEMA_VERSION + 1}`);
    db.pragma("journal_mode = DELETE");
    db.pragma("synchronous = EXTRA");
    expect(store.health()).toEqual({
      ok: false,
      warnings: [],
      counters: quietCounters(place),
      problems: [
        "the journal mode is delete, not wal",
        `the tables have version ${SCHEMA_VERSION + 1}, this keystile knows ${SCHEMA_VERSION}`,
      ],
      journalMode: "delete",
      synchronous: "extra",
      schemaVersion: SCHEMA_VERSION + 1,
    });
    db.close();
  });
});
