import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { SCHEMA_VERSION } from "../../../../src/stores/sqlite/connection/schema.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { keyRow } from "../../suite.js";
import { addKeys, codeOf, foreignHandle, inspect, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const VERSION_1 = readFileSync(new URL("schema-1.sql", import.meta.url), "utf8");
const ROOT_KEY = {
  id: "root_1",
  workspaceId: "ws_1",
  version: 0,
  digest: "d",
  start: "root_abcd",
  permissions: ["*"],
  enabled: true,
  createdAt: 0,
};

/** A file as keystile 0.1 left it, with one key. */
function oldFile(): string {
  const place = path();
  inspect(place, (db) => {
    db.pragma("journal_mode = WAL");
    db.exec(VERSION_1);
    db.exec(`INSERT INTO keystile_apis (id, workspace_id, version, body)
      VALUES ('api_1', 'ws_1', 1, '{"name":"docs","enabled":true,"ipAllowlist":[],"deleted":false,"createdAt":0}')`);
    db.exec(`INSERT INTO keystile_keys (id, api, version, foreign_digest, grants, body)
      VALUES ('key_old', 1, 1, 'f', '', '{"start":"...","createdAt":0,"limited":true,"hash":"f","migrationId":"m"}')`);
    db.exec("INSERT INTO keystile_credits VALUES (1, 0, 7, 0, 0, 0)");
  });
  return place;
}

const tablesOf = (db: Database.Database) =>
  (
    db.prepare("SELECT name, sql FROM sqlite_schema WHERE name LIKE 'keystile%'").all() as {
      name: string;
      sql: string;
    }[]
  )
    .map(({ name, sql }) => `${name}: ${sql.replace(/\s+/g, " ")}`)
    .sort();

describe("prepareSchema: files of earlier versions", () => {
  it("a file of version 1 opens, keeps its rows and gains the tables", async () => {
    const place = oldFile();
    const store = sqliteStore(place, { mustExist: true });
    expect(store.health()).toMatchObject({ ok: true, schemaVersion: SCHEMA_VERSION });
    expect((await store.readMany("keys", ["key_old"]))[0]).toMatchObject({
      id: "key_old",
      apiId: "api_1",
      foreignDigest: "f",
    });
    expect(await store.write([{ table: "rootKeys", row: ROOT_KEY }])).toBe("written");
    expect(await store.findRootKey("d")).toEqual({ ...ROOT_KEY, version: 1 });
    expect(await store.insertKeys([{ row: keyRow(1) }])).toEqual([true]);
    await store.close();
    const again = sqliteStore(place);
    expect((await again.findRootKey("d"))?.id).toBe("root_1");
    await again.close();
  });

  it("whoever still has a file open with code that knows no log of spends cannot spend by its rows any more", () => {
    const place = oldFile();
    const old = new Database(place);
    const spend = old.prepare("UPDATE keystile_credits SET remaining = remaining - 1 WHERE n = 1");
    expect(spend.run().changes).toBe(1);
    void sqliteStore(place).close();
    expect(() => spend.run()).toThrow("no such table");
    old.close();
  });

  it("keys that were deleted in a file of version 1 are listed no more, and their hashes stay taken", async () => {
    const place = oldFile();
    inspect(place, (db) => {
      db.exec(
        `INSERT INTO keystile_identities (id, workspace_id, name, version, body) VALUES ('id_1', 'ws_1', 'user', 1, '{"ratelimits":[]}')`,
      );
      for (const [n, deleted] of [
        [2, ""],
        [3, ',"deleted":true'],
        [4, ',"deleted":true'],
      ] as const) {
        db.exec(`INSERT INTO keystile_keys (id, api, identity, version, foreign_digest, grants, body)
          VALUES ('key_${n}', 1, 1, 1, 'f${n}', '', '{"start":"...","createdAt":0,"meta":{"deleted":true}${deleted}}')`);
        const places = n === 4 ? "keystile_fresh_places" : "keystile_places";
        db.exec(`INSERT INTO ${places} VALUES (-1, ${n}), (${1_000 + n}, ${n})`);
      }
    });
    const store = sqliteStore(place);
    for (const query of [{ apiId: "api_1" }, { identityId: "id_1" }]) {
      const listed = await store.list("keys", { workspaceId: "ws_1", limit: 9, ...query });
      expect(listed.map(({ id }) => id)).toEqual("apiId" in query ? ["key_2", "key_old"] : ["key_2"]);
    }
    expect((await store.readMany("keys", ["key_3"]))[0]?.deleted).toBe(true);
    expect(await store.insertKeys([{ row: keyRow(1, { foreignDigest: "f3" }) }])).toEqual([false]);
    expect(await store.write([{ table: "keys", remove: "key_3", version: 1 }])).toBe("written");
    expect(await store.insertKeys([{ row: keyRow(1, { foreignDigest: "f3" }) }])).toEqual([true]);
    await store.close();
  });

  it("the index of keys is built again in steps: whoever opens the file after a crash goes on, and two at once agree", async () => {
    const place = oldFile();
    const KEYS = 85_000;
    inspect(place, (db) =>
      db.exec(`WITH RECURSIVE c (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM c WHERE i <= ${KEYS})
        INSERT INTO keystile_keys (id, api, version, digest, grants, body)
        SELECT 'key_' || i, 1, 1, 'digest-' || i, '', '{"start":"...","createdAt":0}' FROM c`),
    );
    const progress = () =>
      inspect(place, (db) => {
        const found = db
          .prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'keystile_key_index_build'")
          .pluck()
          .get();
        return [found, found === 1 ? db.prepare("SELECT count(*) FROM keystile_key_index").pluck().get() : undefined];
      });
    // A commit that fails after two batches, as in a process that is killed there.
    for (const stop of [3, 2]) {
      const db = new Database(place);
      let commits = 0;
      const handle = foreignHandle(db, (sql) => {
        if (sql === "COMMIT" && ++commits > stop) throw new Error("killed");
      });
      expect(() => sqliteStore(handle)).toThrow();
      db.close();
    }
    const [isBuilding, entries] = progress();
    expect(isBuilding).toBe(1);
    expect(entries).toBeGreaterThan(0);
    const stores = [sqliteStore(place), sqliteStore(place)];
    expect(progress()).toEqual([0, undefined]);
    for (const n of [2, 777, KEYS, KEYS + 1]) expect((await stores[0]!.findKey(`digest-${n}`))?.keyId).toBe(`key_${n}`);
    expect(inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_key_index").pluck().get())).toBe(KEYS + 1);
    for (const store of stores) await store.close();
  });

  it("a file that was completed has the tables of one that was made today", async () => {
    const [old, fresh] = [oldFile(), path()];
    for (const place of [old, fresh]) await sqliteStore(place).close();
    expect(inspect(old, tablesOf)).toEqual(inspect(fresh, tablesOf));
  });

  it("a file of version 1 that may not be written is refused, and stays as it is", async () => {
    const place = oldFile();
    expect(await codeOf(() => sqliteStore(place, { readonly: true }))).toBe("STORE_READ_ONLY");
    expect(() => sqliteStore(place, { readonly: true })).toThrow(
      new RegExp(`tables of version 1, this keystile needs ${SCHEMA_VERSION}, .*open it once for writing`),
    );
    inspect(place, (db) => {
      db.pragma("query_only = ON");
      expect(() => sqliteStore(db)).toThrow(/open it once for writing/);
    });
    expect(inspect(place, (db) => db.prepare("SELECT version FROM keystile_schema").pluck().get())).toBe(1);
  });

  it("a step that fails leaves the file at its version", async () => {
    const place = oldFile();
    inspect(place, (db) => db.exec("CREATE TABLE keystile_overrides (mine)"));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_FAILED");
    inspect(place, (db) => {
      expect(db.prepare("SELECT version FROM keystile_schema").pluck().get()).toBe(1);
      expect(db.prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'keystile_root_keys'").pluck().get()).toBe(0);
    });
  });

  it("a page of keys is read in the order of the index, which holds no deleted key", async () => {
    const place = path();
    const queries: string[] = [];
    const db = new Database(place);
    const store = await withApi(sqliteStore(foreignHandle(db, (sql) => queries.push(sql))));
    await store.list("keys", { workspaceId: "ws_1", apiId: "api_1", limit: 2, after: "key_0" });
    const sql = queries.at(-1)!;
    expect(sql).toContain("ORDER BY k.id LIMIT");
    const plan = JSON.stringify(db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all("key_0", "api_1", "ws_1", 2));
    expect(plan).toContain("SEARCH k USING INDEX keystile_keys_list (api=? AND id>?)");
    expect(plan).not.toContain("TEMP B-TREE");
    await store.close();
    db.close();
  });

  it("root keys and the overrides of a namespace are found through an index", async () => {
    const place = path();
    const store = await withApi(sqliteStore(place));
    await addKeys(store, 1);
    await store.close();
    const plan = (sql: string) => inspect(place, (db) => JSON.stringify(db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()));
    expect(plan("SELECT * FROM keystile_root_keys WHERE name = 'd'")).toContain(
      "SEARCH keystile_root_keys USING INDEX",
    );
    const ofNamespace =
      "workspace_id = 'w' AND substr(name, 1, instr(name, ' ') - 1) = 'n' AND id > 'o' ORDER BY id LIMIT 3";
    const overrides = plan(`SELECT * FROM keystile_overrides WHERE ${ofNamespace}`);
    expect(overrides).toMatch(
      /SEARCH keystile_overrides USING INDEX keystile_overrides_of \(workspace_id=\? AND <expr>=\? AND id>\?\)/,
    );
    expect(overrides).not.toContain("TEMP B-TREE");
  });
});
