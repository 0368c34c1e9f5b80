/**
 * Resolves names in a request to ids of rows: roles must exist, permissions and identities are created. A role or
 * permission may be given by its id too, which takes precedence over a name; an id is never made into a name. An
 * externalId is always a name.
 */
import { badRequest } from "../../contracts/errors.js";
import type { OwnedRow, Write } from "../../contracts/store.js";
import type { JsonObject, RatelimitRequest } from "../../contracts/types.js";
import { hasIdForm } from "../../lib/hash.js";
import { NAME_OF } from "../../lib/row-name.js";
import { type Context, updateWithRetry } from "../context.js";
import { toLimitRows } from "../keys/new-key.js";
import { MAX_BATCH, notFound, ownedRow } from "../rows.js";
import { write } from "../write.js";

/** What identities are made with, by externalId. */
export type NewIdentities = ReadonlyMap<
  string,
  { readonly meta?: JsonObject; readonly ratelimits?: readonly RatelimitRequest[] } | undefined
>;

/** Ids by the text that was given: a name or an id. */
export type Ids = ReadonlyMap<string, string>;

const NONE: Ids = new Map();

/** How texts of one kind name rows. */
export interface Kind {
  readonly table: "roles" | "permissions" | "identities";
  /** Of its ids. */
  readonly prefix: string;
  /** Whether its ids name a row too. */
  readonly isNamedById: boolean;
}
type NewRow = Extract<Write, { readonly row: unknown }>;
/** Of a kind whose rows are created by their names. */
interface Creatable extends Kind {
  readonly toRow: (base: ReturnType<typeof ownedRow>, name: string) => NewRow;
}

/** Roles by name or id. */
export const ROLES: Kind = { table: "roles", prefix: "role", isNamedById: true };
/** Permissions by slug or id. */
export const PERMISSIONS: Creatable = {
  table: "permissions",
  prefix: "perm",
  isNamedById: true,
  toRow: (base, slug) => ({ table: "permissions", row: { ...base, name: slug, slug } }),
};
/** Identities by externalId. */
export const IDENTITIES: Creatable = {
  table: "identities",
  prefix: "id",
  isNamedById: false,
  toRow: (base, externalId) => ({ table: "identities", row: { ...base, externalId, ratelimits: [] } }),
};

/** What the look-ups use. */
interface NamesContext extends Pick<Context, "store" | "workspaceId"> {
  readonly turns: Pick<Context["turns"], "next">;
}

/** Ids of those that exist: a thousand at a time; others get their turn in between. */
export async function readIds(context: NamesContext, kind: Kind, given: Iterable<string>): Promise<Ids> {
  const { table, prefix, isNamedById } = kind;
  const texts = [...new Set(given)];
  if (texts.length === 0) return NONE;
  const { store, workspaceId, turns } = context;
  const ids = new Map<string, string>();
  for (let start = 0; start < texts.length; start += MAX_BATCH) {
    if (start > 0) await turns.next();
    const batch = texts.slice(start, start + MAX_BATCH);
    const nameOf = NAME_OF[table] as (row: OwnedRow) => string;
    for (const row of await store.readNames(table, workspaceId, batch)) ids.set(nameOf(row), row.id);
    const asIds = isNamedById ? batch.filter((text) => hasIdForm(prefix, text)) : [];
    if (asIds.length === 0) continue;
    for (const row of await store.readMany(table, asIds)) if (row?.workspaceId === workspaceId) ids.set(row.id, row.id);
  }
  return ids;
}

/** Ids of roles or permissions, in order. @throws KeystileError NOT_FOUND when one does not exist */
export async function requireIds(context: Context, kind: Kind, texts: readonly string[]): Promise<readonly string[]> {
  const ids = await readIds(context, kind, texts);
  assertEach(texts, kind, (text) => ids.has(text));
  return idsOf(texts, ids);
}

/** @throws KeystileError NOT_FOUND at `body.<table>[i]` */
function assertEach(texts: readonly string[], { table }: Kind, isRight: (text: string) => boolean): void {
  const wrong = texts.findIndex((text) => !isRight(text));
  if (wrong >= 0) throw notFound(`The ${table.slice(0, -1)} at body.${table}[${wrong}]`);
}

/** Whether a permission by this name could be made: what looks like an id is never a new slug. */
export function mayBecomeSlug(text: string): boolean {
  return !hasIdForm(PERMISSIONS.prefix, text);
}

