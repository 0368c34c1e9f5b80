/**
 * The tables, and the steps that upgrade them and take them back. A file of a newer version is refused.
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
import { ADD_ROLLOVER, CREATE_RESERVATIONS, SEAL_SQL } from "../credits/account-table.js";
import { CREATE_IDEMPOTENCY } from "../credits/once-table.js";
import { CREATE_USES } from "../keys/key-uses.js";
import { COUNT_ENDINGS, CREATE_KEY_SEARCH, LIST_DELETED, OWNER_STATES } from "../keys/search-keys.js";
import { CREATE_ALERTS } from "../tables/alert-table.js";
import { AUDIT_CHANGES, AUDIT_CREDITS, COUNT_AUDIT, CREATE_AUDIT } from "../tables/audit-table.js";
import { CAPPED_DAYS } from "../tables/credit-days.js";
import { CREATE_OUTCOMES, REMOVE_UNNAMED } from "../tables/outcome-tables.js";
import { KEEP_REFUSALS } from "../tables/refusal-table.js";
import { resultName } from "./errors.js";
import { grantsStep } from "./grants-step.js";
import { type Handle, select } from "./handle.js";
import { CREATE_OVERVIEW, SHOW_EXPIRED, SHOW_OWNER_STATES, SHOW_SUCCESSORS } from "./overview.js";
import type { Transact } from "./connection.js";

const entityTable = (table: string) => `
  CREATE TABLE keystile_${table} (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
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

/** Tables of rows that have an id, a workspace and a name. */
const ENTITIES = [
  "workspaces",
  "apis",
  "identities",
  "roles",
  "permissions",
  "migrations",
  "root_keys",
  "namespaces",
  "overrides",
];

/** The namespace of an override: the name is its id, a space and the identifier. */
export const NAMESPACE_OF_OVERRIDE = "substr(name, 1, instr(name, ' ') - 1)";

/** The first schema. Files have it, so it never changes once released: a change of the tables is a step. */
export const CREATE = `
  CREATE TABLE keystile_schema (version INTEGER NOT NULL) STRICT;
  ${ENTITIES.map(entityTable).join("")}
  CREATE UNIQUE INDEX keystile_root_keys_digest ON keystile_root_keys (name);
  CREATE INDEX keystile_overrides_of ON keystile_overrides (workspace_id, ${NAMESPACE_OF_OVERRIDE}, id);
  CREATE TABLE keystile_keys (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    api INTEGER NOT NULL REFERENCES keystile_apis (number),
    identity INTEGER,
    version INTEGER NOT NULL CHECK (version > 0),
    digest TEXT,
    foreign_digest TEXT,
    grants TEXT NOT NULL,
    body TEXT NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
    account INTEGER
  ) STRICT;
  CREATE INDEX keystile_keys_list ON keystile_keys (api, id) WHERE deleted = 0;
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
  CREATE TABLE keystile_changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL) STRICT;
  INSERT INTO keystile_changes (what) VALUES ('*');
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
  CREATE VIEW keystile_key_lookup AS
    SELECT hash, key_number FROM keystile_key_index UNION ALL SELECT hash, key_number FROM keystile_key_index_recent;
  ${CREATE_OVERVIEW};
  ${CREATE_IDEMPOTENCY}
  ${CREATE_USES}
  ${CREATE_AUDIT}`;

/** The version of the first schema. Lower ones were in use before 0.1.0; files of those are refused. */
export const FIRST_VERSION = 9;

/** What leads to a version, and back from it. A released step never changes. */
export interface Step {
  readonly up: string;
  /** What SQL cannot do of the way up, done after it. */
  readonly fill?: (handle: Handle) => void;
  readonly down: string;
  /**
   * Rows that the version before would lose or misread, such as keys with a field that it does not know: by what they
   * are called, a statement that counts them as `n`. There is no way back while there are any.
   */
  readonly refuses: Readonly<Record<string, string>>;
}

/** Whether a refill is one that earlier versions would count by other days, or let nothing of expire. */
const HAS_NEW_REFILL = `(json_extract(body, '$.refillCalendar') IS NOT NULL OR json_extract(body, '$.refill.timeZone') IS NOT NULL
  OR json_extract(body, '$.refill.rollover') IS NOT NULL OR json_extract(body, '$.refill.interval') IN ('hourly', 'weekly'))`;

