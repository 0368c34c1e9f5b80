/** The audit trail in the file: an entry if and only if the change was committed, a bound, and no secret. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../../src/keyring/keyring.js";
import { type SqliteStoreOptions } from "../../../../src/stores/sqlite/index.js";
import { buildWriter } from "../../../rigs/workers.js";
import { failure, NOON } from "../../../keyring/support.js";
import { emptyFiles, openStores, temporaryPaths } from "../support.js";

const newFile = temporaryPaths();
const path = await emptyFiles();
const program = await buildWriter();
const open = openStores();

const clock = () => NOON;
const hash = (i: number) => createHash("sha256").update(`imported ${i}`).digest("base64");

/** Rows in SQL, as another program reads them. */
function inFile<T = Record<string, unknown>>(place: string, sql: string): T[] {
  const database = new Database(place, { readonly: true });
  try {
    return database.prepare(sql).all() as T[];
  } finally {
    database.close();
  }
}

const MODES = [
  ["inline", {}],
  ["writer thread", { writer: program }],
] as const;

describe.each(MODES)("sqliteStore: audit trail (%s)", (_, mode: SqliteStoreOptions) => {
  it("is a table of plain columns, one row for each change", async () => {
    const place = newFile();
    const store = open(place, mode);
    expect(store.powers.audit).toBe(true);
    const keyring = createKeyring(store, { clock, actor: "alice" });
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { keyId } = await keyring.createKey({ apiId, credits: { remaining: 1 } });
    await keyring.updateKey({ keyId, name: "it's", enabled: false });
    await keyring.updateCredits({ keyId, operation: "increment", value: 4, reason: "it's a gift" });
    await keyring.createMigration({ id: "old", algorithm: "sha256" });
    const keys = Array.from({ length: 30 }, (_, i) => ({ hash: hash(i % 20) }));
    await keyring.migrateKeys({ apiId, migrationId: "old", keys });
    await keyring.migrateKeys({ apiId, migrationId: "old", keys });
    const CHANGES = '[{"field":"enabled","from":true,"to":false},{"field":"name","to":"it\'s"}]';
    const own = { time: "2026-03-10T12:00:00.000Z", workspace_id: "ws_default", actor_kind: "program", actor: "alice" };
    expect(inFile(place, "SELECT * FROM keystile_audit ORDER BY number")).toEqual(
      [
        ["createApi", [apiId], [], 1],
        ["createKey", [keyId], [], 1, 1, 1],
        ["updateKey", [keyId], ["enabled", "name"], 1],
        ["updateCredits", [keyId], ["credits"], 1, 4, 5, "it's a gift"],
        ["createMigration", ["old"], [], 1],
        ["migrateKeys", ["old", apiId], [], 20],
      ].map(([operation, ids, fields, count, added = null, remaining = null, reason = null], i) => ({
        number: i + 1,
        ...own,
        operation,
        ids: JSON.stringify(ids),
        fields: JSON.stringify(fields),
        count,
        ...{ added, remaining, reason, grant_id: null },
        changes: operation === "updateKey" ? CHANGES : null,
      })),
    );
  });

  it("what is refused leaves no entry, whatever part of it was written", async () => {
    const place = path();
    const store = open(place, mode);
    const keyring = createKeyring(store, { clock });
    await keyring.createRole({ name: "reader" });
    await failure(keyring.createRole({ name: "reader" }));
    const { data } = await keyring.listRoles();
    const [role] = await store.readMany("roles", [data[0]!.id]);
    const entry = {
      time: NOON,
      workspaceId: "ws_default",
      actorKind: "program",
      operation: "test",
      ids: [],
      fields: [],
      count: 2,
    };
    const writes = [
      { table: "roles", row: { ...role!, description: "written first" } },
      { table: "roles", row: { ...role!, version: 7 } },
    ] as const;
    expect(await store.write(writes, [entry])).toBe("conflict");
    expect(inFile(place, "SELECT operation FROM keystile_audit")).toEqual([{ operation: "createRole" }]);
  });

  it("rows: the oldest go first, and there are never more", async () => {
    const place = path();
    const keyring = createKeyring(open(place, { ...mode, audit: { rows: 50 } }), { clock });
    const most: number[] = [];
    for (let i = 0; i < 120; i++) {
      await keyring.updateWorkspace({ enabled: i % 2 === 0 });
      const [found] = inFile<{ rows: number; last: number }>(
        place,
        "SELECT count(*) AS rows, max(number) AS last FROM keystile_audit",
      );
      expect(found!.last).toBe(i + 1);
      most.push(found!.rows);
    }
    expect(Math.max(...most)).toBe(50);
    expect(Math.min(...most.slice(50))).toBe(46);
  });

  it("rows: the workspaces above an equal share pay, down to it, and no other", async () => {
    const place = path();
    const store = open(place, { ...mode, audit: { rows: 100 } });
    const change = async (workspaceId: string, times: number) => {
      const keyring = createKeyring(store, { clock, workspaceId });
      for (let i = 0; i < times; i++) await keyring.updateWorkspace({ enabled: i % 2 === 0 });
    };
    const counts = () =>
      Object.fromEntries(
        inFile<{ id: string; n: number }>(
          place,
          "SELECT workspace_id AS id, count(*) AS n FROM keystile_audit GROUP BY 1 ORDER BY 1",
        ).map(({ id, n }) => [id, n]),
      );
    await change("ws_a", 20);
    await change("ws_b", 400);
    expect(counts()["ws_a"]).toBe(20);
    await change("ws_c", 200);
    const { ws_a: a, ws_b: b, ws_c: c } = counts();
    expect(a).toBe(20);
    expect(Math.min(b!, c!)).toBeGreaterThan(29);
    expect(a! + b! + c!).toBeGreaterThan(90);
    const stored = inFile(place, "SELECT workspace_id AS id, entries AS n FROM keystile_audit_counts ORDER BY 1");
    expect(stored).toEqual([{ id: "", n: a! + b! + c! }, ...Object.entries(counts()).map(([id, n]) => ({ id, n }))]);
    // Many that have as much as each other: each keeps its share.
    for (let n = 0; n < 30; n++) await change(`ws_n${n}`, 8);
    expect(Math.min(...Object.values(counts()))).toBeGreaterThan(1);
  });

  it("rows 0: nothing is recorded", async () => {
    const place = path();
    const store = open(place, { ...mode, audit: { rows: 0 } });
    expect(store.powers.audit).toBe(false);
    await createKeyring(store).createApi({ name: "docs" });
    await store.write(
      [],
      [{ time: 0, workspaceId: "w", actorKind: "p", operation: "o", ids: [], fields: [], count: 0 }],
    );
    expect(inFile(place, "SELECT * FROM keystile_audit")).toEqual([]);
  });
});

