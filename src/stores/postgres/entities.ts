/** Reads the rows of the tables other than keys, which share one table of the database. */
import type { ListQuery, NamedTable, RootKeyRow, Rows, Write } from "../../contracts/store.js";
import { decodeEntity, encodeEntity, type EntityRaw, type EntityTable } from "../codec/entity-codec.js";
import { plainPartOf, TABLES_WITH_TEXTS } from "../codec/search-part.js";
import type { PostgresRow, Session, Statement } from "./client.js";
import { assertStorable, isStorable } from "./texts.js";

/** Columns of an entity, of the table as `e`. */
export const ENTITY_COLUMNS = "e.id, e.workspace_id, e.name, e.version::text AS version, e.body";

/** A row that was selected by them, as the codec reads it. */
export const toEntityRaw = (row: object) => row as Omit<EntityRaw, "n">;

/** What a search looks at; in the collation C `lower` folds ASCII alone. */
const NAMES = "e.id || ' ' || coalesce(e.name, '')";
/** Most rows whose bodies one statement searches: of that many roles they are some 25 MB. */
const MAX_BODIES = 1_024;

/**
 * Rows in the order of their ids.
 * @param read rows by a JSON list of ids
 */
export async function inOrder<Row extends { readonly id: string }>(
  ids: readonly string[],
  read: (ids: string) => Promise<Row[]>,
): Promise<(Row | undefined)[]> {
  const asked = ids.filter(isStorable);
  const found = new Map((asked.length === 0 ? [] : await read(JSON.stringify(asked))).map((row) => [row.id, row]));
  // A row for each argument: two that are the same must not share an object.
  return ids.map((id) => structuredClone(found.get(id)));
}

export function createEntities(session: Session, schema: string) {
  const read = (rest: string): Statement => ({
    isRead: true,
    text: `SELECT ${ENTITY_COLUMNS} FROM ${schema}.entities e ${rest}`,
  });
  const byIds = read("WHERE e.kind = $1 AND e.id IN (SELECT pg_catalog.jsonb_array_elements_text($2::text::jsonb))");
  const byNames = read(
    "WHERE e.kind = $1 AND e.workspace_id = $2 AND e.name IN (SELECT pg_catalog.jsonb_array_elements_text($3::text::jsonb))",
  );
  const byDigest = read("WHERE e.kind = 'rootKeys' AND e.name = $1");
  const page = read(
    "WHERE e.kind = $1 AND e.workspace_id = $2 AND NOT e.deleted AND e.id > $3 ORDER BY e.id LIMIT $4::text::bigint",
  );
  const slice = (texts: string): Statement => ({
    isRead: true,
    text: `WITH slice AS MATERIALIZED (
        SELECT e.* FROM ${schema}.entities e
        WHERE e.kind = $1 AND e.workspace_id = $2 AND NOT e.deleted AND e.id > $3 ORDER BY e.id LIMIT $4::text::bigint
      )
      SELECT ${ENTITY_COLUMNS} FROM slice e
      WHERE pg_catalog.strpos(pg_catalog.lower((${texts}) COLLATE "C"), $5::text) > 0 OR e.id = (SELECT pg_catalog.max(id) FROM slice)
      ORDER BY e.id LIMIT $6::text::bigint`,
  });
  const sliceByNames = slice(NAMES);
  const sliceByTexts = slice(`${NAMES} || ' ' || e.body`);
  const pageOf = (parents: string) =>
    read(
      `WHERE e.kind = $1 AND e.workspace_id = $2 AND NOT e.deleted AND e.id > $3 AND e.parent ${parents}
     ORDER BY e.id LIMIT $4::text::bigint`,
    );
  const pageOfParent = pageOf("= $5");
  const pageOfOwner = pageOf(`IN ($5, '${ENDED}' || $5::text)`);
  const decode = <T extends EntityTable>(table: T, rows: readonly object[]) =>
    rows.map((row) => decodeEntity(table, toEntityRaw(row)));

  return {
    async readMany<T extends EntityTable>(table: T, ids: readonly string[]): Promise<(Rows[T] | undefined)[]> {
      return inOrder(ids, async (asked) => decode(table, await session.run(byIds, table, asked)));
    },
    async readNames<T extends NamedTable>(table: T, workspaceId: string, names: readonly string[]): Promise<Rows[T][]> {
      const asked = [...new Set(names)].filter(isStorable);
      if (asked.length === 0 || !isStorable(workspaceId)) return [];
      const rows = await session.run(byNames, table, workspaceId, JSON.stringify(asked));
      // In the order of the names, whatever plan the server chose.
      const order = new Map(asked.map((name, i) => [name, i]));
      const place = (row: PostgresRow): number => order.get(row["name"] as string) ?? 0;
      return decode(
        table,
        rows.toSorted((a, b) => place(a) - place(b)),
      );
    },
    async findRootKey(digest: string): Promise<RootKeyRow | undefined> {
      if (!isStorable(digest)) return undefined;
      return decode("rootKeys", await session.run(byDigest, digest))[0];
    },
    async list<T extends EntityTable>(
      table: T,
      { workspaceId, namespaceId, ownerId, after = "", limit, mayHold }: ListQuery,
    ): Promise<Rows[T][]> {
      if (![workspaceId, after, namespaceId ?? "", ownerId ?? ""].every(isStorable)) return [];
      if (mayHold !== undefined && namespaceId === undefined) {
        const { text, among } = mayHold;
        const [statement, most] = TABLES_WITH_TEXTS.includes(table)
          ? [sliceByTexts, MAX_BODIES]
          : [sliceByNames, among];
        const values = [table, workspaceId, after, String(Math.min(among, most)), plainPartOf(text), String(limit)];
        return decode(table, await session.run(statement, ...values));
      }
      const given = [table, workspaceId, after, String(limit)] as const;
      if (table === "grants" && ownerId !== undefined)
        return decode(table, await session.run(pageOfOwner, ...given, ownerId));
      return decode(
        table,
        await (namespaceId === undefined || table !== "overrides"
          ? session.run(page, ...given)
          : session.run(pageOfParent, ...given, namespaceId)),
      );
    },
  };
}

/** A write of a row that is no key, as the database reads it. @throws RangeError: a text cannot be stored */
export function encodeEntityWrite(write: Exclude<Write, { readonly table: "keys" }>): object {
  const { table } = write;
  if ("remove" in write) return { table, remove: storable(write.remove), version: write.version };
  const { row, credits } = write;
  const { workspaceId, name, body } = encodeEntity(table, row);
  return {
    table,
    credits,
    row: {
      id: storable(row.id),
      ws: storable(workspaceId),
      name: name === null ? null : storable(name),
      parent: parentOf(row),
      version: row.version,
      deleted: "deleted" in row && row.deleted,
      body,
    },
  };
}

/** The row that it is one of many of: of an open grant its owner, so that a find reads no others. */
export function parentOf(row: object): string | null {
  const { namespaceId, identityId, accountId, grantId, endedAt } = row as Partial<Rows["overrides"] & Rows["grants"]>;
  if (namespaceId !== undefined) return storable(namespaceId);
  const owner = identityId ?? accountId;
  if (grantId === undefined || owner === undefined) return null;
  return storable(endedAt === undefined ? owner : `${ENDED}${owner}`);
}

/** What the parent of a grant begins with that was ended. */
export const ENDED = "ended ";

function storable(text: string): string {
  assertStorable(text, "an id or a name");
  return text;
}
