/**
 * The audit trail: a table that people read in SQL. Store clause 25.
 *
 * Why counts beside it, which triggers keep: beyond the bound, the workspaces above an equal share lose their oldest
 * entries, so that no workspace washes another's away.
 */
import type { AuditChange, AuditEntry, AuditQuery, AuditSlice } from "../../../contracts/audit.js";
import { type Handle, select } from "../connection/handle.js";
import { ALL, countRows, readCounts } from "./counted-rows.js";

/** Part of the file format. */
export const CREATE_AUDIT = `
  CREATE TABLE keystile_audit (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor TEXT,
    operation TEXT NOT NULL,
    ids TEXT NOT NULL,
    fields TEXT NOT NULL,
    count INTEGER NOT NULL
  ) STRICT;`;

/** The number of entries of each workspace, and an index by workspace. */
export const COUNT_AUDIT = {
  up: `
  CREATE INDEX keystile_audit_of ON keystile_audit (workspace_id);${countRows("audit", "entries")}
  CREATE INDEX keystile_audit_counts_largest ON keystile_audit_counts (entries);
  INSERT INTO keystile_audit_counts SELECT workspace_id, count(*) FROM keystile_audit GROUP BY workspace_id;
  UPDATE keystile_audit_counts SET entries = (SELECT count(*) FROM keystile_audit) WHERE workspace_id = '${ALL}';`,
  down: `
  DROP TRIGGER keystile_audit_added;
  DROP TRIGGER keystile_audit_removed;
  DROP TABLE keystile_audit_counts;
  DROP INDEX keystile_audit_of;`,
  refuses: {},
};

/**
 * Columns for the amount and the reason of a change of a balance; `added` is NULL where the change was of no balance.
 * Going back to earlier tables drops these columns, and nothing else.
 */
export const AUDIT_CREDITS = {
  up: `
  ALTER TABLE keystile_audit ADD COLUMN reason TEXT;
  ALTER TABLE keystile_audit ADD COLUMN added INTEGER;
  ALTER TABLE keystile_audit ADD COLUMN remaining INTEGER;
  ALTER TABLE keystile_audit ADD COLUMN grant_id TEXT;`,
  down: `
  ALTER TABLE keystile_audit DROP COLUMN reason;
  ALTER TABLE keystile_audit DROP COLUMN added;
  ALTER TABLE keystile_audit DROP COLUMN remaining;
  ALTER TABLE keystile_audit DROP COLUMN grant_id;`,
  refuses: {},
};

/** What the fields were and are, as JSON. Going back to earlier tables drops it, and nothing else. */
export const AUDIT_CHANGES = {
  up: `
  ALTER TABLE keystile_audit ADD COLUMN changes TEXT;`,
  down: `
  ALTER TABLE keystile_audit DROP COLUMN changes;`,
  refuses: {},
};

/** Rows removed at once where one is too many: a removal each time would cost every change one. */
const BATCH = 100;
/** Most rows that one change removes, after the bound was lowered. */
const MAX_REMOVED = 1_000;

/** The newest entries of a workspace before a number, at most so many. */
const slice = (columns: string): string => `(SELECT ${columns} FROM keystile_audit
  WHERE workspace_id = ? AND number < ? ORDER BY number DESC LIMIT ?)`;

/** Of a slice; what is not asked for is bound as NULL, or counted as 0. */
const FOUND = `SELECT * FROM ${slice("*")} WHERE coalesce(?, actor) IS actor AND operation = coalesce(?, operation)
  AND time >= coalesce(?, '') AND time < coalesce(?, 'a')
  AND EXISTS (SELECT 1 FROM json_each(ids) WHERE value IN (SELECT value FROM json_each(?))) >= ?
  ORDER BY number DESC LIMIT ?`;

/** An entry as it is stored. */
type AuditRaw = Readonly<
  Record<"number" | "count", number | bigint> &
    Record<"time" | "workspace_id" | "actor_kind" | "operation" | "ids" | "fields", string> &
    Record<"actor" | "reason" | "grant_id" | "changes", string | null> &
    Record<"added" | "remaining", number | bigint | null>
>;

