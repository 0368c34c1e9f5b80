/**
 * The APIs, workspaces, roles and permissions that keys refer to, kept in the node, so that a find is one statement
 * that reads one row. Dropped whenever one of them changes.
 *
 * Of missing rows only workspaces are kept, which most programs do not have: no change tells of another new row.
 */
import type { ApiRow, PermissionRow, RoleRow, RowChange } from "../../contracts/store.js";
import { deepFreeze } from "../../lib/deep-freeze.js";
import { createBoundedMap, sizeOfTexts } from "../codec/bounded-map.js";
import { decodeEntity } from "../codec/entity-codec.js";
import { decodeGrants } from "../codec/key-codec.js";
import { flatten, type GrantedNames, grantIds } from "../key-record.js";
import type { Session, Statement } from "./client.js";
import { ENTITY_COLUMNS, toEntityRaw } from "./entities.js";

/** What a key refers to. */
export interface KeyReferences {
  readonly workspaceId: string;
  readonly apiId: string;
  readonly grants: string;
}

/** What a key is granted, by names, and the ids of all rows that say so. */
interface Grants extends GrantedNames {
  readonly ids: readonly string[];
}

/** The rows that keys refer to, at hand. */
export interface Loaded {
  api(id: string): ApiRow | undefined;
  workspaceEnabled(id: string): boolean;
  grants(text: string): Grants;
}

export interface References {
  /** Loads what these keys refer to and is not at hand: no statement, or one, or two where roles are new. */
  load(keys: readonly KeyReferences[]): Promise<Loaded>;
  /** Drops everything, also what is being loaded. */
  clear(): void;
}

/** Estimated bytes of a row besides its lists, on the high side. */
const ROW = 256;
/** In the place of a workspace that has no row. */
const ABSENT = Symbol("absent");

/** Kinds of rows, as the table has them. */
type Kind = Exclude<RowChange["table"], "identities">;
type Wanted = readonly [kind: Kind, id: string];

export function createReferences(session: Session, schema: string): References {
  const statement: Statement = {
    isRead: true,
    text: `SELECT e.kind, ${ENTITY_COLUMNS} FROM pg_catalog.jsonb_array_elements($1::text::jsonb) w
      JOIN ${schema}.entities e ON e.kind = w ->> 0 AND e.id = w ->> 1`,
  };
  const rows = createBoundedMap<string, unknown>();
  const names = createBoundedMap<string, Grants>();
  let generation = 0;

  /** Reads rows into `found`, and keeps them unless something changed meanwhile. */
  const read = async (wanted: readonly Wanted[], found: Map<string, unknown>): Promise<void> => {
    const began = generation;
    const unknown = wanted.filter(([kind, id]) => {
      const known = rows.get(`${kind} ${id}`);
      if (known !== undefined && known !== ABSENT) found.set(`${kind} ${id}`, known);
      return known === undefined;
    });
    if (unknown.length === 0) return;
    for (const text of await session.run(statement, JSON.stringify(unknown))) {
      const kind = text["kind"] as Kind;
      const row = deepFreeze(decodeEntity(kind, toEntityRaw(text)));
      const key = `${kind} ${row.id}`;
      found.set(key, row);
      const texts = "permissions" in row ? row.permissions : "ipAllowlist" in row ? row.ipAllowlist : [];
      if (began === generation) rows.set(key, row, ROW + key.length + sizeOfTexts(texts));
    }
    for (const [kind, id] of unknown) {
      const key = `${kind} ${id}`;
      if (kind === "workspaces" && !found.has(key) && began === generation) rows.set(key, ABSENT, ROW + key.length);
    }
  };
  return {
    async load(keys) {
      const began = generation;
      const found = new Map<string, unknown>();
      const wanted = new Map<string, Wanted>();
      const want = (kind: Kind, id: string) => wanted.set(`${kind} ${id}`, [kind, id]);
      const grants = [...new Set(keys.map((key) => key.grants))];
      const known = new Map(grants.map((text) => [text, names.get(text)]));
      for (const { apiId, workspaceId } of keys) {
        want("apis", apiId);
        want("workspaces", workspaceId);
      }
      const decoded = grants
        .filter((text) => known.get(text) === undefined)
        .map((text) => [text, decodeGrants(text)] as const);
      for (const [, { permissions, roles }] of decoded) {
        for (const id of permissions) want("permissions", id);
        for (const id of roles) want("roles", id);
      }
      await read([...wanted.values()], found);
      const ofRoles = decoded.flatMap(([, { roles }]) =>
        roles.flatMap((id) => (found.get(`roles ${id}`) as RoleRow | undefined)?.permissions ?? []),
      );
      await read(
        [...new Set(ofRoles)].filter((id) => !found.has(`permissions ${id}`)).map((id) => ["permissions", id]),
        found,
      );
      for (const [text, ids] of decoded) {
        let isWhole = true;
        const lookUp = (kind: Kind, id: string): unknown => {
          const row = found.get(`${kind} ${id}`);
          if (row === undefined) isWhole = false;
          return row;
        };
        const role = (id: string) => lookUp("roles", id) as RoleRow | undefined;
        const permission = (id: string) => (lookUp("permissions", id) as PermissionRow | undefined)?.slug;
        const flat: Grants = deepFreeze({ ...flatten(ids, { role, permission }), ids: grantIds(ids, { role }) });
        known.set(text, flat);
        if (isWhole && began === generation)
          names.set(
            text,
            flat,
            text.length + sizeOfTexts(flat.permissions) + sizeOfTexts(flat.roles) + sizeOfTexts(flat.ids),
          );
      }
      return {
        api: (id) => found.get(`apis ${id}`) as ApiRow | undefined,
        workspaceEnabled: (id) => (found.get(`workspaces ${id}`) as { enabled: boolean } | undefined)?.enabled ?? true,
        grants: (text) => known.get(text) as Grants,
      };
    },
    clear() {
      generation++;
      rows.clear();
      names.clear();
    },
  };
}
