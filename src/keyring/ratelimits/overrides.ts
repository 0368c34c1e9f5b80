/**
 * Sets, reads, lists and deletes overrides, each another limit for one identifier of a namespace: the operations
 * `ratelimit.*Override*`. They are addressed by their identifiers as given; one that holds `*` applies to all that it
 * stands for and that have no override of their own.
 */
import { badRequest } from "../../contracts/errors.js";
import type { OverrideRow, WildcardRef, Write } from "../../contracts/store.js";
import { overrideName } from "../../lib/row-name.js";
import { type Context, updateWithRetry } from "../context.js";
import { readPage } from "../list-page.js";
import { operation } from "../operation.js";
import { notFound, ownedRow } from "../rows.js";
import { page } from "../schemas/page.js";
import { body, integer, length, text } from "../schemas/primitives.js";
import type { RatelimitOverride } from "../schemas/responses.js";
import type * as R from "../schemas/service-requests.js";
import { write, writeRows } from "../write.js";
import { enterNamespaces, findNamespace, namespaceGiven, newNamespace } from "./namespaces.js";
import { isWildcard, MAX_WILDCARD_CHARACTERS, MAX_WILDCARDS } from "./wildcards.js";

const DEFAULT_PAGE = 10;
/** Who is limited. */
export const identifier = text(1, 512);
const given = body<R.V2RatelimitGetOverrideRequestBody>()({ namespace: namespaceGiven, identifier });

/**
 * Sets or replaces the override of an identifier, from the next check on; tokens already used stay used. A missing
 * namespace is created.
 * @throws KeystileError BAD_REQUEST, also for one with `*` more than a namespace may have · CALLER_FORBIDDEN ·
 *   NOT_FOUND: an id that no namespace has
 */
export const setOverride = operation(
  "setOverride",
  body<R.V2RatelimitSetOverrideRequestBody>()({
    namespace: newNamespace,
    duration: length(1_000),
    identifier,
    limit: integer(0),
  }),
  async (context, { namespace, identifier, limit, duration }) => {
    const namespaces = await enterNamespaces(context, [namespace], "set_override");
    const namespaceId = namespaces.get(namespace)!.id;
    return updateWithRetry(context, lockOf(namespaceId, identifier), async () => {
      const known = await readOverride(context, namespaceId, identifier);
      const row: OverrideRow = known
        ? { ...known, limit, duration }
        : { ...ownedRow(context, context.newId("ovr", context.now)), namespaceId, identifier, limit, duration };
      const listing = await writesOfWildcards(context, row, addWildcard);
      // Taken: another call set it first, and the next attempt replaces its row.
      const outcome = await write(context, [...listing, { table: "overrides", row }]);
      return outcome === "written" ? { overrideId: row.id } : undefined;
    });
  },
);

/** Overrides with `*` are written together with their namespace, one after the other. */
function lockOf(namespaceId: string, identifier: string): string {
  return isWildcard(identifier) ? `wildcards ${namespaceId}` : overrideName({ namespaceId, identifier });
}

type Wildcards = readonly WildcardRef[];

/** The write of the namespace that changes its list of wildcards with an override; none if the list stays the same. */
async function writesOfWildcards(
  context: Context,
  { id, namespaceId, identifier }: OverrideRow,
  change: (wildcards: Wildcards, one: WildcardRef) => Wildcards,
): Promise<readonly Write[]> {
  if (!isWildcard(identifier)) return [];
  const [namespace] = await context.store.readMany("namespaces", [namespaceId]);
  if (namespace === undefined) throw notFound("The namespace");
  const { wildcards: before = [] } = namespace;
  const wildcards = change(before, { id, identifier });
  return wildcards === before ? [] : [{ table: "namespaces", row: { ...namespace, wildcards } }];
}

function addWildcard(wildcards: Wildcards, one: WildcardRef): Wildcards {
  if (wildcards.some(({ id }) => id === one.id)) return wildcards;
  const all = [...wildcards, one];
  const characters = all.reduce((sum, { identifier }) => sum + identifier.length, 0);
  if (all.length <= MAX_WILDCARDS && characters <= MAX_WILDCARD_CHARACTERS) return all;
  const message =
    all.length > MAX_WILDCARDS
      ? `would be override ${all.length} with * of this namespace, which may have ${MAX_WILDCARDS}`
      : `would make the overrides with * of this namespace longer than ${MAX_WILDCARD_CHARACTERS} characters together`;
  const fix = "delete one that is not needed, or use another namespace";
  throw badRequest([{ location: "body.identifier", message, fix }]);
}

function removeWildcard(wildcards: Wildcards, one: WildcardRef): Wildcards {
  const rest = wildcards.filter(({ id }) => id !== one.id);
  return rest.length === wildcards.length ? wildcards : rest;
}

/** @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND */
export const getOverride = operation("getOverride", given, async (context, { namespace, identifier }) => {
  const { id } = await findNamespace(context, namespace, "read_override");
  const row = await readOverride(context, id, identifier);
  if (row === undefined) throw notFound("The override");
  return toOverrideResponse(row);
});

/** By id, 10 per page unless the request says otherwise. @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND */
export const listOverrides = operation(
  "listOverrides",
  body<R.V2RatelimitListOverridesRequestBody>()({ namespace: namespaceGiven, ...page("overrides", DEFAULT_PAGE) }),
  async (context, { namespace, limit = DEFAULT_PAGE, ...page }) => {
    const { id } = await findNamespace(context, namespace, "read_override");
    return readPage(
      context,
      { ...page, limit },
      { table: "overrides", filter: { namespaceId: id }, toResponses: (rows) => rows.map(toOverrideResponse) },
    );
  },
);

/** @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND */
export const deleteOverride = operation("deleteOverride", given, async (context, { namespace, identifier }) => {
  const { id: namespaceId } = await findNamespace(context, namespace, "delete_override");
  return updateWithRetry(context, lockOf(namespaceId, identifier), async () => {
    const row = await readOverride(context, namespaceId, identifier);
    if (row === undefined) throw notFound("The override");
    const removal: Write = { table: "overrides", remove: row.id, version: row.version };
    const listing = await writesOfWildcards(context, row, removeWildcard);
    return (await writeRows(context, [...listing, removal])) ? {} : undefined;
  });
});

async function readOverride(
  context: Context,
  namespaceId: string,
  identifier: string,
): Promise<OverrideRow | undefined> {
  const [row] = await context.store.readNames("overrides", context.workspaceId, [
    overrideName({ namespaceId, identifier }),
  ]);
  return row;
}

function toOverrideResponse({ id, identifier, limit, duration }: OverrideRow): RatelimitOverride {
  return { overrideId: id, identifier, limit, duration };
}
