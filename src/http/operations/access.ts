/**
 * Which caller permission an operation needs, as a function of its request. Spec §4, §5.4, rulings B6, B7, F4. Grants are judged by
 * the caller; here stands what is asked of them.
 *
 * Why 403 here and 404 there: a caller without any such right is told so (403). An API or namespace is named by its id, so a 403
 * does not tell whether it exists. A key of an API outside the caller's rights looks like a missing key (404).
 */
import type { Caller, Resource } from "../../contracts/caller.js";
import { KeystileError } from "../../contracts/errors.js";
import type { Store } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { notFound } from "../../keyring/rows.js";
import { digestKey } from "../../lib/hash.js";

/** A further permission that an operation needs. */
export interface FurtherPermission {
  readonly permission: string;
  /** Which requests need it, as the end of "where …"; absent: all do. */
  readonly where?: string;
}

/** What an operation asks for, as a table says it. */
export interface Asked {
  /** Of which one suffices, with `<api_id>` and the like for ids. */
  readonly permissions: readonly string[];
  /** Each is needed too, by the requests that it names. */
  readonly also: readonly FurtherPermission[];
}

/** What is asked before an operation acts. */
export interface Access<B> extends Pick<Asked, "permissions">, Partial<Pick<Asked, "also">> {
  /** @throws KeystileError CALLER_FORBIDDEN · NOT_FOUND */
  allow(access: { readonly store: Store }, caller: Caller, request: B): MaybePromise<void>;
}

/**
 * What an operation asks for, in words that follow "takes" or "needs".
 * @param mark sets a permission apart from the words around it
 */
export function describePermissions({ permissions, also }: Asked, mark: (permission: string) => string): string {
  const named = permissions.map(mark).join(", ");
  const more = also.map(
    ({ permission, where }) => `; and ${mark(permission)}${where === undefined ? "" : ` where ${where}`}`,
  );
  return `${permissions.length > 1 ? "one of " : ""}${named}${more.join("")}`;
}

/** A 403 that says what would be right, and nothing of what was asked for. */
export function forbidden(permissions: readonly string[]): KeystileError {
  return new KeystileError(
    "CALLER_FORBIDDEN",
    `the credential lacks a permission for this; it takes one of: ${permissions.join(", ")}`,
  );
}

/** An action on all resources of a type: only a grant for all covers it. */
export function onAll(action: string, type: Resource["type"]): Access<unknown> {
  const permissions = [`${type}.*.${action}`];
  return {
    permissions,
    allow(_places, caller) {
      if (!caller.may(action, { type })) throw forbidden(permissions);
    },
  };
}

/** An action on the API that the request names. */
export function onApi(action: string): Access<{ readonly apiId: string }> {
  return onNamedApi(action, [`api.*.${action}`, `api.<api_id>.${action}`]);
}

/** An action on the keyspace of the API that the request names: the resource-name form covers it too. */
export function onKeyspace(action: string): Access<{ readonly apiId: string }> {
  return onNamedApi(action, keyspaceForms(action));
}

function onNamedApi(action: string, permissions: readonly string[]): Access<{ readonly apiId: string }> {
  return {
    permissions,
    allow(_places, caller, { apiId }) {
      if (!caller.may(action, { type: "api", id: apiId })) throw forbidden(permissions);
    },
  };
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
    permissions,
    async allow({ store }, caller, request) {
      if (!caller.mayAny(action, "api")) throw forbidden(permissions);
      const row = await store.read("keys", request.keyId);
      if (row?.workspaceId !== caller.workspaceId || !caller.may(action, resourceOf(request, row.apiId)))
        throw notFound("The key");
    },
  };
}

/** An action on the key whose text the request holds. */
export function onKeyText(action: string): Access<{ readonly key: string }> {
  const permissions = keyForms(action);
  return {
    permissions,
    async allow({ store }, caller, { key }) {
      if (!caller.mayAny(action, "api")) throw forbidden(permissions);
      const record = await store.findKey(await digestKey(key));
      const resource = record && ({ type: "api", id: record.apiId, keyId: record.keyId } as const);
      if (record?.workspaceId !== caller.workspaceId || !resource || !caller.may(action, resource))
        throw notFound("The key");
    },
  };
}

/** The five forms of spec §4.1 for an action on keys. */
export function keyForms(action: string): readonly string[] {
  const path = "<scheme>:v1:<workspace_id>:keyspaces";
  return [
    `api.*.${action}`,
    `api.<api_id>.${action}`,
    `${path}/*/keys/*#${action}`,
    `${path}/<keyspace_id>/keys/*#${action}`,
    `${path}/<keyspace_id>/keys/<key_id>#${action}`,
  ];
}

function keyspaceForms(action: string): readonly string[] {
  const path = "<scheme>:v1:<workspace_id>:keyspaces";
  return [`api.*.${action}`, `api.<api_id>.${action}`, `${path}/*#${action}`, `${path}/<keyspace_id>#${action}`];
}
