/** Maps names in an import to ids, and caches them from batch to batch. Store clauses 8, 9, 15. */
import type { Context } from "../context.js";
import {
  ensureIdentities,
  ensurePermissions,
  type Ids,
  idsOf,
  type NewIdentities,
  PERMISSIONS,
  readIds,
  ROLES,
} from "../rbac/resolve-names.js";

/** Most names of one kind, or lists of them, in the cache: beyond that it is cleared, so that memory stays bounded. */
const MAX_NAMES = 10_000;
const NONE: readonly never[] = Object.freeze([]);

/**
 * Why: most imports name the same over and over, and looking names up for each batch took 2.8 of the 27 µs that a key
 * took. Any change that the store notifies, except new keys, clears the cache, and the store is polled at each batch.
 * So a name that was removed before a batch began, here or by another process, is not used.
 */
export function createImportNames(context: Context) {
  let known = createKnown(context);
  const forget = (): void => void (known = createKnown(context));
  const unsubscribe = context.store.subscribe((change) => {
    if (change !== "created") forget();
  });
  return {
    /** The names that are still valid. Call it at the beginning of each batch. */
    async current(): Promise<KnownNames> {
      // NaN is not a clock time: the store polls now, whatever staleness is allowed.
      await context.store.pollChanges("anew");
      if (known.isFull()) forget();
      return known;
    },
    /** Unsubscribes from the store. */
    close: unsubscribe,
  };
}

/** The name cache of an import. */
export type ImportNames = ReturnType<typeof createImportNames>;

/** Ids by name, as far as they were looked up. A batch uses the ones that it began with. */
export type KnownNames = ReturnType<typeof createKnown>;

function createKnown(context: Context) {
  const [roles, permissions, identities]: [Ids, Ids, Ids] = [new Map(), new Map(), new Map()];
  const [roleLists, permissionLists] = [createLists(roles), createLists(permissions)];
  const atNow = (): Context => ({ ...context, now: context.clock() });
  const keep = (ids: Ids, found: Ids): void => found.forEach((id, name) => (ids as Map<string, string>).set(name, id));
  return {
    ...{ roles, permissions, identities },
    /** Finds these roles, those that exist. */
    findRoles: async (names: Iterable<string>) => keep(roles, await readIds(context, ROLES, names)),
    /** Finds these permissions, those that exist. */
    findPermissions: async (texts: Iterable<string>) => keep(permissions, await readIds(context, PERMISSIONS, texts)),
    /** Finds these permissions; those that do not exist are created. */
    ensurePermissions: async (slugs: Iterable<string>) =>
      keep(permissions, await ensurePermissions(atNow(), [...slugs])),
    /** Finds these identities; those that do not exist are created. */
    ensureIdentities: async (given: NewIdentities) => keep(identities, await ensureIdentities(atNow(), given)),
    /** Ids of known roles: one frozen list, shared by all keys with the same names. */
    roleIds: roleLists.of,
    /** The same of permissions. */
    permissionIds: permissionLists.of,
    isFull: () => [roles, permissions, identities, roleLists, permissionLists].some(({ size }) => size > MAX_NAMES),
  };
}

/** Lists of ids by lists of names. */
function createLists(ids: Ids): { of(names: readonly string[] | undefined): readonly string[]; readonly size: number } {
  const lists = new Map<string, readonly string[]>();
  return {
    get size() {
      return lists.size;
    },
    of(names = NONE) {
      if (names.length === 0) return NONE;
      // The schema rejects names that contain U+0000.
      const text = names.join("\0");
      const known = lists.get(text);
      if (known !== undefined) return known;
      const list = Object.freeze(idsOf(names, ids));
      lists.set(text, list);
      return list;
    },
  };
}