/** @param rows most that are kept; the oldest of workspaces above their share go first. 0: none is added */
export function createAuditTable(handle: Handle, rows: number) {
  const insert = handle.prepare(
    `INSERT INTO keystile_audit
       (time, workspace_id, actor_kind, actor, operation, ids, fields, count, reason, added, remaining, grant_id, changes)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const counts = readCounts(handle, "audit", "entries");
  const largest = select<{ workspace_id: string; entries: number | bigint }>(
    handle,
    `SELECT workspace_id, entries FROM keystile_audit_counts WHERE workspace_id <> '${ALL}' AND entries > ?
     ORDER BY entries DESC LIMIT ${BATCH}`,
  );
  const remove = handle.prepare(
    `DELETE FROM keystile_audit WHERE number IN
       (SELECT number FROM keystile_audit WHERE workspace_id = ? ORDER BY number LIMIT ?)`,
  );
  const kept = rows + 1 - Math.min(BATCH, Math.ceil(rows / 10));
  /** Those above an equal share pay, down to it, the largest first. */
  const prune = (): void => {
    const all = counts.of(ALL);
    if (all <= rows) return;
    const share = Math.floor(kept / counts.workspaces());
    let tooMany = Math.min(all - kept, MAX_REMOVED);
    for (const { workspace_id, entries } of largest.all(share)) {
      const paid = Math.min(Number(entries) - share, tooMany);
      remove.run(workspace_id, paid);
      tooMany -= paid;
      if (tooMany === 0) return;
    }
  };
  const found = select<AuditRaw>(handle, FOUND);
  const looked = select<{ n: number | bigint; last: number | bigint }>(
    handle,
    `SELECT count(*) AS n, min(number) AS last FROM ${slice("number")}`,
  );
  return {
    /** Adds entries, inside the caller's transaction. */
    add(entries: readonly AuditEntry[]): void {
      if (rows === 0) return;
      for (const entry of entries) {
        const { time, workspaceId, actorKind, actor, operation, ids, fields, changes, count, reason, credits } = entry;
        const lists = [JSON.stringify(ids), JSON.stringify(fields)] as const;
        const of = [new Date(time).toISOString(), workspaceId, actorKind, actor ?? null, operation, ...lists, count];
        const { added = null, remaining = null, grantId = null } = credits ?? {};
        insert.run(...of, reason ?? null, added, remaining, grantId, changes ? JSON.stringify(changes) : null);
        prune();
      }
    },
    read(query: AuditQuery): AuditSlice {
      const { workspaceId, ids, actor, operation, from, to, before = Number.MAX_SAFE_INTEGER, among, limit } = query;
      const of = [workspaceId, before, among] as const;
      const wanted = [actor ?? null, operation ?? null, timeText(from), timeText(to)] as const;
      const named = [JSON.stringify(ids ?? []), ids === undefined ? 0 : 1] as const;
      const entries = found.all(...of, ...wanted, ...named, limit).map(toEntry);
      if (entries.length === limit) return { entries, next: (entries.at(-1) as { number: number }).number };
      const { n, last } = looked.get(...of) as { n: number | bigint; last: number | bigint };
      return Number(n) < among ? { entries } : { entries, next: Number(last) };
    },
  };
}

export type AuditTable = ReturnType<typeof createAuditTable>;

function timeText(time: number | undefined): string | null {
  return time === undefined ? null : new Date(time).toISOString();
}

function toEntry(raw: AuditRaw): AuditSlice["entries"][number] {
  return {
    number: Number(raw.number),
    time: Date.parse(raw.time),
    workspaceId: raw.workspace_id,
    actorKind: raw.actor_kind,
    ...(raw.actor !== null && { actor: raw.actor }),
    operation: raw.operation,
    ids: JSON.parse(raw.ids) as string[],
    fields: JSON.parse(raw.fields) as string[],
    ...(raw.changes !== null && { changes: JSON.parse(raw.changes) as AuditChange[] }),
    count: Number(raw.count),
    ...(raw.reason !== null && { reason: raw.reason }),
    ...(raw.added !== null && {
      credits: {
        added: Number(raw.added),
        remaining: raw.remaining === null ? null : Number(raw.remaining),
        ...(raw.grant_id !== null && { grantId: raw.grant_id }),
      },
    }),
  };
}
