/** The schema of the database: one script that may run any number of times, from any number of nodes at once. */
import { ABANDONED, MAX_BALANCE } from "../../credits/account.js";
import { creditFunctions } from "./credits-sql.js";
import { rowFunctions, WRITE_ONCE, writtenBalances } from "./rows-sql.js";
import { groupFunctions } from "./groups-sql.js";
import { KEEP_REFUSALS, outcomeTables, REMOVE_UNNAMED } from "./outcomes-sql.js";
import { alertTables } from "./alerts.js";
import { refills } from "./refills-sql.js";
import { LIST_DELETED, OWNER_STATES } from "./search.js";
import { SHARES } from "./shares-sql.js";
import { fieldOf } from "./texts.js";
import { AUDIT_CHANGES, AUDIT_CREDITS } from "./audit.js";
import { GRANT_DAYS, CAPPED_DAYS, CAPS, ENDED_GRANTS, FORMER_CAPS } from "./days-and-caps.js";
import { GRANTS } from "./grants-step.js";
import { KEPT_PARTS } from "./kept-parts.js";
import { PLAIN_WALLETS } from "./plain-wallets.js";
import { WALLETS } from "./wallets-sql.js";

/** The version of the first schema that was released. */
const FIRST_VERSION = 4;

/**
 * What every function of the schema has for its own `search_path`. A caller's may name a schema in which others create:
 * of two operators PostgreSQL takes the one whose types fit better, wherever in the path it is.
 */
const SEARCH_PATH = "pg_catalog, pg_temp";

const MAX = MAX_BALANCE;

/** What a name of a schema must be, in words. */
export const SCHEMA_NAMES = "1 to 48 characters of a-z, 0-9 and _, not beginning with a digit";

/** Whether a schema may have this name. */
export function isSchemaName(name: unknown): name is string {
  return typeof name === "string" && /^[a-z_][a-z0-9_]{0,47}$/.test(name);
}

