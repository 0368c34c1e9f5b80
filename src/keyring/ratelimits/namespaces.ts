/** Creates and finds namespaces, and checks who may use them. Contract 5.4. */
import type { NamespaceRow } from "../../contracts/store.js";
import { hasIdForm } from "../../lib/hash.js";
import { type Context, updateWithRetry } from "../context.js";
import { readMatches } from "../list-page.js";
import { operation } from "../operation.js";
import { forbidden, notFound, ownedRow, readRows } from "../rows.js";
import { search } from "../schemas/page.js";
import { body, label, text } from "../schemas/primitives.js";
import type { NamespaceData } from "../schemas/responses.js";
import type * as R from "../schemas/service-requests.js";
import { insertNamed, taken, write } from "../write.js";

const ID_PREFIX = "ns";
const WHAT = "A namespace with this name";

/** Names a namespace that may be new: an operation that finds none of this name creates it. */
export const newNamespace = label(1, 512);
/** Finds one by its id or name. */
export const namespaceGiven = text(1, 512);

/** @throws KeystileError CALLER_FORBIDDEN · CONFLICT: the name exists, or is the id of a namespace */
export const createNamespace = operation(
  "createNamespace",
  body<R.CreateNamespaceRequestBody>()({ name: newNamespace }),
  async (context, { name }) => {
    requireOnAll(context, "create_namespace");
    if (mayBeId(name) && (await lookUp(context, [name])).size > 0) throw taken(WHAT);
    const row = newRow(context, name);
    await insertNamed(context, { table: "namespaces", row }, WHAT);
    return { namespaceId: row.id };
  },
);

/** @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND */
export const getNamespace = operation(
  "getNamespace",
  body<R.GetNamespaceRequestBody>()({ namespace: namespaceGiven }),
  async (context, { namespace }) => toNamespaceResponse(await findNamespace(context, namespace, "read_namespace")),
);

/** By id. @throws KeystileError CALLER_FORBIDDEN */
export const listNamespaces = operation("listNamespaces", search("namespaces"), async (context, request) => {
  requireOnAll(context, "read_namespace");
  return readMatches(context, request, {
    table: "namespaces",
    toResponses: (rows) => rows.map(toNamespaceResponse),
  });
});

/**
 * The namespace with this id or name, if the caller may do `action` in it.
 * @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND, only for callers who may do this in all namespaces
 */
export async function findNamespace(context: Context, idOrName: string, action: string): Promise<NamespaceRow> {
  const found = (await lookUp(context, [idOrName])).get(idOrName);
  assertAllowed(context, found, action);
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
): Promise<ReadonlyMap<string, NamespaceRow>> {
  const found = await lookUp(context, idsOrNames);
  for (const idOrName of idsOrNames) {
    const namespace = found.get(idOrName);
    assertAllowed(context, namespace, action);
    if (namespace === undefined) requireOnAll(context, "create_namespace");
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
function assertAllowed(context: Context, namespace: NamespaceRow | undefined, action: string): void {
  const { caller, workspaceId } = context;
  if (caller === undefined || mayOnAll(context, action)) return;
  const isSameWorkspace = caller.workspaceId === workspaceId;
  if (namespace === undefined || !isSameWorkspace || !caller.may(action, { type: "ratelimit", id: namespace.id }))
    throw forbidden([`ratelimit.*.${action}`, `ratelimit.<namespace_id>.${action}`]);
}

function requireOnAll(context: Context, action: string): void {
  if (!mayOnAll(context, action)) throw forbidden([`ratelimit.*.${action}`]);
}

function mayOnAll({ workspaceId, caller }: Context, action: string): boolean {
  return caller === undefined || (caller.workspaceId === workspaceId && caller.may(action, { type: "ratelimit" }));
}

/** Created by the first writer; concurrent ones use its row. */
function makeNamespace(context: Context, name: string): Promise<NamespaceRow> {
  return updateWithRetry(context, `namespace ${name}`, async () => {
    const row = newRow(context, name);
    if ((await write(context, [{ table: "namespaces", row }])) === "written") return row;
    const [theirs] = await context.store.readNames("namespaces", context.workspaceId, [name]);
    return theirs;
  });
}

function toNamespaceResponse({ id, name }: NamespaceRow): NamespaceData {
  return { id, name };
}

function newRow(context: Context, name: string): NamespaceRow {
  return { ...ownedRow(context, context.newId(ID_PREFIX, context.now)), name, createdAt: context.now };
}
