/** Creates and finds namespaces, and checks who may use them. Spec §5.4. */
import type { Caller } from "../../contracts/caller.js";
import { KeystileError } from "../../contracts/errors.js";
import type { NamespaceRow } from "../../contracts/store.js";
import { hasIdForm } from "../../lib/hash.js";
import { type Context, updateWithRetry } from "../context.js";
import { insertNamed, taken } from "../create-row.js";
import { readPage } from "../list-page.js";
import { notFound, ownedRow, readRows } from "../rows.js";
import { parse } from "../schemas/parse.js";
import type { SearchRequestBody } from "../schemas/requests.js";
import type { CreateNamespaceResponseData, NamespaceData, Page } from "../schemas/responses.js";
import type * as R from "../schemas/service-requests.js";
import * as schemas from "../schemas/service.js";
import { createSearch } from "../search.js";

const ID_PREFIX = "ns";
const WHAT = "A namespace with this name";

/** @throws KeystileError BAD_REQUEST · CALLER_FORBIDDEN · CONFLICT: the name exists, or is the id of a namespace */
export async function createNamespace(
  context: Context,
  body: R.CreateNamespaceRequestBody,
  caller: Caller | undefined,
): Promise<CreateNamespaceResponseData> {
  const { name } = parse(schemas.createNamespace, body);
  if (caller !== undefined && !mayOnAll(context, caller, "create_namespace"))
    throw forbidden("ratelimit.*.create_namespace");
  if (mayBeId(name) && (await lookUp(context, [name])).size > 0) throw taken(WHAT);
  const row = newNamespace(context, name);
  await insertNamed(context, { table: "namespaces", row }, WHAT);
  return { namespaceId: row.id };
}

/** @throws KeystileError BAD_REQUEST · CALLER_FORBIDDEN · NOT_FOUND */
export async function getNamespace(
  context: Context,
  body: R.GetNamespaceRequestBody,
  caller: Caller | undefined,
): Promise<NamespaceData> {
  const { namespace } = parse(schemas.getNamespace, body);
  const { id, name } = await findNamespace(context, namespace, "read_namespace", caller);
  return { id, name };
}

/** By id. @throws KeystileError BAD_REQUEST · CALLER_FORBIDDEN */
export async function listNamespaces(
  context: Context,
  body: SearchRequestBody,
  caller: Caller | undefined,
): Promise<Page<NamespaceData>> {
  const { search, ...page } = parse(schemas.listNamespaces, body);
  if (caller !== undefined && !mayOnAll(context, caller, "read_namespace"))
    throw forbidden("ratelimit.*.read_namespace");
  return readPage(context, page, {
    table: "namespaces",
    search: createSearch("namespaces", search),
    toResponses: (rows) => rows.map(({ id, name }) => ({ id, name })),
  });
}

/**
 * The namespace with this id or name, if `caller` may do `action` in it.
 * @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND, only for callers who may do this in all namespaces
 */
export async function findNamespace(
  context: Context,
  idOrName: string,
  action: string,
  caller: Caller | undefined,
): Promise<NamespaceRow> {
  const found = (await lookUp(context, [idOrName])).get(idOrName);
  assertAllowed(context, found, action, caller);
  if (found === undefined) throw notFound("The namespace");
  return found;
}

/**
 * The namespaces with these ids or names, in order; missing ones are created, once all are known to be allowed. An id
 * is never made into a name.
 * @throws KeystileError CALLER_FORBIDDEN, also where there is none and this caller may not create one · NOT_FOUND: an
 *   id that no namespace has
 */
export async function enterNamespaces(
  context: Context,
  idsOrNames: readonly string[],
  action: string,
  caller: Caller | undefined,
): Promise<ReadonlyMap<string, NamespaceRow>> {
  const found = await lookUp(context, idsOrNames);
  for (const idOrName of idsOrNames) {
    const namespace = found.get(idOrName);
    assertAllowed(context, namespace, action, caller);
    const mayMake = caller === undefined || mayOnAll(context, caller, "create_namespace");
    if (namespace === undefined && !mayMake) throw forbidden("ratelimit.*.create_namespace");
  }
  if (idsOrNames.some((text) => mayBeId(text) && !found.has(text))) throw notFound("The namespace");
  for (const name of idsOrNames) if (!found.has(name)) found.set(name, await makeNamespace(context, name));
  return found;
}

function mayBeId(text: string): boolean {
  return hasIdForm(ID_PREFIX, text);
}

/**
 * One read for all names, and at once one for all that may be ids: a namespace with this id takes precedence over one
 * with this name.
 */
async function lookUp(context: Context, idsOrNames: readonly string[]): Promise<Map<string, NamespaceRow>> {
  const found = new Map<string, NamespaceRow>();
  const ids = idsOrNames.filter(mayBeId);
  const [byName, byId] = await Promise.all([
    context.store.readNames("namespaces", context.workspaceId, [...new Set(idsOrNames)]),
    readRows(context, "namespaces", ids),
  ]);
  for (const row of byName) found.set(row.name, row);
  for (const row of byId.values()) {
    if (row.workspaceId === context.workspaceId) found.set(row.id, row);
  }
  return found;
}

/**
 * A caller with rights in some namespaces only gets the same 403 for the others and for missing ones, so that it does
 * not reveal which exist.
 */
function assertAllowed(
  context: Context,
  namespace: NamespaceRow | undefined,
  action: string,
  caller: Caller | undefined,
): void {
  if (caller === undefined || mayOnAll(context, caller, action)) return;
  const isSameWorkspace = caller.workspaceId === context.workspaceId;
  if (namespace === undefined || !isSameWorkspace || !caller.may(action, { type: "ratelimit", id: namespace.id }))
    throw forbidden(`ratelimit.*.${action}`, `ratelimit.<namespace_id>.${action}`);
}

function mayOnAll({ workspaceId }: Context, caller: Caller, action: string): boolean {
  return caller.workspaceId === workspaceId && caller.may(action, { type: "ratelimit" });
}

function forbidden(...permissions: readonly string[]): KeystileError {
  return new KeystileError(
    "CALLER_FORBIDDEN",
    `the credential lacks a permission for this; it takes one of: ${permissions.join(", ")}`,
  );
}

/** Created by the first writer; concurrent ones use its row. */
function makeNamespace(context: Context, name: string): Promise<NamespaceRow> {
  return updateWithRetry(context, `namespace ${name}`, async () => {
    const row = newNamespace(context, name);
    if ((await context.store.write([{ table: "namespaces", row }])) === "written") return row;
    const [theirs] = await context.store.readNames("namespaces", context.workspaceId, [name]);
    return theirs;
  });
}

function newNamespace(context: Context, name: string): NamespaceRow {
  const createdAt = context.clock();
  return { ...ownedRow(context, context.newId(ID_PREFIX, createdAt)), name, createdAt };
}