/** An identifier in double quotes, as every statement names it. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

const tables = (s: string): string => `
CREATE TABLE ${s}.meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version integer NOT NULL,
  store_id text NOT NULL,
  idempotency_secret text NOT NULL,
  pruned xid8
);
INSERT INTO ${s}.meta (version, store_id, idempotency_secret) VALUES (1, gen_random_uuid()::text,
  replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

-- Workspaces, APIs, identities, roles, permissions, migrations, root keys, namespaces and overrides, and of a copied
-- store one row "copy", which names the source.
CREATE TABLE ${s}.entities (
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  workspace_id text COLLATE "C" NOT NULL,
  name text COLLATE "C",
  parent text COLLATE "C",
  version bigint NOT NULL CHECK (version > 0),
  deleted boolean NOT NULL,
  body text NOT NULL,
  -- Of an identity that has credits, or had some.
  account bigint UNIQUE,
  PRIMARY KEY (kind, id),
  UNIQUE (kind, workspace_id, name)
);
CREATE UNIQUE INDEX entities_root_keys ON ${s}.entities (name) WHERE kind = 'rootKeys';
CREATE INDEX entities_lists ON ${s}.entities (kind, workspace_id, id) WHERE NOT deleted;
CREATE INDEX entities_children ON ${s}.entities (parent, id) WHERE parent IS NOT NULL;

CREATE SEQUENCE ${s}.key_numbers;
CREATE TABLE ${s}.keys (
  number bigint PRIMARY KEY DEFAULT nextval('${s}.key_numbers'),
  id text COLLATE "C" NOT NULL UNIQUE,
  workspace_id text COLLATE "C" NOT NULL,
  api_id text COLLATE "C" NOT NULL,
  identity_id text COLLATE "C",
  version bigint NOT NULL CHECK (version > 0),
  digest text COLLATE "C" UNIQUE,
  foreign_digest text COLLATE "C" UNIQUE,
  account bigint,
  -- Whether it takes the credits of its identity, if that has some.
  draws boolean NOT NULL,
  deleted boolean NOT NULL,
  last_used_at bigint,
  grants text NOT NULL,
  body text NOT NULL,
  -- For people; keystile reads the body.
  name text, start text NOT NULL, enabled boolean NOT NULL, expires timestamptz, created_at timestamptz NOT NULL
) WITH (fillfactor = 90);
ALTER SEQUENCE ${s}.key_numbers OWNED BY ${s}.keys.number;
CREATE INDEX keys_of_api ON ${s}.keys (api_id, id) WHERE NOT deleted;
CREATE INDEX keys_of_workspace ON ${s}.keys (workspace_id, id) WHERE NOT deleted;
CREATE INDEX keys_of_identity ON ${s}.keys (identity_id, id) WHERE identity_id IS NOT NULL;
CREATE INDEX keys_of_account ON ${s}.keys (account) WHERE account IS NOT NULL;

-- By the number of the first of the keys that share it, or a number that no key has.
CREATE TABLE ${s}.accounts (
  number bigint PRIMARY KEY,
  unlimited boolean NOT NULL DEFAULT false,
  remaining bigint NOT NULL,
  amount bigint NOT NULL CHECK (amount BETWEEN 0 AND ${MAX}),
  period bigint NOT NULL,
  generation bigint NOT NULL CHECK (generation >= 0),
  credited bigint NOT NULL DEFAULT 0,
  refilled bigint NOT NULL DEFAULT 0,
  adjusted bigint NOT NULL DEFAULT 0,
  spent bigint NOT NULL DEFAULT 0,
  reserved bigint NOT NULL DEFAULT 0,
  forfeited bigint NOT NULL DEFAULT 0,
  CONSTRAINT adds_up CHECK (credited + refilled + adjusted = spent + remaining + reserved + forfeited),
  CONSTRAINT in_bounds CHECK (
    least(remaining, credited, refilled, spent, reserved, forfeited) >= 0
    AND greatest(remaining, credited, refilled, abs(adjusted), spent, reserved, forfeited) <= ${MAX}
  )
) WITH (fillfactor = 70);
CREATE TABLE ${s}.leases (
  account bigint NOT NULL REFERENCES ${s}.accounts ON DELETE CASCADE,
  holder text COLLATE "C" NOT NULL,
  generation bigint NOT NULL,
  expires bigint NOT NULL,
  held bigint NOT NULL CHECK (held >= 0),
  spent bigint NOT NULL CHECK (spent >= 0),
  is_forfeited boolean NOT NULL,
  -- Of a reservation, which holds nothing.
  reserved bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  PRIMARY KEY (account, holder)
);
CREATE INDEX reservations_expiry ON ${s}.leases (account, expires) WHERE reserved > 0;
CREATE TABLE ${s}.reservations_ended (
  id text COLLATE "C" PRIMARY KEY,
  how text NOT NULL CHECK (how IN ('settled', 'expired', 'voided')),
  until bigint NOT NULL
);
CREATE INDEX reservations_ended_until ON ${s}.reservations_ended (until);

CREATE TABLE ${s}.idempotency (
  id text COLLATE "C" PRIMARY KEY,
  workspace_id text COLLATE "C" NOT NULL,
  body text NOT NULL,
  expires bigint NOT NULL
);
CREATE INDEX idempotency_expiry ON ${s}.idempotency (expires);
CREATE INDEX idempotency_share ON ${s}.idempotency (workspace_id, expires);
CREATE TABLE ${s}.idempotency_counts (
  workspace_id text COLLATE "C" PRIMARY KEY,
  records bigint NOT NULL CHECK (records >= 0)
);

-- What nodes are told of: "all", "created", "=" and a digest, or "#", the table and the id of a row. Pruned by age.
CREATE TABLE ${s}.changes (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  what text NOT NULL
);
CREATE INDEX changes_by_xid ON ${s}.changes (xid);
CREATE INDEX changes_by_age ON ${s}.changes (at);

CREATE TABLE ${s}.audit (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  time timestamptz NOT NULL,
  workspace_id text NOT NULL,
  actor_kind text NOT NULL,
  actor text,
  operation text NOT NULL,
  ids text[] NOT NULL,
  fields text[] NOT NULL,
  count bigint NOT NULL
);
`;

/** Conditions and columns of the first view. Refills of other calendars count once a call has counted them. */
const FIRST = { isLimited: `NOT a.unlimited AND a.period < ${ABANDONED}`, forfeited: "a.forfeited", more: "" };
const overview = (s: string, { isLimited, forfeited, more }: typeof FIRST = FIRST): string => `
CREATE VIEW ${s}.key_overview AS
SELECT k.id AS key_id, k.name, k.start, k.workspace_id, k.api_id, i.name AS external_id, k.enabled, k.deleted, k.created_at,
  k.expires, to_timestamp(k.last_used_at / 1000.0) AS last_used_at,
  ARRAY(SELECT DISTINCT p.name FROM ${s}.entities p WHERE p.kind = 'permissions' AND p.id IN (
    SELECT jsonb_array_elements_text(nullif(k.grants, '')::jsonb -> 0)
    UNION SELECT jsonb_array_elements_text(r.body::jsonb -> 'permissions') FROM ${s}.entities r
      WHERE r.kind = 'roles' AND r.id IN (SELECT jsonb_array_elements_text(nullif(k.grants, '')::jsonb -> 1))
  ) ORDER BY p.name) AS permissions,
  ARRAY(SELECT DISTINCT r.name FROM ${s}.entities r WHERE r.kind = 'roles'
    AND r.id IN (SELECT jsonb_array_elements_text(nullif(k.grants, '')::jsonb -> 1)) ORDER BY r.name) AS roles,
  CASE WHEN ${isLimited} THEN (${s}.settle_v1(a, ${s}.period_v1(${s}.calendar_v1(a.period), now()))).remaining END AS credits,
  CASE WHEN ${isLimited} THEN a.reserved END AS credits_leased,
  a.spent AS credits_spent, ${forfeited} AS credits_forfeited${more}
FROM ${s}.keys k
LEFT JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = k.identity_id
LEFT JOIN ${s}.accounts o ON o.number = i.account
LEFT JOIN ${s}.accounts a ON a.number = CASE WHEN k.draws AND NOT o.unlimited THEN o.number ELSE coalesce(k.account, k.number) END;
`;

