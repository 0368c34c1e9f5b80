/**
 * Cache of the APIs, workspaces, roles and permissions that keys refer to, cleared by the change "all".
 *
 * Why not copied into each key's row: a change of a role or an API would rewrite a million keys. Of missing
 * rows only workspaces are cached, as enabled: listeners are notified of a new one of these, and of no other new row.
 */
import type { ApiRow } from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import { deepFreeze } from "../../../lib/deep-freeze.js";
import { createSlices, inSteps, type Steps } from "../../../lib/slices.js";
import { createBoundedMap, sizeOfTexts } from "../../codec/bounded-map.js";
import { decodeEntity, type EntityRaw } from "../../codec/entity-codec.js";
import { decodeGrants } from "../../codec/key-codec.js";
import { grantedNames, type NamedPart, type NamedRole, partsOf, READ_COST } from "../../granted-names.js";
import { type GrantedNames, sortUnique } from "../../key-record.js";
import { type Handle, select } from "../connection/handle.js";

/** Estimated bytes of a row besides its lists, on the high side. */
const ROW = 256;
const NOTHING: GrantedNames = deepFreeze({ permissions: [], roles: [] });

export function createReferenceCache(handle: Handle) {
  const from = (table: string, column: string) =>
    select<EntityRaw>(
      handle,
      `SELECT number AS n, id, workspace_id, name, version, body FROM keystile_${table} WHERE ${column} = ?`,
    );
  const apiByNumber = from("apis", "n");
  const apiById = from("apis", "id");
  const workspaceById = from("workspaces", "id");
  const roleById = from("roles", "id");

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
  const namesByIds = select<Pick<EntityRaw, "name">>(
    handle,
    "SELECT p.name FROM json_each(?) j CROSS JOIN keystile_permissions p ON p.id = j.value",
  );
  /** In one statement, and names alone: one for each took four times as long, and all columns two and a half times. */
  const readPart = (ids: readonly string[]): NamedPart => {
    const names = namesByIds.all(JSON.stringify(ids)).map(({ name }) => name as string);
    return { isWhole: names.length === ids.length, permissions: sortUnique(names) };
  };
  const roles = memoized((id: string): NamedRole | undefined => {
    const raw = roleById.get(id);
    const role = raw && decodeEntity("roles", raw);
    return role && { name: role.name, ...readPart(role.permissions) };
  }, sizeOfRole);
  const shared = createBoundedMap<string, GrantedNames>();
  const slices = createSlices();
  /** What is being read, unless something changed since. */
  const reading = new Map<string, Promise<GrantedNames>>();
  const read = function* (text: string, mayKeep: () => boolean): Steps<GrantedNames> {
    const pause = slices();
    const ids = decodeGrants(text);
    const own: NamedPart[] = [];
    for (const part of partsOf(ids.permissions)) {
      own.push(readPart(part));
      yield pause(READ_COST * part.length);
    }
    const found: NamedRole[] = [];
    for (const id of ids.roles) {
      const role = roles.get(id);
      if (role !== undefined) found.push(role);
      yield pause(READ_COST * (role?.permissions.length ?? 1));
    }
    const names = yield* grantedNames(own, found, pause);
    const isWhole = found.length === ids.roles.length && [...own, ...found].every((part) => part.isWhole);
    if (isWhole && mayKeep())
      shared.set(text, names, text.length + sizeOfTexts(names.permissions) + sizeOfTexts(names.roles));
    yield pause(READ_COST * names.permissions.length);
    return names;
  };
  const grants = (text: string): MaybePromise<GrantedNames> => {
    if (text === "") return NOTHING;
    const known = shared.get(text) ?? reading.get(text);
    if (known !== undefined) return known;
    let waiting: Promise<GrantedNames> | undefined = undefined;
    const isLatest = (): boolean => reading.get(text) === waiting;
    const names = inSteps(read(text, isLatest));
    if (!(names instanceof Promise)) return names;
    waiting = names.finally(() => isLatest() && reading.delete(text));
    reading.set(text, waiting);
    return waiting;
  };
  return {
    api: apis.get,
    /** The row number of an API. */
    apiNumber: apiNumbers.get,
    /** A workspace without a row is enabled. */
    workspaceEnabled: (id: string): boolean => workspaces.get(id) === true,
    /**
     * Names of a key's grants, from the encoded text in its row; one object for all keys with the same text. Many are
     * read in slices: what changes meanwhile may be in the answer, which is then not kept.
     */
    grants,
    /** Drops everything. */
    clear(): void {
      reading.clear();
      for (const known of [apis, apiNumbers, workspaces, roles, shared]) known.clear();
    },
  };
}

export type ReferenceCache = ReturnType<typeof createReferenceCache>;

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
const sizeOfRole = ({ permissions }: NamedRole): number => ROW + sizeOfTexts(permissions);
