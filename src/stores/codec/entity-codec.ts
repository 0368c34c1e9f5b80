/** Converts rows of the tables other than keys between what an SQL store keeps and the contract. */
import type { NamedTable, Rows, Table } from "../../contracts/store.js";
import { NAME_OF } from "../../lib/row-name.js";
import { readEntityBody, readName } from "./read-body.js";

export type EntityTable = Exclude<Table, "keys">;

/** A row as the store keeps it. */
export interface EntityRaw {
  readonly n: number | bigint;
  readonly id: string;
  /** Empty: the row has no workspace. */
  readonly workspace_id: string;
  /** The name, unique in the workspace; null: rows of this table have none. */
  readonly name: string | null;
  readonly version: number | bigint | string;
  /** JSON of all other fields. */
  readonly body: string;
}

/** The field that holds the unique name of a row, if any. */
const NAMES: Readonly<Record<EntityTable, string | undefined>> = {
  workspaces: undefined,
  apis: undefined,
  identities: "externalId",
  roles: "name",
  permissions: "slug",
  migrations: "id",
  rootKeys: "digest",
  namespaces: "name",
  overrides: undefined,
  grants: undefined,
};
export const ENTITY_TABLES = Object.keys(NAMES) as EntityTable[];

/** Decodes a row into a new object. @throws KeystileError STORE_INVALID, or SyntaxError */
export function decodeEntity<T extends EntityTable>(table: T, raw: Omit<EntityRaw, "n">): Rows[T] {
  const row = readEntityBody(table, raw.body);
  row["id"] = raw.id;
  row["version"] = Number(raw.version);
  if (raw.workspace_id !== "") row["workspaceId"] = raw.workspace_id;
  const field = NAMES[table];
  if (field !== undefined) row[field] = readName(table, raw.name);
  return row as unknown as Rows[T];
}

/** Encodes a row: its name, and JSON of what has no column of its own. */
export function encodeEntity<T extends EntityTable>(
  table: T,
  row: Rows[T],
): { workspaceId: string; name: string | null; body: string } {
  const field = NAMES[table];
  const { id: _id, version: _version, workspaceId = "", ...rest } = row as unknown as Record<string, unknown>;
  // JSON leaves out `undefined`: a field with its own column is not written twice.
  const body = JSON.stringify(field === undefined ? rest : { ...rest, [field]: undefined });
  const name = Object.hasOwn(NAME_OF, table) ? NAME_OF[table as NamedTable](row as never) : null;
  return { workspaceId: workspaceId as string, name, body };
}