/**
 * Tells one lifetime of the server's memory from the next. A recovery empties the table: what was committed without
 * waiting for the disk is gone then, and the numbers of its transactions are used again. It also runs after one process
 * of the server was killed, while the server's start stays as it was. A standby cannot read the table, and gets NULL.
 */
const lifetime = (s: string): string => `
CREATE UNLOGGED TABLE ${s}.lifetime (one boolean PRIMARY KEY DEFAULT true CHECK (one), id text NOT NULL);
CREATE FUNCTION ${s}.lifetime_v1() RETURNS text LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE found text;
BEGIN
  IF pg_is_in_recovery() THEN RETURN NULL; END IF;
  SELECT id INTO found FROM ${s}.lifetime;
  IF found IS NOT NULL THEN RETURN found; END IF;
  INSERT INTO ${s}.lifetime (id) VALUES (gen_random_uuid()::text) ON CONFLICT DO NOTHING;
  RETURN (SELECT id FROM ${s}.lifetime);
END $fn$;
`;

const withSuccessor = (s: string): string =>
  overview(s, { ...FIRST, more: `, ${fieldOf("k", "rerolledTo")} AS rerolled_to` });
const withExpired = (s: string, more = ""): string =>
  overview(s, {
    isLimited: `NOT a.unlimited AND a.period <> ${ABANDONED}`,
    forfeited: "a.forfeited - a.expired",
    more: `, ${fieldOf("k", "rerolledTo")} AS rerolled_to, a.expired AS credits_expired${more}`,
  });
