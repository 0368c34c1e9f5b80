/** The administrative requests, one schema per operation. Spec §2.3, §8; `requests.ts` has their types. */
import * as v from "valibot";
import type { KeyCreditsData, RatelimitRequest, Refill, V2KeysMigrateKeyData } from "../../contracts/types.js";
import { MAX_DATE_MS } from "../../lib/check-options.js";
import { type ListedTable, readCursor } from "./cursor.js";
import { described } from "./json-schema.js";
import { changedKeyFields, newKeyFields } from "./key-schemas.js";
import type * as M from "./migration-requests.js";
import { type Schema, withFix } from "./parse.js";
import { MAX_KEY_LENGTH } from "../../lib/copy-json.js";
import * as atom from "./primitives.js";
import type * as R from "./requests.js";

const { strict, body, list, text, label, integer, optionalOr } = atom;
const optional = v.exactOptional;

/** `refillDay` is required with monthly, accepted with daily. */
const refill = described(
  v.pipe(
    strict({
      interval: v.picklist(["daily", "monthly"], 'must be "daily" or "monthly"'),
      amount: integer(1),
      refillDay: optional(integer(1, 31)),
    }),
    v.rawCheck(({ dataset, addIssue }) => {
      const value = dataset.value as { readonly interval?: unknown; readonly refillDay?: unknown } | undefined;
      if (value?.interval !== "monthly" || value.refillDay !== undefined) return;
      const message = withFix("is required with a monthly refill", "give the day of the month, 1 to 31");
      addIssue({
        message,
        path: [{ type: "object", origin: "value", input: value, key: "refillDay", value: undefined }],
      });
    }),
  ),
  { if: { properties: { interval: { const: "monthly" } } }, then: { required: ["refillDay"] } },
) as Schema<Refill>;

export const credits = body<KeyCreditsData>()({ remaining: v.nullable(integer(0)), refill: optional(refill) });

const changedCredits = body<R.UpdateKeyCreditsData>()({
  remaining: optional(v.nullable(integer(0))),
  refill: optional(v.nullable(refill)),
});

const limit = { name: label(3, 128), limit: integer(1), duration: integer(1_000) };
export const ratelimits: Schema<RatelimitRequest[]> = v.pipe(
  list(body<RatelimitRequest>()({ ...limit, autoApply: optionalOr(atom.boolean, false) }), 0, 50),
  v.rawCheck(uniqueNames),
);
/** Imports state whether a limit applies by itself: all four are required (spec §2.3). */
const migratedLimits: Schema<Required<RatelimitRequest>[]> = v.pipe(
  list(body<Required<RatelimitRequest>>()({ ...limit, autoApply: atom.boolean }), 0, 50),
  v.rawCheck(uniqueNames),
);

const noPlaintext = optionalOr(
  atom.never("leave it out: only the digest of a key is stored, its text cannot be given back"),
  false,
);

export const getApi = body<R.V2ApisGetApiRequestBody>()({ apiId: atom.longId });
export const newApi = { name: label(3, 256) };
export const createApi = body<R.CreateApiRequestBody>()({ ...newApi, apiId: optional(atom.longId) });
export const getOrCreateApi = body<R.GetOrCreateApiRequestBody>()({ ...newApi, apiId: atom.longId });
export const listApis = body<R.ListRequestBody>()(page("apis"));
export const updateApi = body<R.V2ApisUpdateApiRequestBody>()({
  apiId: atom.longId,
  name: optional(label(3, 256)),
  enabled: optional(atom.boolean),
  ipAllowlist: optional(v.nullable(atom.ipAllowlist)),
});

