/** What the verbs of administration answer: `data` of the wider interface, without the envelope. Types only. */
import type { Identity, JsonObject, KeyCreditsData, RatelimitResponse } from "../types.js";
import type { MigrationResults, MigrationTotals } from "./requests.js";

/** Nothing to say but that it was done. */
export type EmptyResponse = Record<string, never>;

/** One page of a list, ordered by id. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly pagination: Pagination;
}
/** Spec §1, rule 2. */
export interface Pagination {
  /** Opaque; present when there is more. */
  readonly cursor?: string;
  readonly hasMore: boolean;
}

/** Answer of `createApi`. */
export interface V2ApisCreateApiResponseData {
  readonly apiId: string;
}
/** `enabled` and `ipAllowlist` are additions of keystile. */
export interface V2ApisGetApiResponseData {
  readonly id: string;
  readonly name: string;
  readonly enabled: boolean;
  /** Empty: any address. */
  readonly ipAllowlist: readonly string[];
}

/** A new key. The only time that it is shown: only its digest is kept. */
export interface V2KeysCreateKeyResponseData {
  readonly keyId: string;
  readonly key: string;
}
/** A key as administration sees it; a property that does not apply is not there. */
export interface KeyResponseData {
  readonly keyId: string;
  /** First characters of the key, for people; `...` for an imported one. */
  readonly start: string;
  readonly enabled: boolean;
  readonly name?: string;
  readonly meta?: JsonObject;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
  readonly updatedAt?: number;
  readonly expires?: number;
  /** Granted directly, sorted; those of its roles are in the roles. */
  readonly permissions?: readonly string[];
  /** Sorted. */
  readonly roles?: readonly string[];
  /** Absent: unlimited and without refill. */
  readonly credits?: KeyCreditsData;
  readonly identity?: Identity;
  readonly ratelimits?: readonly RatelimitResponse[];
  /** An addition of keystile. */
  readonly ipAllowlist?: readonly string[];
}

/** A permission as administration sees it. */
export interface Permission {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly description?: string;
}
/** A role as administration sees it. */
export interface Role {
  readonly id: string;
  readonly name: string;
  readonly description?: string;
  /** Sorted by slug; absent when there are none. */
  readonly permissions?: readonly Permission[];
}
/** Answer of `createPermission`. */
export interface V2PermissionsCreatePermissionResponseData {
  readonly permissionId: string;
}
/** Answer of `createRole`. */
export interface V2PermissionsCreateRoleResponseData {
  readonly roleId: string;
}
/** Answer of `createIdentity`. */
export interface V2IdentitiesCreateIdentityResponseData {
  readonly identityId: string;
}
/** Answer of `createMigration`. */
export interface CreateMigrationResponseData {
  readonly migrationId: string;
}
/** Both lists are empty when `onBatch` took the results; `totals` counts them all. */
export interface V2KeysMigrateKeysResponseData extends MigrationResults {
  readonly totals: MigrationTotals;
}
/** The workspace of a keyring. */
export interface WorkspaceData {
  readonly id: string;
  readonly enabled: boolean;
}

/** A new root key. The only time that it is shown: only its digest is kept. */
export interface CreateRootKeyResponseData {
  readonly rootKeyId: string;
  readonly key: string;
}
/** A root key as administration sees it; a property that does not apply is not there. */
export interface RootKeyData {
  readonly rootKeyId: string;
  /** First characters of the root key, for people. */
  readonly start: string;
  readonly name?: string;
  /** As granted, in the order given. */
  readonly permissions: readonly string[];
  /** Unix time, milliseconds. */
  readonly expires?: number;
  readonly enabled: boolean;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}

/** Answer of `createNamespace`. */
export interface CreateNamespaceResponseData {
  readonly namespaceId: string;
}
/** A namespace of rate limits. */
export interface NamespaceData {
  readonly id: string;
  readonly name: string;
}
/** Answer of `limit`. */
export interface V2RatelimitLimitResponseData {
  /** Tokens a window, ≥ 0: the override's, if there is one. */
  readonly limit: number;
  /** Whole tokens left after the call, ≥ 0. */
  readonly remaining: number;
  /** Milliseconds until the bucket is full, 1_000…2_592_000_000. */
  readonly reset: number;
  readonly success: boolean;
  /** The override that took the place of the request's limit and window. */
  readonly overrideId?: string;
}
/** All or nothing: when `passed` is false no check took anything, those that passed neither. */
export interface V2RatelimitMultiLimitResponseData {
  readonly passed: boolean;
  /** One a check, in order. */
  readonly limits: readonly V2RatelimitMultiLimitCheck[];
}
/** One check of `multiLimit`, in the order of the request. */
export interface V2RatelimitMultiLimitCheck extends Omit<V2RatelimitLimitResponseData, "success"> {
  /** As the request named it. */
  readonly namespace: string;
  readonly identifier: string;
  /** Whether this check alone fits. */
  readonly passed: boolean;
}
/** A limit and window of one identifier, whatever a check asks for. */
export interface RatelimitOverride {
  readonly overrideId: string;
  readonly identifier: string;
  readonly limit: number;
  /** Milliseconds. */
  readonly duration: number;
}
/** Answer of `setOverride`. */
export interface V2RatelimitSetOverrideResponseData {
  readonly overrideId: string;
}