/** Whether the identity is enabled, and until when its keys are valid. */
const ownerState = `,
  CASE WHEN i.id IS NOT NULL THEN coalesce(${fieldOf("i", "enabled")} <> 'false', true) END AS owner_enabled,
  to_timestamp(${fieldOf("i", "expires")}::bigint / 1000.0) AS owner_expires`;

/** The first schema. It never changes once released: a change is a step. */
const create = (s: string): string =>
  [tables, creditFunctions, rowFunctions, lifetime, groupFunctions, overview, outcomeTables]
    .map((part: (s: string) => string) => part(s))
    .join("");

/** What leads to a version, and back from it. A released step never changes. */
export interface Step {
  readonly up: (s: string) => string;
  readonly down: (s: string) => string;
  /** Rows that the version before would lose or misread: by what they are called, an expression that counts them. */
  readonly refuses: Readonly<Record<string, (s: string) => string>>;
}

/** What upgrades the tables, each by one version, from the first on. Functions alone have no way back: before 0.1.0. */
export const STEPS: readonly (((s: string) => string) | Step)[] = [
  // Keys of an API by when they expire.
  (s) => `CREATE INDEX keys_expiring ON ${s}.keys (api_id, expires, id) WHERE NOT deleted AND expires IS NOT NULL;`,
  alertTables,
  {
    // The key that replaced one. Replaced and not made anew, so that whoever may read the view still may.
    up: (s) => withSuccessor(s).replace("CREATE VIEW", "CREATE OR REPLACE VIEW"),
    down: (s) => `DROP VIEW ${s}.key_overview; ${overview(s)}`,
    refuses: {},
  },
  SHARES,
  REMOVE_UNNAMED,
  {
    up: writtenBalances,
    down: (s) => `DROP FUNCTION ${s}.write_v2(text, text, text, bigint);`,
    refuses: {},
  },
  LIST_DELETED,
  WALLETS,
  OWNER_STATES,
  GRANTS,
  refills((s, isNow) => (isNow ? withExpired : withSuccessor)(s)),
  WRITE_ONCE,
  AUDIT_CREDITS,
  {
    up: (s) => withExpired(s, ownerState).replace("CREATE VIEW", "CREATE OR REPLACE VIEW"),
    down: (s) => `DROP VIEW ${s}.key_overview; ${withExpired(s)}`,
    refuses: {},
  },
  GRANT_DAYS,
  CAPS,
  KEEP_REFUSALS,
  CAPPED_DAYS,
  AUDIT_CHANGES,
  FORMER_CAPS,
  PLAIN_WALLETS,
  ENDED_GRANTS,
  KEPT_PARTS,
];

/** What {@link setUpScript} makes. A store works with this version alone. */
export const SCHEMA_VERSION = FIRST_VERSION + STEPS.length;

/**
 * The script that makes the tables, or brings them to this version. One statement, in one transaction, under a lock:
 * any number of nodes may run it at once. Fails with SQLSTATE KS009 where the tables are of a later version, and with
 * KS011 where the encoding of the database is not UTF8. It is ASCII, so that a database of any encoding can read it.
 * @param schema of the tables: 1 to 48 of `a-z`, `0-9` and `_`, not beginning with a digit, as the option of
 *   `postgresStore`; there is no default
 * @throws TypeError: the schema may not have this name
 */
export function setUpScript(schema: string): string {
  return scriptOf(schema, STEPS);
}

/** A step of a script, and the version that it leads to. */
const make = (s: string, sql: string, version: number): string =>
  `EXECUTE $step$${sql}$step$;\n    UPDATE ${s}.meta SET version = ${version};`;

