/**
 * The tables, and how a file comes to have them. Forward only; a newer file is refused. Trap 3, trap 13.
 *
 * Why keys are found through `keystile_places` and not through indexes on their digests: `src/stores/sqlite/keys/hash-index.ts` says it.
 *
 * Why `deleted` is a column beside the body that has it too: the index of lists holds only keys that are shown, so that a page costs
 * the same behind 60,000 deleted keys (it took 0.98 s, now 0.25 ms).
 *
 * Why `keystile_spends` goes before the row of a balance: `src/stores/sqlite/credits/spend-log.ts`.
 *
 * Why `unlimited` is a column: NULL as "unlimited" turns a wrong number into free credits.
 */
import { KeystileError } from "../../../contracts/errors.js";
import { createBalances } from "../credits/balance-table.js";
import { resultName } from "./errors.js";
import { type Handle, select } from "./handle.js";
import type { Transact } from "./transaction.js";

const small = (table: string) => `
  CREATE TABLE keystile_${table} (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name TEXT,
    version INTEGER NOT NULL CHECK (version > 0),
    body TEXT NOT NULL,
    UNIQUE (workspace_id, name)
  ) STRICT;
  CREATE INDEX keystile_${table}_list ON keystile_${table} (workspace_id, id);`;

const COUNT = "INTEGER NOT NULL CHECK (%s BETWEEN 0 AND 9007199254740991)";
const count = (name: string) => `${name} ${COUNT.replace("%s", name)}`;

/** The namespace of an override: the name is its id, a space and the identifier. */
export const NAMESPACE_OF_OVERRIDE = "substr(name, 1, instr(name, ' ') - 1)";

/** Each entry takes a file from version i to i + 1. Entries are never changed once released. */
const STEPS: readonly (string | ((handle: Handle) => void))[] = [
  `${["workspaces", "apis", "identities", "roles", "permissions", "migrations"].map(small).join("")}
  CREATE TABLE keystile_keys (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    api INTEGER NOT NULL REFERENCES keystile_apis (n),
    identity INTEGER,
    version INTEGER NOT NULL CHECK (version > 0),
    digest TEXT,
    foreign_digest TEXT,
    grants TEXT NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
  CREATE INDEX keystile_keys_list ON keystile_keys (api, id);
  CREATE TABLE keystile_places (place INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (place, n)) STRICT, WITHOUT ROWID;
  CREATE TABLE keystile_fresh_places (place INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (place, n)) STRICT, WITHOUT ROWID;
  CREATE VIEW keystile_lookup AS
    SELECT place, n FROM keystile_places UNION ALL SELECT place, n FROM keystile_fresh_places;
  CREATE TABLE keystile_credits (
    n INTEGER PRIMARY KEY REFERENCES keystile_keys (n) ON DELETE CASCADE,
    unlimited INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
    ${count("remaining")},
    ${count("amount")},
    period INTEGER NOT NULL,
    ${count("generation")}
  ) STRICT;
  CREATE TABLE keystile_leases (
    n INTEGER NOT NULL REFERENCES keystile_keys (n) ON DELETE CASCADE,
    holder TEXT NOT NULL,
    ${count("reserved")},
    ${count("generation")},
    expires INTEGER NOT NULL,
    PRIMARY KEY (n, holder)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE keystile_changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL) STRICT;
  INSERT INTO keystile_changes (what) VALUES ('*');`,

  `${["root_keys", "namespaces", "overrides"].map(small).join("")}
  ALTER TABLE keystile_keys ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1));
  UPDATE keystile_keys SET deleted = 1 WHERE json_extract(body, '$.deleted');
  DELETE FROM keystile_places WHERE (place, n) IN (SELECT -identity, n FROM keystile_keys WHERE deleted = 1);
  DELETE FROM keystile_fresh_places WHERE (place, n) IN (SELECT -identity, n FROM keystile_keys WHERE deleted = 1);
  DROP INDEX keystile_keys_list;
  CREATE INDEX keystile_keys_list ON keystile_keys (api, id) WHERE deleted = 0;
  CREATE UNIQUE INDEX keystile_root_keys_digest ON keystile_root_keys (name);
  CREATE INDEX keystile_overrides_of ON keystile_overrides (workspace_id, ${NAMESPACE_OF_OVERRIDE}, id);`,

  // Renamed, so that an older keystile that still has the file open fails, instead of spending from rows without the log.
  `ALTER TABLE keystile_credits RENAME TO keystile_balances;
  CREATE TABLE keystile_spends (
    slot INTEGER PRIMARY KEY CHECK (slot = seq % 256),
    seq INTEGER NOT NULL CHECK (seq BETWEEN 1 AND 9007199254740991),
    balances BLOB NOT NULL
  ) STRICT;`,

  // Periods name their calendar (`src/credits/refill-calendar.ts`). Spends still in the log count by bare periods: they are carried over first.
  (handle) => {
    carryOver(handle);
    handle.exec(`UPDATE keystile_balances SET period = period + 1000000000 * (
      SELECT CASE json_extract(k.body, '$.refill.interval')
        WHEN 'daily' THEN 32 WHEN 'monthly' THEN json_extract(k.body, '$.refill.refillDay') ELSE 0 END
      FROM keystile_keys k WHERE k.n = keystile_balances.n)`);
  },
];

