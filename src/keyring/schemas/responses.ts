/**
 * Responses of the administrative operations: their `data`, without the envelope. Types only. Ids that keystile creates
 * sort by creation time.
 */
import type { AuditEntry } from "../../contracts/audit.js";
import type { KeyRow } from "../../contracts/store.js";
import type { Identity, KeyCreditsData, RatelimitResponse, Refill } from "../../contracts/types.js";
import type { CreditsSource } from "../../lib/credits-source.js";
import type { DisabledParent, KeyState } from "../../lib/key-state.js";
import type { ALWAYS_SHOWN, SHOWN_UNLESS_USUAL } from "./key-names.js";
import type { MigrationResults, MigrationTotals } from "./migration-requests.js";
import type { V2PermissionsCreatePermissionRequestBody, V2PermissionsCreateRoleRequestBody } from "./requests.js";
import type { V2RatelimitSetOverrideRequestBody } from "./service-requests.js";

/** The operation succeeded; there is no data. */
export type EmptyResponse = Record<string, never>;

/** One page of a list, ordered by id. */
export interface Page<T> {
  /** At most `limit` of the request. */
  readonly data: readonly T[];
  /** Where the next page begins. */
  readonly pagination: Pagination;
}
/** Contract 1, rule 2. */
export interface Pagination {
  /** Opaque; present when there is more. */
  readonly cursor?: string;
  /** False: this is the last page. */
  readonly hasMore: boolean;
}

