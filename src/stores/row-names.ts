/** Unique names of rows, and the filter of a list. */
import type {
  GrantRow,
  KeyRow,
  ListQuery,
  NamedTable,
  OverrideRow,
  RootKeyRow,
  Rows,
  Table,
} from "../contracts/store.js";
import { NAME_OF } from "../lib/row-name.js";

/** A name that is unique in its workspace, as a string that is unique in the whole store. */
export function nameOf(table: NamedTable, workspaceId: string, name: string): string {
  return `${table} ${workspaceId} ${name}`;
}

/** The texts of a row that no other row may have. */
export function uniqueOf(table: Table, row: Rows[Table]): string[] {
  if (table === "workspaces" || table === "apis") return [];
  if (table !== "keys") {
    const name = nameOf(table, (row as Rows[typeof table]).workspaceId, NAME_OF[table](row as never));
    return table === "rootKeys" ? [name, `root ${(row as RootKeyRow).digest}`] : [name];
  }
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
  if (query.ownerId !== undefined && ownerOf(row) !== query.ownerId) return false;
  if (query.apiId !== undefined && apiId !== query.apiId) return false;
  return query.identityId === undefined || identityId === query.identityId;
}

const ownerOf = ({ identityId, accountId }: Partial<GrantRow>) => identityId ?? accountId;
