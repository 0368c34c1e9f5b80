/**
 * The audit trail: a table that people read in SQL. Store clause 25.
 *
 * Why numbers without gaps: rows are added at one end and removed at the other, so that the first and the last number
 * tell how many there are, and none is counted.
 */
import type { AuditEntry } from "../../../contracts/audit.js";
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

/** Adds entries, inside the caller's transaction. */
export type AuditTable = (entries: readonly AuditEntry[]) => void;

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
  const remove = handle.prepare("DELETE FROM keystile_audit WHERE number < ?");
  const add = ({ time, workspaceId, actorKind, actor, operation, ids, fields, count }: AuditEntry): void => {
    const when = new Date(time).toISOString();
    const lists = [JSON.stringify(ids), JSON.stringify(fields)] as const;
    insert.run(when, workspaceId, actorKind, actor ?? null, operation, ...lists, count);
    const found = ends.get();
    const first = Number(found?.first);
    const tooMany = Number(found?.last) - first + 1 - rows;
    if (tooMany <= 0) return;
    const batch = Math.min(BATCH, Math.ceil(rows / 10)) - 1;
    remove.run(first + Math.min(tooMany + batch, MAX_REMOVED));
  };
  return (entries) => {
    if (rows > 0) entries.forEach(add);
  };
}
