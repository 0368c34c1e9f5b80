/** Numbers of rows, of each workspace and of all, kept by triggers: no statement changes rows without their number. */
import { type Handle, select } from "../connection/handle.js";

/** Under this name, which no workspace has, stands the number of all rows. */
export const ALL = "";

/**
 * The table of numbers of another table, which is still empty. Part of the file format.
 * @param rows what the rows are called
 * @param when which rows count, of a row `%`; absent: all
 */
export function countRows(table: string, rows: string, when?: string): string {
  const counted = (row: string): string => (when === undefined ? "" : ` WHEN ${when.replaceAll("%", row)}`);
  return `
  CREATE TABLE keystile_${table}_counts (
    workspace_id TEXT NOT NULL PRIMARY KEY,
    ${rows} INTEGER NOT NULL CHECK (${rows} >= 0)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO keystile_${table}_counts VALUES ('${ALL}', 0);
  CREATE TRIGGER keystile_${table}_added AFTER INSERT ON keystile_${table}${counted("NEW")} BEGIN
    UPDATE keystile_${table}_counts SET ${rows} = ${rows} + 1 WHERE workspace_id = '${ALL}';
    INSERT INTO keystile_${table}_counts VALUES (NEW.workspace_id, 1)
      ON CONFLICT (workspace_id) DO UPDATE SET ${rows} = ${rows} + 1;
  END;
  CREATE TRIGGER keystile_${table}_removed AFTER DELETE ON keystile_${table}${counted("OLD")} BEGIN
    UPDATE keystile_${table}_counts SET ${rows} = ${rows} - 1 WHERE workspace_id IN ('${ALL}', OLD.workspace_id);
    DELETE FROM keystile_${table}_counts WHERE workspace_id = OLD.workspace_id AND ${rows} = 0;
  END;`;
}

/** How many rows a workspace has, or {@link ALL}; and how many workspaces have some. */
export function readCounts(handle: Handle, table: string, rows: string) {
  const of = select<{ n: number | bigint }>(
    handle,
    `SELECT ${rows} AS n FROM keystile_${table}_counts WHERE workspace_id = ?`,
  );
  const workspaces = select<{ n: number | bigint }>(handle, `SELECT count(*) - 1 AS n FROM keystile_${table}_counts`);
  return {
    of: (workspaceId: string): number => Number(of.get(workspaceId)?.n ?? 0),
    workspaces: (): number => Number(workspaces.get()?.n),
  };
}
