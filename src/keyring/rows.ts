/** Rows of this keyring's workspace by id or name, or a 404 that reveals nothing of other workspaces. Spec §7. */
import { KeystileError } from "../contracts/errors.js";
import type { ApiRow, KeyRow, NamedTable, OwnedRow, Rows, Table } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { type Context, pause } from "./context.js";

/** A type whose fields may be set while a new row is built. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The same 404 for rows that never existed, were deleted or belong to another workspace. */
export function notFound(what: string): KeystileError {
  return new KeystileError("NOT_FOUND", `${what} was not found`);
}

/** @throws KeystileError NOT_FOUND */
export async function requireApi(context: Context, apiId: string): Promise<ApiRow> {
  const api = ifInWorkspace(context, await context.store.read("apis", apiId));
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
  const key = ifInWorkspace(context, await context.store.read("keys", keyId));
  const api = key && (await context.store.read("apis", key.apiId));
  if (key === undefined || api === undefined || api.deleted) throw notFound("The key");
  return key;
}

const NOUNS: Readonly<Record<NamedTable, string>> = {
  identities: "The identity",
  roles: "The role",
  permissions: "The permission",
  migrations: "The migration",
  rootKeys: "The root key",
  namespaces: "The namespace",
  overrides: "The override",
};

/** The row with this id, else the one with this name. @throws KeystileError NOT_FOUND */
export async function requireNamed<T extends NamedTable>(
  context: Context,
  table: T,
  idOrName: string,
): Promise<Rows[T]> {
  const byId = ifInWorkspace(context, await context.store.read(table, idOrName));
  if (byId !== undefined) return byId;
  const [byName] = await context.store.readNames(table, context.workspaceId, [idOrName]);
  if (byName === undefined) throw notFound(NOUNS[table]);
  return byName;
}

/** Reads a row of one table by its id. */
export type Read<Row> = (id: string) => MaybePromise<Row | undefined>;

/** Rows that a response reads before it yields: as many reads from SQLite take 4 ms. */
const ROWS_PER_TURN = 1_000;

/** Reads rows for a response, each once, and yields in between. */
export function createReader<T extends Table>(context: Context, table: T): Read<Rows[T]> {
  const rows = new Map<string, MaybePromise<Rows[T] | undefined>>();
  let asked = 0;
  return (id) => {
    if (!rows.has(id)) rows.set(id, context.store.read(table, id));
    const row = rows.get(id);
    return ++asked % ROWS_PER_TURN === 0 ? Promise.all([row, pause(0)]).then(([found]) => found) : row;
  };
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

function ifInWorkspace<T extends OwnedRow>(context: Context, row: T | undefined): T | undefined {
  return row?.workspaceId === context.workspaceId ? row : undefined;
}