export const newKey = (externalId: Schema<string>) => ({
  apiId: atom.id,
  prefix: optional(atom.prefix),
  byteLength: optionalOr(integer(16, 255), 16),
  ...newKeyFields,
  externalId: optional(externalId),
  roles: optional(atom.roleNames(0)),
  permissions: optional(atom.slugs(0)),
  credits: optional(credits),
  ratelimits: optional(ratelimits),
  recoverable: noPlaintext,
});
export const createKey = body<R.CreateKeyRequestBody>()({
  ...newKey(atom.anyExternalId),
  expiresIn: optional(atom.period),
});
export const getKey = body<R.V2KeysGetKeyRequestBody>()({ keyId: atom.id, decrypt: noPlaintext });
export const listKeys = body<R.V2KeysListKeysRequestBody>()({
  apiId: atom.nameGiven,
  ...page("keys"),
  externalId: optional(atom.nameGiven),
  decrypt: noPlaintext,
  revalidateKeysCache: optionalOr(atom.boolean, false),
});
export const changedKey = (externalId: Schema<string>) =>
  body<R.V2KeysUpdateKeyRequestBody>()({
    keyId: atom.id,
    ...changedKeyFields,
    externalId: optional(v.nullable(externalId)),
    roles: optional(atom.roleNames(0)),
    permissions: optional(atom.slugs(0)),
    credits: optional(v.nullable(changedCredits)),
    ratelimits: optional(ratelimits),
  });
export const updateKey = changedKey(atom.anyExternalId);
export const deleteKey = body<R.V2KeysDeleteKeyRequestBody>()({
  keyId: atom.id,
  permanent: optionalOr(atom.boolean, false),
});
export const rerollKey = body<R.V2KeysRerollKeyRequestBody>()({
  keyId: atom.id,
  expiration: integer(0, atom.MAX_TIME),
});
export const updateCredits = described(
  v.pipe(
    strict({
      keyId: text(3, Infinity),
      value: optional(v.nullable(integer(0))),
      operation: v.picklist(["set", "increment", "decrement"], 'must be "set", "increment" or "decrement"'),
    }),
    v.rawCheck(({ dataset, addIssue }) => {
      if (!dataset.typed || typeof dataset.value.value === "number" || dataset.value.operation === "set") return;
      const message = withFix(
        "must be an integer for this operation",
        'null or nothing, which is unlimited, goes only with "set"',
      );
      addIssue({
        message,
        path: [{ type: "object", origin: "value", input: dataset.value, key: "value", value: null }],
      });
    }),
  ),
  {
    if: { properties: { operation: { enum: ["increment", "decrement"] } } },
    then: { required: ["value"], properties: { value: { type: "integer" } } },
  },
) as Schema<R.V2KeysUpdateCreditsRequestBody>;
export const whoami = body<R.V2KeysWhoamiRequestBody>()({ key: atom.wellFormed(1, MAX_KEY_LENGTH) });

const keyPermissions = (min: number) =>
  body<R.V2KeysPermissionsRequestBody>()({ keyId: atom.id, permissions: atom.slugs(min) });
const keyRoles = (min: number) => body<R.V2KeysRolesRequestBody>()({ keyId: atom.id, roles: atom.roleNames(min) });
export const changePermissions = keyPermissions(1);
export const setPermissions = keyPermissions(0);
export const changeRoles = keyRoles(1);
export const setRoles = keyRoles(0);

export const createPermission = body<R.V2PermissionsCreatePermissionRequestBody>()({
  name: label(1, 512),
  slug: atom.slug,
  description: optional(atom.description),
});
export const getPermission = body<R.V2PermissionsGetPermissionRequestBody>()({ permission: atom.slugGiven });
export const createRole = body<R.V2PermissionsCreateRoleRequestBody>()({
  name: label(1, 128),
  description: optional(atom.description),
  permissions: optional(atom.slugs(0)),
});
export const getRole = body<R.V2PermissionsGetRoleRequestBody>()({ role: atom.roleName });
export const setRolePermissions = body<R.V2PermissionsSetRolePermissionsRequestBody>()({
  roleId: atom.roleId,
  permissions: atom.slugs(0),
});

export const newIdentity = (externalId: Schema<string>) =>
  body<R.V2IdentitiesCreateIdentityRequestBody>()({
    externalId,
    meta: optional(atom.meta),
    ratelimits: optional(ratelimits),
  });
