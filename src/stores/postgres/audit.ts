/**
 * The step by which an entry of the audit trail says what its change did to a balance, and why. It never changes once
 * released.
 *
 * Why a setting of the transaction: the amount is known where the account is locked, and the entry is made once all
 * rows are written.
 */
import { OF_GRANTS } from "./grants-step.js";
import { changedFunction } from "./refills-sql.js";
import { writtenBalances } from "./rows-sql.js";
import { sharedFunctions } from "./shares-sql.js";
import type { AuditQuery, AuditSlice } from "../../contracts/audit.js";
import type { Session, Statement } from "./client.js";
import { timeOf } from "./search.js";
import { isStorable } from "./texts.js";

/** What the changes of balances of this transaction have added, in order, as the elements of a list. */
const ADDED = "current_setting('keystile.added', true)";

const withAmount = (s: string): string =>
  replaced(changedFunction(s, "change_credits_v1"), [
    ["wanted bigint; signed bigint;", "wanted bigint; signed bigint := 0; added bigint := 0;"],
    [
      "    wanted := coalesce((change ->> 'remaining')::bigint, 0);\n",
      "    wanted := coalesce((change ->> 'remaining')::bigint, 0);\n    added := wanted - a.remaining;\n",
    ],
    [
      `  PERFORM ${s}.save_v1(a);\n`,
      `  PERFORM ${s}.save_v1(a);
  PERFORM set_config('keystile.added', concat_ws(',', nullif(${ADDED}, ''), added + signed), true);\n`,
    ],
  ]);

/** The entries are not kept by `write_v1`, which does not know the balances yet: it keeps none of them. */
const withEntries = (s: string): string =>
  replaced(
    writtenBalances(s)
      .replace(...OF_GRANTS)
      .replace("CREATE", "CREATE OR REPLACE"),
    [
      [
        `DECLARE written jsonb := ${s}.write_v1(mode, writes, entries, most)::jsonb; balances jsonb;
BEGIN
  IF written ->> 'outcome' <> 'written' OR strpos(writes, '"credits":{') = 0 THEN RETURN written::text; END IF;
`,
        `DECLARE written jsonb; balances jsonb; added jsonb; kept jsonb := entries::jsonb;
BEGIN
  PERFORM set_config('keystile.added', '', true);
  written := ${s}.write_v1(mode, writes, entries, 0)::jsonb;
  IF written ->> 'outcome' <> 'written' THEN RETURN written::text; END IF;
  IF strpos(writes, '"credits":{') = 0 THEN
    PERFORM ${s}.audit_v1(kept, most);
    RETURN written::text;
  END IF;
  added := ('[' || ${ADDED} || ']')::jsonb;
`,
      ],
      [
        "THEN 0 ELSE a.reserved END) ORDER BY x.i)",
        "THEN 0 ELSE a.reserved END,\n    'added', added -> (x.place - 1)::integer) ORDER BY x.i)",
      ],
      [
        "FROM jsonb_array_elements(writes::jsonb) WITH ORDINALITY x(w, i)",
        `FROM (SELECT w, i, row_number() OVER (ORDER BY i) AS place FROM jsonb_array_elements(writes::jsonb) WITH ORDINALITY y(w, i)
      WHERE w -> 'credits' IS NOT NULL) x`,
      ],
      ["\n  WHERE w -> 'credits' IS NOT NULL;", ";"],
      [
        "  RETURN (written ||",
        `  IF kept -> 0 IS NOT NULL THEN kept := jsonb_set(kept, '{0,credits}', balances -> 0); END IF;
  PERFORM ${s}.audit_v1(kept, most);
  RETURN (written ||`,
      ],
    ],
  );

const withColumns = (s: string): string =>
  replaced(sharedFunctions(s, "audit_v1"), [
    ["operation, ids, fields, count)", "operation, ids, fields, count, reason, added, remaining, grant_id)"],
    [
      "(e ->> 'count')::bigint)",
      `(e ->> 'count')::bigint, e ->> 'reason',
      (e #>> '{credits,added}')::bigint, (e #>> '{credits,remaining}')::bigint, e ->> 'grantId')`,
    ],
  ]);

/** What the fields were and are. Going back to earlier tables drops it, and nothing else. */
export const AUDIT_CHANGES = {
  up: (s: string): string => `
ALTER TABLE ${s}.audit ADD COLUMN changes jsonb;
${replaced(withColumns(s), [
  ["remaining, grant_id)", "remaining, grant_id, changes)"],
  ["e ->> 'grantId')", "e ->> 'grantId', e -> 'changes')"],
])}`,
  down: (s: string): string => `${withColumns(s)}
ALTER TABLE ${s}.audit DROP COLUMN changes;`,
  refuses: {},
};

function replaced(text: string, pairs: readonly (readonly [before: string, after: string])[]): string {
  return pairs.reduce((made, [before, after]) => made.replace(before, () => after), text);
}

/** The step. Going back to earlier tables drops the amounts and reasons, and nothing else. */
export const AUDIT_CREDITS = {
  up: (s: string): string => `
ALTER TABLE ${s}.audit ADD COLUMN reason text, ADD COLUMN added bigint, ADD COLUMN remaining bigint, ADD COLUMN grant_id text;
${withColumns(s)}${withAmount(s)}${withEntries(s)}`,
  down: (s: string): string => `
${sharedFunctions(s, "audit_v1")}${changedFunction(s, "change_credits_v1")}${writtenBalances(s)
    .replace(...OF_GRANTS)
    .replace("CREATE", "CREATE OR REPLACE")}
ALTER TABLE ${s}.audit DROP COLUMN reason, DROP COLUMN added, DROP COLUMN remaining, DROP COLUMN grant_id;`,
  refuses: {},
};

/* Reads the audit trail: store clause 25. */

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
          'actor', a.actor, 'operation', a.operation, 'ids', a.ids, 'fields', a.fields, 'changes', a.changes, 'count', a.count, 'reason', a.reason,
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
