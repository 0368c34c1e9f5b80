/**
 * The tables, and the upgrades from older versions. Forward only: a file of a newer version is refused.
 *
 * Why keys are found through `keystile_key_index` and not through indexes on their digests: see
 * `../keys/hash-index.ts`.
 *
 * Why `deleted` is a column although the body has it too: the index for lists holds only keys that are not deleted, so
 * that a page costs the same behind 60,000 deleted keys (it took 0.98 s, now 0.25 ms).
 *
 * Why `unlimited` is a column: with NULL as "unlimited", a number bound wrongly (NaN binds as NULL) would be free
 * credits.
 */
import { KeystileError } from "../../../contracts/errors.js";
import { SEAL_SQL } from "../credits/account-table.js";
import { CREATE_IDEMPOTENCY } from "../credits/once-table.js";
import { CREATE_USES } from "../keys/key-uses.js";
import { CREATE_AUDIT } from "../tables/audit-table.js";
import { resultName } from "./errors.js";
import { buildKeyIndex } from "./build-index.js";
import { type Handle, select } from "./handle.js";
import { carryOverSpends } from "./old-spend-log.js";
import { CREATE_OVERVIEW } from "./overview.js";
import type { Transact } from "./transaction.js";

const entityTable = (table: string) => `
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

const count = (name: string, usual?: number) =>
  `${name} INTEGER NOT NULL${usual === undefined ? "" : ` DEFAULT ${usual}`} CHECK (${name} BETWEEN 0 AND 9007199254740991)`;

/** The namespace of an override: the name is its id, a space and the identifier. */
export const NAMESPACE_OF_OVERRIDE = "substr(name, 1, instr(name, ' ') - 1)";

/** Tables whose rows have a number beside their id. */
const NUMBERED = [
  "workspaces",
  "apis",
  "identities",
  "roles",
  "permissions",
  "migrations",
  "root_keys",
  "namespaces",
  "overrides",
  "keys",
];

/** Entry i upgrades a file from version i to i + 1. Entries never change once released. */
export const STEPS: readonly (string | ((handle: Handle) => void))[] = [
  `${["workspaces", "apis", "identities", "roles", "permissions", "migrations"].map(entityTable).join("")}
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

  `${["root_keys", "namespaces", "overrides"].map(entityTable).join("")}
  ALTER TABLE keystile_keys ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1));
  UPDATE keystile_keys SET deleted = 1 WHERE json_extract(body, '$.deleted');
  DELETE FROM keystile_places WHERE (place, n) IN (SELECT -identity, n FROM keystile_keys WHERE deleted = 1);
  DELETE FROM keystile_fresh_places WHERE (place, n) IN (SELECT -identity, n FROM keystile_keys WHERE deleted = 1);
  DROP INDEX keystile_keys_list;
  CREATE INDEX keystile_keys_list ON keystile_keys (api, id) WHERE deleted = 0;
  CREATE UNIQUE INDEX keystile_root_keys_digest ON keystile_root_keys (name);
  CREATE INDEX keystile_overrides_of ON keystile_overrides (workspace_id, ${NAMESPACE_OF_OVERRIDE}, id);`,

  // Renamed so that an older keystile with the file still open fails, instead of spending without reading the log.
  `ALTER TABLE keystile_credits RENAME TO keystile_balances;
  CREATE TABLE keystile_spends (
    slot INTEGER PRIMARY KEY CHECK (slot = seq % 256),
    seq INTEGER NOT NULL CHECK (seq BETWEEN 1 AND 9007199254740991),
    balances BLOB NOT NULL
  ) STRICT;`,

  // Periods now include their calendar (`src/credits/refill-calendar.ts`). Logged spends have periods without one, so
  // they are checkpointed first.
  (handle) => {
    carryOverSpends(handle);
    handle.exec(`UPDATE keystile_balances SET period = period + 1000000000 * (
      SELECT CASE json_extract(k.body, '$.refill.interval')
        WHEN 'daily' THEN 32 WHEN 'monthly' THEN json_extract(k.body, '$.refill.refillDay') ELSE 0 END
      FROM keystile_keys k WHERE k.n = keystile_balances.n)`);
  },

  // Balances become accounts with totals, in a table of another name, so that an older keystile with the file still
  // open fails. The log of spends is gone: the row is the balance.
  (handle) => {
    carryOverSpends(handle);
    handle.exec(`
  ALTER TABLE keystile_keys ADD COLUMN account INTEGER;
  CREATE INDEX keystile_keys_account ON keystile_keys (account) WHERE account IS NOT NULL;
  CREATE TABLE keystile_accounts (
    number INTEGER PRIMARY KEY,
    unlimited INTEGER NOT NULL DEFAULT 0 CHECK (unlimited IN (0, 1)),
    ${count("remaining")},
    ${count("amount")},
    period INTEGER NOT NULL,
    ${count("generation")},
    ${count("credited")},
    ${count("refilled", 0)},
    adjusted INTEGER NOT NULL DEFAULT 0 CHECK (adjusted BETWEEN -9007199254740991 AND 9007199254740991),
    ${count("spent", 0)},
    ${count("reserved", 0)},
    ${count("forfeited", 0)},
    seal INTEGER NOT NULL CHECK (seal = ${SEAL_SQL}),
    CONSTRAINT the_credits_add_up CHECK (credited + refilled + adjusted = spent + remaining + reserved + forfeited)
  ) STRICT;
  ALTER TABLE keystile_leases RENAME TO keystile_old_leases;
  CREATE TABLE keystile_leases (
    account INTEGER NOT NULL REFERENCES keystile_accounts (number) ON DELETE CASCADE,
    holder TEXT NOT NULL,
    ${count("generation")},
    expires INTEGER NOT NULL,
    ${count("reserved")},
    ${count("held")},
    ${count("spent")},
    is_forfeited INTEGER NOT NULL CHECK (is_forfeited IN (0, 1)),
    PRIMARY KEY (account, holder)
  ) STRICT, WITHOUT ROWID;
  DELETE FROM keystile_old_leases WHERE NOT EXISTS (
    SELECT 1 FROM keystile_balances b
    WHERE b.n = keystile_old_leases.n AND b.generation = keystile_old_leases.generation AND b.unlimited = 0);
  INSERT INTO keystile_accounts (number, unlimited, remaining, amount, period, generation, credited, adjusted, reserved, seal)
    SELECT number, unlimited, remaining, amount, period, generation, remaining, leased, leased, ${SEAL_SQL} FROM (
      SELECT n AS number, unlimited, iif(unlimited, 0, remaining) AS remaining, amount, period, generation,
        coalesce((SELECT sum(l.reserved) FROM keystile_old_leases l WHERE l.n = b.n), 0) AS leased
      FROM keystile_balances b);
  INSERT INTO keystile_leases SELECT n, holder, generation, expires, reserved, 0, 0, 0 FROM keystile_old_leases;
  DROP TABLE keystile_old_leases;
  DROP TABLE keystile_balances;
  DROP TABLE keystile_spends;
  ${NUMBERED.map((table) => `ALTER TABLE keystile_${table} RENAME COLUMN n TO number;`).join("\n  ")}
  ${CREATE_OVERVIEW}`);
  },

  // The index of keys by a keyed hash. `build-index.ts` fills it from the keys there are.
  (handle) => {
    handle.exec(`
  CREATE TABLE keystile_secrets (
    name TEXT PRIMARY KEY, secret BLOB NOT NULL CHECK (length(secret) = 32)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO keystile_secrets VALUES ('key_index', randomblob(32));
  CREATE TABLE keystile_key_index (
    hash INTEGER NOT NULL, key_number INTEGER NOT NULL, PRIMARY KEY (hash, key_number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE keystile_key_index_recent (
    hash INTEGER NOT NULL, key_number INTEGER NOT NULL, PRIMARY KEY (hash, key_number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE keystile_key_index_build (hash INTEGER NOT NULL, key_number INTEGER NOT NULL) STRICT;
  INSERT INTO keystile_key_index_build VALUES (-9007199254740991, 0);
  DROP VIEW keystile_lookup;
  DROP TABLE keystile_places;
  DROP TABLE keystile_fresh_places;
  CREATE VIEW keystile_key_lookup AS
    SELECT hash, key_number FROM keystile_key_index UNION ALL SELECT hash, key_number FROM keystile_key_index_recent;`);
    const isEmpty = select(handle, "SELECT 1 FROM keystile_keys LIMIT 1").get() === undefined;
    if (isEmpty) handle.exec("DROP TABLE keystile_key_index_build");
  },
  CREATE_IDEMPOTENCY,
  CREATE_USES,
  CREATE_AUDIT,
];

