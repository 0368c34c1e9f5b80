/**
 * The caller permission that each operation requires, depending on its request (contract 4, 5.4). `Caller.may`
 * evaluates grants.
 *
 * Why both 403 and 404: a caller without any matching permission gets 403, before its request is even validated. For an
 * API or namespace, which the request names by id, a 403 does not reveal whether it exists. A key of an API outside the
 * caller's permissions looks missing (404).
 */
import type { Caller, Resource } from "../../contracts/caller.js";
import type { NamedTable } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { type Context, pause } from "../../keyring/context.js";
import { findNamed, forbidden, notFound } from "../../keyring/rows.js";
import { findIdByText } from "../../keyring/keys/read-keys.js";
import type { V2KeysWhoamiRequestBody } from "../../keyring/schemas/requests.js";

/** A further permission that an operation needs. */
export interface FurtherPermission {
  readonly permission: string;
  /** Which requests need it, as the rest of a sentence after "where"; absent: all do. */
  readonly where?: string;
}

/** The permissions that an operation requires, for documentation. */
export interface Asked {
  /** One of these suffices; with placeholders such as `<api_id>` for ids. */
  readonly permissions: readonly string[];
  /** Each of these is required too, for the requests that it names. */
  readonly also: readonly FurtherPermission[];
}

/** What access checks read. */
export interface AccessContext {
  readonly store: Context["store"];
  /** As in `ServiceOptions`. */
  readonly strictDelegation: boolean;
}

/** The access check of an operation. */
export interface Access<B> extends Pick<Asked, "permissions">, Partial<Pick<Asked, "also">> {
  /** The action that it always takes, on resources of this type. */
  readonly action: string;
  readonly type: Resource["type"];
  /** Whether the caller may do what this request asks. @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND */
  allow(context: AccessContext, caller: Caller, request: B): MaybePromise<void>;
}

/**
 * The required permissions as text that follows "takes" or "needs".
 * @param mark formats a permission
 */
export function describePermissions({ permissions, also }: Asked, mark: (permission: string) => string): string {
  if (permissions.length === 0) return "no permission";
  const named = permissions.map(mark).join(", ");
  const more = also.map(
    ({ permission, where }) => `; and ${mark(permission)}${where === undefined ? "" : ` where ${where}`}`,
  );
  return `${permissions.length > 1 ? "one of " : ""}${named}${more.join("")}`;
}

/**
 * Whether the caller may do the action of an operation anywhere at all. Asked before the request is validated: whoever
 * may do nothing costs no more than the parsing of its JSON, and learns nothing about the form.
 * @throws KeystileError CALLER_FORBIDDEN
 */
export function requireAnyGrant(
  { action, type, permissions }: Pick<Access<never>, "action" | "type" | "permissions">,
  caller: Caller,
): void {
  if (!caller.mayAny(action, type)) throw forbidden(permissions);
}

/** An action on any resource of a type: the operation leaves out those that the caller has no grant for. */
export function onAny(action: string, type: Resource["type"], id: string): Access<unknown> {
  return { action, type, permissions: formsOf(action, type, id), allow: () => undefined };
}

/** An action on all resources of a type: only a `*` grant allows it. */
export function onAll(action: string, type: Resource["type"]): Access<unknown> {
  return onResource(action, type, [`${type}.*.${action}`], () => ({ type }));
}

/** An action on a resource that the request names by itself. */
function onResource<B>(
  action: string,
  type: Resource["type"],
  permissions: readonly string[],
  resourceOf: (request: B) => Resource,
): Access<B> {
  return {
    action,
    type,
    permissions,
    allow(_access, caller, request) {
      if (!caller.may(action, resourceOf(request))) throw forbidden(permissions);
    },
  };
}

/** The permissions for an action on one resource of a type: on all of them, or on this one by its id. */
export function formsOf(action: string, type: Resource["type"], id: string): readonly string[] {
  return [`${type}.*.${action}`, `${type}.<${id}>.${action}`];
}

/**
 * An action on the row that the request gives by its id or name. Who may do it to single rows only gets the same 403
 * for others and for those that do not exist.
 * @param id of such a row, in the permissions that are documented
 */
export function onNamed<B>(
  action: string,
  type: Resource["type"],
  { table, id, given }: { readonly table: NamedTable; readonly id: string; readonly given: (request: B) => string },
): Access<B> {
  return {
    action,
    type,
    permissions: formsOf(action, type, id),
    allow: (context, caller, request) =>
      requireOnNamed(context, caller, { action, type, id }, byIdOrName(table), [given(request)]),
  };
}

