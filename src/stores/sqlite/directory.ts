/**
 * APIs, workspaces, roles and permissions that keys refer to, read when first needed and kept until "all" is told.
 *
 * Why not in each key's snapshot: a role or an API that changes would rewrite a million keys. Absence is not kept, since a new row
 * of these tables is told to nobody.
 */
import type { ApiRow } from "../../store.js";
import { deepFreeze } from "../freeze.js";
import { flatten, type Grants } from "../record.js";
import { select, type Handle } from "./handle.js";
import { decodeGrants } from "./key-rows.js";
import { decodeSmall, type SmallRaw } from "./small-rows.js";

export interface Directory {
  api(n: number): ApiRow | undefined;
  /** The number of an API in the file. */
  apiNumber(id: string): number | undefined;
  /** A workspace without a row is enabled. */
  workspaceEnabled(id: string): boolean;
  /** Names of what a key was granted, out of the text in its row; shared by all keys that have the same text. */
  grants(text: string): Grants;
  /** Forgets everything. */
  clear(): void;
}

/** Rows kept of each table. Who has more pays a point read for some. */
const MOST = 10_000;

export function createDirectory(handle: Handle): Directory {
  const from = (table: string, column: string) =>
    select<SmallRaw>(handle, `SELECT n, id, workspace_id, name, version, body FROM keystile_${table} WHERE ${column} = ?`);
  const apiByNumber = from("apis", "n");
  const apiById = from("apis", "id");
  const workspaceById = from("workspaces", "id");
  const roleById = from("roles", "id");
  const permissionById = from("permissions", "id");

  const apis = remembering((n: number) => {
    const raw = apiByNumber.get(n);
    return raw && deepFreeze(decodeSmall("apis", raw));
  });
  const apiNumbers = remembering((id: string) => {
    const raw = apiById.get(id);
    return raw && Number(raw.n);
  });
  const workspaces = remembering((id: string) => {
    const raw = workspaceById.get(id);
    return raw === undefined || decodeSmall("workspaces", raw).enabled;
  });
  const roles = remembering((id: string) => {
    const raw = roleById.get(id);
    return raw && deepFreeze(decodeSmall("roles", raw));
  });
  const permissions = remembering((id: string) => permissionById.get(id)?.name ?? undefined);
  const shared = new Map<string, Grants>();
  const grants = (text: string): Grants => {
    const known = shared.get(text);
    if (known !== undefined) return known;
    let isWhole = true;
    const noting =
      <T>(read: (id: string) => T | undefined) =>
      (id: string) => {
        const found = read(id);
        if (found === undefined) isWhole = false;
        return found;
      };
    const names = deepFreeze(flatten(decodeGrants(text), { role: noting(roles.get), permission: noting(permissions.get) }));
    if (isWhole) keep(shared, text, names);
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

function remembering<K, V>(read: (key: K) => V | undefined): { get(key: K): V | undefined; clear(): void } {
  const known = new Map<K, V>();
  return {
    get(key) {
      const kept = known.get(key);
      if (kept !== undefined) return kept;
      const value = read(key);
      if (value === undefined) return undefined;
      keep(known, key, value);
      return value;
    },
    clear: () => known.clear(),
  };
}

function keep<K, V>(known: Map<K, V>, key: K, value: V): void {
  if (known.size >= MOST) known.clear();
  known.set(key, value);
}
