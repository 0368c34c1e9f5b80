/**
 * Copies every row of another store into an empty schema, in one transaction. Numbers, versions, totals and secrets are
 * kept.
 *
 * The transaction locks the tables against writers, so nobody sees or uses a part of the copy, and an interrupted load
 * leaves nothing. A second load waits until the first has ended, and then finds its rows.
 */
import { KeystileError } from "../../contracts/errors.js";
import { encodeEntity, type EntityTable } from "../codec/entity-codec.js";
import {
  type ExportedOwner,
  type ExportedKey,
  type ExportedPage,
  type OwningTable,
  SHARED_TABLES,
  type SharedPage,
  type SharedRow,
  type SharedTable,
} from "../codec/exported-rows.js";
import { createSession, type PostgresClient, type Session } from "./client.js";
import { COUNTS } from "./account-reads.js";
import { parentOf } from "./entities.js";
import { isLockTimeout } from "./errors.js";
import { encodeKeyRow } from "./keys.js";
import { type PostgresStoreOptions, readOptions } from "./options.js";
import { COUNT_COLUMNS } from "../outcome-entries.js";
import { quoted } from "./schema.js";
import { jsonForPeople } from "./texts.js";

/** Whether {@link PostgresLoad.readShared} reads the rows, since the store port cannot. */
export const isShared = (page: ExportedPage): page is SharedPage => Object.hasOwn(SHARED_TABLES, page.kind);

const SHARED = Object.keys(SHARED_TABLES);
const KEY_TEXTS = ["id", "ws", "api", "identity", "digest", "foreign", "grants", "body", "name", "start"] as const;
/** Tables that must be empty, and stay locked until the load ends. */
const FILLED = ["entities", "keys", "accounts", "idempotency_counts", "changes", ...SHARED];
/** The longest wait for other writers of the tables, such as another load, milliseconds; at most half of `timeout`. */
const LOCK_MS = 5_000;

/**
 * Begins a load into a schema whose tables exist and are empty.
 * @param connection a single connection, not a pool, since the transaction belongs to it
 * @param secret the idempotency secret of the source
 * @throws (rejects with) KeystileError CONFLICT: the tables hold rows, or another load or a node writes to them;
 *   STORE_FAILED: the role may not set the sequences
 */
