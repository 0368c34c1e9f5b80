import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../../../src/contracts/errors.js";
import { createVerifier } from "../../../../src/index.js";
import {
  downgradeSchema,
  prepareSchema,
  TABLE_NAMES,
  EARLIEST_VERSION,
  SCHEMA_VERSION,
  schemaVersion,
  type Step,
  STEPS as OWN_STEPS,
} from "../../../../src/stores/sqlite/connection/schema.js";
import { LIST_DELETED } from "../../../../src/stores/sqlite/keys/search-keys.js";
import { createTransact } from "../../../../src/stores/sqlite/connection/transaction.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { NEWER_FIELDS, NEWER_OF_IDENTITIES } from "../../newer-fields.js";
import { keyRow } from "../../suite.js";
import { addKeys, codeOf, foreignHandle, inspect, temporaryPaths, withApi } from "../support.js";

const path = temporaryPaths();
const FIRST_FILE = readFileSync(new URL("../fixtures/first-version.sql", import.meta.url), "utf8");
/** Steps that are no part of any schema. */
const STEPS = [
  "CREATE TABLE keystile_later (a INTEGER NOT NULL) STRICT; INSERT INTO keystile_later VALUES (1)",
  "UPDATE keystile_later SET a = a * 10",
];
const SQLITE_BUSY = 5;
const UPGRADED = SCHEMA_VERSION + STEPS.length;

/** A file as the first version left it. */
function firstFile(): string {
  const place = path();
  inspect(place, (db) => db.exec(FIRST_FILE));
  return place;
}

/** The same, brought to the version of this keystile. */
function currentFile(): string {
  const place = firstFile();
  inspect(place, (db) => upgrade(db, []));
  return place;
}

function newFile(): string {
  const place = path();
  void sqliteStore(place).close();
  return place;
}

/** Everything that the file is made of, but for white space. */
const schemaOf = (place: string) =>
  inspect(place, (db) => {
    const rows = db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").all();
    return (rows as { sql: string | null }[]).map((row) => ({
      ...row,
      sql: row.sql?.replace(/\s+/g, ""),
    }));
  });

/** As opening does, with the steps of a later keystile. */
function upgrade(db: Database.Database, steps: readonly string[] = STEPS, exec = (sql: string) => void db.exec(sql)) {
  const handle = { ...foreignHandle(db), exec };
  prepareSchema(handle, createTransact(handle), [...OWN_STEPS, ...steps]);
}

const versionIn = (db: Database.Database) => schemaVersion(foreignHandle(db));

const later = (db: Database.Database) => db.prepare("SELECT a FROM keystile_later").pluck().all();

describe("the tables", () => {
  it("those that opening looks for are all that a new file has", () => {
    const made = schemaOf(newFile()) as readonly { readonly type?: string; readonly name?: string }[];
    const names = made.filter(({ type }) => type === "table" || type === "view").map(({ name }) => name);
    expect(names.filter((name) => name?.startsWith("keystile_"))).toEqual(
      TABLE_NAMES.map((name) => `keystile_${name}`),
    );
  });
});

describe("prepareSchema: the first version", () => {
  it("a file of the first version opens as it is: its key verifies, spends, and keeps what it may", async () => {
    const place = firstFile();
    const store = sqliteStore(place, { mustExist: true });
    expect(store.health()).toMatchObject({ ok: true, schemaVersion: SCHEMA_VERSION });
    const verifier = createVerifier(store, { clock: () => Date.UTC(2026, 1, 15) });
    // 93 that were left, and a refill of February.
    expect(
      await verifier.verify({ key: "GLaYpfXkCZuPACqhdEHLH63Z1LMA", credits: { cost: 3 }, permissions: "docs.read" }),
    ).toMatchObject({ code: "VALID", credits: 140, identity: { externalId: "customer" }, roles: ["reader"] });
    await verifier.close();
    await store.close();
  });

  it("a new file is made of what a file of the first version is made of, once upgraded", async () => {
    const [old, fresh] = [firstFile(), path()];
    for (const place of [old, fresh]) await sqliteStore(place).close();
    expect(schemaOf(fresh)).toEqual(schemaOf(old));
  });

  it("files of before the first version are refused, and stay as they are", async () => {
    const place = firstFile();
    inspect(place, (db) => db.exec("UPDATE keystile_schema SET version = 8"));
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_INVALID");
    expect(() => sqliteStore(place)).toThrow(
      /tables of version 8, made before keystile 0\.1\.0; versions from 9 on open/,
    );
    expect(inspect(place, (db) => versionIn(db))).toBe(8);
  });
});

