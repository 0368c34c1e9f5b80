/**
 * Resolves names in a request to ids of rows: roles must exist, permissions and identities are created. A role or
 * permission may be given by its id too, which takes precedence over a name; an id is never made into a name. An
 * externalId is always a name.
 */
import { badRequest } from "../../contracts/errors.js";
import type { OwnedRow, Write } from "../../contracts/store.js";
import { hasIdForm } from "../../lib/hash.js";
import { NAME_OF } from "../../lib/row-name.js";
import { type Context, updateWithRetry } from "../context.js";
import { MAX_BATCH, notFound, ownedRow } from "../rows.js";

/** Ids by the text that was given: a name or an id. */
export type Ids = ReadonlyMap<string, string>;

const NONE: Ids = new Map();
/** Prefixes of ids. */
export const PERMISSION = "perm";
export const ROLE = "role";
export const IDENTITY = "id";

/** What the look-ups use. */
interface NamesContext extends Pick<Context, "store" | "workspaceId"> {
  readonly turns: Pick<Context["turns"], "next">;
}

/** Ids of the identities that exist among these externalIds. */
export function readIdentities(context: NamesContext, externalIds: Iterable<string>): Promise<Ids> {
  return lookUp(context, [...new Set(externalIds)], IDENTITIES);
}

/** Ids of the roles that exist among these. */
export function readRoles(context: NamesContext, texts: Iterable<string>): Promise<Ids> {
  return lookUp(context, [...new Set(texts)], ROLES);
}

/** Ids of the permissions that exist among these. */
export function readPermissions(context: NamesContext, texts: Iterable<string>): Promise<Ids> {
  return lookUp(context, [...new Set(texts)], PERMISSIONS);
}

/** Ids of these roles. @throws KeystileError NOT_FOUND when one does not exist */
export async function requireRoles(context: Context, texts: readonly string[]): Promise<readonly string[]> {
  return requireAll(texts, await readRoles(context, texts), "role");
}

/** Ids of these permissions. @throws KeystileError NOT_FOUND when one does not exist */
export async function requirePermissions(context: Context, texts: readonly string[]): Promise<readonly string[]> {
  return requireAll(texts, await readPermissions(context, texts), "permission");
}

function requireAll(texts: readonly string[], ids: Ids, what: "role" | "permission"): readonly string[] {
  const missing = texts.findIndex((text) => !ids.has(text));
  if (missing >= 0) throw notFound(`The ${what} at body.${what}s[${missing}]`);
  return idsOf(texts, ids);
}

/** Whether a permission by this name could be made: what looks like an id is never a new slug. */
export function mayBecomeSlug(text: string): boolean {
  return !hasIdForm(PERMISSION, text);
}

/**
 * Ids of these permissions; those that do not exist are made, named by their slug.
 * @throws KeystileError NOT_FOUND at `body.permissions[i]`: an id that no permission has
 */
export async function ensurePermissions(context: Context, texts: readonly string[], now: number): Promise<Ids> {
  return makePermissions(context, texts, await findPermissions(context, texts), now);
}

/**
 * Ids of these identities by externalId; those that do not exist are created.
 * @throws KeystileError BAD_REQUEST at `body.externalId`: no identity has this one, and it is the id of one
 */
export async function ensureIdentities(context: Context, externalIds: readonly string[], now: number): Promise<Ids> {
  return makeIdentities(context, externalIds, await findIdentities(context, externalIds), now);
}

/**
 * {@link ensurePermissions} and {@link ensureIdentities} in one: nothing is created unless all can be.
 * @throws KeystileError as these
 */
export async function ensureNames(
  context: Context,
  permissions: readonly string[],
  externalIds: readonly string[],
  now: number,
): Promise<{ readonly permissionIds: Ids; readonly identityIds: Ids }> {
  const knownPermissions = await findPermissions(context, permissions);
  const knownIdentities = await findIdentities(context, externalIds);
  return {
    permissionIds: await makePermissions(context, permissions, knownPermissions, now),
    identityIds: await makeIdentities(context, externalIds, knownIdentities, now),
  };
}

/** Those that exist. @throws KeystileError NOT_FOUND: one of the others cannot be made */
async function findPermissions(context: Context, texts: readonly string[]): Promise<Ids> {
  const known = await readPermissions(context, texts);
  const missing = texts.findIndex((text) => !known.has(text) && !mayBecomeSlug(text));
  if (missing >= 0) throw notFound(`The permission at body.permissions[${missing}]`);
  return known;
}

