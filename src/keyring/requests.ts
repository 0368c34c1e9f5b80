/** What the verbs of administration take: the bodies of the wider interface. Bounds are in schemas.ts. Types only. */
import type { JsonObject, KeyCreditsData, MaybePromise, RatelimitRequest, Refill, V2KeysMigrateKeyData } from "../types.js";

/** Body of `createApi`. */
export interface V2ApisCreateApiRequestBody {
  /** 3–256 code points. */
  readonly name: string;
}
/** Body of `getApi`. */
export interface V2ApisGetApiRequestBody {
  readonly apiId: string;
}
/** Body of `deleteApi`. */
export type V2ApisDeleteApiRequestBody = V2ApisGetApiRequestBody;
/** Absent fields stay. */
export interface V2ApisUpdateApiRequestBody {
  readonly apiId: string;
  readonly name?: string;
  /** False: every verification of its keys is FORBIDDEN (ruling A4). */
  readonly enabled?: boolean;
  /** Addresses and CIDR ranges that its keys may be used from; null or empty: any. At most 1,000. */
  readonly ipAllowlist?: readonly string[] | null;
}

/** Body of `createKey`. Without `roles` and `permissions` the key may do nothing that a query asks for. */
export interface V2KeysCreateKeyRequestBody {
  readonly apiId: string;
  /** 1–16 characters of `[a-zA-Z0-9_]` before the random part. */
  readonly prefix?: string;
  /** 1–255 code points. */
  readonly name?: string;
  /** Random bytes, 16–255, default 16. */
  readonly byteLength?: number;
  /** The identity it belongs to, made when there is none: 1–255 characters of `[a-zA-Z0-9_.-]`. Imports take any text of that length. */
  readonly externalId?: string;
  readonly meta?: JsonObject;
  /** Names of roles that exist, at most 100. */
  readonly roles?: readonly string[];
  /** Granted directly, at most 1,000; wildcards allowed (ruling B3); made when they do not exist. */
  readonly permissions?: readonly string[];
  /** Unix time, milliseconds, up to 4_102_444_800_000. A time in seconds goes in too, and is EXPIRED at once. */
  readonly expires?: number;
  /** Absent: unlimited. */
  readonly credits?: KeyCreditsData;
  /** At most 50, names unique. */
  readonly ratelimits?: readonly RatelimitRequest[];
  /** Default true. */
  readonly enabled?: boolean;
  /** Only false: plaintext keys are never kept. */
  readonly recoverable?: false;
  /** Addresses and CIDR ranges that it may be used from; empty: any. At most 1,000. */
  readonly ipAllowlist?: readonly string[];
}
/** Body of `getKey`. */
export interface V2KeysGetKeyRequestBody {
  readonly keyId: string;
  /** Only false: plaintext keys are never kept. */
  readonly decrypt?: false;
}
/** Body of `listKeys`. */
export interface V2KeysListKeysRequestBody extends ListRequestBody {
  readonly apiId: string;
  /** Only keys of this identity. */
  readonly externalId?: string;
  /** Only false: plaintext keys are never kept. */
  readonly decrypt?: false;
  /** Without effect: administration reads the store itself. */
  readonly revalidateKeysCache?: boolean;
}
/** Absent fields stay, `null` clears, a given list replaces. */
export interface V2KeysUpdateKeyRequestBody {
  readonly keyId: string;
  readonly name?: string | null;
  readonly externalId?: string | null;
  readonly meta?: JsonObject | null;
  readonly expires?: number | null;
  /** null: unlimited, without refill. */
  readonly credits?: UpdateKeyCreditsData | null;
  readonly ratelimits?: readonly RatelimitRequest[];
  readonly enabled?: boolean;
  readonly roles?: readonly string[];
  readonly permissions?: readonly string[];
  readonly ipAllowlist?: readonly string[] | null;
}
/** Credits of `updateKey`: absent fields stay. */
export interface UpdateKeyCreditsData {
  /** null: unlimited; clears the refill unless one is given. */
  readonly remaining?: number | null;
  readonly refill?: Refill | null;
}
/** Body of `deleteKey`. */
export interface V2KeysDeleteKeyRequestBody {
  readonly keyId: string;
  /** True: its row goes too, and its hash may be imported again. Default false: it is hidden. */
  readonly permanent?: boolean;
}
/** Body of `rerollKey`: a new key with all that the old one has. */
export interface V2KeysRerollKeyRequestBody {
  readonly keyId: string;
  /** Milliseconds until the old key expires, 0: at once. */
  readonly expiration: number;
}
/** Body of `updateCredits`. A decrement stops at 0, an increment at 2^53 − 1. */
export interface V2KeysUpdateCreditsRequestBody {
  readonly keyId: string;
  /** Integer ≥ 0. With `set` also null, or absent: unlimited, without refill. */
  readonly value?: number | null;
  readonly operation: "set" | "increment" | "decrement";
}
/** Body of `whoami`. */
export interface V2KeysWhoamiRequestBody {
  /** The key itself, 1–512 code points. */
  readonly key: string;
}
/** Body of `addPermissions`, `removePermissions` and `setPermissions`: slugs, at most 1,000. */
export interface V2KeysPermissionsRequestBody {
  readonly keyId: string;
  readonly permissions: readonly string[];
}
/** Body of `addRoles`, `removeRoles` and `setRoles`: names, at most 100. */
export interface V2KeysRolesRequestBody {
  readonly keyId: string;
  readonly roles: readonly string[];
}

