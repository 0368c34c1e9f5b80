/** Resolves names in a request to ids of rows: roles must exist, permissions and identities are created. */
import type { Write } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { newId } from "../../lib/hash.js";
import { type Context, updateWithRetry } from "../context.js";
import { MAX_BATCH, notFound, ownedRow } from "../rows.js";

/** Ids by name. */
export type Ids = ReadonlyMap<string, string>;

const NONE: Ids = new Map();

/** Ids of the roles that exist among these. */
export async function readRoles(context: Context, names: Iterable<string>): Promise<Ids> {
  const asked = [...new Set(names)];
  if (asked.length === 0) return NONE;
  const rows = await context.store.readNames("roles", context.workspaceId, asked);
  return new Map(rows.map((row) => [row.name, row.id]));
}

/** Ids of the permissions that exist among these. */
export async function readPermissions(context: Context, slugs: Iterable<string>): Promise<Ids> {
  return lookUp([...new Set(slugs)], {
    read: (names) => context.store.readNames("permissions", context.workspaceId, names),
    nameOf: (row) => row.slug,
    turn: context.turns.next,
  });
}

/** Ids of these roles. @throws KeystileError NOT_FOUND when one does not exist */
export async function requireRoles(context: Context, names: readonly string[]): Promise<readonly string[]> {
  const ids = await readRoles(context, names);
  const missing = names.findIndex((name) => !ids.has(name));
  if (missing >= 0) throw notFound(`The role at body.roles[${missing}]`);
  return idsOf(names, ids);
}

/** Ids of these permissions by slug; those that do not exist are made, named by their slug. */
export function ensurePermissions(context: Context, slugs: Iterable<string>, now: number): Promise<Ids> {
  return ensure(context, slugs, {
    read: (names) => context.store.readNames("permissions", context.workspaceId, names),
    nameOf: (row) => row.slug,
    turn: context.turns.next,
    make: (slug) => ({ table: "permissions", row: { ...ownedRow(context, newId("perm", now)), name: slug, slug } }),
  });
}

/** Ids of these identities by externalId; those that do not exist are created. */
export function ensureIdentities(context: Context, externalIds: Iterable<string>, now: number): Promise<Ids> {
  return ensure(context, externalIds, {
    read: (names) => context.store.readNames("identities", context.workspaceId, names),
    nameOf: (row) => row.externalId,
    turn: context.turns.next,
    make: (externalId) => ({
      table: "identities",
      row: { ...ownedRow(context, newId("id", now)), externalId, ratelimits: [] },
    }),
  });
}

/** Ids in the order of the names, each once; every name must be among them. */
export function idsOf(names: readonly string[], ids: Ids): readonly string[] {
  const found: string[] = [];
  for (const name of names) found.push(ids.get(name) as string);
  return names.length < 2 ? found : [...new Set(found)];
}

/** How names of one kind become rows. */
interface Kind<Row> {
  readonly read: (names: readonly string[]) => MaybePromise<readonly Row[]>;
  readonly nameOf: (row: Row) => string;
  readonly turn: () => Promise<void>;
  readonly make: (name: string) => NewRow;
}
type NewRow = Extract<Write, { readonly row: unknown }>;

/**
 * Reads first: names are seldom new. If two calls create the same name at once, it is taken for the second, whose next
 * attempt finds the row.
 */
async function ensure<Row extends { readonly id: string }>(
  context: Context,
  names: Iterable<string>,
  kind: Kind<Row>,
): Promise<Ids> {
  const asked = [...new Set(names)];
  if (asked.length === 0) return NONE;
  const found = await lookUp(asked, kind);
  if (found.size === asked.length) return found;
  return updateWithRetry(context, "names", async () => {
    const ids = await lookUp(asked, kind);
    const missing = asked.filter((name) => !ids.has(name));
    for (let start = 0; start < missing.length; start += MAX_BATCH) {
      if (start > 0) await kind.turn();
      const batch = missing.slice(start, start + MAX_BATCH);
      const writes = batch.map(kind.make);
      if ((await context.store.write(writes)) !== "written") return undefined;
      writes.forEach(({ row }, i) => ids.set(batch[i] as string, row.id));
    }
    return ids;
  });
}

/** A thousand names at a time; others get their turn in between. */
async function lookUp<Row extends { readonly id: string }>(
  names: readonly string[],
  kind: Pick<Kind<Row>, "read" | "nameOf" | "turn">,
): Promise<Map<string, string>> {
  const ids = new Map<string, string>();
  for (let start = 0; start < names.length; start += MAX_BATCH) {
    if (start > 0) await kind.turn();
    for (const row of await kind.read(names.slice(start, start + MAX_BATCH))) ids.set(kind.nameOf(row), row.id);
  }
  return ids;
}