describe("prepareSchema: steps of a later version", () => {
  it("a file takes the steps that it has not taken, in order, and each once", () => {
    const place = currentFile();
    inspect(place, (db) => {
      upgrade(db, STEPS.slice(0, 1));
      expect([versionIn(db), later(db)]).toEqual([SCHEMA_VERSION + 1, [1]]);
      for (let again = 0; again < 2; again++) upgrade(db);
      expect([versionIn(db), later(db)]).toEqual([UPGRADED, [10]]);
    });
  });

  it("a new file takes all of them", () => {
    inspect(path(), (db) => {
      upgrade(db);
      expect([versionIn(db), later(db)]).toEqual([UPGRADED, [10]]);
      expect(db.prepare("SELECT count(*) FROM keystile_keys").pluck().get()).toBe(0);
    });
  });

  it("an upgraded file is refused by this version, and a store that has it open notices", async () => {
    const place = currentFile();
    const store = sqliteStore(place);
    inspect(place, (db) => upgrade(db));
    await new Promise((resolve) => setImmediate(resolve));
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(1) }]))).toBe("STORE_SCHEMA_NEWER");
    await store.close();
    expect(await codeOf(() => sqliteStore(place))).toBe("STORE_SCHEMA_NEWER");
  });

  it("a step that fails leaves the file at its version, without those before it", () => {
    inspect(currentFile(), (db) => {
      expect(() => upgrade(db, [...STEPS, "UPDATE keystile_none SET a = 1"])).toThrow("no such table");
      expect([versionIn(db), db.inTransaction]).toEqual([SCHEMA_VERSION, false]);
      expect(() => later(db)).toThrow("no such table");
      upgrade(db);
      expect(later(db)).toEqual([10]);
    });
  });

  it("a process that is killed in the middle leaves the file at its version; the next one upgrades it", async () => {
    const place = currentFile();
    const child = fork(
      new URL("killed-upgrade.ts", import.meta.url).pathname,
      [place, JSON.stringify([...OWN_STEPS, ...STEPS])],
      {
        execArgv: ["--import", "tsx"],
      },
    );
    expect(await new Promise((resolve) => child.on("exit", (_code, signal) => resolve(signal)))).toBe("SIGKILL");
    inspect(place, (db) => {
      expect(versionIn(db)).toBe(SCHEMA_VERSION);
      expect(() => later(db)).toThrow("no such table");
      upgrade(db);
      expect([versionIn(db), later(db)]).toEqual([UPGRADED, [10]]);
    });
  });

  it("one upgrades and others wait: the file is locked from the first step on, and who waited takes none again", () => {
    const place = currentFile();
    inspect(place, (db) =>
      inspect(place, (waiting) => {
        waiting.pragma("busy_timeout = 0");
        const refused: unknown[] = [];
        const first = () =>
          upgrade(db, STEPS, (sql) => {
            try {
              if (STEPS.includes(sql)) upgrade(waiting);
            } catch (error) {
              refused.push((error as { errcode: unknown }).errcode);
            }
            db.exec(sql);
          });
        // It saw the old version, and gets the lock once the other has upgraded.
        let isFirst = true;
        const second = foreignHandle(waiting, (sql) => {
          if (sql !== "BEGIN IMMEDIATE" || !isFirst) return;
          isFirst = false;
          first();
        });
        prepareSchema(second, createTransact(second), [...OWN_STEPS, ...STEPS]);
        expect(refused).toEqual([SQLITE_BUSY, SQLITE_BUSY]);
        expect([versionIn(db), later(db)]).toEqual([UPGRADED, [10]]);
      }),
    );
  });

  it("a file that may not be written is refused, and stays as it is", () => {
    inspect(currentFile(), (db) => {
      db.pragma("query_only = ON");
      expect(() => upgrade(db)).toThrow(
        `the file has keystile tables of version ${SCHEMA_VERSION}, this keystile needs ${UPGRADED}, and may not be written here; open it once for writing`,
      );
      expect(versionIn(db)).toBe(SCHEMA_VERSION);
    });
  });
});

