/**
 * Fills an empty database with the rows of another store, as they are: numbers, versions, totals and secrets too.
 * Interrupted, it begins again from nothing, since the source may have changed; finished, or found in use, it is
 * refused. A use that only took credits, or was noted, leaves no trace, and is lost; so is a new row that no key refers
 * to, such as an API, where the audit trail is off or the end of the load was undone.
 *
 * Why every page locks the row of the load: a load may stall, and another one of the same source begin, finish and be
 * served meanwhile. Each load has a number, which is in that row, and a page is written only while the row has it. The
 * lock is shared: a page waits only for a load that begins or ends, and a load that begins or ends waits for pages.
 */
import { KeystileError } from "../../contracts/errors.js";
import { encodeEntity, type EntityTable } from "../codec/entity-codec.js";
import {
  COUNT_TABLES,
  type CountRow,
  type CountTable,
  type ExportedAudit,
  type ExportedIdentity,
  type ExportedKey,
  type ExportedPage,
} from "../codec/exported-rows.js";
import { digestText } from "../../lib/hash.js";
import { createSession, type PostgresClient, type PostgresRow, type Session, type Statement } from "./client.js";
import { COUNTS } from "./credits.js";
import { encodeKeyRow } from "./keys.js";
import { type PostgresStoreOptions, readOptions } from "./options.js";
import { COUNT_COLUMNS } from "../outcome-entries.js";
import { quoted } from "./schema.js";
import { jsonForPeople } from "./texts.js";

/** A load in progress. */
export interface PostgresLoad {
  /**
   * Writes a page; the same page again does no harm.
   * @throws (rejects with) KeystileError CONFLICT: another load has begun again meanwhile, or this one has ended;
   * nothing was written
   */
  write(page: ExportedPage): Promise<void>;
  /**
   * The rows of a page as the database has them, in the order of their ids or numbers: those that no port of a store
   * reads.
   */
  readUnported(page: UnportedPage): Promise<readonly unknown[]>;
  /** Rows of each kind that are there. */
  counts(): Promise<Readonly<Record<string, number>>>;
  /**
   * Ends it: from now on the store may be used.
   * @throws (rejects with) KeystileError CONFLICT: another load has begun again meanwhile
   */
  finish(): Promise<void>;
}

/** A page of rows that no port of a store reads. */
export type UnportedPage = Extract<ExportedPage, { readonly kind: "idempotency" | "audit" | CountTable }>;
type CountPage = Extract<ExportedPage, { readonly kind: CountTable }>;

const isCounts = (page: ExportedPage): page is CountPage => Object.hasOwn(COUNT_TABLES, page.kind);
/** Whether no port of a store reads the rows. */
export const isUnported = (page: ExportedPage): page is UnportedPage =>
  page.kind === "audit" || page.kind === "idempotency" || isCounts(page);

/** After the name of the source: the load is about to set the sequences, which nothing rolls back. */
const ENDING = " ending";
const FINISHED = " finished";
const COUNTED = Object.keys(COUNT_TABLES);
const KEY_TEXTS = ["id", "ws", "api", "identity", "digest", "foreign", "grants", "body", "name", "start"] as const;

/**
 * Begins to fill a database whose tables are set up. What an interrupted load of the same source left is removed.
 * @param secret of the source, which names it: what a load of another source left stays
 * @throws (rejects with) KeystileError CONFLICT: it holds rows of its own, another source's, or a finished copy;
 * STORE_FAILED: the role may not set the sequences
 */
