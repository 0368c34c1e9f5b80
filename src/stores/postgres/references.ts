/**
 * The APIs, workspaces, roles and permissions that keys refer to, kept in the node, so that a find is one statement
 * that reads one row. Dropped whenever one of them changes.
 *
 * Of missing rows only workspaces are kept, which most programs do not have: no change tells of another new row.
 */
import type { ApiRow, RowChange, WorkspaceRow } from "../../contracts/store.js";
import { deepFreeze } from "../../lib/deep-freeze.js";
import { createSlices, inSteps, type Pause } from "../../lib/slices.js";
import { createBoundedMap, sizeOfTexts } from "../codec/bounded-map.js";
import { decodeEntity } from "../codec/entity-codec.js";
import { decodeGrants } from "../codec/key-codec.js";
import { grantedNames, mergeSorted, type NamedPart, partsOf, READ_COST } from "../granted-names.js";
import { type GrantedNames, sortUnique } from "../key-record.js";
import type { PostgresRow, Session, Statement } from "./client.js";
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

/** Estimated bytes of a row besides its lists, on the high side. */
const ROW = 256;
/** Most permissions of its own with which those of a key are kept one by one, for keys that have some of the same. */
const MAX_KEPT_ALONE = 2_000;
/** In the place of a workspace that has no row. */
const ABSENT = Symbol("absent");

/** Kinds of rows, as the table has them. */
type Kind = Exclude<RowChange["table"], "identities">;
type Wanted = readonly [kind: Kind, id: string];

/** Some permissions with their ids, sorted. */
interface Part extends NamedPart {
  readonly ids: readonly string[];
}
/** A role; its own id is among the ids. */
interface Role extends Part {
  readonly name: string;
}
/** What is kept of a row: of a permission its name. */
type Kept = ApiRow | WorkspaceRow | Role | string | typeof ABSENT;