export async function beginLoad(connection: PostgresClient, secret: string, options: PostgresStoreOptions = {}) {
  const settings = readOptions(options);
  const s = quoted(settings.schema);
  const session = createSession(connection, settings);
  const run = (text: string, ...values: (string | null)[]) => session.run({ isRead: false, text }, ...values);
  /** Rolls back, unless it was committed. Never rejects: the server also rolls back when the connection ends. */
  const cancel = async (): Promise<void> => {
    await run("ROLLBACK").catch(() => undefined);
  };
  await assertMaySetSequences(session, settings.schema);
  // READ COMMITTED: statements after the lock see what was committed while it was waited for.
  await run("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await run(`SELECT pg_catalog.set_config('lock_timeout', '${Math.min(LOCK_MS, settings.timeout / 2)}', true)`);
    await run(`LOCK TABLE ${FILLED.map((table) => `${s}.${table}`).join(", ")} IN EXCLUSIVE MODE`);
    await assertEmpty(session, s, secret);
  } catch (error) {
    await cancel();
    if (!isLockTimeout(error)) throw error;
    throw new KeystileError("CONFLICT", "another copy, or a node, writes to the target; run one copy and nothing else");
  }

  const given = "pg_catalog.jsonb_array_elements($1::text::jsonb) r";
  const entities = `INSERT INTO ${s}.entities (kind, id, workspace_id, name, parent, version, deleted, body, account)
    SELECT r ->> 'kind'::text, r ->> 'id'::text, r ->> 'ws'::text, r ->> 'name'::text, r ->> 'parent'::text, (r ->> 'version'::text)::bigint, (r ->> 'deleted'::text)::boolean, r ->> 'body'::text, (r ->> 'account'::text)::bigint
    FROM ${given}`;
  const keys = `INSERT INTO ${s}.keys (number, account, draws, version, deleted, last_used_at, enabled, expires, created_at,
      id, workspace_id, api_id, identity_id, digest, foreign_digest, grants, body, name, start)
    SELECT (r ->> 'number'::text)::bigint, (r ->> 'shared'::text)::bigint, (r ->> 'draws'::text)::boolean, (r ->> 'version'::text)::bigint, (r ->> 'deleted'::text)::boolean,
      (r ->> 'used'::text)::bigint, (r ->> 'enabled'::text)::boolean, pg_catalog.to_timestamp((r ->> 'expires'::text)::double precision / 1000::double precision),
      pg_catalog.to_timestamp((r ->> 'created'::text)::double precision / 1000::double precision), ${KEY_TEXTS.map((name) => `r ->> '${name}'::text`).join(", ")}
    FROM ${given}`;
  // Keys that share an account each bring it, also on different pages.
  const accounts = `INSERT INTO ${s}.accounts (number, unlimited, ${[...COUNTS, "rollover"].join(", ")})
    SELECT (r ->> 'number'::text)::bigint, (r ->> 'unlimited'::text)::boolean, ${[...COUNTS, "rollover"].map((name) => `(r ->> '${name}'::text)::bigint`).join(", ")}
    FROM ${given} ON CONFLICT (number) DO NOTHING`;
  const writeAccounts = async (owners: readonly Pick<ExportedOwner, "number" | "account">[]): Promise<void> => {
    const found = owners.flatMap(({ number, account }) =>
      // In the table the one includes the other.
      account === undefined ? [] : [{ ...account, number, forfeited: account.forfeited + account.expired }],
    );
    if (found.length > 0) await run(accounts, JSON.stringify(found));
  };
  const typed = (table: SharedTable) => `pg_catalog.jsonb_populate_recordset(NULL::${s}.${table}, $1::text::jsonb) r`;
  const writeShared = (table: SharedTable) =>
    `INSERT INTO ${s}.${table} OVERRIDING SYSTEM VALUE SELECT r.* FROM ${typed(table)}`;
  const readShared = (table: SharedTable) => {
    const key = SHARED_TABLES[table].map((name) => `t.${name}`);
    return `SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(t) ORDER BY ${key.join(", ")}), '[]')::text AS rows
      FROM ${s}.${table} t JOIN ${typed(table)} ON ${key.map((name) => `${name} = ${name.replace("t.", "r.")}`).join(" AND ")}`;
  };

  return {
    async write(page: ExportedPage): Promise<void> {
      if (isShared(page)) await run(writeShared(page.kind), toKept(page));
      else if (page.kind === "identities" || page.kind === "grants") {
        await run(entities, JSON.stringify(page.rows.map((row) => encodeExportedOwner(page.kind, row))));
        await writeAccounts(page.rows);
      } else if (page.kind !== "keys")
        await run(entities, JSON.stringify(page.rows.map((row) => encodeExportedEntity(page.kind, row))));
      else {
        await run(keys, JSON.stringify(page.rows.map(encodeExportedKey)));
        await writeAccounts(
          page.rows.map(({ number, sharedAccount = number, account }) => ({ number: sharedAccount, account })),
        );
      }
    },
    /** The rows of a page as the database has them, in the order of their primary keys; {@link asShared} compares. */
    async readShared(page: SharedPage): Promise<readonly unknown[]> {
      const [found] = await run(readShared(page.kind), toKept(page));
      return comparable(page.kind, found?.["rows"] as string);
    },
    /** Number of rows of each kind in the database. */
    async counts(): Promise<Readonly<Record<string, number>>> {
      const rows = await run(
        `SELECT kind, pg_catalog.count(*)::text AS n FROM ${s}.entities GROUP BY 1
         ${["keys", ...SHARED].map((table) => `UNION ALL SELECT '${table}', pg_catalog.count(*)::text FROM ${s}.${table}`).join(" ")}`,
      );
      return Object.fromEntries(rows.map((row) => [String(row["kind"]), Number(row["n"])]));
    },
    /** Commits: from now on the store may be used. */
    async finish(): Promise<void> {
      await run(
        `WITH counted AS (
            INSERT INTO ${s}.idempotency_counts SELECT i.workspace_id, pg_catalog.count(*) FROM ${s}.idempotency i GROUP BY 1
          ), secret AS (UPDATE ${s}.meta SET idempotency_secret = $1),
          told AS (INSERT INTO ${s}.changes (what) VALUES ('all'))
          SELECT pg_catalog.setval('${s}.key_numbers', greatest(1, (SELECT pg_catalog.max(number) FROM ${s}.keys),
              (SELECT pg_catalog.max(number) FROM ${s}.subjects), (SELECT pg_catalog.max(number) FROM ${s}.tag_sets),
              (SELECT pg_catalog.max(number) FROM ${s}.alerts)))::text,
            pg_catalog.setval(pg_catalog.pg_get_serial_sequence('${s}.audit', 'number'), greatest(1, (SELECT coalesce(pg_catalog.max(number), 1) FROM ${s}.audit)))::text`,
        secret,
      );
      await run("COMMIT");
    },
    cancel,
  };
}

