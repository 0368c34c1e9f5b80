/** The tables beside the keys: all six have one form, so one piece of code serves them. Port clauses 13, 16, 17. Knows no rule of any of them. */
import type { ListQuery, NamedTable, Rows, Table } from "../../store.js";
import { changed, type Query, select, type Handle } from "./handle.js";

export type SmallTable = Exclude<Table, "keys">;

/** A row as the file has it. */
export interface SmallRaw {
  readonly n: number | bigint;
  readonly id: string;
  /** Empty: the row belongs to no workspace. */
  readonly workspace_id: string;
  /** The name that is unique in the workspace; null: rows of this table have none. */
  readonly name: string | null;
  readonly version: number | bigint;
  /** JSON of all other fields. */
  readonly body: string;
}

/** The field that is the unique name of a row. */
const NAME_FIELD: Readonly<Record<SmallTable, string | undefined>> = {
  workspaces: undefined,
  apis: undefined,
  identities: "externalId",
  roles: "name",
  permissions: "slug",
  migrations: "id",
};
export const SMALL_TABLES = Object.keys(NAME_FIELD) as SmallTable[];

export interface SmallRows {
  read<T extends SmallTable>(table: T, id: string): Rows[T] | undefined;
  readNames<T extends NamedTable>(table: T, workspaceId: string, names: readonly string[]): Rows[T][];
  list<T extends SmallTable>(table: T, query: ListQuery): Rows[T][];
  /** False: its id or its name is taken, or it is not as it was read. */
  store<T extends SmallTable>(table: T, row: Rows[T]): boolean;
  /** False: it is not as it was read. */
  remove(table: SmallTable, id: string, version: number): boolean;
}

const COLUMNS = "n, id, workspace_id, name, version, body";

const statements = (handle: Handle, table: SmallTable) => {
  const name = `keystile_${table}`;
  const rows = (rest: string): Query<SmallRaw> => select(handle, `SELECT ${COLUMNS} FROM ${name} WHERE ${rest}`);
  return {
    byId: rows("id = ?"),
    byName: rows("workspace_id = ? AND name = ?"),
    // instr, not LIKE: it compares case and knows no wildcards.
    list: rows("workspace_id = ? AND id > ? AND (? = '' OR instr(coalesce(name, id), ?) > 0) ORDER BY id LIMIT ?"),
    insert: handle.prepare(`INSERT INTO ${name} (id, workspace_id, name, version, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`),
    update: handle.prepare(`UPDATE OR IGNORE ${name} SET workspace_id = ?, name = ?, version = ?, body = ? WHERE id = ? AND version = ?`),
    remove: handle.prepare(`DELETE FROM ${name} WHERE id = ? AND version = ?`),
  };
};

export function createSmallRows(handle: Handle): SmallRows {
  const tables = Object.fromEntries(SMALL_TABLES.map((table) => [table, statements(handle, table)])) as Record<
    SmallTable,
    ReturnType<typeof statements>
  >;
  return {
    read(table, id) {
      const raw = tables[table].byId.get(id);
      return raw && decodeSmall(table, raw);
    },
    readNames(table, workspaceId, names) {
      const { byName } = tables[table];
      return [...new Set(names)].flatMap((name) => {
        const raw = byName.get(workspaceId, name);
        return raw === undefined ? [] : [decodeSmall(table, raw)];
      });
    },
    list(table, { workspaceId, after = "", search = "", limit }) {
      return tables[table].list.all(workspaceId, after, search, search, limit).map((raw) => decodeSmall(table, raw));
    },
    store(table, row) {
      const { insert, update } = tables[table];
      const { workspaceId, name, body } = encodeSmall(table, row);
      const next = row.version + 1;
      if (row.version === 0) return changed(insert.run(row.id, workspaceId, name, next, body)) === 1;
      return changed(update.run(workspaceId, name, next, body, row.id, row.version)) === 1;
    },
    remove: (table, id, version) => changed(tables[table].remove.run(id, version)) === 1,
  };
}

/** A row of the port out of one of the file: a fresh object each time (clause 10). */
export function decodeSmall<T extends SmallTable>(table: T, raw: SmallRaw): Rows[T] {
  const row = JSON.parse(raw.body) as Record<string, unknown>;
  row["id"] = raw.id;
  row["version"] = Number(raw.version);
  if (raw.workspace_id !== "") row["workspaceId"] = raw.workspace_id;
  const field = NAME_FIELD[table];
  if (field !== undefined) row[field] = raw.name;
  return row as unknown as Rows[T];
}

function encodeSmall<T extends SmallTable>(table: T, row: Rows[T]): { workspaceId: string; name: string | null; body: string } {
  const field = NAME_FIELD[table];
  const { id: _id, version: _version, workspaceId = "", ...rest } = row as unknown as Record<string, unknown>;
  const name = field === undefined ? null : (row as unknown as Record<string, string>)[field];
  // `undefined` is left out of JSON: what has a column of its own is not written twice.
  const body = JSON.stringify(field === undefined ? rest : { ...rest, [field]: undefined });
  return { workspaceId: workspaceId as string, name: name ?? null, body };
}