export async function beginLoad(
  client: PostgresClient,
  secret: string,
  options: PostgresStoreOptions = {},
): Promise<PostgresLoad> {
  const settings = readOptions(options);
  const s = quoted(settings.schema);
  const session = createSession(client, settings);
  const run = (text: string, ...values: (string | null)[]) => session.run({ isRead: false, text }, ...values);
  const source = (await digestText("sha256", secret, "hex")).slice(0, 16);

  await assertMaySetSequences(session, settings.schema);
  const load = await begin(run, source, settings.schema);

  // Of a row that changed while the lock was waited for, the conditions are evaluated again.
  const guarded = (insert: string) => `WITH held AS MATERIALIZED (
      SELECT 1 FROM ${s}.entities
      WHERE kind = 'copy' AND id = 'copy' AND body = $2 AND version = $3::text::bigint FOR SHARE
    ), written AS (${insert})
    SELECT 1 AS held FROM held`;
  const writePage = async (insert: string, rows: string): Promise<void> => {
    if ((await run(insert, rows, source, load)).length === 0) throw begunAgain();
  };
  const given = "pg_catalog.jsonb_array_elements($1::text::jsonb) r WHERE EXISTS (SELECT 1 FROM held)";
  const entities =
    guarded(`INSERT INTO ${s}.entities (kind, id, workspace_id, name, parent, version, deleted, body, account)
    SELECT r ->> 'kind'::text, r ->> 'id'::text, r ->> 'ws'::text, r ->> 'name'::text, r ->> 'parent'::text, (r ->> 'version'::text)::bigint, (r ->> 'deleted'::text)::boolean, r ->> 'body'::text, (r ->> 'account'::text)::bigint
    FROM ${given}
    ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name, parent = excluded.parent, version = excluded.version,
      deleted = excluded.deleted, body = excluded.body, account = excluded.account`);
  const keys =
    guarded(`INSERT INTO ${s}.keys (number, account, draws, version, deleted, last_used_at, enabled, expires, created_at,
      id, workspace_id, api_id, identity_id, digest, foreign_digest, grants, body, name, start)
    SELECT (r ->> 'number'::text)::bigint, (r ->> 'shared'::text)::bigint, (r ->> 'draws'::text)::boolean, (r ->> 'version'::text)::bigint, (r ->> 'deleted'::text)::boolean,
      (r ->> 'used'::text)::bigint, (r ->> 'enabled'::text)::boolean, pg_catalog.to_timestamp((r ->> 'expires'::text)::double precision / 1000::double precision),
      pg_catalog.to_timestamp((r ->> 'created'::text)::double precision / 1000::double precision), ${KEY_TEXTS.map((name) => `r ->> '${name}'::text`).join(", ")}
    FROM ${given} ON CONFLICT (number) DO UPDATE SET account = excluded.account,
      draws = excluded.draws, version = excluded.version, deleted = excluded.deleted, last_used_at = excluded.last_used_at, enabled = excluded.enabled,
      expires = excluded.expires, identity_id = excluded.identity_id, digest = excluded.digest, grants = excluded.grants,
      body = excluded.body, name = excluded.name, start = excluded.start`);
  const accounts = guarded(`INSERT INTO ${s}.accounts (number, unlimited, ${COUNTS.join(", ")})
    SELECT (r ->> 'number'::text)::bigint, (r ->> 'unlimited'::text)::boolean, ${COUNTS.map((name) => `(r ->> '${name}'::text)::bigint`).join(", ")}
    FROM ${given} ON CONFLICT (number) DO UPDATE SET unlimited = excluded.unlimited,
      ${COUNTS.map((name) => `${name} = excluded.${name}`).join(", ")}`);
  const writeAccounts = async (owners: readonly Pick<ExportedIdentity, "number" | "account">[]): Promise<void> => {
    const found = owners.flatMap(({ number, account }) => (account === undefined ? [] : [{ ...account, number }]));
    // Keys that share an account bring it twice.
    const each = [...new Map(found.map((account) => [account.number, account])).values()];
    if (each.length > 0) await writePage(accounts, JSON.stringify(each));
  };
  const once = guarded(`INSERT INTO ${s}.idempotency (id, workspace_id, body, expires)
    SELECT r ->> 'id'::text, r ->> 'workspaceId'::text, r ->> 'body'::text, (r ->> 'until'::text)::bigint FROM ${given}
    ON CONFLICT (id) DO NOTHING`);
  const audit =
    guarded(`INSERT INTO ${s}.audit (number, time, workspace_id, actor_kind, actor, operation, ids, fields, count)
    OVERRIDING SYSTEM VALUE SELECT (r ->> 'number'::text)::bigint, (r ->> 'time'::text)::timestamptz, r ->> 'workspaceId'::text, r ->> 'actorKind'::text,
      r ->> 'actor'::text, r ->> 'operation'::text, ARRAY(SELECT pg_catalog.jsonb_array_elements_text(r -> 'ids'::text)),
      ARRAY(SELECT pg_catalog.jsonb_array_elements_text(r -> 'fields'::text)), (r ->> 'count'::text)::bigint
    FROM ${given} ON CONFLICT (number) DO NOTHING`);
  const onceRows = `SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('id', o.id, 'workspaceId', o.workspace_id, 'body', o.body,
      'until', o.expires) ORDER BY o.id), '[]')::text AS rows
    FROM ${s}.idempotency o WHERE o.id IN (SELECT pg_catalog.jsonb_array_elements_text($1::text::jsonb))`;
  const auditRows = `SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('number', a.number,
      'time', (extract(epoch FROM a.time) * 1000::numeric)::bigint, 'workspaceId', a.workspace_id, 'actorKind', a.actor_kind,
      'actor', a.actor, 'operation', a.operation, 'ids', pg_catalog.to_jsonb(a.ids), 'fields', pg_catalog.to_jsonb(a.fields), 'count', a.count)
      ORDER BY a.number), '[]')::text AS rows
    FROM ${s}.audit a WHERE a.number IN (SELECT e::bigint FROM pg_catalog.jsonb_array_elements_text($1::text::jsonb) e)`;
  const typed = (table: CountTable) => `pg_catalog.jsonb_populate_recordset(NULL::${s}.${table}, $1::text::jsonb) r`;
  const countRows = (table: CountTable) =>
    guarded(
      `INSERT INTO ${s}.${table} SELECT r.* FROM ${typed(table)} WHERE EXISTS (SELECT 1 FROM held) ON CONFLICT DO NOTHING`,
    );
  const readCounts = (table: CountTable) => {
    const key = COUNT_TABLES[table].map((name) => `t.${name}`);
    return `SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(t) ORDER BY ${key.join(", ")}), '[]')::text AS rows
      FROM ${s}.${table} t JOIN ${typed(table)} ON ${key.map((name) => `${name} = ${name.replace("t.", "r.")}`).join(" AND ")}`;
  };

  return {
    async write(page) {
      if (page.kind === "idempotency") await writePage(once, JSON.stringify(page.rows));
      else if (page.kind === "audit") await writePage(audit, jsonForPeople(page.rows));
      else if (isCounts(page)) await writePage(countRows(page.kind), JSON.stringify(page.rows.map(toNulls)));
      else if (page.kind === "identities") {
        await writePage(entities, JSON.stringify(page.rows.map(encodeExportedIdentity)));
        await writeAccounts(page.rows);
      } else if (page.kind !== "keys")
        await writePage(entities, JSON.stringify(page.rows.map((row) => encodeExportedEntity(page.kind, row))));
      else {
        await writePage(keys, JSON.stringify(page.rows.map(encodeExportedKey)));
        await writeAccounts(
          page.rows.map(({ number, sharedAccount = number, account }) => ({ number: sharedAccount, account })),
        );
      }
    },
    async readUnported(page) {
      if (isCounts(page)) {
        const [found] = await run(readCounts(page.kind), JSON.stringify(page.rows.map(toNulls)));
        return JSON.parse(found?.["rows"] as string) as unknown[];
      }
      const asked = page.kind === "audit" ? page.rows.map(({ number }) => number) : page.rows.map(({ id }) => id);
      const [row] = await run(page.kind === "audit" ? auditRows : onceRows, JSON.stringify(asked));
      return JSON.parse(row?.["rows"] as string) as unknown[];
    },
    async counts() {
      const rows = await run(
        `SELECT kind, pg_catalog.count(*)::text AS n FROM ${s}.entities WHERE kind <> 'copy' GROUP BY 1
         UNION ALL SELECT 'keys', pg_catalog.count(*)::text FROM ${s}.keys UNION ALL SELECT 'idempotency', pg_catalog.count(*)::text FROM ${s}.idempotency
         UNION ALL SELECT 'audit', pg_catalog.count(*)::text FROM ${s}.audit
         ${COUNTED.map((table) => `UNION ALL SELECT '${table}', pg_catalog.count(*)::text FROM ${s}.${table}`).join(" ")}`,
      );
      return Object.fromEntries(rows.map((row) => [String(row["kind"]), Number(row["n"])]));
    },
    async finish() {
      await run(
        `UPDATE ${s}.entities SET body = $1 WHERE kind = 'copy' AND body = $2 AND version = $3::text::bigint`,
        source + ENDING,
        source,
        load,
      );
      const statement: Statement = {
        isRead: false,
        // The row of the load is locked first: a load that begins again waits for it, or this one finds another number.
        text: `WITH named AS (
            UPDATE ${s}.entities SET body = $2::text || '${FINISHED}'
            WHERE kind = 'copy' AND body = $2::text || '${ENDING}' AND version = $3::text::bigint RETURNING 1
          ), counted AS (
            INSERT INTO ${s}.idempotency_counts
            SELECT i.workspace_id, pg_catalog.count(*) FROM ${s}.idempotency i WHERE EXISTS (SELECT 1 FROM named) GROUP BY 1
            ON CONFLICT (workspace_id) DO UPDATE SET records = excluded.records
          ), secret AS (UPDATE ${s}.meta SET idempotency_secret = $1 WHERE EXISTS (SELECT 1 FROM named)),
          told AS (INSERT INTO ${s}.changes (what) SELECT 'all' FROM named)
          SELECT pg_catalog.setval('${s}.key_numbers', greatest(1, (SELECT pg_catalog.max(number) FROM ${s}.keys),
              (SELECT pg_catalog.max(number) FROM ${s}.subjects), (SELECT pg_catalog.max(number) FROM ${s}.tag_sets),
              (SELECT pg_catalog.max(number) FROM ${s}.alerts)))::text,
            pg_catalog.setval(pg_catalog.pg_get_serial_sequence('${s}.audit', 'number'), greatest(1, (SELECT coalesce(pg_catalog.max(number), 1) FROM ${s}.audit)))::text
          FROM named`,
      };
      const finished = await session.run(statement, secret, source, load);
      if (finished.length === 0) throw begunAgain();
    },
  };
}

