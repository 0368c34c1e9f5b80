/** In place of shares of the audit trail: the newest entries of all workspaces stay. */
import type { Handle } from "../../../../src/stores/sqlite/connection/handle.js";
import { type AuditTable, createAuditTable as own } from "../../../../src/stores/sqlite/tables/audit-table.js";

export * from "../../../../src/stores/sqlite/tables/audit-table.js";

export function createAuditTable(handle: Handle, rows: number): AuditTable {
  const table = own(handle, Number.MAX_SAFE_INTEGER);
  const remove = handle.prepare(
    "DELETE FROM keystile_audit WHERE number <= (SELECT max(number) FROM keystile_audit) - ?",
  );
  return {
    ...table,
    add(entries) {
      table.add(entries);
      remove.run(rows);
    },
  };
}