/**
 * The ids of the rows that texts of a request name, at most a thousand; `undefined`: there is none. As the operation
 * itself finds them, so that the rights on a row are those on the one that is acted upon.
 */
export type Resolve = (
  of: Pick<Context, "store" | "workspaceId">,
  texts: readonly string[],
) => Promise<readonly (string | undefined)[]>;

/** For texts that are an id, or else a name. */
export function byIdOrName(table: NamedTable): Resolve {
  return async (of, texts) => (await findNamed(of, table, texts)).map((row) => row?.id);
}

const NAMES_PER_TURN = 500;

/** @throws KeystileError CALLER_FORBIDDEN unless the caller may do this to each of the rows that these texts name */
export async function requireOnNamed(
  { store }: Pick<AccessContext, "store">,
  caller: Caller,
  { action, type, id }: { readonly action: string; readonly type: Resource["type"]; readonly id: string },
  resolve: Resolve,
  texts: readonly string[],
): Promise<void> {
  if (texts.length === 0 || caller.may(action, { type })) return;
  const refusal = forbidden(formsOf(action, type, id));
  if (!caller.mayAny(action, type)) throw refusal;
  const asked = [...new Set(texts)];
  for (let start = 0; start < asked.length; start += NAMES_PER_TURN) {
    if (start > 0) await pause(0);
    const batch = asked.slice(start, start + NAMES_PER_TURN);
    const ids = await resolve({ store, workspaceId: caller.workspaceId }, batch);
    for (const id of ids) if (id === undefined || !caller.may(action, { type, id })) throw refusal;
  }
}

/** Two actions at once. @param also the permission of the second, and what else is asked, for the documentation */
export function both<B>(first: Access<B>, second: Access<B>, also: readonly FurtherPermission[]): Access<B> {
  return {
    ...first,
    also,
    async allow(context, caller, request) {
      await first.allow(context, caller, request);
      requireAnyGrant(second, caller);
      await second.allow(context, caller, request);
    },
  };
}

/** An action on the API that the request names. */
export function onApi(action: string): Access<{ readonly apiId: string }> {
  return onNamedApi(action, formsOf(action, "api", "api_id"));
}

/** An action on the keyspace of the API that the request names: also allowed by the resource-name form of a grant. */
export function onKeyspace(action: string): Access<{ readonly apiId: string }> {
  return onNamedApi(action, keyspaceForms(action));
}

function onNamedApi(action: string, permissions: readonly string[]): Access<{ readonly apiId: string }> {
  return onResource(action, "api", permissions, ({ apiId }) => ({ type: "api", id: apiId }));
}

/** An action on the key that the request names. */
export function onKey(action: string): Access<{ readonly keyId: string }> {
  return onKeyOf(keyForms(action), action, ({ keyId }, apiId) => ({ type: "api", id: apiId, keyId }));
}

/** An action on the keyspace of the key that the request names. */
export function onKeyspaceOfKey(action: string): Access<{ readonly keyId: string }> {
  return onKeyOf(keyspaceForms(action), action, (_request, apiId) => ({ type: "api", id: apiId }));
}

function onKeyOf(
  permissions: readonly string[],
  action: string,
  resourceOf: (request: { readonly keyId: string }, apiId: string) => Resource,
): Access<{ readonly keyId: string }> {
  return {
    action,
    type: "api",
    permissions,
    async allow({ store }, caller, request) {
      const [row] = await store.readMany("keys", [request.keyId]);
      if (row?.workspaceId !== caller.workspaceId || !caller.may(action, resourceOf(request, row.apiId)))
        throw notFound("The key");
    },
  };
}

/** An action on the key that the request contains as text. */
export function onKeyText(action: string): Access<V2KeysWhoamiRequestBody> {
  return {
    ...onKey(action),
    async allow(services, caller, request) {
      const keyId = await findIdByText(services, request);
      await onKey(action).allow(services, caller, { keyId });
    },
  };
}

const KEYSPACES = "<scheme>:v1:<workspace_id>:keyspaces";

/** The five forms of contract 4.1 for an action on keys. */
export function keyForms(action: string): readonly string[] {
  return [
    ...formsOf(action, "api", "api_id"),
    `${KEYSPACES}/*/keys/*#${action}`,
    `${KEYSPACES}/<keyspace_id>/keys/*#${action}`,
    `${KEYSPACES}/<keyspace_id>/keys/<key_id>#${action}`,
  ];
}

function keyspaceForms(action: string): readonly string[] {
  return [...formsOf(action, "api", "api_id"), `${KEYSPACES}/*#${action}`, `${KEYSPACES}/<keyspace_id>#${action}`];
}