/** A load that ends with this refusal would have written everything before. */
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

/**
 * Removes what an interrupted load of the same source left.
 * @returns the number of this load, which the next one changes before it removes anything
 */
async function begin(
  run: (text: string, ...values: string[]) => Promise<readonly PostgresRow[]>,
  source: string,
  schema: string,
): Promise<string> {
  const s = quoted(schema);
  const [known] = await run(
    `SELECT e.body, e.version::text, (EXISTS (SELECT 1 FROM ${s}.changes) OR EXISTS (SELECT 1 FROM ${s}.leases)
       OR EXISTS (SELECT 1 FROM ${s}.idempotency_counts) OR EXISTS (SELECT 1 FROM ${s}.meta WHERE pruned IS NOT NULL)
       OR e.body NOT LIKE '%${ENDING}' AND (pg_catalog.pg_sequence_last_value('${s}.key_numbers') IS NOT NULL
         OR pg_catalog.pg_sequence_last_value(pg_catalog.pg_get_serial_sequence('${s}.audit', 'number')) IS NOT NULL))::text AS used
     FROM ${s}.entities e WHERE e.kind = 'copy' AND e.id = 'copy'`,
  );
  if (known === undefined) {
    const [found] = await run(
      `SELECT (EXISTS (SELECT 1 FROM ${s}.entities) OR EXISTS (SELECT 1 FROM ${s}.keys))::text AS used`,
    );
    if (found?.["used"] === "true")
      throw new KeystileError("CONFLICT", "the target holds rows already; copy to an empty schema");
    // A random number: a load that began before the schema was dropped must not find its own again.
    const [first] = await run(
      `INSERT INTO ${s}.entities (kind, id, workspace_id, version, deleted, body)
       VALUES ('copy', 'copy', '', 1 + pg_catalog.floor(pg_catalog.random() * 1e15::double precision)::bigint, true, $1)
       ON CONFLICT (kind, id) DO NOTHING RETURNING version::text`,
      source,
    );
    if (first === undefined) throw begunAtOnce();
    return first["version"] as string;
  }
  if (known["body"] !== source && known["body"] !== source + ENDING) {
    const why =
      known["body"] === source + FINISHED ? "this source was copied to the target before" : "another source was";
    throw new KeystileError("CONFLICT", `${why}; copy to an empty schema, or drop this one`);
  }
  // A load tells nobody of what it writes, and takes no number of a sequence before its end.
  if (known["used"] === "true")
    throw new KeystileError(
      "CONFLICT",
      `something else used this unfinished copy; to copy again, and lose what that wrote, run: DROP SCHEMA ${s} CASCADE`,
    );
  // A statement of its own: pages that it waits for are not in its snapshot, and the next one has to remove them.
  const [fenced] = await run(
    `UPDATE ${s}.entities SET version = version + 1 WHERE kind = 'copy' AND body = $2 AND version = $1::text::bigint
     RETURNING version::text`,
    known["version"] as string,
    known["body"],
  );
  if (fenced === undefined) throw begunAtOnce();
  const [own] = await run(
    `WITH own AS (
       UPDATE ${s}.entities SET body = $1
       WHERE kind = 'copy' AND body = $3 AND version = $2::text::bigint RETURNING version
     ), entities AS (DELETE FROM ${s}.entities WHERE kind <> 'copy' AND EXISTS (SELECT 1 FROM own)),
     keys AS (DELETE FROM ${s}.keys WHERE EXISTS (SELECT 1 FROM own)),
     accounts AS (DELETE FROM ${s}.accounts WHERE EXISTS (SELECT 1 FROM own)),
     once AS (DELETE FROM ${s}.idempotency WHERE EXISTS (SELECT 1 FROM own)),
     counts AS (DELETE FROM ${s}.idempotency_counts WHERE EXISTS (SELECT 1 FROM own)),
     audit AS (DELETE FROM ${s}.audit WHERE EXISTS (SELECT 1 FROM own)),
     ${COUNTED.map((table) => `${table} AS (DELETE FROM ${s}.${table} WHERE EXISTS (SELECT 1 FROM own))`).join(", ")}
     SELECT version::text, pg_catalog.setval('${s}.key_numbers', 1, false)::text,
       pg_catalog.setval(pg_catalog.pg_get_serial_sequence('${s}.audit', 'number'), 1, false)::text FROM own`,
    source,
    fenced["version"] as string,
    known["body"],
  );
  if (own === undefined) throw begunAtOnce();
  return own["version"] as string;
}