/** Refills by other calendars than the first two, and credits that expire. */
const REFILLS: Step = {
  up: `${ADD_ROLLOVER.up}
  ALTER TABLE keystile_credit_days ADD COLUMN expired INTEGER NOT NULL DEFAULT 0;
  ${SHOW_EXPIRED.up}`,
  down: `${SHOW_EXPIRED.down};
  ALTER TABLE keystile_credit_days DROP COLUMN expired;
  ${ADD_ROLLOVER.down}`,
  refuses: {
    "keys with a refill that is hourly, weekly, of a time zone or with a rollover, or was": `SELECT count(*) AS n FROM keystile_keys WHERE ${HAS_NEW_REFILL}`,
    "identities with such a refill": `SELECT count(*) AS n FROM keystile_identities WHERE ${HAS_NEW_REFILL}`,
    "grants with such a refill": `SELECT count(*) AS n FROM keystile_grants WHERE ${HAS_NEW_REFILL}`,
  },
};

/** Keys with credits of their own that draw on those of their identity too, which earlier versions would not take. */
const CAPS: Step = {
  up: "",
  down: "",
  refuses: {
    "keys whose own credits cap those of their identity": `SELECT count(*) AS n FROM keystile_keys k
      JOIN keystile_identities i ON i.number = k.identity AND json_extract(i.body, '$.hasCredits')
      WHERE json_extract(k.body, '$.limited') IS NOT NULL AND json_extract(k.body, '$.creditsFrom') IS NULL`,
  },
};

/** What upgrades a file, each by one version, from the first on. Texts alone have no way back: before 0.1.0. */
export const STEPS: readonly (string | Step)[] = [
  CREATE_RESERVATIONS,
  CREATE_OUTCOMES,
  CREATE_KEY_SEARCH,
  CREATE_ALERTS,
  SHOW_SUCCESSORS,
  COUNT_AUDIT,
  REMOVE_UNNAMED,
  LIST_DELETED,
  OWNER_STATES,
  grantsStep(entityTable),
  REFILLS,
  AUDIT_CREDITS,
  SHOW_OWNER_STATES,
  CAPS,
  KEEP_REFUSALS,
  CAPPED_DAYS,
  COUNT_ENDINGS,
  AUDIT_CHANGES,
];

/** The schema version that this code reads and writes. */
export const SCHEMA_VERSION = FIRST_VERSION + STEPS.length;

/** The tables and views of that version, without the prefix of their names. */
export const TABLE_NAMES = (
  "accounts alerts apis audit audit_counts changes credit_days flushes grants idempotency idempotency_counts identities " +
  "key_index key_index_recent key_lookup key_overview key_uses keys leases migrations namespaces outcomes_day " +
  "outcomes_hour outcomes_minute overrides permissions refusals reservations_ended roles root_keys schema secrets " +
  "subjects tag_sets tag_sets_counts workspaces"
).split(" ");

/**
 * Checks that every table is there. Statements are prepared when they are first used: without this a file that lost a
 * table would open, and fail later.
 * @throws KeystileError STORE_INVALID
 */
export function assertWhole(handle: Handle): void {
  const names = new Set(
    select<{ name: string }>(handle, "SELECT name FROM sqlite_schema")
      .all()
      .map(({ name }) => name),
  );
  const missing = TABLE_NAMES.find((name) => !names.has(`keystile_${name}`));
  if (missing !== undefined)
    throw new KeystileError("STORE_INVALID", `the file lacks the table keystile_${missing}; restore it from a backup`);
}

/** The lowest version that there is a way back to. */
export const EARLIEST_VERSION = FIRST_VERSION + STEPS.findLastIndex((step) => typeof step === "string") + 1;

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
    if (readVersion(handle) !== SCHEMA_VERSION)
      throw new KeystileError("STORE_INVALID", "the keystile tables were taken away while the file is in use");
    known = now;
  };
}

/**
 * Creates or upgrades the tables, in one transaction.
 * @param steps what upgrades them
 * @throws KeystileError as {@link readVersion} does; STORE_READ_ONLY: tables are missing or old in a file that may not
 * be written
 */
