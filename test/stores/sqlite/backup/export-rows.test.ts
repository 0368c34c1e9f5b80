import { copyFileSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { EXPORTED_TABLES, openExport } from "../../../../src/stores/sqlite/backup/export-rows.js";
import { SCHEMA_VERSION } from "../../../../src/stores/sqlite/connection/schema.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { addKeys, inspect, temporaryPaths, withApi } from "../support.js";
import { makeBackup } from "./support.js";

const path = temporaryPaths();

/** Tables whose rows no page has, and why. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  keystile_accounts: "a page of keys has them",
  keystile_key_uses: "a row of a key has it",
  keystile_secrets: "an export has that of idempotency keys; the other is of the index",
  keystile_leases: "they end",
  keystile_reservations_ended: "reservations end with the leases, and none of the file is known in the other store",
  keystile_changes: "nobody who listens lasts",
  keystile_key_index: "made from the keys",
  keystile_key_index_recent: "made from the keys",
  keystile_idempotency_counts: "made from the records",
  keystile_audit_counts: "made from the entries",
  keystile_tag_sets_counts: "made from the sets",
  keystile_outcomes_minute: "PostgreSQL keeps none",
  keystile_flushes: "processes that count begin anew",
  keystile_refusals: "the last refusals of each key, which are made anew",
  keystile_schema: "the version of the file",
};

it("every table of the file is exported, or left out on purpose", async () => {
  const place = path();
  await sqliteStore(place).close();
  const tables = inspect(place, (db) =>
    db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'keystile%' ORDER BY name")
      .pluck()
      .all(),
  );
  expect([...EXPORTED_TABLES, ...Object.keys(LEFT_OUT)].sort()).toEqual(tables);
});

it("a file of other tables, or that is no database, is refused in words that say what it is", async () => {
  const place = path();
  await sqliteStore(place).close();
  const withVersion = (version: number) => {
    inspect(place, (db) => db.prepare("UPDATE keystile_schema SET version = ?").run(version));
    return () => openExport(place);
  };
  expect(withVersion(SCHEMA_VERSION + 1)).toThrow(
    expect.objectContaining({ code: "STORE_SCHEMA_NEWER", detail: expect.stringMatching(/upgrade keystile$/) }),
  );
  expect(withVersion(SCHEMA_VERSION - 1)).toThrow(
    expect.objectContaining({
      code: "STORE_INVALID",
      detail: expect.stringMatching(/npx keystile apis list --db FILE$/),
    }),
  );
  const other = path();
  inspect(other, (db) => db.exec("CREATE TABLE other (a)"));
  expect(() => openExport(other)).toThrow(
    expect.objectContaining({ code: "STORE_INVALID", detail: "the file has no keystile tables" }),
  );
  writeFileSync(other, "no database".repeat(100));
  expect(() => openExport(other)).toThrow(
    expect.objectContaining({ code: "STORE_INVALID", detail: "the file is not an SQLite database" }),
  );
});

it("a file beside the log of another is refused, as opening a store does: the export would mix the two", async () => {
  const [live, place] = [path(), path()];
  const store = await withApi(sqliteStore(live, { durability: "process" }));
  await addKeys(store, 3);
  makeBackup({ path: live, target: place });
  copyFileSync(`${live}-wal`, `${place}-wal`);
  await store.close();
  expect(() => openExport(place)).toThrow(
    expect.objectContaining({ code: "STORE_INVALID", detail: expect.stringContaining("of another file") }),
  );
});