const begunAgain = () =>
  new KeystileError("CONFLICT", "another copy to the same schema has begun again meanwhile; run one at a time");
const begunAtOnce = () =>
  new KeystileError("CONFLICT", "another copy to the same schema has begun at once; run one at a time");

/** The rows of a page as {@link PostgresLoad.readUnported} returns them, if the database has them. */
export function asUnported(page: UnportedPage): readonly unknown[] {
  if (page.kind === "idempotency") return page.rows;
  if (isCounts(page)) return page.rows.map(toNulls);
  const rows = JSON.parse(jsonForPeople(page.rows)) as ExportedAudit[];
  return rows.map((row) => ({ ...row, time: Date.parse(row.time) }));
}

/** Counts of 0 as this database keeps them. */
function toNulls(row: CountRow): CountRow {
  if (!Object.hasOwn(row, "bucket")) return row;
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value === 0 && COUNT_COLUMNS.includes(name) ? null : value]),
  );
}

function encodeExportedEntity(kind: EntityTable, row: object): object {
  const { id, version, namespaceId = null, deleted = false } = row as Record<string, unknown>;
  const { workspaceId, name, body } = encodeEntity(kind, row as never);
  return { kind, id, ws: workspaceId, name, parent: namespaceId, version, deleted, body };
}

/** Without an account it gets a number of this database if it is given credits. */
function encodeExportedIdentity({ row, number, account }: ExportedIdentity): object {
  return { ...encodeExportedEntity("identities", row), account: account === undefined ? null : number };
}

function encodeExportedKey({ number, sharedAccount, row }: ExportedKey): object {
  return { ...encodeKeyRow({ row }), number, shared: sharedAccount ?? null, used: row.lastUsedAt ?? null };
}