export function prepareSchema(handle: Handle, transact: Transact, steps = STEPS): void {
  const newest = FIRST_VERSION + steps.length;
  // Checked here, so that an up-to-date file is not locked, and again inside the transaction, so that one process
  // upgrades.
  const found = readVersion(handle, newest);
  if (found === newest) return;
  try {
    transact(() => {
      const version = readVersion(handle, newest);
      if (version === 0) handle.exec(`${CREATE}; INSERT INTO keystile_schema VALUES (${FIRST_VERSION})`);
      for (const step of steps.slice(Math.max(0, version - FIRST_VERSION))) {
        run(handle, typeof step === "string" ? step : step.up);
        if (typeof step !== "string") step.fill?.(handle);
      }
      setVersion(handle, newest);
      return true;
    });
  } catch (cause) {
    if (resultName(cause) !== "READONLY") throw cause;
    const tables =
      found === 0 ? "no keystile tables" : `keystile tables of version ${found}, this keystile needs ${newest}`;
    throw new KeystileError(
      "STORE_READ_ONLY",
      `the file has ${tables}, and may not be written here; open it once for writing`,
      { cause },
    );
  }
}

/**
 * Takes the tables back to an earlier version, in one transaction. Stores that have the file open fail from then on.
 * @returns the version that they had
 * @throws KeystileError CONFLICT: they are older, there is no way back to that version, or it would lose or misread
 * rows; otherwise as {@link readVersion}
 */
export function downgradeSchema(handle: Handle, transact: Transact, to: number, steps = STEPS): number {
  const before = transact(() => {
    const version = readVersion(handle, FIRST_VERSION + steps.length);
    if (version < to)
      throw new KeystileError("CONFLICT", `the tables have version ${version}, which is not above ${to}`);
    for (let from = version; from > to; from--) takeBack(handle, steps[from - FIRST_VERSION - 1], from);
    setVersion(handle, to);
    return version;
  });
  return before as number;
}

/** A step that changes no table has no statements, which Bun refuses. */
function run(handle: Handle, statements: string): void {
  if (statements !== "") handle.exec(statements);
}

/** A step need not change a table: one comes and goes, so that {@link watchSchema} of open stores looks again. */
function setVersion(handle: Handle, version: number): void {
  handle.exec(`UPDATE keystile_schema SET version = ${version};
    CREATE TABLE keystile_step (a INTEGER) STRICT; DROP TABLE keystile_step`);
}

function takeBack(handle: Handle, step: string | Step | undefined, from: number): void {
  if (step === undefined || typeof step === "string")
    throw new KeystileError("CONFLICT", `there is no way back from version ${from}; nothing was changed`);
  for (const [what, sql] of Object.entries(step.refuses)) {
    const n = Number(select<{ n: unknown }>(handle, sql).get()?.n);
    if (n > 0)
      throw new KeystileError(
        "CONFLICT",
        `the file has ${n} ${what}, which version ${from - 1} does not know; nothing was changed`,
      );
  }
  run(handle, step.down);
}

/**
 * The schema version of the file, if it is one that this code opens; 0: it has no tables of keystile.
 * @param newest the highest version that is known
 * @throws KeystileError STORE_SCHEMA_NEWER: a later keystile wrote this file; STORE_INVALID: its version is not a
 * number, or one of before 0.1.0
 */
export function readVersion(handle: Handle, newest = SCHEMA_VERSION): number {
  const version = schemaVersion(handle);
  if (!Number.isSafeInteger(version) || version < 0)
    throw new KeystileError("STORE_INVALID", "the version of the keystile tables is not a number");
  if (version > newest) {
    throw new KeystileError(
      "STORE_SCHEMA_NEWER",
      `the file has keystile tables of version ${version}, this keystile knows ${newest}; upgrade keystile`,
    );
  }
  if (version > 0 && version < FIRST_VERSION) {
    throw new KeystileError(
      "STORE_INVALID",
      `the file has keystile tables of version ${version}, made before keystile 0.1.0; versions from ${FIRST_VERSION} on open`,
    );
  }
  return version;
}