function makePermissions(context: Context, texts: readonly string[], known: Ids, now: number): Promise<Ids> {
  return ensure(context, texts, known, PERMISSIONS, (slug) => ({
    table: "permissions",
    row: { ...ownedRow(context, context.newId(PERMISSION, now)), name: slug, slug },
  }));
}

/** Those that exist. @throws KeystileError BAD_REQUEST: one of the others cannot be made */
async function findIdentities(context: Context, externalIds: readonly string[]): Promise<Ids> {
  const known = await readIdentities(context, externalIds);
  const unknown = externalIds.filter((externalId) => !known.has(externalId));
  if ((await readReservedIds(context, unknown)).size > 0) {
    const message = "is the id of an identity";
    throw badRequest([{ location: "body.externalId", message, fix: "give the externalId of that identity" }]);
  }
  return known;
}

function makeIdentities(context: Context, externalIds: readonly string[], known: Ids, now: number): Promise<Ids> {
  return ensure(context, externalIds, known, IDENTITIES, (externalId) => ({
    table: "identities",
    row: { ...ownedRow(context, context.newId(IDENTITY, now)), externalId, ratelimits: [] },
  }));
}

/**
 * Those of the texts that no identity has as its externalId and none may get: whoever gave it where an id serves too
 * would mean the other identity, whose id it is.
 */
export async function readReservedIds(
  context: NamesContext,
  externalIds: Iterable<string>,
): Promise<ReadonlySet<string>> {
  const texts = [...externalIds].filter((text) => hasIdForm(IDENTITY, text));
  const names = await lookUp(context, texts, IDENTITIES);
  const free = texts.filter((text) => !names.has(text));
  const ids = await lookUp(context, free, IDENTITIES_BY_ID);
  return new Set(free.filter((text) => ids.has(text)));
}

/** Ids in the order of the names, each once; every name must be among them. */
export function idsOf(names: readonly string[], ids: Ids): readonly string[] {
  const found: string[] = [];
  for (const name of names) found.push(ids.get(name) as string);
  return names.length < 2 ? found : [...new Set(found)];
}

type Resolved = "roles" | "permissions" | "identities";

/** How texts of one kind name rows. */
interface Kind<T extends Resolved> {
  readonly table: T;
  /** Of ids, where these serve too. */
  readonly idPrefix?: string;
}
const ROLES: Kind<"roles"> = { table: "roles", idPrefix: ROLE };
const PERMISSIONS: Kind<"permissions"> = { table: "permissions", idPrefix: PERMISSION };
const IDENTITIES: Kind<"identities"> = { table: "identities" };
const IDENTITIES_BY_ID: Kind<"identities"> = { table: "identities", idPrefix: IDENTITY };
type NewRow = Extract<Write, { readonly row: unknown }>;

/**
 * Makes what is not known. If two calls create the same name at once, it is taken for the second, whose next attempt
 * finds the row.
 */
async function ensure<T extends Resolved>(
  context: Context,
  names: readonly string[],
  known: Ids,
  kind: Kind<T>,
  make: (name: string) => NewRow,
): Promise<Ids> {
  const unknown = [...new Set(names)].filter((name) => !known.has(name));
  if (unknown.length === 0) return known;
  return updateWithRetry(context, "names", async () => {
    const ids = new Map([...known, ...(await lookUp(context, unknown, kind))]);
    const missing = unknown.filter((name) => !ids.has(name));
    for (let start = 0; start < missing.length; start += MAX_BATCH) {
      if (start > 0) await context.turns.next();
      const batch = missing.slice(start, start + MAX_BATCH);
      const writes = batch.map(make);
      if ((await context.store.write(writes)) !== "written") return undefined;
      writes.forEach(({ row }, i) => ids.set(batch[i] as string, row.id));
    }
    return ids;
  });
}

/** A thousand at a time; others get their turn in between. */
async function lookUp<T extends Resolved>(
  { store, workspaceId, turns }: NamesContext,
  texts: readonly string[],
  { table, idPrefix }: Kind<T>,
): Promise<Ids> {
  if (texts.length === 0) return NONE;
  const ids = new Map<string, string>();
  for (let start = 0; start < texts.length; start += MAX_BATCH) {
    if (start > 0) await turns.next();
    const batch = texts.slice(start, start + MAX_BATCH);
    for (const row of await store.readNames(table, workspaceId, batch)) ids.set(NAME_OF[table](row), row.id);
    const asIds = idPrefix === undefined ? [] : batch.filter((text) => hasIdForm(idPrefix, text));
    if (asIds.length === 0) continue;
    for (const row of await store.readMany(table, asIds))
      if ((row as OwnedRow | undefined)?.workspaceId === workspaceId) ids.set(row!.id, row!.id);
  }
  return ids;
}
