/** Unique names of rows, and the filter of a list. */
import type { KeyRow, ListQuery, NamedTable, OverrideRow, RootKeyRow, Rows, Table } from "../contracts/store.js";
import { overrideName } from "../lib/override-name.js";

/** A name that is unique in its workspace, as a string that is unique in the whole store. */
export function nameOf(table: NamedTable, workspaceId: string, name: string): string {
  return `${table} ${workspaceId} ${name}`;
}

/** The texts of a row that no other row may have. */
export function uniqueOf(table: Table, row: Rows[Table]): string[] {
  if (table === "workspaces" || table === "apis") return [];
  if (table === "rootKeys")
    return [
      nameOf(table, (row as RootKeyRow).workspaceId, plainName(table, row)),
      `root ${(row as RootKeyRow).digest}`,
    ];
  if (table !== "keys") return [nameOf(table, (row as Rows[NamedTable]).workspaceId, plainName(table, row))];
  const { digest, foreignDigest } = row as KeyRow;
  return [
    ...(digest === undefined ? [] : [`digest ${digest}`]),
    ...(foreignDigest === undefined ? [] : [`foreign ${foreignDigest}`]),
  ];
}

/** Whether a list shows the row, before it is cut at its limit. */
export function listed(row: Rows[Table], query: ListQuery): boolean {
  if (row.id <= (query.after ?? "") || ("deleted" in row && row.deleted)) return false;
  if ((row as Rows["apis"]).workspaceId !== query.workspaceId) return false;
  const { apiId, identityId } = row as Partial<KeyRow>;
  if (query.namespaceId !== undefined && (row as Partial<OverrideRow>).namespaceId !== query.namespaceId) return false;
  if (query.apiId !== undefined && apiId !== query.apiId) return false;
  return query.identityId === undefined || identityId === query.identityId;
}

function plainName(table: Table, row: Rows[Table]): string {
  if (table === "identities") return (row as Rows["identities"]).externalId;
  if (table === "permissions") return (row as Rows["permissions"]).slug;
  if (table === "roles" || table === "namespaces") return (row as Rows["roles"]).name;
  if (table === "rootKeys") return (row as RootKeyRow).digest;
  if (table === "overrides") return overrideName(row as OverrideRow);
  return row.id;
}
