/**
 * Fills an empty database with the rows of another store, as they are: numbers, versions, totals and secrets too. May be
 * interrupted and begun again; finished, or found in use, it is refused.
 */
import { KeystileError } from "../../contracts/errors.js";
import { encodeEntity, type EntityTable } from "../codec/entity-codec.js";
import type { ExportedKey, ExportedPage } from "../codec/exported-rows.js";
import { digestText } from "../../lib/hash.js";
import { createSession, type PostgresClient, type Statement } from "./client.js";
import { COUNTS } from "./credits.js";
import { encodeKeyRow } from "./keys.js";
import { type PostgresStoreOptions, readOptions } from "./options.js";
import { quoted } from "./schema.js";
import { jsonForPeople } from "./texts.js";

/** A load in progress. */
export interface PostgresLoad {
  /** Writes a page; the same page again does no harm. */
  write(page: ExportedPage): Promise<void>;
  /** Rows of each kind that are there. */
  counts(): Promise<Readonly<Record<string, number>>>;
  /** Ends it: from now on the store may be used. */
  finish(): Promise<void>;
}

const KEY_TEXTS = ["id", "ws", "api", "identity", "digest", "foreign", "grants", "body", "name", "start"] as const;

/**
 * Begins to fill a database whose tables are set up, or goes on.
 * @param secret of the source, which names it: a load that another source began is not gone on with
 * @throws (rejects with) KeystileError CONFLICT: it holds rows of its own, another source's, or a finished copy
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

  const [known] = await run(`SELECT e.body FROM ${s}.entities e WHERE e.kind = 'copy' AND e.id = 'copy'`);
  if (known === undefined) {
    const [found] = await run(
      `SELECT (EXISTS (SELECT 1 FROM ${s}.entities) OR EXISTS (SELECT 1 FROM ${s}.keys))::text AS used`,
    );
    if (found?.["used"] === "true")
      throw new KeystileError("CONFLICT", "the target holds rows already; copy to an empty schema");
    await run(
      `INSERT INTO ${s}.entities (kind, id, workspace_id, version, deleted, body) VALUES ('copy', 'copy', '', 1, true, $1)`,
      source,
    );
  } else if (known["body"] !== source) {
    const why =
      known["body"] === `${source} finished` ? "this source was copied to the target before" : "another source was";
    throw new KeystileError("CONFLICT", `${why}; copy to an empty schema, or drop this one`);
  }

  const entities = `INSERT INTO ${s}.entities (kind, id, workspace_id, name, parent, version, deleted, body)
    SELECT r ->> 'kind', r ->> 'id', r ->> 'ws', r ->> 'name', r ->> 'parent', (r ->> 'version')::bigint, (r ->> 'deleted')::boolean, r ->> 'body'
    FROM jsonb_array_elements($1::text::jsonb) r
    ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name, parent = excluded.parent, version = excluded.version,
      deleted = excluded.deleted, body = excluded.body`;
  const keys = `INSERT INTO ${s}.keys (number, account, version, deleted, last_used_at, enabled, expires, created_at,
      id, workspace_id, api_id, identity_id, digest, foreign_digest, grants, body, name, start)
    SELECT (r ->> 'number')::bigint, (r ->> 'shared')::bigint, (r ->> 'version')::bigint, (r ->> 'deleted')::boolean,
      (r ->> 'used')::bigint, (r ->> 'enabled')::boolean, to_timestamp((r ->> 'expires')::double precision / 1000),
      to_timestamp((r ->> 'created')::double precision / 1000), ${KEY_TEXTS.map((name) => `r ->> '${name}'`).join(", ")}
    FROM jsonb_array_elements($1::text::jsonb) r ON CONFLICT (number) DO UPDATE SET account = excluded.account,
      version = excluded.version, deleted = excluded.deleted, last_used_at = excluded.last_used_at, enabled = excluded.enabled,
      expires = excluded.expires, identity_id = excluded.identity_id, digest = excluded.digest, grants = excluded.grants,
      body = excluded.body, name = excluded.name, start = excluded.start`;
  const accounts = `INSERT INTO ${s}.accounts (number, unlimited, ${COUNTS.join(", ")})
    SELECT (r ->> 'number')::bigint, (r ->> 'unlimited')::boolean, ${COUNTS.map((name) => `(r ->> '${name}')::bigint`).join(", ")}
    FROM jsonb_array_elements($1::text::jsonb) r ON CONFLICT (number) DO UPDATE SET unlimited = excluded.unlimited,
      ${COUNTS.map((name) => `${name} = excluded.${name}`).join(", ")}`;
  const once = `INSERT INTO ${s}.idempotency (id, workspace_id, body, expires)
    SELECT r ->> 'id', r ->> 'workspaceId', r ->> 'body', (r ->> 'until')::bigint FROM jsonb_array_elements($1::text::jsonb) r
    ON CONFLICT (id) DO NOTHING`;
  const audit = `INSERT INTO ${s}.audit (number, time, workspace_id, actor_kind, actor, operation, ids, fields, count)
    OVERRIDING SYSTEM VALUE SELECT (r ->> 'number')::bigint, (r ->> 'time')::timestamptz, r ->> 'workspaceId', r ->> 'actorKind',
      r ->> 'actor', r ->> 'operation', ARRAY(SELECT jsonb_array_elements_text(r -> 'ids')),
      ARRAY(SELECT jsonb_array_elements_text(r -> 'fields')), (r ->> 'count')::bigint
    FROM jsonb_array_elements($1::text::jsonb) r ON CONFLICT (number) DO NOTHING`;

  return {
    async write(page) {
      if (page.kind === "idempotency") await run(once, JSON.stringify(page.rows));
      else if (page.kind === "audit") await run(audit, jsonForPeople(page.rows));
      else if (page.kind !== "keys")
        await run(entities, JSON.stringify(page.rows.map((row) => encodeExportedEntity(page.kind, row))));
      else {
        await run(keys, JSON.stringify(page.rows.map(encodeExportedKey)));
        const found = page.rows.flatMap(({ number, sharedAccount = number, account }) =>
          account === undefined ? [] : [{ ...account, number: sharedAccount }],
        );
        // Keys that share an account bring it twice.
        const each = [...new Map(found.map((account) => [account.number, account])).values()];
        if (each.length > 0) await run(accounts, JSON.stringify(each));
      }
    },
    async counts() {
      const rows = await run(
        `SELECT kind, count(*)::text AS n FROM ${s}.entities WHERE kind <> 'copy' GROUP BY 1
         UNION ALL SELECT 'keys', count(*)::text FROM ${s}.keys UNION ALL SELECT 'idempotency', count(*)::text FROM ${s}.idempotency
         UNION ALL SELECT 'audit', count(*)::text FROM ${s}.audit`,
      );
      return Object.fromEntries(rows.map((row) => [String(row["kind"]), Number(row["n"])]));
    },
    async finish() {
      const statement: Statement = {
        isRead: false,
        text: `WITH counted AS (
            INSERT INTO ${s}.idempotency_counts SELECT workspace_id, count(*) FROM ${s}.idempotency GROUP BY 1
            ON CONFLICT (workspace_id) DO UPDATE SET records = excluded.records
          ), secret AS (UPDATE ${s}.meta SET idempotency_secret = $1), told AS (INSERT INTO ${s}.changes (what) VALUES ('all')), named AS (
            UPDATE ${s}.entities SET body = body || ' finished' WHERE kind = 'copy'
          )
          SELECT setval('${s}.key_numbers', greatest(1, (SELECT coalesce(max(number), 1) FROM ${s}.keys)))::text,
            setval(pg_get_serial_sequence('${s}.audit', 'number'), greatest(1, (SELECT coalesce(max(number), 1) FROM ${s}.audit)))::text`,
      };
      await session.run(statement, secret);
    },
  };
}

function encodeExportedEntity(kind: EntityTable, row: object): object {
  const { id, version, namespaceId = null, deleted = false } = row as Record<string, unknown>;
  const { workspaceId, name, body } = encodeEntity(kind, row as never);
  return { kind, id, ws: workspaceId, name, parent: namespaceId, version, deleted, body };
}

function encodeExportedKey({ number, sharedAccount, row }: ExportedKey): object {
  return { ...encodeKeyRow({ row }), number, shared: sharedAccount ?? null, used: row.lastUsedAt ?? null };
}
