/** Reads and writes the tables other than keys, which share one layout. */
import type { ListQuery, NamedTable, OwnedWallet, RootKeyRow, Rows } from "../../../contracts/store.js";
import { type Granted, identityWallet } from "../../key-record.js";
import type { RowOutcome } from "./run-write.js";
import {
  decodeEntity,
  encodeEntity,
  ENTITY_TABLES,
  type EntityRaw,
  type EntityTable,
} from "../../codec/entity-codec.js";
import { plainPartOf, TABLES_WITH_TEXTS } from "../../codec/search-part.js";
import { type Handle, type Select, select } from "../connection/handle.js";
import { accountOfGrant } from "../credits/account-table.js";
import { NAMESPACE_OF_OVERRIDE } from "../connection/schema.js";
import { IS_OPEN, OWNER_OF_GRANT } from "../connection/grants-step.js";

/** Each table in the file. */
export const TABLES = Object.fromEntries(
  ENTITY_TABLES.map((table) => [table, `keystile_${table === "rootKeys" ? "root_keys" : table}`]),
) as Readonly<Record<EntityTable, string>>;

/** More names than this are looked up in one statement. */
const MAX_SINGLE_LOOKUPS = 8;
const COLUMNS = "r.number AS n, r.id, workspace_id, name, version, body";
const NOT_DELETED = "coalesce(json_extract(body, '$.deleted'), 0) = 0 AND";
/** Whether a table's rows can be deleted and stay. */
const KEEPS_DELETED: { readonly [T in EntityTable]: "deleted" extends keyof Rows[T] ? true : false } = {
  workspaces: false,
  apis: true,
  identities: false,
  roles: false,
  permissions: false,
  migrations: false,
  rootKeys: true,
  namespaces: false,
  overrides: false,
  grants: false,
};
const PAGE = "id > ? ORDER BY id LIMIT ?";

/** What a search looks at: instr, which has no wildcards. */
const NAMES = "id || ' ' || coalesce(name, '')";
const TEXTS = `${NAMES} || ' ' || body`;

