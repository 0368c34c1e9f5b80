/** All tables of a store, prepared on one handle. */
import type { Handle } from "../connection/handle.js";
import { createAccounts } from "../credits/account-table.js";
import { createOnceTable } from "../credits/once-table.js";
import { createKeyReader } from "../keys/find-keys.js";
import { createKeyUses } from "../keys/key-uses.js";
import { createKeySearch } from "../keys/search-keys.js";
import { KeyWriter } from "../keys/write-keys.js";
import { createAlertTable } from "./alert-table.js";
import { createAuditTable } from "./audit-table.js";
import { createCreditDays } from "./credit-days.js";
import { createEntityTables } from "./entity-tables.js";
import { createOutcomeTables } from "./outcome-tables.js";
import { createReferenceCache } from "./reference-cache.js";

/** @param auditRows most entries of the audit trail */
export function openTables(handle: Handle, auditRows: number) {
  const references = createReferenceCache(handle);
  const accounts = createAccounts(handle);
  const rows = createEntityTables(handle);
  const reader = createKeyReader(handle, references, rows.openGrants);
  const creditDays = createCreditDays(handle, accounts);
  return {
    references,
    accounts,
    rows,
    reader,
    creditDays,
    search: createKeySearch(handle, reader),
    keyWriter: new KeyWriter(handle, references, accounts),
    recordUses: createKeyUses(handle),
    audit: createAuditTable(handle, auditRows),
    outcomes: createOutcomeTables(handle, creditDays),
    alerts: createAlertTable(handle),
    recorded: createOnceTable(handle),
  };
}

export type SqliteTables = ReturnType<typeof openTables>;