export const createIdentity = newIdentity(atom.anyExternalId);
export const getIdentity = body<R.V2IdentitiesGetIdentityRequestBody>()({ identity: atom.nameGiven });
export const updateIdentity = body<R.V2IdentitiesUpdateIdentityRequestBody>()({
  identity: atom.nameGiven,
  meta: optional(v.nullable(atom.meta)),
  ratelimits: optional(ratelimits),
});

export const listIdentities = search("identities");
export const listRoles = search("roles");
export const listPermissions = search("permissions");

const migrationId = text(3, 255);
export const createMigration = body<M.CreateMigrationRequestBody>()({
  id: optional(migrationId),
  algorithm: text(1, 255),
});
/** The fields of an import besides its keys, which are validated one by one with {@link migratedKey}. */
export const migrateKeys = body<M.V2KeysMigrateKeysRequestBody>()({
  migrationId,
  apiId: text(3, 255),
  keys: described(
    v.custom<M.V2KeysMigrateKeysRequestBody["keys"]>(isIterable, "must be an array of at least 1 item, or an iterable"),
    {
      type: "array",
      minItems: 1,
    },
  ),
});
const migratedFields = {
  hash: text(3, Infinity),
  name: optional(atom.name),
  externalId: optional(atom.anyExternalId),
  meta: optional(atom.meta),
  roles: optional(atom.roleNames(0)),
  permissions: optional(atom.slugs(0)),
  // Spec §2.3 sets no latest time; a JavaScript date does.
  expires: optional(integer(0, MAX_DATE_MS)),
  enabled: optionalOr(atom.boolean, true),
  credits: optional(credits),
  ratelimits: optional(migratedLimits),
};
export const migratedKey = body<V2KeysMigrateKeyData>()(migratedFields);
/** With what the library takes besides. */
export const importedKey = body<M.ImportedKeyData>()({
  ...migratedFields,
  createdAt: optional(integer(0, MAX_DATE_MS)),
  prefix: optional(atom.prefix),
});

export const getWorkspace = body<object>()({});
export const updateWorkspace = body<R.UpdateWorkspaceRequestBody>()({ enabled: atom.boolean });

/** What every list takes. @param limit rows per page unless the request says otherwise */
export function page(table: ListedTable, limit = 100) {
  const isCursor = (value: unknown): boolean => typeof value === "string" && readCursor(table, value) !== undefined;
  return {
    limit: optionalOr(integer(1, 100), limit),
    cursor: optional(
      described(
        v.custom<string>(
          isCursor,
          withFix("is not a cursor of this list", "send pagination.cursor of the page before"),
        ),
        {
          type: "string",
          minLength: 1,
          maxLength: 1_024,
        },
      ),
    ),
  };
}

/** What a list that can be searched takes. */
export function search(table: ListedTable) {
  return body<R.SearchRequestBody>()({ ...page(table), search: optional(text(0, 256)) });
}

function isIterable(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return typeof value === "object" && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value);
}

/**
 * Names are unique within a key or identity: a verification finds a limit by its name. Checked even where other parts
 * are invalid.
 */
function uniqueNames<L extends RatelimitRequest>({ dataset, addIssue }: RawCheckOf<L[]>): void {
  if (!Array.isArray(dataset.value)) return;
  const names = new Set<unknown>();
  dataset.value.forEach((item: { readonly name?: unknown } | null | undefined, key) => {
    const name = item?.name;
    if (name === undefined || !names.has(name)) return void names.add(name);
    const message = withFix("is the name of an earlier limit in this list", "give each limit a name of its own");
    const index = { type: "array", origin: "value", input: [], key, value: item } as const;
    addIssue({ message, path: [index, { type: "object", origin: "value", input: {}, key: "name", value: name }] });
  });
}

type RawCheckOf<T> = Parameters<Parameters<typeof v.rawCheck<T>>[0]>[0];