/** The schema version that this code reads and writes. */
export const SCHEMA_VERSION = STEPS.length;

/** The schema version of the file; 0: it has no tables of keystile. */
export function schemaVersion(handle: Handle): number {
  const schemaTable = select(
    handle,
    "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'keystile_schema'",
  ).get();
  if (schemaTable === undefined) return 0;
  return Number(select<{ version: unknown }>(handle, "SELECT version FROM keystile_schema").get()?.version);
}

/**
 * A check that the tables are still those that this code knows, for after another connection's commit. It reads the
 * version only when SQLite's own count of changes to the schema has moved.
 * @throws (the check) KeystileError STORE_SCHEMA_NEWER or STORE_INVALID, at each call from then on
 */
export function watchSchema(handle: Handle): () => void {
  const cookie = select<{ schema_version: number }>(handle, "PRAGMA schema_version");
  let known = cookie.get()?.schema_version;
  return () => {
    const now = cookie.get()?.schema_version;
    if (now === known) return;
    const version = stepsTaken(handle);
    if (version !== SCHEMA_VERSION)
      throw new KeystileError("STORE_INVALID", "the keystile tables were taken away while the file is in use");
    known = now;
  };
}

/**
 * Creates or upgrades the tables.
 * @throws KeystileError STORE_SCHEMA_NEWER: a later keystile wrote this file; STORE_INVALID: its version is not a
 * number; STORE_READ_ONLY: tables are missing or old in a file that may not be written
 */
export function prepareSchema(handle: Handle, transact: Transact): void {
  // Checked here, so that an up-to-date file is not locked, and again inside the transaction, so that one process
  // upgrades.
  const found = stepsTaken(handle);
  try {
    if (found !== SCHEMA_VERSION) {
      transact(() => {
        completeTables(handle);
        return true;
      });
    }
    buildKeyIndex(handle, transact);
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
  const version = stepsTaken(handle);
  if (version === 0)
    handle.exec(
      "CREATE TABLE keystile_schema (version INTEGER NOT NULL) STRICT; INSERT INTO keystile_schema VALUES (0)",
    );
  for (const step of STEPS.slice(version)) {
    if (typeof step === "string") handle.exec(step);
    else step(handle);
  }
  handle.exec(`UPDATE keystile_schema SET version = ${SCHEMA_VERSION}`);
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