/** The version that this code reads and writes. */
export const SCHEMA_VERSION = STEPS.length;

/** The version of the tables in the file; 0: there are none. */
export function schemaVersion(handle: Handle): number {
  const isThere = select(handle, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'keystile_schema'").get();
  if (isThere === undefined) return 0;
  return Number(select<{ version: unknown }>(handle, "SELECT version FROM keystile_schema").get()?.version);
}

/**
 * Makes or completes the tables.
 * @throws KeystileError STORE_SCHEMA_NEWER: a later keystile wrote this file; STORE_INVALID: its version is no version;
 * STORE_READ_ONLY: tables are wanting in a file that may not be written
 */
export function prepareSchema(handle: Handle, transact: Transact): void {
  // Asked before and inside: a file that is complete is not locked, and of two processes that find none only one makes the tables.
  const found = stepsTaken(handle);
  if (found === SCHEMA_VERSION) return;
  try {
    transact(() => {
      completeTables(handle);
      return true;
    });
  } catch (cause) {
    if (resultName(cause) !== "READONLY") throw cause;
    const tables =
      found === 0 ? "no keystile tables" : `keystile tables of version ${found}, this keystile needs ${SCHEMA_VERSION}`;
    throw new KeystileError(
      "STORE_READ_ONLY",
      `the file has ${tables}, and may not be written here; open it once for writing`,
      { cause },
    );
  }
}

function completeTables(handle: Handle): void {
  const taken = stepsTaken(handle);
  if (taken === 0)
    handle.exec(
      "CREATE TABLE keystile_schema (version INTEGER NOT NULL) STRICT; INSERT INTO keystile_schema VALUES (0)",
    );
  for (const step of STEPS.slice(taken)) {
    if (typeof step === "string") handle.exec(step);
    else step(handle);
  }
  handle.exec(`UPDATE keystile_schema SET version = ${SCHEMA_VERSION}`);
}

function carryOver(handle: Handle): void {
  if (select(handle, "SELECT 1 FROM keystile_spends LIMIT 1").get() === undefined) return;
  const balances = createBalances(handle);
  balances.begin(true);
  balances.checkpoint();
}

function stepsTaken(handle: Handle): number {
  const version = schemaVersion(handle);
  if (!Number.isSafeInteger(version) || version < 0)
    throw new KeystileError("STORE_INVALID", "the version of the keystile tables is not a number");
  if (version > SCHEMA_VERSION) {
    throw new KeystileError(
      "STORE_SCHEMA_NEWER",
      `the file has keystile tables of version ${version}, this keystile knows ${SCHEMA_VERSION}; upgrade keystile`,
    );
  }
  return version;
}