describe("sqliteStore: audit trail, in one transaction with the change", () => {
  it("an entry that cannot be written takes the change with it", async () => {
    const place = path();
    const store = open(place);
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "docs" });
    await keyring.createMigration({ id: "old", algorithm: "sha256" });
    const other = new Database(place);
    other.exec(
      "CREATE TRIGGER no_audit BEFORE INSERT ON keystile_audit BEGIN SELECT RAISE(ABORT, 'the trail is broken'); END",
    );
    for (const act of [
      () => keyring.createKey({ apiId }),
      () => keyring.updateApi({ apiId, name: "changed" }),
      () => keyring.migrateKeys({ apiId, migrationId: "old", keys: [{ hash: hash(1) }] }),
      () => keyring.deleteApi({ apiId }),
    ])
      await expect(act()).rejects.toThrow();
    other.exec("DROP TRIGGER no_audit");
    other.close();
    expect((await keyring.getApi({ apiId })).name).toBe("docs");
    expect((await keyring.listKeys({ apiId })).data).toEqual([]);
    expect(inFile(place, "SELECT operation FROM keystile_audit").length).toBe(2);
    await keyring.updateApi({ apiId, name: "changed" });
    expect(inFile(place, "SELECT operation FROM keystile_audit").length).toBe(3);
  });

  it("no other connection ever sees one without the other", async () => {
    const place = path();
    const keyring = createKeyring(open(place), { clock });
    const { apiId } = await keyring.createApi({ name: "docs" });
    const reader = new Database(place, { readonly: true });
    const counts = reader.prepare<[], { keys: number; entries: number }>(
      `SELECT (SELECT count(*) FROM keystile_keys) AS keys,
         (SELECT coalesce(sum(count), 0) FROM keystile_audit WHERE operation = 'createKey') AS entries`,
    );
    let isDone = false;
    const watching = (async () => {
      let seen = 0;
      while (!isDone) {
        const { keys, entries } = counts.get()!;
        expect(entries).toBe(keys);
        seen++;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return seen;
    })();
    await Promise.all(Array.from({ length: 100 }, () => keyring.createKey({ apiId })));
    isDone = true;
    expect(await watching).toBeGreaterThan(1);
    expect(counts.get()).toEqual({ keys: 100, entries: 100 });
    reader.close();
  });

  it("a bound that was lowered takes effect a thousand rows at a time", async () => {
    const place = path();
    const store = open(place, { audit: { rows: 10 } });
    const other = new Database(place);
    other.exec(`INSERT INTO keystile_audit (time, workspace_id, actor_kind, operation, ids, fields, count)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
      SELECT '2020-01-01T00:00:00.000Z', 'w', 'program', 'old', '[]', '[]', 1 FROM n`);
    other.close();
    const keyring = createKeyring(store, { clock });
    const left: number[] = [];
    for (let i = 0; i < 4; i++) {
      await keyring.updateWorkspace({ enabled: i % 2 === 0 });
      left.push(inFile(place, "SELECT 1 FROM keystile_audit").length);
    }
    expect(left).toEqual([1501, 502, 10, 10]);
  });

  it.each([
    ["nobody is left less than its share", 100, [600, 500, 10], [22, 78, 10]],
    [
      "the largest goes down to its share before the next",
      425,
      [30, ...Array.from({ length: 40 }, () => 10)],
      [9, ...Array.from({ length: 27 }, () => 9), ...Array.from({ length: 13 }, () => 10)],
    ],
  ])("rows: %s", async (_, rows, had, left) => {
    const place = path();
    const store = open(place, { audit: { rows } });
    const other = new Database(place);
    const insert =
      other.prepare(`INSERT INTO keystile_audit (time, workspace_id, actor_kind, operation, ids, fields, count)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
      SELECT '2020-01-01T00:00:00.000Z', ?, 'program', 'old', '[]', '[]', 1 FROM n`);
    for (const [n, entries] of had.entries()) insert.run(entries, `ws_${n}`);
    other.close();
    await createKeyring(store, { clock, workspaceId: "ws_new" }).updateWorkspace({ enabled: false });
    const counts = inFile<{ id: string; n: number }>(
      place,
      "SELECT workspace_id AS id, count(*) AS n FROM keystile_audit WHERE workspace_id <> 'ws_new' GROUP BY 1",
    );
    const of = (id: string) => counts.find((one) => one.id === id)?.n ?? 0;
    const [first, ...others] = had.map((__, n) => of(`ws_${n}`));
    expect([first, ...(rows === 100 ? others : others.sort((x, y) => x - y))]).toEqual(left);
  });

  it("two processes' stores write one trail", async () => {
    const place = path();
    const stores = [open(place), open(place, { writer: program })];
    await Promise.all(
      stores.map(async (store, i) => {
        const keyring = createKeyring(store, { actor: `admin ${i}` });
        for (let n = 0; n < 20; n++) await keyring.createRole({ name: `role_${i}_${n}` });
      }),
    );
    expect(inFile(place, "SELECT actor, count(*) AS n FROM keystile_audit GROUP BY actor ORDER BY actor")).toEqual([
      { actor: "admin 0", n: 20 },
      { actor: "admin 1", n: 20 },
    ]);
    const [ends] = inFile(place, "SELECT min(number) AS first, max(number) AS last FROM keystile_audit");
    expect(ends).toEqual({ first: 1, last: 40 });
  });

  it("no row holds a key, hash, digest or metadata", async () => {
    const place = path();
    const keyring = createKeyring(open(place), { clock });
    const canary = "canary-4711";
    const { apiId } = await keyring.createApi({ name: canary });
    const { key, keyId } = await keyring.createKey({ apiId, name: canary, meta: { canary }, externalId: canary });
    const { key: second } = await keyring.rerollKey({ keyId, expiration: 0 });
    const { key: root, rootKeyId } = await keyring.createRootKey({ name: "root", permissions: [] });
    await keyring.deleteRootKey({ rootKeyId });
    await keyring.updateKey({ keyId, meta: { canary, more: 1 } });
    await keyring.createMigration({ id: "old", algorithm: "sha256" });
    await keyring.migrateKeys({ apiId, migrationId: "old", keys: [{ hash: hash(1), name: canary }] });
    const text = JSON.stringify(inFile(place, "SELECT * FROM keystile_audit"));
    expect(text.length).toBeGreaterThan(1_000);
    const digest = (secret: string) => createHash("sha256").update(secret).digest("base64");
    const secrets = [key, second, root];
    for (const secret of [...secrets, ...secrets.map(digest), hash(1), canary]) expect(text).not.toContain(secret);
  });

  it("options are checked, and the size of a full table is as documented", async () => {
    for (const rows of [-1, 1.5, 10_000_001, "many"])
      expect(() => open(path(), { audit: { rows: rows as number } })).toThrow(/options\.audit\.rows/);
    const place = path();
    const store = open(place);
    const keyring = createKeyring(store, { clock });
    const before = readFileSync(place).length;
    for (let n = 0; n < 1_000; n++) await keyring.updateWorkspace({ enabled: n % 2 === 0 });
    await store.close();
    expect((readFileSync(place).length - before) / 1_000).toBeLessThan(300);
  });
});