export function createReferences(session: Session, schema: string) {
  // A subquery for each, which is a step in the index: the plan of a join may be made when there are few rows. Of an
  // array PostgreSQL expects ten items, and of a function that returns rows so many that it would compile the plan.
  const namesOf = (ids: string): string => `pg_catalog.array_to_json(ARRAY(
    SELECT (SELECT p.name FROM ${schema}.entities p WHERE p.kind = 'permissions'::text AND p.id = i.id)
    FROM pg_catalog.unnest(ARRAY(SELECT pg_catalog.jsonb_array_elements_text(${ids}))) i(id) ORDER BY 1))::text AS names`;
  // The server looks up the permissions of roles: 100,000 rows of their own took half a second to decode.
  const byIds: Statement = {
    isRead: true,
    text: `SELECT e.kind, ${ENTITY_COLUMNS}, (SELECT ${namesOf("e.body::jsonb -> 'permissions'::text")} WHERE e.kind = 'roles'::text)
      FROM pg_catalog.jsonb_array_elements($1::text::jsonb) w
      JOIN ${schema}.entities e ON e.kind = w ->> 0 AND e.id = w ->> 1`,
  };
  const names: Statement = { isRead: true, text: `SELECT ${namesOf("$1::text::jsonb")}` };
  const rows = createBoundedMap<string, Kept>();
  const grants = createBoundedMap<string, Grants>();
  const slices = createSlices();
  let generation = 0;

  /** Reads rows into `found`, and keeps them unless something changed since. */
  const read = async (wanted: readonly Wanted[], found: Map<string, Kept>, began: number): Promise<void> => {
    const unknown = wanted.filter(([kind, id]) => {
      const known = rows.get(`${kind} ${id}`);
      if (known !== undefined) found.set(`${kind} ${id}`, known);
      return known === undefined;
    });
    if (unknown.length === 0) return;
    const keep = (key: string, row: Kept, texts: readonly string[]): void => {
      found.set(key, row);
      if (began === generation) rows.set(key, row, ROW + key.length + sizeOfTexts(texts));
    };
    await decode(await session.run(byIds, JSON.stringify(unknown)), keep, slices());
    for (const [kind, id] of unknown)
      if (kind === "workspaces" && !found.has(`${kind} ${id}`)) keep(`${kind} ${id}`, ABSENT, []);
  };
  const readPart = async (ids: string[], found: ReadonlyMap<string, Kept>, isLong: boolean): Promise<Part> => {
    const [row] = isLong ? await session.run(names, JSON.stringify(ids)) : [];
    const namesOfIds = row === undefined ? ids.flatMap((id) => found.get(`permissions ${id}`) ?? []) : namesIn(row);
    return toPart(namesOfIds as string[], ids);
  };
  const readGrants = async (text: string, found: ReadonlyMap<string, Kept>, began: number): Promise<Grants> => {
    const ids = decodeGrants(text);
    const own: Part[] = [];
    for (const part of partsOf(ids.permissions)) own.push(await readPart(part, found, isLong(ids)));
    const roles = ids.roles.flatMap((id) => (found.get(`roles ${id}`) as Role | undefined) ?? []);
    const isWhole = roles.length === ids.roles.length && [...own, ...roles].every((part) => part.isWhole);
    const pause = slices();
    const named = await inSteps(grantedNames(own, roles, pause));
    const parts = [...own, ...roles].map((part) => part.ids);
    const all = Object.freeze({
      ...named,
      ids: await inSteps(mergeSorted([sortUnique([...ids.roles]), ...parts], pause)),
    });
    const size = text.length + sizeOfTexts(all.permissions) + sizeOfTexts(all.roles) + sizeOfTexts(all.ids);
    if (isWhole && began === generation) grants.set(text, all, size);
    await pause(READ_COST * all.permissions.length);
    return all;
  };
  return {
    /**
     * Loads what these keys refer to and is not at hand: no statement, or one; of a key with very many permissions of
     * its own one for each 1,000. What changes meanwhile may be in the answer, which is then not kept.
     */
    async load(keys: readonly KeyReferences[]): Promise<Loaded> {
      const began = generation;
      const found = new Map<string, Kept>();
      const wanted = new Map<string, Wanted>();
      const want = (kind: Kind, id: string) => wanted.set(`${kind} ${id}`, [kind, id]);
      const known = new Map(keys.map(({ grants: text }) => [text, grants.get(text)]));
      for (const { apiId, workspaceId } of keys) {
        want("apis", apiId);
        want("workspaces", workspaceId);
      }
      const texts = [...known.keys()].filter((text) => known.get(text) === undefined);
      for (const ids of texts.map(decodeGrants)) {
        for (const id of isLong(ids) ? [] : ids.permissions) want("permissions", id);
        for (const id of ids.roles) want("roles", id);
      }
      await read([...wanted.values()], found, began);
      for (const text of texts) known.set(text, await readGrants(text, found, began));
      return {
        api: (id) => found.get(`apis ${id}`) as ApiRow | undefined,
        workspaceEnabled(id) {
          const row = found.get(`workspaces ${id}`) as WorkspaceRow | typeof ABSENT | undefined;
          return row === undefined || row === ABSENT || row.enabled;
        },
        grants: (text) => known.get(text) as Grants,
      };
    },
    /** Drops everything, also what is being loaded. */
    clear(): void {
      generation++;
      rows.clear();
      grants.clear();
    },
  };
}

export type References = ReturnType<typeof createReferences>;

const namesIn = (row: PostgresRow): string[] =>
  (JSON.parse(row["names"] as string) as (string | null)[]).filter((name) => name !== null);
const isLong = ({ permissions }: { readonly permissions: readonly unknown[] }) => permissions.length > MAX_KEPT_ALONE;
const toPart = (names: string[], ids: string[]): Part => ({
  isWhole: names.length === ids.length,
  permissions: sortUnique(names),
  ids: sortUnique(ids),
});

/** Decodes rows into the form that is kept. */
async function decode(
  texts: readonly PostgresRow[],
  keep: (key: string, row: Kept, texts: readonly string[]) => void,
  pause: Pause,
): Promise<void> {
  for (const text of texts) {
    const kind = text["kind"] as Kind;
    const row = decodeEntity(kind, toEntityRaw(text));
    const key = `${kind} ${row.id}`;
    if ("slug" in row) keep(key, row.slug, [row.slug]);
    else if ("permissions" in row) {
      const part = toPart(namesIn(text), [...row.permissions]);
      const ids = sortUnique([row.id, ...part.ids]);
      keep(key, { name: row.name, ...part, ids }, [...part.permissions, ...ids]);
      await pause(READ_COST * ids.length);
    } else keep(key, deepFreeze(row), "ipAllowlist" in row ? row.ipAllowlist : []);
    await pause(READ_COST);
  }
}
