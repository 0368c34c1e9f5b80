/**
 * The audit trail: a table that people read in SQL. Store clause 25.
 *
 * Why numbers without gaps: rows are added at one end and removed at the other, so that the first and the last number
 * tell how many there are, and none is counted.
 */
import type { AuditEntry, AuditQuery, AuditSlice } from "../../../contracts/audit.js";
import { type Handle, select } from "../connection/handle.js";

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

/** Rows removed at once where one is too many: a removal each time would cost every change one. */
const BATCH = 100;
/** Most rows that one change removes, after the bound was lowered. */
const MAX_REMOVED = 1_000;

export interface AuditTable {
  /** Adds entries, inside the caller's transaction. */
  add(entries: readonly AuditEntry[]): void;
  read(query: AuditQuery): AuditSlice;
}

/** Entries of numbers from the first to before the second; what is not asked for is bound as NULL, or counted as 0. */
const FOUND = `SELECT * FROM keystile_audit WHERE number >= ? AND number < ? AND workspace_id = ?
  AND coalesce(?, actor) IS actor AND operation = coalesce(?, operation)
  AND time >= coalesce(?, '') AND time < coalesce(?, 'a')
  AND EXISTS (SELECT 1 FROM json_each(ids) WHERE value IN (SELECT value FROM json_each(?))) >= ?
  ORDER BY number DESC LIMIT ?`;

/** An entry as it is stored. */
interface AuditRaw {
  readonly number: number | bigint;
  readonly time: string;
  readonly workspace_id: string;
  readonly actor_kind: string;
  readonly actor: string | null;
  readonly operation: string;
  readonly ids: string;
  readonly fields: string;
  readonly count: number | bigint;
}

/** @param rows most that are kept; the oldest go first. 0: none is added */
export function createAuditTable(handle: Handle, rows: number): AuditTable {
  const insert = handle.prepare(
    `INSERT INTO keystile_audit (time, workspace_id, actor_kind, actor, operation, ids, fields, count)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const ends = select<{ first: number | bigint | null; last: number | bigint | null }>(
    handle,
    "SELECT (SELECT min(number) FROM keystile_audit) AS first, (SELECT max(number) FROM keystile_audit) AS last",
  );
  const found = select<AuditRaw>(handle, FOUND);
  const remove = handle.prepare("DELETE FROM keystile_audit WHERE number < ?");
  return {
    add(entries) {
      if (rows === 0) return;
      for (const { time, workspaceId, actorKind, actor, operation, ids, fields, count } of entries) {
        const lists = [JSON.stringify(ids), JSON.stringify(fields)] as const;
        insert.run(new Date(time).toISOString(), workspaceId, actorKind, actor ?? null, operation, ...lists, count);
        const found = ends.get();
        const first = Number(found?.first);
        const tooMany = Number(found?.last) - first + 1 - rows;
        const batch = Math.min(BATCH, Math.ceil(rows / 10)) - 1;
        if (tooMany > 0) remove.run(first + Math.min(tooMany + batch, MAX_REMOVED));
      }
    },
    read({ workspaceId, ids, actor, operation, from, to, before, among, limit }) {
      const { first, last } = ends.get() ?? {};
      const end = Math.min(before ?? Infinity, Number(last) + 1);
      const start = Math.max(end - among, Number(first));
      if (first === null || !(start < end)) return { entries: [] };
      const wanted = [workspaceId, actor ?? null, operation ?? null, timeText(from), timeText(to)] as const;
      const named = [JSON.stringify(ids ?? []), ids === undefined ? 0 : 1] as const;
      const entries = found.all(start, end, ...wanted, ...named, limit).map(toEntry);
      const next = entries.length < limit ? start : (entries.at(-1) as { number: number }).number;
      return next > Number(first) ? { entries, next } : { entries };
    },
  };
}

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
    count: Number(raw.count),
  };
}
