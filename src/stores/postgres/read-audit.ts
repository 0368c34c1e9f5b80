/** Reads the audit trail: store clause 25. */
import type { AuditQuery, AuditSlice } from "../../contracts/audit.js";
import type { Session, Statement } from "./client.js";
import { timeOf } from "./search.js";
import { isStorable } from "./texts.js";

/** An entry as it is selected, in each row beside what was looked at. */
interface Found {
  readonly entry: string | null;
  readonly looked: string;
  readonly last: string | null;
}

/** An entry whose NULLs were left out: that of a balance says that it is unlimited. */
function withUnlimited(entry: AuditSlice["entries"][number]): AuditSlice["entries"][number] {
  const { credits } = entry;
  return credits === undefined ? entry : { ...entry, credits: { ...credits, remaining: credits.remaining ?? null } };
}

/** @param s the schema, quoted */
export function createAuditReader(session: Session, s: string): (query: AuditQuery) => Promise<AuditSlice> {
  const find: Statement = {
    isRead: true,
    text: `WITH slice AS MATERIALIZED (
        SELECT * FROM ${s}.audit WHERE workspace_id = $1 AND number < $2::text::bigint ORDER BY number DESC LIMIT $3::text::bigint
      )
      SELECT (SELECT pg_catalog.count(*) FROM slice)::text AS looked, (SELECT pg_catalog.min(number) FROM slice)::text AS last,
        found.entry
      FROM (SELECT 1) one LEFT JOIN (
        SELECT a.number, pg_catalog.json_strip_nulls(pg_catalog.json_build_object('number', a.number,
          'time', (extract(epoch FROM a.time) * 1000::numeric)::bigint, 'workspaceId', a.workspace_id, 'actorKind', a.actor_kind,
          'actor', a.actor, 'operation', a.operation, 'ids', a.ids, 'fields', a.fields, 'count', a.count, 'reason', a.reason,
          'credits', CASE WHEN a.added IS NOT NULL THEN
            pg_catalog.json_build_object('added', a.added, 'remaining', a.remaining, 'grantId', a.grant_id) END))::text AS entry
        FROM slice a
        WHERE ($5::text IS NULL OR a.actor = $5) AND ($6::text IS NULL OR a.operation = $6)
          AND ($7::text IS NULL OR a.time >= ${timeOf("$7", "infinity")})
          AND ($8::text IS NULL OR a.time < ${timeOf("$8", "infinity")})
          AND ($9::text IS NULL OR a.ids && ARRAY(SELECT pg_catalog.jsonb_array_elements_text($9::jsonb)))
        ORDER BY a.number DESC LIMIT $4::text::bigint
      ) found ON true ORDER BY found.number DESC`,
  };
  return async ({ workspaceId, ids, actor, operation, from, to, before, among, limit }) => {
    const named = ids?.filter(isStorable);
    if (![workspaceId, actor ?? "", operation ?? ""].every(isStorable)) return { entries: [] };
    const rows = (await session.run(
      find,
      workspaceId,
      ...[before ?? Number.MAX_SAFE_INTEGER, among, limit].map(String),
      ...[actor ?? null, operation ?? null],
      ...[from, to].map((time) => (time === undefined ? null : String(time))),
      named === undefined ? null : JSON.stringify(named),
    )) as readonly object[] as readonly Found[];
    const entries = rows.flatMap(({ entry }) =>
      entry === null ? [] : withUnlimited(JSON.parse(entry) as AuditSlice["entries"][number]),
    );
    const [first] = rows;
    const isFull = entries.length === limit;
    if (!isFull && Number(first?.looked) < among) return { entries };
    return { entries, next: isFull ? (entries.at(-1) as { number: number }).number : Number(first?.last) };
  };
}