/** Response of `createApi`. */
export interface V2ApisCreateApiResponseData {
  /** The id given, or `api_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly apiId: string;
}
/** `enabled` and `ipAllowlist` are additions of keystile. */
export interface V2ApisGetApiResponseData {
  /** The id given, or `api_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
  /** 3–256 code points; need not be unique. */
  readonly name: string;
  /** False: every verification of its keys is FORBIDDEN. */
  readonly enabled: boolean;
  /** Empty: any address. */
  readonly ipAllowlist: readonly string[];
}

/** Response of `getOrCreateApi`. */
export interface GetOrCreateApiResponseData extends V2ApisCreateApiResponseData {
  /** Whether this call created it. */
  readonly created: boolean;
}

/** One page of a search, which ends when it is full, or after 80 ms of looking. */
export interface SearchPage<T> extends Page<T> {
  readonly pagination: SearchPagination;
}
/** Where a search stands. */
export interface SearchPagination extends Pagination {
  /** Keys that this page looked at; in an order without an index, those that it compared. */
  readonly searched: number;
  /** When an order without an index was worked out, Unix time in milliseconds. Absent: the order has an index. */
  readonly asOf?: number;
}
/** What became of one key of `changeKeys`, or with `dryRun` would. */
export interface KeyChange {
  readonly keyId: string;
  /**
   * `unchanged`: it was so already, or does not fit the filter any more. `notFound`: it is not there, or not for this
   * caller to change.
   */
  readonly outcome: "changed" | "unchanged" | "notFound";
}
/** Response of `countKeys`. */
export interface CountKeysResponseData {
  /** All that are not deleted. */
  readonly total: number;
  readonly disabled: number;
  /** Of those that are enabled. */
  readonly expired: number;
  /** When it was counted, Unix time in milliseconds. Keys that were made meanwhile may be in it or not. */
  readonly asOf: number;
}
/** Response of `getKeys`. */
export interface GetKeysResponseData {
  /** In the order of the request, without those that do not exist. */
  readonly keys: readonly KeyResponseData[];
  /** Ids of those for which a response of 4 MiB has no space: ask for them again. Mostly empty. */
  readonly rest: readonly string[];
}
/** A new key. The only response that contains its text: only its digest is stored. */
export interface V2KeysCreateKeyResponseData {
  /** `key_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly keyId: string;
  /** `<prefix>_<random><checksum>`, or without the prefix: 28–372 characters of `[a-zA-Z0-9_]`. */
  readonly key: string;
}
/** Fields of a key that responses contain as they are stored, under their own names. */
export type ShownKeyFields = Pick<KeyRow, (typeof ALWAYS_SHOWN)[number]> &
  Partial<Pick<KeyRow, (typeof SHOWN_UNLESS_USUAL)[number]>>;
/** Credits of a key as HTTP responses have them. */
export interface WireCredits extends KeyCreditsData {
  /**
   * The account of the key does not add up: the file is damaged, or something else changed it. `remaining` is 0, since
   * nothing can be spent: a verification fails with STORE_INVALID until the balance is set (`updateCredits`). Absent
   * otherwise.
   */
  readonly invalid?: true;
}
/** Credits of a key as the library shows them; over HTTP they are as {@link WireCredits}. */
export interface KeyCredits extends WireCredits {
  /**
   * Credits that nodes in `leased` mode have set aside in the store, besides `remaining`: they are returned when a node
   * closes, or `ttl` after it crashed. What a node has drawn into its memory is in neither number. Absent: none.
   */
  readonly reserved?: number;
  /** What can be spent of open grants, besides `remaining`. Absent: nothing. */
  readonly granted?: number;
}

/** Credits as a change left them. */
export interface ChangedCredits extends KeyCredits {
  /** The idempotency key was used before: nothing was changed, and these are the credits as they stand. Absent: no. */
  readonly repeated?: true;
}

/**
 * A key as the library shows it; a property that does not apply is not there. HTTP shows all but `apiId`, `state`,
 * `disabledBy`, `creditsFrom`, `ownerCredits`, `accounts`, `rerolledFrom`, `rerolledTo`, `credits.reserved` and
 * `credits.granted`.
 */
export interface KeyResponseData extends ShownKeyFields {
  /** `key_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly keyId: string;
  /** The API that it belongs to. */
  readonly apiId: string;
  /** What a verification that asks for nothing would find now. */
  readonly state: KeyState;
  /** Of one that is `forbidden`: what is disabled, the first of the three. */
  readonly disabledBy?: DisabledParent;
  /** Granted directly, sorted; those of its roles are in the roles. */
  readonly permissions?: readonly string[];
  /** Sorted. */
  readonly roles?: readonly string[];
  /** Its own. Absent: it has none, and no refill. */
  readonly credits?: KeyCredits;
  /** Whose credits it takes: its own, those of its identity, both, or nobody's, so that they are unlimited. */
  readonly creditsFrom: CreditsSource;
  /** Those of its identity, if it takes credits from there. */
  readonly ownerCredits?: KeyCredits;
  /** In `getKey` and `whoami`, where several accounts pay: those, as `getBalance` shows them. */
  readonly accounts?: readonly AccountData[];
  /** The entity that it belongs to, with the limits that it shares. */
  readonly identity?: Identity;
  /** Its own; those of its identity are in `identity`. */
  readonly ratelimits?: readonly RatelimitResponse[];
}

/**
 * An identity as `getIdentity` of the library shows it; `updateIdentity` and HTTP show all but `credits`, and so do
 * lists without `details`.
 */
export interface IdentityData extends Identity {
  /** Its keys are FORBIDDEN. Absent: it is enabled. */
  readonly enabled?: false;
  /** Unix time, milliseconds, the last at which its keys are valid; absent: never expires. */
  readonly expires?: number;
  /** What its keys draw on, those with credits of their own too. Absent: it has none. */
  readonly credits?: KeyCredits;
}

/** An identity of a list. */
export interface ListedIdentity extends IdentityData {
  /** With `details`: its keys, up to 100; for a caller those that it may read, if it may read any. */
  readonly keyCount?: number;
  /** It has more keys than were counted. Absent: it has not. */
  readonly hasMoreKeys?: boolean;
}

/** What `grantCredits` resolves to. */
export interface GrantCreditsData {
  /** As given, or one of its own. */
  readonly grantId: string;
  /** `grant_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
  /** Credits that were granted. */
  readonly amount: number;
  /** What is left of it now. */
  readonly remaining: number;
  /** Unix time, milliseconds: from then on it cannot be spent. Absent: it never expires. */
  readonly expires?: number;
  /** Whether this call made it: false where the owner had a grant under this id. */
  readonly created: boolean;
  /** The idempotency key was used before: nothing was added, and this is the grant as it stands. Absent: no. */
  readonly repeated?: true;
}
/** What `endGrant` resolves to. */
export interface EndGrantData extends Pick<GrantCreditsData, "grantId" | "id" | "amount"> {
  /** Unix time, milliseconds: when it ended, which may have been before this call. */
  readonly endedAt: number;
  /** Credits that this call took away; 0 where it had ended before. */
  readonly withdrawn: number;
  /** The idempotency key was used before: nothing was changed. Absent: no. */
  readonly repeated?: true;
}
/** A grant as `listGrants` shows it. */
export interface GrantData extends Omit<GrantCreditsData, "created" | "repeated"> {
  /** Credits of reservations that are open, besides `remaining`. Absent: none. */
  readonly reserved?: number;
  /** 0–255, the lowest is spent first. */
  readonly priority: number;
  readonly refill?: Refill;
  /** As given. */
  readonly reason?: string;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
  /** When it was ended: by `endGrant`, or because it had expired or was used up. Unix time, milliseconds. */
  readonly endedAt?: number;
}
/** An account of an owner: its main one, or an open grant. */
export interface AccountData {
  /** Whose it is. */
  readonly owner: "key" | "identity";
  /** `plan`: the main account, which `updateCredits` and `changePlan` change. */
  readonly kind: "plan" | "grant";
  /** What can be spent of it now. */
  readonly remaining: number;
  /** Credits that are leased or reserved, besides `remaining`. Absent: none. */
  readonly reserved?: number;
  /** What the refill of a plan adds, or the credits that were granted. Absent: a plan without a refill. */
  readonly of?: number;
  /** The next refill: when, Unix time in milliseconds, and how many credits. Absent: there is none. */
  readonly next?: { readonly at: number; readonly amount: number };
  /** Of a grant, like the rest. */
  readonly grantId?: string;
  /** 0–255, the lowest is spent first; of a plan 100. */
  readonly priority?: number;
  /** Unix time, milliseconds: from then on it cannot be spent. Absent: never. */
  readonly expires?: number;
  readonly reason?: string;
}
/** What `getBalance` resolves to. */
export interface BalanceData {
  /**
   * What could be spent now; null: unlimited. Of a key whose own credits cap those of its identity, the least of the
   * two.
   */
  readonly remaining: number | null;
  /** Those of a key before those of its identity, each in the order in which they are spent. */
  readonly accounts: readonly AccountData[];
}
/** What `listGrants` resolves to: the oldest first, the latest 1,000 at most. */
export interface ListGrantsData {
  readonly grants: readonly GrantData[];
}

/** An entry of the audit trail: who changed what, and when. */
export interface AuditData extends Omit<AuditEntry, "workspaceId"> {
  /** What each of `ids` is, in their order. */
  readonly kinds: readonly AuditKind[];
  /**
   * Of a root key its name, as it is now. Absent: it has none or is gone, the actor is another, or the caller may not
   * list root keys.
   */
  readonly actorName?: string;
  /**
   * Of an import: how many entries of its batches this row adds up, with `count` of the keys and `time` of the last.
   * Batches of one actor, migration and API that are no more than 10 minutes apart are one import. Absent: one.
   */
  readonly entries?: number;
  /** Where it adds up several: when the first was made, Unix time in milliseconds. */
  readonly since?: number;
}
/** What an id of an entry is of; `other` for an id that was given to what is not known by its operation. */
export type AuditKind =
  | "key"
  | "api"
  | "identity"
  | "permission"
  | "role"
  | "rootKey"
  | "migration"
  | "grant"
  | "namespace"
  | "override"
  | "workspace"
  | "other";

/** A permission as administration sees it. Its name is the slug where it was made by granting it. */
export interface Permission extends V2PermissionsCreatePermissionRequestBody {
  /** `perm_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
}
/** A role as administration sees it. */
export interface Role extends Pick<V2PermissionsCreateRoleRequestBody, "name" | "description"> {
  /** `role_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
  /** Sorted by slug; absent when there are none. */
  readonly permissions?: readonly Permission[];
}
/** Response of `createPermission`. */
export interface V2PermissionsCreatePermissionResponseData {
  /** `perm_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly permissionId: string;
}
/** Response of `createRole`. */
export interface V2PermissionsCreateRoleResponseData {
  /** `role_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly roleId: string;
}
/** Response of `createIdentity`. */
export interface V2IdentitiesCreateIdentityResponseData {
  /** `id_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly identityId: string;
}
/** Response of `createMigration`. */
export interface CreateMigrationResponseData {
  /** The id given, or `mig_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly migrationId: string;
}
/** Both lists are empty when `onBatch` took the results; `totals` counts them all. */
export interface V2KeysMigrateKeysResponseData extends MigrationResults {
  /** Of the whole import. */
  readonly totals: MigrationTotals;
}
/** The workspace of a keyring. */
export interface WorkspaceData {
  /** `options.workspaceId` of the keyring. */
  readonly id: string;
  /** True until set; false: every verification of its keys is FORBIDDEN. */
  readonly enabled: boolean;
}

/** A new root key. The only response that contains its text: only its digest is stored. */
export interface CreateRootKeyResponseData {
  /** `rk_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly rootKeyId: string;
  /** `root_<random><checksum>`, of 24 random bytes. */
  readonly key: string;
}
/** A root key as administration sees it; a property that does not apply is not there. */
export interface RootKeyData {
  /** `rk_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly rootKeyId: string;
  /** First characters of the root key, for people. */
  readonly start: string;
  /** 1–255 code points. */
  readonly name?: string;
  /** As granted, in the order given. */
  readonly permissions: readonly string[];
  /** Unix time, milliseconds, the last at which it is valid; absent: never. */
  readonly expires?: number;
  /** False: it authenticates nobody. */
  readonly enabled: boolean;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}

/** Response of `createNamespace`. */
export interface CreateNamespaceResponseData {
  /** `ns_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly namespaceId: string;
}
/** A namespace of rate limits. */
export interface NamespaceData {
  /** `ns_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
  /** 1–512 code points, unique in the workspace. */
  readonly name: string;
}
/** Response of `limit`. */
export interface V2RatelimitLimitResponseData {
  /** Tokens per window, ≥ 0: the override's, if there is one. */
  readonly limit: number;
  /** Whole tokens left after the call, ≥ 0. */
  readonly remaining: number;
  /** Milliseconds until the bucket is full, 1_000…2_592_000_000. */
  readonly reset: number;
  /** False: nothing was taken. */
  readonly success: boolean;
  /** The override that replaced the request's limit and window. */
  readonly overrideId?: string;
}
/** All or nothing: when `passed` is false no check took anything, those that passed neither. */
export interface V2RatelimitMultiLimitResponseData {
  /** Whether every check fits. */
  readonly passed: boolean;
  /** One per check, in order. */
  readonly limits: readonly V2RatelimitMultiLimitCheck[];
}
/** One check of `multiLimit`, in the order of the request. */
export interface V2RatelimitMultiLimitCheck extends Omit<V2RatelimitLimitResponseData, "success"> {
  /** As the request named it. */
  readonly namespace: string;
  /** As the request named it. */
  readonly identifier: string;
  /** Whether this check alone fits. */
  readonly passed: boolean;
}
/** A limit and window of one identifier, whatever a check asks for. */
export interface RatelimitOverride extends Pick<
  V2RatelimitSetOverrideRequestBody,
  "identifier" | "limit" | "duration"
> {
  /** `ovr_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly overrideId: string;
}
/** Response of `setOverride`. */
export interface V2RatelimitSetOverrideResponseData {
  /** `ovr_` and 22 characters of `[a-zA-Z0-9]`; the same as before where an override is replaced. */
  readonly overrideId: string;
}
