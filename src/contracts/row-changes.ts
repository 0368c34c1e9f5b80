/** Which records and balances a change of a row concerns. Store clauses 13 and 15. */
import type { AuditEntry } from "./audit.js";
import type { AccountTable, CreditChange, KeyRecord, RowChange, Write, WrittenBalance, WriteOnce } from "./store.js";

/** A write that changes a balance. */
export type CreditWrite = Extract<Write, { readonly table: AccountTable; readonly row: unknown }> & {
  readonly credits: CreditChange;
};

/** Whether a write changes a balance. */
export function isCreditWrite(write: Write): write is CreditWrite {
  return "credits" in write && write.credits !== undefined;
}

/** The grant whose balance writes change first; undefined: none, or the first is of another table. */
export function grantChangedBy(writes: readonly Write[]): string | undefined {
  const first = writes.find(isCreditWrite);
  return first?.table === "grants" ? first.row.grantId : undefined;
}

/** The entry of writes, with what they did to the first balance that they change (store clause 25). */
export function withCredits(
  entry: AuditEntry,
  writes: readonly Write[],
  [first]: readonly WrittenBalance[],
): AuditEntry {
  if (first === undefined) return entry;
  const { added, remaining } = first;
  const grantId = grantChangedBy(writes);
  return { ...entry, credits: { added, remaining, ...(grantId !== undefined && { grantId }) } };
}

/** Tables whose rows are part of what a find returns. */
const FOUND_WITH_KEYS = {
  workspaces: true,
  apis: true,
  identities: true,
  roles: true,
  permissions: true,
} as const satisfies Record<RowChange["table"], true>;

/** Whether rows of a table are part of what a find returns. */
export function isFoundWithKeys(table: unknown): table is RowChange["table"] {
  return typeof table === "string" && Object.hasOwn(FOUND_WITH_KEYS, table);
}

/** What a {@link KeyRecord}, or what is kept of it, tells of the rows that it was made of. */
export interface MadeOfRows {
  readonly workspaceId: string;
  readonly apiId: string;
  readonly identity?: KeyRecord["identity"] | undefined;
  readonly grantIds?: KeyRecord["grantIds"] | undefined;
}

/** Whether a record was, or may have been, made of the row that changed. */
export function isMadeOf({ workspaceId, apiId, identity, grantIds }: MadeOfRows, { table, id }: RowChange): boolean {
  switch (table) {
    case "workspaces":
      return workspaceId === id;
    case "apis":
      return apiId === id;
    case "identities":
      return identity?.id === id;
    case "roles":
    case "permissions":
      return grantIds === undefined || grantIds.includes(id);
  }
}

/**
 * When writes are made, milliseconds: as their entry says, or else a change of a balance, which may come without one.
 * Undefined: neither says so.
 */
export function timeOfWrites(
  writes: readonly Write[],
  entries: readonly AuditEntry[],
  once: WriteOnce | undefined,
): number | undefined {
  return entries[0]?.time ?? writes.find(isCreditWrite)?.credits.now ?? once?.now;
}
