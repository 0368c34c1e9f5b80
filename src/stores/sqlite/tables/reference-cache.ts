/**
 * Cache of the APIs, workspaces, roles and permissions that keys refer to, cleared by the change "all".
 *
 * Why not copied into each key's row: a change of a role or an API would rewrite a million keys. Of missing
 * rows only workspaces are cached, as enabled: listeners are notified of a new one of these, and of no other new row.
 */
import type { ApiRow } from "../../../contracts/store.js";
import { deepFreeze } from "../../../lib/deep-freeze.js";
import { type GrantedNames, sortUnique } from "../../key-record.js";
import { type Handle, select } from "../connection/handle.js";
import { decodeGrants } from "../../codec/key-codec.js";
import { createBoundedMap, sizeOfTexts } from "../../codec/bounded-map.js";
import { decodeEntity, type EntityRaw } from "../../codec/entity-codec.js";

export interface ReferenceCache {
  api(n: number): ApiRow | undefined;
  /** The row number of an API. */
  apiNumber(id: string): number | undefined;
  /** A workspace without a row is enabled. */
  workspaceEnabled(id: string): boolean;
  /** Names of a key's grants, from the encoded text in its row; one object for all keys with the same text. */
  grants(text: string): GrantedNames;
  /** Drops everything. */
  clear(): void;
}

/** Estimated bytes of a row besides its lists, on the high side. */
const ROW = 256;
const PERMISSION = 96;
/** Most direct permissions that are kept one by one, for the keys that have some of the same. */
const MAX_KEPT_ALONE = 2_000;

/** A role with the names of its permissions, sorted once for all keys that have it. */
interface NamedRole {
  readonly name: string;
  readonly permissions: readonly string[];
  /** Whether each of its permissions is there. */
  readonly isWhole: boolean;
}

export function createReferenceCache(handle: Handle): ReferenceCache {
  const from = (table: string, column: string) =>
    select<EntityRaw>(
      handle,
      `SELECT number AS n, id, workspace_id, name, version, body FROM keystile_${table} WHERE ${column} = ?`,
    );
  const apiByNumber = from("apis", "n");
  const apiById = from("apis", "id");
  const workspaceById = from("workspaces", "id");
  const roleById = from("roles", "id");
  // Only the name: a key may have 100,000 permissions, and reading all columns takes two and a half times as long.
  const permissionById = select<Pick<EntityRaw, "name">>(handle, "SELECT name FROM keystile_permissions WHERE id = ?");

  const apis = memoized((n: number) => {
    const raw = apiByNumber.get(n);
    return raw && deepFreeze(decodeEntity("apis", raw));
  }, sizeOfApi);
  const apiNumbers = memoized((id: string) => {
    const raw = apiById.get(id);
    return raw && Number(raw.n);
  });
  const workspaces = memoized((id: string) => {
    const raw = workspaceById.get(id);
    return raw === undefined || decodeEntity("workspaces", raw).enabled;
  });
  const permissions = memoized((id: string) => permissionById.get(id)?.name ?? undefined, sizeOfPermission);
  const permissionsByIds = select<Pick<EntityRaw, "name">>(
    handle,
    "SELECT p.name FROM json_each(?) j CROSS JOIN keystile_permissions p ON p.id = j.value",
  );
  /** Names of the permissions that are there, in one statement: one for each took four times as long. */
  const readNames = (ids: readonly string[]): string[] =>
    permissionsByIds.all(JSON.stringify(ids)).map(({ name }) => name as string);
  const roles = memoized((id: string): NamedRole | undefined => {
    const raw = roleById.get(id);
    if (raw === undefined) return undefined;
    const { name, permissions: ids } = decodeEntity("roles", raw);
    const names = readNames(ids);
    return { name, isWhole: names.length === ids.length, permissions: sortUnique(names) };
  }, sizeOfRole);
  const shared = createBoundedMap<string, GrantedNames>();
  const grants = (text: string): GrantedNames => {
    const known = shared.get(text);
    if (known !== undefined) return known;
    const ids = decodeGrants(text);
    const direct =
      ids.permissions.length > MAX_KEPT_ALONE
        ? readNames(ids.permissions)
        : ids.permissions.map(permissions.get).filter((name) => name !== undefined);
    const found = ids.roles.map(roles.get).filter((role) => role !== undefined);
    const names = deepFreeze({
      // Sorted lists one after the other are merged, not sorted anew.
      permissions: sortUnique([sortUnique([...direct]), ...found.map((role) => role.permissions)].flat()),
      roles: sortUnique(found.map(({ name }) => name)),
    });
    const areThere = direct.length === ids.permissions.length && found.length === ids.roles.length;
    if (areThere && found.every(({ isWhole }) => isWhole))
      shared.set(text, names, text.length + sizeOfTexts(names.permissions) + sizeOfTexts(names.roles));
    return names;
  };
  return {
    api: apis.get,
    apiNumber: apiNumbers.get,
    workspaceEnabled: (id) => workspaces.get(id) === true,
    grants,
    clear() {
      for (const known of [apis, apiNumbers, workspaces, roles, permissions, shared]) known.clear();
    },
  };
}

function memoized<K, V>(
  read: (key: K) => V | undefined,
  sizeOf: (value: V) => number = sizeOfRow,
): { get(key: K): V | undefined; clear(): void } {
  const known = createBoundedMap<K, V>();
  return {
    get(key) {
      const kept = known.get(key);
      if (kept !== undefined) return kept;
      const value = read(key);
      if (value !== undefined) known.set(key, value, sizeOf(value));
      return value;
    },
    clear: known.clear,
  };
}

const sizeOfRow = (): number => ROW;
const sizeOfApi = ({ ipAllowlist }: ApiRow): number => ROW + sizeOfTexts(ipAllowlist);
const sizeOfPermission = (name: string): number => PERMISSION + name.length;
const sizeOfRole = ({ permissions }: NamedRole): number => ROW + sizeOfTexts(permissions);