/** {@link setUpScript} with other steps, for tests of them. */
export function scriptOf(schema: string, steps: typeof STEPS): string {
  if (!isSchemaName(schema)) throw new TypeError(`schema must be ${SCHEMA_NAMES}`);
  const s = quoted(schema);
  const upgrades = steps.map(
    (step, i) => `
  IF found < ${FIRST_VERSION + i + 1} THEN
    ${make(s, (typeof step === "function" ? step : step.up)(s), FIRST_VERSION + i + 1)}
  END IF;`,
  );
  return guarded(
    schema,
    steps,
    `IF found = 0 THEN
    ${make(s, create(s), FIRST_VERSION)}
  END IF;${upgrades.join("")}`,
  );
}

/**
 * The script that takes the tables back to an earlier version, for when no node runs. Fails with SQLSTATE KS010, and
 * changes nothing, where that version would lose or misread rows; with KS009 as {@link setUpScript} does.
 * @param to the version that the earlier keystile knows
 * @throws TypeError: the schema may not have this name; RangeError: there is no way back to that version
 */
export function downgradeScript(schema: string, to: number, steps = STEPS): string {
  if (!isSchemaName(schema)) throw new TypeError(`schema must be ${SCHEMA_NAMES}`);
  const s = quoted(schema);
  const last = FIRST_VERSION + steps.length;
  let body = "";
  for (let from = last; from > to; from--) {
    const step = steps[from - FIRST_VERSION - 1];
    if (step === undefined || typeof step === "function")
      throw new RangeError(`there is no way back from version ${from}`);
    const refusals = Object.entries(step.refuses).map(
      ([what, rows]) => `
    EXECUTE $step$${rows(s)}$step$ INTO many;
    IF many > 0 THEN RAISE EXCEPTION 'there are % ${what}, which version ${from - 1} does not know', many USING ERRCODE = 'KS010'; END IF;`,
    );
    body += `
  IF found >= ${from} THEN${refusals.join("")}
    ${make(s, step.down(s), from - 1)}
  END IF;`;
  }
  return guarded(schema, steps, body);
}

/** A script as one statement, under the lock, with the version of the tables in `found`. */
function guarded(schema: string, steps: typeof STEPS, body: string): string {
  const s = quoted(schema);
  const literal = `'${schema}'`;
  const last = FIRST_VERSION + steps.length;
  // Names are resolved as the functions resolve them: nothing in a schema of the role's own path has a part in it.
  return `DO $keystile$
DECLARE found integer := 0; many bigint; path text := pg_catalog.current_setting('search_path'::text); made text;
BEGIN
  PERFORM pg_catalog.set_config('search_path'::text, '${SEARCH_PATH}'::text, true);
  IF pg_is_in_recovery() THEN RAISE EXCEPTION 'the server is a read replica' USING ERRCODE = '25006'; END IF;
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'the database has the encoding %, and keystile needs one of ENCODING ''UTF8'' TEMPLATE template0',
      current_setting('server_encoding') USING ERRCODE = 'KS011';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('keystile ' || ${literal}, 7235925));
  IF to_regnamespace(quote_ident(${literal})) IS NULL THEN CREATE SCHEMA ${s}; END IF;
  IF to_regclass('${s}.meta') IS NOT NULL THEN SELECT version INTO found FROM ${s}.meta; END IF;
  IF found > ${last} OR found BETWEEN 1 AND ${FIRST_VERSION - 1} THEN
    RAISE EXCEPTION 'the tables are of version %, and this keystile knows ${FIRST_VERSION} to ${last}', found USING ERRCODE = 'KS009';
  END IF;
  ${body}
  FOR made IN
    SELECT oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = to_regnamespace(quote_ident(${literal})) AND proname ~ '_v[0-9]+$'
      AND proconfig IS NULL AND prosqlbody IS NULL
  LOOP
    EXECUTE 'ALTER FUNCTION ' || made || ' SET search_path = ${SEARCH_PATH}';
  END LOOP;
  PERFORM set_config('search_path', path, true);
END $keystile$;
`;
}
