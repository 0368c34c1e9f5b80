/** Rows of this keyring's workspace by id or name, or a 404 that reveals nothing of other workspaces. Contract 7. */
import { KeystileError } from "../contracts/errors.js";
import type { ApiRow, KeyRow, NamedTable, OwnedRow, Rows, Table, Write } from "../contracts/store.js";
import { NAME_OF } from "../lib/row-name.js";
import { type Context, type Reading, updateWithRetry } from "./context.js";
import type { EmptyResponse } from "./schemas/responses.js";
import { writeRows } from "./write.js";

/** The same 404 for rows that never existed, were deleted or belong to another workspace. */
export function notFound(what: string): KeystileError {
  return new KeystileError("NOT_FOUND", `${what} was not found`);
}

/** A 403 that names the permissions of which one is required, and nothing from the request. */
export function forbidden(permissions: readonly string[]): KeystileError {
  const named = permissions.join(", ");
  return new KeystileError("CALLER_FORBIDDEN", `the credential lacks a permission for this; it takes one of: ${named}`);
}

/** @throws KeystileError NOT_FOUND */
export async function requireApi(context: Context, apiId: string): Promise<ApiRow> {
  const api = await readOwned(context, "apis", apiId);
  if (api === undefined || api.deleted) throw notFound("The API");
  return api;
}

/** A key that exists; keys of deleted APIs count as deleted. @throws KeystileError NOT_FOUND */
export async function requireKey(context: Context, keyId: string): Promise<KeyRow> {
  const key = await requireKeyIncludingDeleted(context, keyId);
  if (key.deleted) throw notFound("The key");
  return key;
}

/** As {@link requireKey}, deleted ones included. */
export async function requireKeyIncludingDeleted(context: Context, keyId: string): Promise<KeyRow> {
  const { key, api } = await requireKeyOfAnyApi(context, keyId);
  if (api.deleted) throw notFound("The key");
  return key;
}

/** A key and its API, each deleted or not. @throws KeystileError NOT_FOUND */
export async function requireKeyOfAnyApi(context: Context, keyId: string) {
  const key = await readOwned(context, "keys", keyId);
  const [api] = key === undefined ? [] : await context.store.readMany("apis", [key.apiId]);
  if (key === undefined || api === undefined) throw notFound("The key");
  return { key, api };
}

const NOUNS: Readonly<Record<NamedTable, string>> = {
  identities: "The identity",
  roles: "The role",
  permissions: "The permission",
  migrations: "The migration",
  rootKeys: "The root key",
  namespaces: "The namespace",
  overrides: "The override",
  grants: "The grant",
};

/** The row with this id, else the one with this name. @throws KeystileError NOT_FOUND */
export async function requireNamed<T extends NamedTable>(
  context: Context,
  table: T,
  idOrName: string,
): Promise<Rows[T]> {
  const [row] = await findNamed(context, table, [idOrName]);
  if (row === undefined) throw notFound(NOUNS[table]);
  return row;
}

/** Removes the row that {@link requireNamed} finds. @throws KeystileError NOT_FOUND */
export function removeNamed(context: Context, table: NamedTable, idOrName: string): Promise<EmptyResponse> {
  return updateWithRetry(context, idOrName, async () => {
    const { id, version } = await requireNamed(context, table, idOrName);
    return (await writeRows(context, [{ table, remove: id, version } as Write])) ? {} : undefined;
  });
}

/**
 * For each text the row with this id, else the one with this name; `undefined`: neither exists.
 * @param texts at most a thousand
 */
export async function findNamed<T extends NamedTable>(
  { store, workspaceId }: Pick<Context, "store" | "workspaceId">,
  table: T,
  texts: readonly string[],
): Promise<readonly (Rows[T] | undefined)[]> {
  const byId = (await store.readMany(table, texts)).map((row) => (row?.workspaceId === workspaceId ? row : undefined));
  if (!byId.includes(undefined)) return byId;
  const byName = new Map<string, Rows[T]>();
  for (const row of await store.readNames(table, workspaceId, texts)) byName.set(NAME_OF[table](row), row);
  return byId.map((row, i) => row ?? byName.get(texts[i] as string));
}

/** Rows per call of the store (clause 20), after which a response yields: as many reads from SQLite take 4 ms. */
export const MAX_BATCH = 1_000;

/**
 * The rows with these ids by id, those that exist: one call of the store for each thousand, and none for no ids.
 * @param found rows that are known already, which the others join
 */
export async function readRows<T extends Table>(
  context: Reading,
  table: T,
  ids: Iterable<string>,
  found = new Map<string, Rows[T]>(),
): Promise<ReadonlyMap<string, Rows[T]>> {
  const asked = [...new Set(ids)].filter((id) => !found.has(id));
  for (let start = 0; start < asked.length; start += MAX_BATCH) {
    if (start > 0) await context.turns.next();
    const rows = await context.store.readMany(table, asked.slice(start, start + MAX_BATCH));
    for (const row of rows) if (row !== undefined) found.set(row.id, row);
  }
  return found;
}

/** The APIs of keys, by id. @param found those that are known already, which the others join */
export function readApisOf(context: Reading, keys: readonly KeyRow[], found?: Map<string, ApiRow>) {
  const ids = keys.map(({ apiId }) => apiId);
  return readRows(context, "apis", ids, found);
}

/** A new row of this workspace. */
export function ownedRow(context: Context, id: string) {
  return { id, version: 0, workspaceId: context.workspaceId };
}

/** Sets a field, or removes it with `null`; `undefined` keeps it. */
export function setField<T extends object, K extends keyof T>(row: T, field: K, value: T[K] | null | undefined): void {
  if (value === null) Reflect.deleteProperty(row, field);
  else if (value !== undefined) row[field] = value;
}

/** The row with this id, if it is of this workspace. */
async function readOwned<T extends Exclude<Table, "workspaces">>(
  { store, workspaceId }: Context,
  table: T,
  id: string,
): Promise<Rows[T] | undefined> {
  const [row] = await store.readMany(table, [id]);
  return (row as OwnedRow | undefined)?.workspaceId === workspaceId ? row : undefined;
}