describe("downgradeSchema: the way back from a later version", () => {
  /** Of a later keystile: a table, and then a field of keys, which an earlier one would not enforce. */
  const LATER: readonly Step[] = [
    {
      up: "CREATE TABLE keystile_later (a INTEGER NOT NULL) STRICT",
      down: "DROP TABLE keystile_later",
      refuses: { "later rows": "SELECT count(*) AS n FROM keystile_later" },
    },
    {
      up: "",
      down: "",
      refuses: {
        "keys with hours": "SELECT count(*) AS n FROM keystile_keys WHERE json_extract(body, '$.hours') IS NOT NULL",
      },
    },
  ];
  const ALL = [...OWN_STEPS, ...LATER];
  const upgradeTo = (db: Database.Database) => {
    const handle = foreignHandle(db);
    prepareSchema(handle, createTransact(handle), ALL);
  };
  const back = (db: Database.Database, to = SCHEMA_VERSION, steps: readonly (string | Step)[] = ALL) => {
    const handle = foreignHandle(db);
    return downgradeSchema(handle, createTransact(handle), to, steps);
  };
  const laterFile = async () => {
    const place = currentFile();
    await withApi(sqliteStore(place)).then(async (store) => {
      await addKeys(store, 2);
      await store.close();
    });
    inspect(place, upgradeTo);
    return place;
  };

  it("this keystile opens the file again: as it was, with every key and its credits", async () => {
    const place = currentFile();
    const before = schemaOf(place);
    const later = await laterFile();
    expect(await codeOf(() => sqliteStore(later))).toBe("STORE_SCHEMA_NEWER");
    expect(inspect(later, (db) => back(db))).toBe(SCHEMA_VERSION + 2);
    expect(schemaOf(later)).toEqual(before);
    const store = sqliteStore(later);
    expect(store.health()).toMatchObject({ ok: true, schemaVersion: SCHEMA_VERSION });
    expect((await store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]?.remaining).toBe(100);
    await store.close();
    // And forward again.
    inspect(later, (db) => {
      upgradeTo(db);
      expect(versionIn(db)).toBe(SCHEMA_VERSION + 2);
    });
  });

  it("refuses, and changes nothing, while there are rows that the version before would lose or misread", async () => {
    const place = await laterFile();
    inspect(place, (db) => {
      db.exec(`UPDATE keystile_keys SET body = json_set(body, '$.hours', 'day') WHERE id = 'key_000001'`);
      expect(() => back(db)).toThrow(
        `the file has 1 keys with hours, which version ${SCHEMA_VERSION + 1} does not know`,
      );
      expect([versionIn(db), db.inTransaction]).toEqual([SCHEMA_VERSION + 2, false]);
      db.exec("UPDATE keystile_keys SET body = json_remove(body, '$.hours'); INSERT INTO keystile_later VALUES (1)");
      // One step back is possible, and is undone with the other.
      expect(() => back(db)).toThrow("the file has 1 later rows");
      expect(versionIn(db)).toBe(SCHEMA_VERSION + 2);
      expect(back(db, SCHEMA_VERSION + 1)).toBe(SCHEMA_VERSION + 2);
      expect(later(db)).toEqual([1]);
    });
  });

  it("a store that has the file open notices a step that changes no table", async () => {
    const place = currentFile();
    const store = await withApi(sqliteStore(place));
    inspect(place, (db) => {
      const handle = foreignHandle(db);
      prepareSchema(handle, createTransact(handle), [...OWN_STEPS, LATER[1]!]);
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(await codeOf(() => store.insertKeys([{ row: keyRow(2) }]))).toBe("STORE_SCHEMA_NEWER");
    await store.close();
  });

  it.each(NEWER_FIELDS)("a key with %s is not taken back to before there was the field", async (name, row) => {
    const place = currentFile();
    const store = await withApi(sqliteStore(place));
    await store.insertKeys([{ row }]);
    await store.close();
    const held = inspect(place, (db) => {
      const body = db.prepare("SELECT body FROM keystile_keys WHERE id = ?").pluck();
      const has = () => Object.hasOwn(JSON.parse(body.get(row.id) as string) as object, name);
      const before = has();
      try {
        back(db, EARLIEST_VERSION, OWN_STEPS);
      } catch (error) {
        return [before, isKeystileError(error) && error.code];
      }
      return [before, has()];
    });
    expect([
      [true, false],
      [true, "CONFLICT"],
    ]).toContainEqual(held);
  });

  it.each(NEWER_OF_IDENTITIES)(
    "an identity with %s is not taken back to before there was the field",
    async (_, row) => {
      const place = currentFile();
      const store = await withApi(sqliteStore(place));
      await store.write([{ table: "identities", row }]);
      await store.close();
      inspect(place, (db) => {
        expect(() => back(db, EARLIEST_VERSION, OWN_STEPS)).toThrow(
          /^the file has 1 identities (that are disabled or expire|with grants|with such a refill), which/,
        );
        db.exec("DELETE FROM keystile_identities");
        expect(back(db, EARLIEST_VERSION, OWN_STEPS)).toBe(SCHEMA_VERSION);
      });
    },
  );

  it("a key whose own credits cap those of its owner is not taken back to where they would not", async () => {
    const place = currentFile();
    const store = await withApi(sqliteStore(place));
    const owned = { id: "id_acme", version: 0, workspaceId: keyRow(1).workspaceId, externalId: "acme", ratelimits: [] };
    const owner = { ...owned, hasCredits: true, generation: 1 };
    await store.write([{ table: "identities", row: owner, credits: { period: 0, remaining: 5 } }]);
    const [capped, alone] = [1, 2].map((n) => keyRow(n, { hasCredits: true, identityId: owner.id }));
    await store.insertKeys([
      { row: capped!, balance: { remaining: 1, amount: 0, period: 0 } },
      { row: { ...alone!, creditsFrom: "key" }, balance: { remaining: 1, amount: 0, period: 0 } },
    ]);
    await store.close();
    inspect(place, (db) =>
      expect(() => back(db, EARLIEST_VERSION, OWN_STEPS)).toThrow(/^the file has 1 keys whose own credits cap/),
    );
  });

  it("who deleted keys, and when, is not known before it was recorded, and their rows are as they were else", async () => {
    const place = currentFile();
    const store = await withApi(sqliteStore(place));
    const meta = { deletedAt: 1, a: "\u0000", n: 1e21, ["__proto__"]: [{ deletedBy: "x" }] };
    const plain = { ...keyRow(1), meta, deleted: true, rerolledTo: "key_000002" };
    await store.insertKeys([{ row: { ...plain, deletedAt: 5, deletedBy: 'a"\\} b' } }, { row: keyRow(3) }]);
    await store.close();
    const to = SCHEMA_VERSION - (OWN_STEPS.length - OWN_STEPS.indexOf(LIST_DELETED));
    inspect(place, (db) => {
      back(db, to, OWN_STEPS);
      const known = "json_extract(body, '$.deletedAt') IS NOT NULL OR json_extract(body, '$.deletedBy') IS NOT NULL";
      expect(db.prepare(`SELECT count(*) FROM keystile_keys WHERE ${known}`).pluck().get()).toBe(0);
      upgrade(db, []);
    });
    const again = sqliteStore(place);
    expect(await again.readMany("keys", [plain.id])).toEqual([{ ...plain, version: 1 }]);
    await again.close();
  });

  it("there is none to before 0.1.0, nor to a version above", async () => {
    inspect(currentFile(), (db) => {
      expect(() => back(db, 9, OWN_STEPS)).toThrow("there is no way back from version 13; nothing was changed");
      expect(() => back(db, SCHEMA_VERSION + 1)).toThrow(
        `the tables have version ${SCHEMA_VERSION}, which is not above`,
      );
      expect(versionIn(db)).toBe(SCHEMA_VERSION);
    });
  });

  it("every step behind one with a way back has one too", () => {
    const first = OWN_STEPS.findIndex((step) => typeof step !== "string");
    expect(OWN_STEPS.slice(first).filter((step) => typeof step === "string")).toEqual([]);
  });

  it("the last step of today, forth and back: the tables are those of before it", () => {
    const [before, after] = [path(), currentFile()];
    inspect(before, (db) => {
      const handle = foreignHandle(db);
      prepareSchema(handle, createTransact(handle), OWN_STEPS.slice(0, -1));
    });
    inspect(after, (db) => back(db, SCHEMA_VERSION - 1, OWN_STEPS));
    expect(schemaOf(after)).toEqual(schemaOf(before));
  });
});

describe("the tables", () => {
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

describe("prepareSchema: counts of a version that kept each set of tags for good", () => {
  const before = OWN_STEPS.findIndex((step) => typeof step !== "string" && step.fill !== undefined);
  const START = 1_700_006_400_000;
  const flush = (seq: number, tags: readonly string[], over: object = {}) => ({
    ...{ source: "s", seq, at: START, maxTagSets: 2 },
    cells: tags.map((tag) => ({
      ...{ minute: START, workspaceId: "ws_1", apiId: "api_1", keyId: "key_1", externalId: "", tags: [tag], spent: 0 },
      counts: [1, 0, 0, 0, 0, 0, 0, 0],
      ...over,
    })),
  });
  const tagsOf = async (store: ReturnType<typeof sqliteStore>) => {
    const query = { level: "day", workspaceId: "ws_1", from: 0, to: 2 * START, by: ["tags"], maxRows: 100 } as const;
    const rows = await store.readOutcomes({ ...query, from: 0, to: Math.ceil(START / 86_400_000 + 1) * 86_400_000 });
    return Object.fromEntries(rows.map(({ tags, counts }) => [tags?.[0], counts[0]]));
  };

  it("sets are found again, their number is known, and they are removed; the way back keeps them too", async () => {
    const place = path();
    const store = sqliteStore(place);
    await store.countOutcomes(flush(1, ["a", "b"]));
    await store.close();
    inspect(place, (db) => {
      const handle = foreignHandle(db);
      downgradeSchema(handle, createTransact(handle), SCHEMA_VERSION - (OWN_STEPS.length - before));
      expect(db.prepare("SELECT tags FROM keystile_tag_sets ORDER BY 1").pluck().all()).toEqual(['["a"]', '["b"]']);
      upgrade(db, []);
    });
    const again = sqliteStore(place);
    expect(await again.countOutcomes(flush(2, ["a", "c"]))).toMatchObject({ outcome: "counted", folded: [1] });
    expect(await tagsOf(again)).toEqual({ a: 2, b: 1, "(other)": 1 });
    for (const level of ["minute", "hour", "day"] as const)
      await again.pruneOutcomes(level, START + 9 * 86_400_000, 100);
    const left = (table: string) => inspect(place, (db) => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
    // The number of all is left, and is 0.
    expect(["keystile_tag_sets", "keystile_tag_sets_counts", "keystile_subjects"].map(left)).toEqual([0, 1, 0]);
    expect(inspect(place, (db) => db.prepare("SELECT sum(sets) FROM keystile_tag_sets_counts").pluck().get())).toBe(0);
    await again.close();
  });

  it("a piece says how long it took, and what no count names is removed in slices", async () => {
    const place = path();
    const store = sqliteStore(place);
    const { busy } = await store.countOutcomes(flush(1, ["a", "b", "c"]));
    expect(busy).toBeGreaterThanOrEqual(0);
    const sets = () =>
      inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_tag_sets").pluck().get()) as number;
    let before = sets();
    // Two, and that of others.
    expect(before).toBe(3);
    for (const level of ["minute", "hour", "day"] as const)
      for (let removed = 1; removed > 0;) {
        removed = await store.pruneOutcomes(level, START + 9 * 86_400_000, 1);
        const after = sets();
        expect([removed <= 1, before - after <= 1]).toEqual([true, true]);
        before = after;
      }
    expect(before).toBe(0);
    await store.close();
  });

  it("an account that is quiet costs a removal nothing, and what nobody has any more is removed", async () => {
    const place = path();
    const store = sqliteStore(place);
    await store.countOutcomes(flush(1, ["a"]));
    inspect(place, (db) => {
      db.exec(`INSERT INTO keystile_credit_days (account, seq, day, workspace_id, external_id, credited, refilled, adjusted,
          spent, forfeited, balance)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        SELECT i, 1, 0, 'ws_1', '', 0, 0, 0, 0, 0, 0 FROM n`);
      const plan = db
        .prepare("EXPLAIN QUERY PLAN SELECT 1 FROM keystile_credit_days d WHERE d.until < 9 LIMIT 1")
        .all() as { detail: string }[];
      expect(plan.map(({ detail }) => detail).join()).toContain("keystile_credit_days_ended");
      expect(db.prepare("SELECT count(*) FROM keystile_credit_days WHERE until IS NOT NULL").pluck().get()).toBe(0);
    });
    await store.pruneOutcomes("day", START, 1_000);
    expect(inspect(place, (db) => db.prepare("SELECT count(*) FROM keystile_credit_days").pluck().get())).toBe(2_000);
    await store.close();
  });
});