/** Body of `createPermission`. */
export interface V2PermissionsCreatePermissionRequestBody {
  /** For people, 1–512 code points. */
  readonly name: string;
  /** What queries and grants compare, 1–128 characters of `[a-zA-Z0-9_:./*-]` (ruling B1). */
  readonly slug: string;
  readonly description?: string;
}
/** Body of `getPermission` and `deletePermission`. */
export interface V2PermissionsGetPermissionRequestBody {
  /** Slug or id; a row with this id goes before one with this slug. */
  readonly permission: string;
}
/** Body of `createRole`. */
export interface V2PermissionsCreateRoleRequestBody {
  /** 1–128 code points. */
  readonly name: string;
  readonly description?: string;
  /** Slugs, at most 1,000, made when they do not exist. */
  readonly permissions?: readonly string[];
}
/** Body of `getRole` and `deleteRole`. */
export interface V2PermissionsGetRoleRequestBody {
  /** Name or id; a row with this id goes before one with this name. */
  readonly role: string;
}
/** Body of `setRolePermissions`. */
export interface V2PermissionsSetRolePermissionsRequestBody {
  /** Id or name, 3–255 characters of `[a-zA-Z0-9_-]`; a role with another name goes by its id. */
  readonly roleId: string;
  /** Slugs that replace what it has, at most 1,000, made when they do not exist. */
  readonly permissions: readonly string[];
}

/** Body of `createIdentity`. */
export interface V2IdentitiesCreateIdentityRequestBody {
  /** What the program calls it, unique in the workspace: 1–255 characters of `[a-zA-Z0-9_.-]`. */
  readonly externalId: string;
  readonly meta?: JsonObject;
  readonly ratelimits?: readonly RatelimitRequest[];
}
/** Body of `getIdentity` and `deleteIdentity`. */
export interface V2IdentitiesGetIdentityRequestBody {
  /** Id or externalId; a row with this id goes before one with this externalId. */
  readonly identity: string;
}
/** Absent fields stay, `null` clears, a given list replaces. */
export interface V2IdentitiesUpdateIdentityRequestBody {
  readonly identity: string;
  readonly meta?: JsonObject | null;
  readonly ratelimits?: readonly RatelimitRequest[];
}

/** Which page of a list. */
export interface ListRequestBody {
  /** Rows a page, 1–100, default 100. */
  readonly limit?: number;
  /** `pagination.cursor` of the page before. */
  readonly cursor?: string;
}
/** Which page of a list, of rows whose name holds a text. */
export interface SearchRequestBody extends ListRequestBody {
  /** Part of the name (externalId, role name, slug), case-sensitive, at most 256 code points. */
  readonly search?: string;
}

/** Body of `createMigration`. */
export interface CreateMigrationRequestBody {
  /** 3–255 code points; default a new id. */
  readonly id?: string;
  /** `sha256`, `sha512`, `prefixed-api-key` or a name of `options.migrationAlgorithms` (ruling E3). */
  readonly algorithm: string;
}
/** Body of `migrateKeys`. */
export interface V2KeysMigrateKeysRequestBody {
  readonly migrationId: string;
  readonly apiId: string;
  /** At least one in an array, each hash at most 1,024 code points; for large imports anything that can be iterated, asynchronously or not. */
  readonly keys: readonly V2KeysMigrateKeyData[] | Iterable<V2KeysMigrateKeyData> | AsyncIterable<V2KeysMigrateKeyData>;
}
/** How an import goes on. */
export interface MigrateKeysOptions {
  /** Keys stored in one step, 1–10,000, default 1,000. */
  readonly batchSize?: number;
  /** Told after each batch; waited for. */
  readonly onProgress?: (totals: MigrationTotals) => unknown;
  /** Takes each batch's results, which the answer then leaves out; waited for. */
  readonly onBatch?: (results: MigrationResults) => MaybePromise<void>;
}
/** How many keys an import has taken and refused so far. */
export interface MigrationTotals {
  readonly migrated: number;
  readonly failed: number;
}
/** What became of the keys of a batch, or of a whole import: each is in one of the two lists. */
export interface MigrationResults {
  readonly migrated: readonly MigratedKey[];
  readonly failed: readonly FailedKey[];
}
/** A key that went in, by the hash that it came with. */
export interface MigratedKey {
  readonly hash: string;
  readonly keyId: string;
}
/** A key that did not go in; the others did (ruling E2). */
export interface FailedKey {
  readonly hash: string;
  readonly reason: MigrationFailure;
  /** The reason in words. */
  readonly message: string;
}
/** `ALREADY_EXISTS`: anywhere in the store, or earlier in the same import. */
export type MigrationFailure = "INVALID_HASH" | "ALREADY_EXISTS" | "UNKNOWN_ROLE";

/** Body of `updateWorkspace`. */
export interface UpdateWorkspaceRequestBody {
  /** False: every verification of its keys is FORBIDDEN (ruling A4). */
  readonly enabled: boolean;
}