const statements = (handle: Handle, table: EntityTable) => {
  const name = TABLES[table];
  const listed = KEEPS_DELETED[table] ? NOT_DELETED : "";
  const rows = (rest: string): Select<EntityRaw> => select(handle, `SELECT ${COLUMNS} FROM ${name} r WHERE ${rest}`);
  return {
    // CROSS JOIN: one index lookup per id.
    byIds: select<EntityRaw>(handle, `SELECT ${COLUMNS} FROM json_each(?) j CROSS JOIN ${name} r ON r.id = j.value`),
    version: select<{ version: number | bigint }>(handle, `SELECT version FROM ${name} WHERE id = ?`),
    byName: rows("workspace_id = ? AND name = ?"),
    // CROSS JOIN: one index lookup per name. Four columns: six took half as long again.
    byNames: select<Pick<EntityRaw, "id" | "name" | "version" | "body">>(
      handle,
      `SELECT r.id, name, version, body FROM json_each(?) j CROSS JOIN ${name} r ON r.workspace_id = ? AND r.name = j.value`,
    ),
    list: rows(`workspace_id = ? AND ${listed} ${PAGE}`),
    lastOf: select<{ id: string | null }>(
      handle,
      `SELECT max(id) AS id FROM (SELECT id FROM ${name} WHERE workspace_id = ? AND ${listed} ${PAGE})`,
    ),
    candidates: rows(
      `workspace_id = ? AND ${listed} id > ? AND id <= ? AND (id = ? OR instr(lower(${TABLES_WITH_TEXTS.includes(table) ? TEXTS : NAMES}), ?) > 0)
      ORDER BY id LIMIT ?`,
    ),
    insert: handle.prepare(
      `INSERT INTO ${name} (id, workspace_id, name, version, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    ),
    update: handle.prepare(
      `UPDATE OR IGNORE ${name} SET workspace_id = ?, name = ?, version = ?, body = ? WHERE id = ? AND version = ?`,
    ),
    remove: handle.prepare(`DELETE FROM ${name} WHERE id = ? AND version = ?`),
  };
};

export function createEntityTables(handle: Handle) {
  const tables = Object.fromEntries(ENTITY_TABLES.map((table) => [table, statements(handle, table)])) as Record<
    EntityTable,
    ReturnType<typeof statements>
  >;
  const rootKeyByDigest = select<EntityRaw>(handle, `SELECT ${COLUMNS} FROM keystile_root_keys r WHERE name = ?`);
  const ofOwner = (table: EntityTable, owner: string, rest: string) =>
    select<EntityRaw>(
      handle,
      `SELECT ${COLUMNS} FROM ${TABLES[table]} r WHERE workspace_id = ? AND ${owner} = ? AND ${rest}`,
    );
  const overridesOf = ofOwner("overrides", NAMESPACE_OF_OVERRIDE, PAGE);
  const grantsOf = ofOwner("grants", OWNER_OF_GRANT, PAGE);
  const openGrants = ofOwner("grants", OWNER_OF_GRANT, IS_OPEN);
  const grantsTo = (workspaceId: string, ownerId: string): readonly Granted[] =>
    openGrants.all(workspaceId, ownerId).map((raw) => ({
      ref: accountOfGrant(raw.n),
      row: decodeEntity("grants", raw),
    }));
  return {
    /** The open grants of an owner, with the numbers of their accounts. */
    openGrants: grantsTo,
    /** The wallet of an identity, if that has credits. */
    findWallet(id: string): OwnedWallet | undefined {
      // By the exact text, as below.
      const raw = tables.identities.byIds.all(JSON.stringify([id])).find((one) => one.id === id);
      if (raw === undefined) return undefined;
      const row = decodeEntity("identities", raw);
      // The number of an identity's account is that of the identity, below 0.
      return identityWallet(row, -Number(raw.n), (owner) => grantsTo(row.workspaceId, owner));
    },
    readMany<T extends EntityTable>(table: T, ids: readonly string[]): (Rows[T] | undefined)[] {
      // Found again by the exact text: JSON changes what is not well formed.
      const found = new Map(tables[table].byIds.all(JSON.stringify(ids)).map((raw) => [raw.id, raw]));
      return ids.map((id) => {
        const raw = found.get(id);
        return raw && decodeEntity(table, raw);
      });
    },
    readNames<T extends NamedTable>(table: T, workspaceId: string, names: readonly string[]): Rows[T][] {
      const { byName, byNames } = tables[table];
      if (names.length > MAX_SINGLE_LOOKUPS) {
        const found = byNames.all(JSON.stringify([...new Set(names)]), workspaceId);
        return found.map(({ id, name, version, body }) =>
          decodeEntity(table, { id, workspace_id: workspaceId, name, version, body }),
        );
      }
      return [...new Set(names)].flatMap((name) => {
        const raw = byName.get(workspaceId, name);
        return raw === undefined ? [] : [decodeEntity(table, raw)];
      });
    },
    findRootKey(digest: string): RootKeyRow | undefined {
      const raw = rootKeyByDigest.get(digest);
      return raw && decodeEntity("rootKeys", raw);
    },
    list<T extends EntityTable>(
      table: T,
      { workspaceId, namespaceId, ownerId, after = "", limit, mayHold }: ListQuery,
    ): Rows[T][] {
      if (mayHold !== undefined && namespaceId === undefined) {
        const last = tables[table].lastOf.get(workspaceId, after, mayHold.among)?.id ?? "";
        const part = plainPartOf(mayHold.text);
        const candidates = tables[table].candidates.all(workspaceId, after, last, last, part, limit);
        return candidates.map((raw) => decodeEntity(table, raw));
      }
      const found =
        table === "overrides" && namespaceId !== undefined
          ? overridesOf.all(workspaceId, namespaceId, after, limit)
          : table === "grants" && ownerId !== undefined
            ? grantsOf.all(workspaceId, ownerId, after, limit)
            : tables[table].list.all(workspaceId, after, limit);
      return found.map((raw) => decodeEntity(table, raw));
    },
    /** Inserts (`version` 0) or updates. */
    store<T extends EntityTable>(table: T, row: Rows[T]): RowOutcome {
      const { insert, update, version } = tables[table];
      const { workspaceId, name, body } = encodeEntity(table, row);
      const next = row.version + 1;
      if (row.version === 0)
        return Number(insert.run(row.id, workspaceId, name, next, body).changes) === 1 ? "written" : "taken";
      if (Number(update.run(workspaceId, name, next, body, row.id, row.version).changes) === 1) return "written";
      return Number(version.get(row.id)?.version) === row.version ? "taken" : "conflict";
    },
    /** False: the row has another version. */
    remove: (table: EntityTable, id: string, version: number): boolean =>
      Number(tables[table].remove.run(id, version).changes) === 1,
  };
}

export type EntityTables = ReturnType<typeof createEntityTables>;