/** A load in progress. */
export type PostgresLoad = Awaited<ReturnType<typeof beginLoad>>;

/** Checked first: otherwise a load would fail only after everything was written. */
async function assertMaySetSequences(session: Session, schema: string): Promise<void> {
  const s = quoted(schema);
  const [row] = await session.run({
    isRead: true,
    text: `SELECT (pg_catalog.has_sequence_privilege('${s}.key_numbers', 'UPDATE')
      AND pg_catalog.has_sequence_privilege(pg_catalog.pg_get_serial_sequence('${s}.audit', 'number'), 'UPDATE'))::text AS may`,
  });
  if (row?.["may"] !== "true")
    throw new KeystileError(
      "STORE_FAILED",
      `the role of the connection may not set the sequences; run: GRANT UPDATE ON ALL SEQUENCES IN SCHEMA ${s} TO its name`,
    );
}

/** @param s the schema, quoted */
async function assertEmpty(session: Session, s: string, secret: string): Promise<void> {
  const [row] = await session.run(
    {
      isRead: true,
      text: `SELECT (${FILLED.map((table) => `EXISTS (SELECT 1 FROM ${s}.${table})`).join(" OR ")})::text AS used,
        (m.idempotency_secret = $1)::text AS same FROM ${s}.meta m`,
    },
    secret,
  );
  if (row?.["used"] !== "true") return;
  const why = row["same"] === "true" ? "this source was copied to the target before" : "the target holds rows already";
  throw new KeystileError("CONFLICT", `${why}; copy to an empty schema`);
}

/** The rows of a page in the form that {@link PostgresLoad.readShared} returns, for comparison. */
export const asShared = (page: SharedPage): readonly unknown[] => comparable(page.kind, toKept(page));

/** The rows as this database stores them: audit texts without characters it cannot hold, counts of 0 as NULL. */
function toKept({ kind, rows }: SharedPage): string {
  return kind === "audit" ? jsonForPeople(rows) : JSON.stringify(rows.map(toNulls));
}

function toNulls(row: SharedRow): SharedRow {
  if (!Object.hasOwn(row, "bucket")) return row;
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value === 0 && COUNT_COLUMNS.includes(name) ? null : value]),
  );
}

/** Rows from JSON, with times as numbers, since each database formats them in its own way. */
function comparable(kind: SharedTable, json: string): readonly unknown[] {
  const rows = JSON.parse(json) as SharedRow[];
  return kind === "audit" ? rows.map((row) => ({ ...row, time: Date.parse(row["time"] as string) })) : rows;
}

function encodeExportedEntity(kind: EntityTable, row: object): object {
  const { id, version, deleted = false } = row as Record<string, unknown>;
  const { workspaceId, name, body } = encodeEntity(kind, row as never);
  return { kind, id, ws: workspaceId, name, parent: parentOf(row), version, deleted, body };
}

/** A row without an account gets a number from this database when it is given credits. */
function encodeExportedOwner(kind: OwningTable, { row, number, account }: ExportedOwner): object {
  return { ...encodeExportedEntity(kind, row), account: account === undefined ? null : number };
}

function encodeExportedKey({ number, sharedAccount, row }: ExportedKey): object {
  return { ...encodeKeyRow({ row }), number, shared: sharedAccount ?? null, used: row.lastUsedAt ?? null };
}
