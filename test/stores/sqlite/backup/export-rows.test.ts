import { expect, it } from "vitest";
import { EXPORTED_TABLES } from "../../../../src/stores/sqlite/backup/export-rows.js";
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";
import { inspect, temporaryPaths } from "../support.js";

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