/**
 * Ids of these permissions; those that do not exist are made, named by their slug.
 * @throws KeystileError NOT_FOUND at `body.permissions[i]`: an id that no permission has
 */
export async function ensurePermissions(context: Context, texts: readonly string[]): Promise<Ids> {
  return ensure(context, texts, await findPermissions(context, texts), PERMISSIONS);
}

/**
 * Ids of these identities by externalId; those that do not exist are created.
 * @throws KeystileError BAD_REQUEST at `body.externalId`: no identity has this one, and it is the id of one
 */
export async function ensureIdentities(context: Context, given: NewIdentities): Promise<Ids> {
  const externalIds = [...given.keys()];
  const toRow: Creatable["toRow"] = (base, externalId) => {
    const { meta, ratelimits = [] } = given.get(externalId) ?? {};
    const limits = toLimitRows(context, ratelimits);
    return { table: "identities", row: { ...base, externalId, ...(meta && { meta }), ratelimits: limits } };
  };
  return ensure(context, externalIds, await findIdentities(context, externalIds), { ...IDENTITIES, toRow });
}

/**
 * {@link ensurePermissions} and {@link ensureIdentities} in one: nothing is created unless all can be.
 * @throws KeystileError as these
 */
export async function ensureNames(
  context: Context,
  permissions: readonly string[],
  externalIds: readonly string[],
): Promise<{ readonly permissionIds: Ids; readonly identityIds: Ids }> {
  const knownPermissions = await findPermissions(context, permissions);
  const knownIdentities = await findIdentities(context, externalIds);
  return {
    permissionIds: await ensure(context, permissions, knownPermissions, PERMISSIONS),
    identityIds: await ensure(context, externalIds, knownIdentities, IDENTITIES),
  };
}

/** Those that exist. @throws KeystileError NOT_FOUND: one of the others cannot be made */
async function findPermissions(context: Context, texts: readonly string[]): Promise<Ids> {
  const known = await readIds(context, PERMISSIONS, texts);
  assertEach(texts, PERMISSIONS, (text) => known.has(text) || mayBecomeSlug(text));
  return known;
}

/** Those that exist. @throws KeystileError BAD_REQUEST: one of the others cannot be made */
async function findIdentities(context: Context, externalIds: readonly string[]): Promise<Ids> {
  const known = await readIds(context, IDENTITIES, externalIds);
  const unknown = externalIds.filter((externalId) => !known.has(externalId));
  if ((await readReservedIds(context, unknown)).size > 0) {
    const message = "is the id of an identity";
    throw badRequest([{ location: "body.externalId", message, fix: "give the externalId of that identity" }]);
  }
  return known;
}

/**
 * Those of the texts that no identity has as its externalId and none may get: whoever gave it where an id serves too
 * would mean the other identity, whose id it is.
 */
export async function readReservedIds(
  context: NamesContext,
  externalIds: Iterable<string>,
): Promise<ReadonlySet<string>> {
  const texts = [...externalIds].filter((text) => hasIdForm(IDENTITIES.prefix, text));
  const names = await readIds(context, IDENTITIES, texts);
  const free = texts.filter((text) => !names.has(text));
  const ids = await readIds(context, { ...IDENTITIES, isNamedById: true }, free);
  return new Set(free.filter((text) => ids.has(text)));
}

/** Ids in the order of the names, each once; every name must be among them. */
export function idsOf(names: readonly string[], ids: Ids): readonly string[] {
  return [...new Set(names.map((name) => ids.get(name) as string))];
}

/**
 * Makes what is not known. If two calls create the same name at once, it is taken for the second, whose next attempt
 * finds the row.
 */
async function ensure(context: Context, names: readonly string[], known: Ids, kind: Creatable): Promise<Ids> {
  const unknown = [...new Set(names)].filter((name) => !known.has(name));
  if (unknown.length === 0) return known;
  return updateWithRetry(context, "names", async () => {
    const ids = new Map([...known, ...(await readIds(context, kind, unknown))]);
    const missing = unknown.filter((name) => !ids.has(name));
    for (let start = 0; start < missing.length; start += MAX_BATCH) {
      if (start > 0) await context.turns.next();
      const batch = missing.slice(start, start + MAX_BATCH);
      const writes = batch.map((name) => kind.toRow(ownedRow(context, context.newId(kind.prefix, context.now)), name));
      if ((await write(context, writes)) !== "written") return undefined;
      writes.forEach(({ row }, i) => ids.set(batch[i] as string, row.id));
    }
    return ids;
  });
}
